//! `who_can`: who may make a request, in words and compared with asking for each caller.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]
#![expect(clippy::indexing_slicing, reason = "a missing item is a failed test")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Authorizer, Request};
use document::{Place, Secret};
use explain::{Attribute, CallerSource, Callers, Explainer, WhoCan};
use generator::{Generator, Rng, Shape};
use identity::{Authenticator, FetchedKeys, Subject};
use policy::canonical::{self, Buffers};
use policy::model::{
    ApiKey, ApiKeys, Basic, BasicUser, CertificateGroups, CertificateSource, CertificateUser,
    Certificates, ClaimPath, Claims, Identity, Issuer, KeyHash, Keys, ListedRole, NameKind,
    NamePattern, NamePiece, NameSegment, NameTemplate, RolesFromToken, Separator, SourceId,
};
use policy::{AccessRequest, Decision, Loaded, Policy, reference};
use serde_json::json;

const POLICY: &str = r#"version: 1
identity:
  basic:
    realm: people
    users:
      alice: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=" }
      bob: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", groups: [staff] }
  jwt:
    - issuer: https://id.example.com
      audiences: [people]
      keys: { url: "https://id.example.com/jwks" }
      claims: { user: sub, roles: roles, groups: groups }
    - issuer: https://plain.example.com
      audiences: [people]
      keys: { url: "https://plain.example.com/jwks" }
      user_prefix: "plain:"
roles:
  anyone: { allow: [GET /open] }
  authenticated: { allow: [GET /whoami, "GET /users/{user}"] }
  reader: { allow: [GET /log] }
  admin: { allow: ["* /people/{id}", GET /log, "GET /people/{id}/a"] }
  root: { extends: [admin] }
  suspended: { deny: ["* /people/**"] }
  closed: { deny: [GET /closed] }
  opener: { extends: [closed], allow: [GET /closed] }
  cleaner: { allow: [GET /a/x] }
  writer: { allow: ["GET /a;v/x"] }
grants:
  admin: { groups: [staff], users: [carol, "plain:dave"] }
  suspended: { users: [mallory, "plain:dave"] }
"#;

fn who_can(method: &str, path: &str) -> WhoCan {
    asked(&compiled(POLICY), (method, "localhost", path))
}

pub(crate) fn compiled(policy: &str) -> Authorizer {
    let files = document::MapFiles::new("policy.yaml", policy);
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0
}

pub(crate) fn asked(authorizer: &Authorizer, (method, host, path): (&str, &str, &str)) -> WhoCan {
    let (method, host, path) = (method.as_bytes(), host.as_bytes(), path.as_bytes());
    Explainer::new(authorizer)
        .who_can(&Request { method, host, path, ..Request::default() }, Duration::ZERO)
}

/// The lines that say who may, without those about the rules.
fn callers(method: &str, path: &str) -> Vec<String> {
    let text = who_can(method, path).to_string();
    let is_about_callers = |line: &&str| {
        !["request: ", "         ", "rule: ", "nearly: "]
            .iter()
            .any(|label| line.starts_with(label))
    };
    text.lines().filter(is_about_callers).map(str::to_owned).collect()
}

#[test]
fn tokens_are_described_by_what_they_must_and_must_not_have() {
    assert_eq!(
        callers("DELETE", "/people/7"),
        [
            "the user `bob` by Basic",
            "any token of https://id.example.com with the roles `admin` or `root` or the group `staff`, \
             except for the users `mallory` and `plain:dave`, unless with the role `suspended`",
            "any token of https://id.example.com for the user `carol`, unless with the role `suspended`",
        ]
    );
}

#[test]
fn everyone_and_every_authenticated_caller_are_described_by_source() {
    let tokens = ["any token of https://id.example.com", "any token of https://plain.example.com"];
    let users = "the users `alice` and `bob` by Basic";
    assert_eq!(
        callers("GET", "/open"),
        ["anyone without credentials", users, tokens[0], tokens[1]]
    );
    assert_eq!(callers("GET", "/whoami"), [users, tokens[0], tokens[1]]);
}

