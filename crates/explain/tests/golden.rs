//! The golden cases of every policy in `policies/`: by the reference evaluator, by the engine, and
//! by the whole authorizer.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]
#![expect(clippy::disallowed_methods, reason = "a test reads the policies from the disk")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use authorizer::{Authorizer, Header, HeaderLines, Request};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use condition::{CallerInputs, Inputs};
use engine::{AccessRequest, ConditionInputs, Decision, Engine, PatternSubject, RoleSet};
use explain::Explainer;
use identity::{Authenticator, Certificate, LocalCache, Subject};
use policy::Policy;
use policy::canonical::{self, Buffers, PathInterpretations};
use policy::cases::{AskedQuestion, Case, Credentials, Expect};
use policy::reference::{self, Caller};

struct Disk;

impl document::Files for Disk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, document::FileError> {
        Ok(std::fs::read(path)?)
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, document::FileError> {
        let entries = std::fs::read_dir(folder)?;
        Ok(entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect())
    }
}

#[test]
fn every_case_of_every_policy_passes() {
    let mut count = 0;
    let mut failures = Vec::new();
    for folder in folders() {
        let authorizer = authorizer(&folder);
        for case in cases(&folder).iter() {
            let outcome = Explainer::new(&authorizer).run_case(case, now());
            count += 1;
            failures.extend(
                outcome
                    .failures
                    .iter()
                    .map(|failure| format!("{}: {}: {failure}", case.at, case.name)),
            );
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count >= 40, "only {count} cases");
}

/// `policy/tests/shipped.rs` does not read the hashes and the keys.
#[test]
fn every_policy_compiles_without_a_warning() {
    for folder in folders() {
        let loaded = Arc::new(loaded(&folder));
        let fetched = identity::FetchedKeys::new();
        let (_, more) = Authorizer::compile(Arc::clone(&loaded), &fetched, None).unwrap();
        let warnings =
            document::unaccepted(&loaded.files, [loaded.warnings.clone(), more].concat());
        let lines: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "{}:\n{}", folder.display(), lines.join("\n"));
    }
}

#[test]
fn the_reference_and_the_engine_give_every_case_the_same_answer() {
    let mut count = 0;
    for folder in folders() {
        let policy = loaded(&folder).policy;
        let fetched = identity::FetchedKeys::new();
        let authenticator =
            Authenticator::<()>::compile(&policy.identity, &fetched, identity::Limits::default())
                .unwrap()
                .0;
        let engine = Engine::compile(&policy);
        for case in cases(&folder).iter().filter(|case| reaches_evaluators(&case.expect)) {
            let Some(subject) = subject(&authenticator, case) else { continue };
            let Some((reference, engine)) = answers(&policy, &engine, case, subject.as_ref())
            else {
                continue;
            };
            assert_eq!(reference, case.expect.status == 200, "{}: {}", case.at, case.name);
            assert_eq!(engine, reference, "{}: {}", case.at, case.name);
            count += 1;
        }
    }
    assert!(count >= 40, "only {count} cases");
}

/// Cases that stand for questions of AuthZEN, and the same requests of proxies.
#[test]
fn cases_with_questions_have_the_same_answer_everywhere() {
    const POLICY: &str = r#"
version: 1
identity: { basic: { verify: false } }
roles:
  authenticated:
    allow:
      - { rule: "GET /records/{id}", when: resource.properties.owner == user }
      - { rule: "PUT /records/{id}", when: "!has(action.properties.force) || context.level > 1" }
    deny: [{ rule: "GET /records/{id}", when: "resource.properties.locked" }]
authzen: { subjects: { user: {} }, resources: { record: { path: "/records/{id}" } } }
"#;
    const CASES: &str = r#"
- { name: owner, request: { path: /records/1, basic: "ann:x", question: { resource: { owner: ann, locked: false } } }, expect: 200 }
- { name: other, request: { path: /records/1, basic: "bob:x", question: { resource: { owner: ann, locked: false } } }, expect: 403 }
- { name: locked, request: { path: /records/1, basic: "ann:x", question: { resource: { owner: ann, locked: true } } }, expect: 403 }
- { name: unknown, request: { path: /records/1, basic: "ann:x", question: { resource: { owner: ann } } }, expect: 403 }
- { name: proxy, request: { path: /records/1, basic: "ann:x" }, expect: 403 }
- { name: put, request: { method: PUT, path: /records/1, basic: "ann:x", question: { context: { level: 1 } } }, expect: 200 }
- { name: force, request: { method: PUT, path: /records/1, basic: "ann:x", question: { action: { force: true }, context: { level: 1 } } }, expect: 403 }
- { name: level, request: { method: PUT, path: /records/1, basic: "ann:x", question: { action: { force: true }, context: { level: 2 } } }, expect: 200 }
- { name: put by a proxy, request: { method: PUT, path: /records/1, basic: "ann:x" }, expect: 403 }
"#;
    let files = document::MapFiles::new("policy.yaml", POLICY);
    let loaded = Arc::new(policy::load(&files, Path::new("policy.yaml")).unwrap());
    let fetched = identity::FetchedKeys::new();
    let authorizer = Authorizer::compile(loaded.clone(), &fetched, None).unwrap().0;
    let identity = &loaded.policy.identity;
    let limits = identity::Limits::default();
    let authenticator = Authenticator::<()>::compile(identity, &fetched, limits).unwrap().0;
    let engine = Engine::compile(&loaded.policy);
    for case in policy::cases::parse(Path::new("cases.yaml"), CASES.as_bytes()).unwrap().iter() {
        let outcome = Explainer::new(&authorizer).run_case(case, now());
        assert!(outcome.failures.is_empty(), "{}: {:?}", case.name, outcome.failures);
        let subject = subject(&authenticator, case).unwrap();
        let answers = answers(&loaded.policy, &engine, case, subject.as_ref()).unwrap();
        let is_allowed = case.expect.status == 200;
        assert_eq!(answers, (is_allowed, is_allowed), "{}", case.name);
    }
}

/// No request reaches them that is not valid, or whose credentials are not.
fn reaches_evaluators(expect: &Expect) -> bool {
    let refused = expect.reason.as_deref().is_some_and(|reason| reason != "missing_credentials");
    expect.status != 400 && !(expect.status == 401 && refused)
}

/// Who asks in a case: nothing if the credentials are invalid, or stands in the headers.
fn subject(authenticator: &Authenticator<()>, case: &Case) -> Option<Option<Subject>> {
    if case.request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        return None;
    }
    let header = match &case.request.credentials {
        Credentials::None => {
            let names = case.request.certificate.as_deref().unwrap_or_default();
            return authenticator.certificate_verified_elsewhere(names).ok();
        }
        Credentials::Claims(claims) => {
            return Some(Some(
                authenticator.subject_from_claims(&serde_json::from_str(claims).unwrap()).ok()?,
            ));
        }
        Credentials::User { .. } => return None,
        Credentials::Basic(pair) => format!("Basic {}", BASE64_STANDARD.encode(pair)),
        Credentials::Bearer(token) => format!("Bearer {token}"),
        Credentials::ApiKey(key) => key.clone(),
    };
    let sent = match case.request.credentials {
        Credentials::ApiKey(_) => identity::Credentials::ApiKey(header.as_bytes()),
        _ => identity::Credentials::Authorization(header.as_bytes()),
    };
    let now = case.request.at.unwrap_or_else(now);
    let cache = &mut LocalCache::default();
    let known = authenticator.authenticate_inline(Some(sent), now, cache, |_| ()).ok()?;
    Some(known.map(|known| known.subject.clone()))
}