#[test]
fn a_rule_for_the_user_is_for_whoever_has_the_name_in_the_path() {
    assert_eq!(
        callers("GET", "/users/%61lice"),
        ["the user `alice` by Basic", "any token of https://id.example.com for the user `alice`"]
    );
    let rules = who_can("GET", "/users/alice").rules;
    assert_eq!((rules.len(), rules[0].user.as_deref()), (1, Some("alice")));
    assert_eq!(
        callers("GET", "/users/plain:eve"),
        [
            "any token of https://id.example.com for the user `plain:eve`",
            "any token of https://plain.example.com for the user `plain:eve`"
        ]
    );
}

#[test]
fn a_grant_under_a_deny_rule_lets_nobody_in() {
    let who = who_can("GET", "/closed");
    assert!(who.callers.is_empty());
    let text = who.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "nobody: no caller can have a role that allows it without one that denies it"
    );
    assert_eq!(lines[1], "request: GET localhost/closed");
    assert!(
        lines[2].starts_with("rule:    `closed: GET /closed` (denied at policy.yaml:"),
        "{text}"
    );
    assert!(lines[2].ends_with("on /closed, a rule of the roles `closed` and `opener`"), "{text}");
    assert_eq!(
        who_can("GET", "/nothing").to_string(),
        "nobody: no rule allows it\nrequest: GET localhost/nothing"
    );
}

#[test]
fn an_invalid_request_is_allowed_to_nobody() {
    let who = who_can("GET", "x");
    assert_eq!((who.reason, who.callers.len()), (Some("invalid_path"), 0));
    assert_eq!(
        who.to_string(),
        "nobody: the request is invalid: the path does not start with `/` (invalid_path)\n\
         note:    a path starts with `/`: did you mean `/x`?"
    );
}

/// Whoever copies a rule must not read that nobody may do what it allows.
#[test]
fn what_looks_like_a_rule_is_noted() {
    for (method, path, note) in [
        ("get", "/open", "methods are in upper case: `GET` was probably meant, not `get`"),
        (
            "GET",
            "/people/{id}/a",
            "`{id}` in the path is literal text: name the path of one request",
        ),
        (
            "GET",
            "/people/**?a={b}",
            "`**` in the path is literal text: name the path of one request",
        ),
        (
            "GET",
            "api.example.com/open",
            "a path starts with `/`: did you mean `https://api.example.com/open`?",
        ),
        ("GET", "open", "a path starts with `/`: did you mean `/open`?"),
    ] {
        let who = who_can(method, path);
        assert_eq!(who.notes, [note], "{path}");
        assert!(who.to_string().ends_with(&format!("\nnote:    {note}")), "{who}");
    }
    for (method, path) in [("GET", "/open?a={b}&c=*"), ("OPTIONS", "*"), ("TEST", "/open")] {
        assert_eq!(who_can(method, path).notes, [""; 0], "{method} {path}");
    }
}

/// Without a host the answer is for one that few policies have rules for: in an audit, "nobody"
/// would mislead.
#[test]
fn rules_for_other_hosts_are_named() {
    const POLICY: &str = "version: 1
identity: { basic: { realm: a, users: { ann: { password: \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" } } } }
roles:
  a: { allow: [GET b.example.com/report, GET a.example.com/report, PUT c.example.com/report] }
  own: { allow: [\"GET d.example.com/users/{user}\"] }
  e: { deny: [GET e.example.com/report] }
grants: { a: { users: [ann] }, own: { users: [ann] }, e: { users: [bob] } }
";
    let authorizer = compiled(POLICY);
    let explainer = Explainer::new(&authorizer);
    let request = |host: &'static str, path: &'static str| Request {
        method: b"GET",
        host: host.as_bytes(),
        path: path.as_bytes(),
        ..Request::default()
    };
    let note = |host, path| explainer.other_hosts(&request(host, path));
    assert_eq!(
        note("localhost", "/report").as_deref(),
        Some(
            "no host given, so the answer is for `localhost`; rules for the hosts `a.example.com`, \
             `b.example.com` and `e.example.com` match this path: give a URL"
        )
    );
    assert!(note("localhost", "/users/ann").is_some_and(|note| note.contains("`d.example.com`")));
    assert_eq!(note("localhost", "/nothing"), None);
    assert_eq!(note("localhost", "report"), None);

    let who = asked(&authorizer, ("GET", "x.example.com", "/report"));
    let lines: Vec<String> = who.to_string().lines().map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            "nobody: no rule allows it",
            "request: GET x.example.com/report",
            "nearly:  `a: GET b.example.com/report` (policy.yaml:4:16): it is for the host \
             `b.example.com`, not `x.example.com`",
            "nearly:  `a: GET a.example.com/report` (policy.yaml:4:42): it is for the host \
             `a.example.com`, not `x.example.com`",
        ]
    );
    assert_eq!(asked(&authorizer, ("GET", "a.example.com", "/report")).nearly, []);
}

#[test]
fn each_interpretation_of_the_path_must_be_allowed() {
    assert_eq!(
        callers("GET", "/a;v/x"),
        ["any token of https://id.example.com with the role `cleaner` and with the role `writer`"]
    );
}

/// A generated policy has Basic users with groups, one issuer whose tokens name everything, and one
/// whose tokens name users and groups with prefixes, and some roles or none. Each caller whom the
/// policy can tell from others is decided by the reference evaluator.
#[test]
fn who_can_agrees_with_asking_for_each_caller() {
    let (mut allowed, mut denied, mut nobody) = (0_u64, 0_u64, 0);
    let (mut unless, mut except, mut several) = (0, 0, 0);
    // `make fuzz` compares more.
    let policies: u64 = if std::env::var_os("FULL_AGREEMENT").is_some() { 800 } else { 50 };
    for seed in 0..policies {
        let shape = Shape {
            roles: 7,
            deny: 30,
            user: 15,
            user_id: if seed % 2 == 0 { 15 } else { 0 },
            rest: 35,
            roles_per_caller: 2,
            extends: 15,
            ..Shape::default()
        };
        let mut generator = Generator::new(shape, seed);
        let mut rng = Rng::new(seed);
        let mut policy = generator.policy();
        policy.identity = identity(&mut rng, seed % 5 == 0);
        add_prefixed(&mut policy);
        let policy = Arc::new(Loaded { policy, warnings: Vec::new(), files: Vec::new() });
        let authorizer = Authorizer::compile(policy.clone(), &FetchedKeys::new(), None).unwrap().0;
        for _ in 0..4 {
            let caller = generator.caller();
            let request = generator.request(&policy.policy, &caller);
            let path = with_parameters(&request.resource, &mut rng);
            let who = asked(&authorizer, (&request.action, &request.scope, &path));
            if who.reason.is_some() {
                continue;
            }
            nobody += usize::from(who.callers.is_empty());
            unless +=
                who.callers.iter().filter(|callers| !callers.condition.unless.is_empty()).count();
            except += who.callers.iter().filter(|callers| !callers.except_users.is_empty()).count();
            several +=
                who.callers.iter().filter(|callers| callers.condition.needs.len() > 1).count();
            let asked = (request.action.as_str(), request.scope.as_str(), path.as_str());
            // Every fourth, others for each policy: all would take a minute.
            let callers = every_caller(&policy.policy, &path, &mut rng).into_iter();
            for caller in callers.skip((seed % 4) as usize).step_by(4) {
                let says = who.callers.iter().any(|callers| includes(callers, &caller));
                let is = is_allowed(&policy.policy, asked, &caller);
                assert_eq!(
                    says, is,
                    "policy {seed}, {asked:?}: {caller:?}\n{who}\n{:#?}",
                    policy.policy
                );
                *(if is { &mut allowed } else { &mut denied }) += 1;
            }
        }
    }
    println!("allowed {allowed}, denied {denied}");
    println!("nobody {nobody}, unless {unless}, except {except}, several needs {several}");
    // Callers who need two things at once are rare: the full run has some.
    assert!(allowed > 50 * policies && denied > 50 * policies && (several > 0 || policies < 800));
    assert!(nobody > 5 && unless > 5 && except > 5);
}

/// A caller, with its source.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) source: CallerSource,
    pub(crate) subject: Option<Subject>,
}

/// Whether this is one of the callers.
fn includes(callers: &Callers, asker: &Asker) -> bool {
    let Callers { source, users, except_users, condition, .. } = callers;
    let Some(subject) = &asker.subject else { return *source == CallerSource::Anonymous };
    let user = subject.user.to_string();
    let has = |attribute: &Attribute| match attribute {
        Attribute::Role(name) => subject.roles.iter().any(|role| **role == **name),
        Attribute::Group(name) => subject.groups.iter().any(|group| **group == **name),
        other => panic!("only for a search cluster: {other:?}"),
    };
    *source == asker.source
        && users.as_ref().is_none_or(|users| users.contains(&user))
        && !except_users.contains(&user)
        && condition.needs.iter().all(|one_of| one_of.iter().any(has))
        && !condition.unless.iter().any(has)
}

/// What the reference evaluator says of each interpretation of the path.
fn is_allowed(policy: &Policy, (method, host, path): (&str, &str, &str), asker: &Asker) -> bool {
    let mut caller = reference::Caller::default();
    if let Some(subject) = &asker.subject {
        caller.user = Some(&subject.user);
        caller.source = subject.source;
        caller.groups = subject.groups.iter().map(|group| &**group).collect();
        caller.roles = subject.roles.iter().map(|role| &**role).collect();
    }
    let (mut buffers, mut host_buffer) = (Buffers::default(), Vec::new());
    let paths = canonical::path(method.as_bytes(), path.as_bytes(), &mut buffers).unwrap();
    let scope = canonical::host(host.as_bytes(), &mut host_buffer).unwrap();
    let decide = |resource| {
        reference::decide(
            policy,
            &caller,
            &AccessRequest { action: method.as_bytes(), scope, resource },
        )
    };
    paths.all().all(|path| matches!(decide(path), Decision::Allowed(_)))
        && !paths.deny_only().any(|path| matches!(decide(path), Decision::Denied(_)))
}

/// Anonymous, each user of Basic and of an API key, and for certificates and each issuer each name
/// with each of the sets of roles and groups that `subsets` makes.
pub(crate) fn every_caller(policy: &Policy, path: &str, rng: &mut Rng) -> Vec<Asker> {
    let mut askers = vec![Asker { source: CallerSource::Anonymous, subject: None }];
    let decoded = path.split('/').map(|segment| canonical::decoded(segment.as_bytes()));
    let in_path: Vec<String> = decoded
        .filter_map(|segment| String::from_utf8(segment).ok())
        .filter(|name| !name.is_empty())
        .collect();
    let prefixed = in_path.iter().map(|name| format!("p:{name}")).collect::<Vec<_>>();
    let granted = policy.grants.iter().flat_map(|grant| &grant.users).map(ToString::to_string);
    let names: BTreeSet<String> = in_path
        .into_iter()
        .chain(prefixed)
        .chain(granted)
        .chain(["nobody".into(), "p:nobody".into()])
        .collect();
    let basic = policy.identity.basic.as_ref().unwrap();
    let subject = |user: &str, groups: &[Arc<str>]| Subject {
        user: user.into(),
        issuer: None,
        source: Some(SourceId::BASIC),
        groups: groups.to_vec(),
        roles: Vec::new(),
        claims: serde_json::Value::Null,
        actor: None,
    };
    askers.extend(basic.users.iter().map(|user| {
        let subject = Some(subject(&user.name, &user.groups));
        Asker { source: CallerSource::Basic, subject }
    }));
    if !basic.verify {
        let others =
            names.iter().filter(|name| basic.users.iter().all(|user| *user.name != ***name));
        let others = others.filter(|name| !name.contains(':'));
        askers.extend(
            others.map(|name| Asker {
                source: CallerSource::Basic,
                subject: Some(subject(name, &[])),
            }),
        );
    }
    askers.extend(policy.identity.api_keys.iter().flat_map(|keys| &keys.keys).map(|key| {
        let source = Some(SourceId::API_KEYS);
        let subject = Subject { source, ..subject(&key.user, &key.groups) };
        Asker { source: CallerSource::ApiKey, subject: Some(subject) }
    }));
    let roles: Vec<String> = policy.roles.iter().map(|role| role.name.to_string()).collect();
    let groups = policy.grants.iter().flat_map(|grant| &grant.groups).map(ToString::to_string);
    let groups: Vec<String> = groups.collect::<BTreeSet<_>>().into_iter().collect();
    if let Some(certificates) = &policy.identity.certificates {
        let groups: Vec<String> =
            groups.iter().filter(|group| certificates.may_have_group(group)).cloned().collect();
        let listed = ["k".to_owned()];
        let users = names.iter().chain(&listed).filter(|name| certificates.may_have_user(name));
        for user in users.collect::<BTreeSet<_>>() {
            for groups in subsets(&groups, rng) {
                let groups: Vec<Arc<str>> = groups.iter().map(|group| (&**group).into()).collect();
                let source = Some(SourceId::CERTIFICATES);
                let subject = Subject { source, ..subject(user, &groups) };
                askers.push(Asker { source: CallerSource::Certificate, subject: Some(subject) });
            }
        }
    }
    let (authenticator, _) = Authenticator::<()>::compile(
        &policy.identity,
        &FetchedKeys::new(),
        identity::Limits::default(),
    )
    .unwrap();
    for issuer in &policy.identity.jwt {
        let own = |prefix: &str, name: &str| {
            Some(name.strip_prefix(prefix)?.to_owned()).filter(|own| !own.is_empty())
        };
        let users: Vec<String> =
            names.iter().filter_map(|name| own(&issuer.user_prefix, name)).collect();
        let groups: Vec<String> =
            groups.iter().filter_map(|name| own(&issuer.group_prefix, name)).collect();
        for user in users {
            for roles in subsets(&roles, rng) {
                for groups in subsets(&groups, rng) {
                    let claims = json!({ "iss": *issuer.issuer, "sub": user, "roles": roles, "groups": groups });
                    let source = CallerSource::Token { issuer: issuer.issuer.to_string() };
                    askers.push(Asker {
                        source,
                        subject: Some(authenticator.subject_from_claims(&claims).unwrap()),
                    });
                }
            }
        }
    }
    askers
}

/// None, each alone, and some more.
fn subsets(names: &[String], rng: &mut Rng) -> Vec<Vec<String>> {
    let random = (0..3).map(|_| names.iter().filter(|_| rng.percent(50)).cloned().collect());
    let random: Vec<Vec<String>> = random.collect();
    let alone = names.iter().map(|name| vec![name.clone()]);
    std::iter::once(Vec::new()).chain(alone).chain(random).collect()
}

pub(crate) fn identity(rng: &mut Rng, unverified: bool) -> Identity {
    let at = Place::start_of(Path::new("generated.yaml"));
    let user = |number: usize| BasicUser {
        name: ["a", "9", "A", "x"][number].into(),
        password: Some(Secret("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=".into())),
        groups: [format!("group-{}", rng.below(4)).into()].into(),
        at: at.clone(),
    };
    let basic = Basic {
        realm: "generated".into(),
        users: (0..4).map(user).collect(),
        verify: !unverified,
        user_prefix: "".into(),
        group_prefix: "".into(),
        at: at.clone(),
    };
    let claim = |name: &str| Some(ClaimPath(vec![name.into()]));
    let issuer = |name: &str, prefix: &str, roles_from_token| Issuer {
        issuer: format!("https://{name}.example.com").into(),
        audiences: vec!["people".into()],
        keys: Keys::Url {
            url: format!("https://{name}.example.com/jwks").as_str().into(),
            refresh: std::time::Duration::from_secs(60),
            at: at.clone(),
        },
        claims: Claims {
            user: claim("sub").unwrap(),
            roles: claim("roles"),
            groups: claim("groups"),
            separator: Separator::Spaces,
        },
        act: None,
        clock_skew: std::time::Duration::ZERO,
        require: Vec::new(),
        required_type: None,
        max_age: None,
        roles_from_token,
        user_prefix: prefix.into(),
        group_prefix: prefix.into(),
        at: at.clone(),
    };
    let some = ["role-3", "role-5"].map(|name| ListedRole { name: name.into(), at: at.clone() });
    let some = if rng.percent(50) { some.into() } else { Vec::new() };
    let mut jwt = vec![
        issuer("all", "", RolesFromToken::All),
        issuer("prefixed", "p:", RolesFromToken::Only(some)),
    ];
    if rng.percent(50) {
        jwt.push(Issuer {
            claims: Claims {
                user: claim("sub").unwrap(),
                roles: None,
                groups: None,
                separator: Separator::Spaces,
            },
            ..issuer("plain", "", RolesFromToken::All)
        });
    }
    let key = |user: &str| ApiKey {
        id: user.into(),
        hash: KeyHash([0; 32]),
        user: user.into(),
        groups: [format!("group-{}", rng.below(4)).into()].into(),
        expires: None,
        at: at.clone(),
    };
    let api_keys = ApiKeys {
        header: "x-api-key".into(),
        keys: ["a", "k"].map(key).into(),
        user_prefix: "".into(),
        group_prefix: "".into(),
        at: at.clone(),
    };
    let pattern = |text: &str, kind: NameKind, segments: &[NameSegment]| NamePattern {
        text: text.into(),
        kind,
        segments: segments.to_vec(),
    };
    let [k, t] = ["k", "t"].map(|text| NameSegment::Literal(text.into()));
    let any = NameSegment::Any("x".into());
    let group = format!("group-{}", rng.below(4));
    let user =
        |name, piece| CertificateUser { name, user: NameTemplate(vec![piece]), at: at.clone() };
    let certificates = Certificates {
        from: CertificateSource::Peer,
        users: vec![
            user(pattern("dns:k", NameKind::Dns, &[k]), NamePiece::Text("k".into())),
            user(
                pattern("spiffe://t/{x}", NameKind::Spiffe, &[t, any.clone()]),
                NamePiece::Placeholder(0),
            ),
        ],
        groups: vec![CertificateGroups {
            name: pattern("dns:{x}", NameKind::Dns, &[any]),
            groups: vec![NameTemplate(vec![NamePiece::Text(group.as_str().into())])],
            at: at.clone(),
        }],
        user_prefix: "".into(),
        group_prefix: "".into(),
        at: at.clone(),
    };
    Identity {
        basic: Some(basic),
        api_keys: Some(api_keys),
        certificates: Some(certificates),
        jwt,
        token_from: Vec::new(),
        combine_both: None,
    }
}

/// Grants each role that a user or group has to the same name with a prefix too, but to each a
/// different one.
pub(crate) fn add_prefixed(policy: &mut Policy) {
    let count = policy.grants.len();
    for at in 0..count {
        let from = policy.grants[(at + 1) % count].clone();
        let prefixed = |name: &Arc<str>| -> Arc<str> { format!("p:{name}").into() };
        policy.grants[at]
            .users
            .extend(from.users.iter().filter(|name| !name.starts_with("p:")).map(prefixed));
        policy.grants[at]
            .groups
            .extend(from.groups.iter().filter(|name| !name.starts_with("p:")).map(prefixed));
    }
}

/// Some paths get a parameter or a dot segment, so that they have several interpretations.
pub(crate) fn with_parameters(path: &str, rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => format!("{path};v"),
        1 => format!("/a/..{path}"),
        2 => path.replacen('/', "//", 1),
        _ => path.to_owned(),
    }
}