/// Whether the reference evaluator and the engine allow every interpretation of a case's path;
/// `None` if its path or host is invalid.
fn answers(
    policy: &Policy,
    engine: &Engine,
    case: &Case,
    subject: Option<&Subject>,
) -> Option<(bool, bool)> {
    let action = case.request.method.as_bytes();
    let mut buffers = Buffers::default();
    let interpretations =
        canonical::path(action, case.request.path.as_bytes(), &mut buffers).ok()?;
    let mut lowered = Vec::new();
    let scope = canonical::host(case.request.host.as_bytes(), &mut lowered).ok()?;
    let known = subject;
    let caller = subject.map_or_else(Caller::default, caller);
    let subject = caller.user.map(|user| {
        let prefix_len =
            caller.source.map_or("", |source| policy.identity.user_prefix(source)).len();
        PatternSubject { user: user.as_bytes(), prefix_len, source: caller.source }
    });
    let roles = roles_of(engine, &caller);
    let headers = case.request.headers.iter();
    let headers: Vec<Header<'_>> = headers
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    let question = case.request.question.as_ref().map(AskedQuestion::parts);
    let request = Request {
        question: question.as_ref(),
        path: case.request.path.as_bytes(),
        client: case.request.client.as_bytes(),
        ..Request::default()
    };
    let lines = HeaderLines(&headers);
    let now = case.request.at.unwrap_or_else(now);
    let certificate = case.request.certificate.as_deref().map(Certificate::Named);
    let names = authorizer::certificate_names(certificate);
    let variables = authorizer::request_inputs(&request, &lines, &names, now);
    let known = authorizer::caller_inputs(known);
    let (roles, conditions) = match &caller.actor {
        Some(actor) => {
            let (roles, conditions) = engine.both(&roles, &roles_of(engine, actor), known.clone());
            (roles, Some(conditions))
        }
        None => {
            let conditions = engine.caller_conditions(&roles, known.clone());
            (roles, conditions)
        }
    };
    let known = CallerInputs { roles: reference::certain_roles(policy, &caller), ..known };
    let inputs = Inputs { request: variables, caller: Some(&known), ..Inputs::default() };
    let by_reference = |resource: &[u8]| {
        let request = AccessRequest { action, scope, resource };
        reference::decide_with(policy, &caller, &request, &inputs)
    };
    let inputs =
        ConditionInputs { request: variables, caller: conditions.as_ref(), steps_left: None };
    let by_engine = |resource: &[u8]| {
        let request = AccessRequest { action, scope, resource };
        engine.decide_with(&roles, subject, request, &inputs)
    };
    Some((all_allow(&interpretations, by_reference), all_allow(&interpretations, by_engine)))
}

fn roles_of(engine: &Engine, caller: &Caller<'_>) -> RoleSet {
    caller.user.map_or_else(
        || engine.anonymous().clone(),
        |user| engine.roles_of(user, caller.groups.iter().copied(), caller.roles.iter().copied()),
    )
}

fn all_allow(
    interpretations: &PathInterpretations<'_>,
    decide: impl Fn(&[u8]) -> Decision,
) -> bool {
    interpretations.all().all(|path| matches!(decide(path), Decision::Allowed(_)))
        && !interpretations.deny_only().any(|path| matches!(decide(path), Decision::Denied(_)))
}

fn caller(subject: &Subject) -> Caller<'_> {
    Caller {
        user: Some(&subject.user),
        source: subject.source,
        groups: subject.groups.iter().map(|group| &**group).collect(),
        roles: subject.roles.iter().map(|role| &**role).collect(),
        actor: subject.actor.as_ref().map(|actor| caller(actor).into()),
    }
}

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    let mut folders: Vec<_> =
        std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|folder| folder.join("policy.yaml").is_file());
    folders.sort();
    assert!(!folders.is_empty());
    folders
}

fn authorizer(folder: &Path) -> Authorizer {
    let loaded = lint::load(&Disk, &folder.join("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    let compiled = Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None);
    compiled.unwrap_or_else(|problems| panic!("{problems:#?}")).0
}

fn loaded(folder: &Path) -> policy::Loaded {
    lint::load(&Disk, &folder.join("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn cases(folder: &Path) -> Arc<[Case]> {
    let file = folder.join("cases.yaml");
    let text = std::fs::read(&file).unwrap();
    policy::cases::parse(&file, &text).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap()
}
