//! `fixes`: each proposed change of a policy, applied to its text, allows the request.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Authorizer, Request};
use document::MapFiles;
use explain::{ExplainedSubject, Explainer, Fixes, Proposal, unverified_subject};
use generator::{Generator, Shape, to_yaml};
use identity::{CredentialsError, FetchedKeys, Subject};
use policy::canonical::{self, Buffers};
use policy::{AccessRequest, Decision, Policy, reference};

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn authorizer(policy: &str) -> Authorizer {
    let files = MapFiles::new("policy.yaml", policy);
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{policy}\n{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0
}

fn fixes(
    policy: &str,
    (method, host, path): (&str, &str, &str),
    caller: ExplainedSubject,
) -> Fixes {
    let authorizer = authorizer(policy);
    let [method, host, path] = [method, host, path].map(str::as_bytes);
    let request = Request { method, host, path, ..Request::default() };
    let explainer = Explainer::new(&authorizer);
    let explanation = explainer.explain(&request, caller.clone(), NOW);
    explainer.fixes(&request, caller, &explanation, (true, NOW))
}

fn given(user: &str, groups: &[&str]) -> Subject {
    unverified_subject(user, None, groups, &[])
}

/// The text with the lines of the proposal, as a person would write them.
fn written(policy: &str, proposal: &Proposal) -> String {
    let mut lines: Vec<&str> = policy.lines().collect();
    let start = proposal.line - 1;
    let end = start + proposal.removed.len();
    let removed: Vec<&str> =
        lines.splice(start..end, proposal.added.iter().map(String::as_str)).collect();
    assert_eq!(removed, proposal.removed, "{policy}\n{proposal}");
    let text = lines.join("\n") + "\n";
    assert_eq!(text, proposal.applied());
    text
}

/// Whether the reference evaluator allows the request.
fn is_allowed(
    policy: &Policy,
    (method, host, path): (&str, &str, &str),
    subject: &Subject,
) -> bool {
    let (mut buffers, mut host_buffer) = (Buffers::default(), Vec::new());
    let paths = canonical::path(method.as_bytes(), path.as_bytes(), &mut buffers).unwrap();
    let scope = canonical::host(host.as_bytes(), &mut host_buffer).unwrap();
    let source = subject.source.or_else(|| policy.identity.source_of(&subject.user));
    let caller = reference::Caller {
        user: Some(&subject.user),
        source,
        groups: subject.groups.iter().map(|group| &**group).collect(),
        roles: subject.roles.iter().map(|role| &**role).collect(),
        actor: None,
    };
    let decide = |resource| {
        let request = AccessRequest { action: method.as_bytes(), scope, resource };
        reference::decide(policy, &caller, &request)
    };
    paths.all().all(|path| matches!(decide(path), Decision::Allowed(_)))
        && !paths.deny_only().any(|path| matches!(decide(path), Decision::Denied(_)))
}

/// The proposals, each of which allows the request.
fn checked(policy: &str, request: (&str, &str, &str), subject: &Subject) -> Vec<Proposal> {
    let fixes = fixes(policy, request, ExplainedSubject::Given(subject.clone()));
    assert!(fixes.proposals.len() <= 3 && fixes.needed.len() <= 1, "{fixes}");
    for proposal in &fixes.proposals {
        let changed = authorizer(&written(policy, proposal));
        let before = authorizer(policy);
        assert!(!is_allowed(&before.loaded().policy, request, subject), "{policy}\n{fixes}");
        assert!(is_allowed(&changed.loaded().policy, request, subject), "{policy}\n{fixes}");
    }
    fixes.proposals
}

#[test]
fn each_proposal_for_a_generated_policy_allows_the_request() {
    let (mut grants, mut rules, mut none) = (0, 0, 0);
    for seed in 0..60 {
        let shape = Shape { roles: 6, deny: 10, scopes: 40, rest: 35, ..Shape::default() };
        let mut generator = Generator::new(shape, seed);
        let policy = generator.policy();
        let text = to_yaml(&policy);
        for _ in 0..6 {
            let caller = generator.caller();
            let request = generator.request(&policy, &caller);
            let Some(user) = &caller.user else { continue };
            let subject = unverified_subject(user, caller.source, &caller.groups, &caller.roles);
            let target = (&*request.action, &*request.scope, &*request.resource);
            let proposals = checked(&text, target, &subject);
            none += u32::from(proposals.is_empty());
            for proposal in proposals {
                let is_grant = proposal.change.starts_with("grant");
                *(if is_grant { &mut grants } else { &mut rules }) += 1;
            }
        }
    }
    println!("{grants} grants, {rules} rules, {none} without");
    assert!(grants > 10 && rules > 50 && none > 20);
}

const ROLES: &str = "version: 1
identity: { basic: { verify: false } }
roles:
  guest: { allow: [GET /people] }
  admin: { extends: [guest], allow: [POST /people] }
";

/// As people write policies: the change keeps the style, the order and the comments.
#[test]
fn a_change_keeps_the_style_of_the_file() {
    let post = ("POST", "", "/people");
    for (grants, removed, added) in [
        (
            "grants: { admin: { users: [bob] } }\n",
            "grants: { admin: { users: [bob] } }",
            "grants: { admin: { users: [ann, bob] } }",
        ),
        (
            "grants:\n  admin: { users: [] }\n  guest: { users: [ann] }\n",
            "  admin: { users: [] }",
            "  admin: { users: [ann] }",
        ),
        (
            "grants:\n  admin: {groups: [g]}\n",
            "  admin: {groups: [g]}",
            "  admin: { users: [ann],groups: [g]}",
        ),
        ("grants:\n  admin: {}\n", "  admin: {}", "  admin: { users: [ann] }"),
        ("grants:\n  admin:\n", "  admin:", "  admin: { users: [ann] }"),
        ("grants:\n  admin:\n    users:\n", "    users:", "    users: [ann]"),
        ("grants:\n  admin:\n    users:\n      - bob # the boss\n", "", "      - ann"),
        ("grants:\n  admin:\n    users:\n    - bob\n", "", "    - ann"),
        ("grants:\n  admin:\n    groups: [g]\n", "", "    users: [ann]"),
        ("grants:\n  guest:\n    users: [bob]\n", "", "  admin: { users: [ann] }"),
        ("grants:\n", "grants:", "grants: { admin: { users: [ann] } }"),
        ("", "", "grants:\n  admin: { users: [ann] }"),
        ("# no grants", "", "grants:\n  admin: { users: [ann] }"),
    ] {
        let policy = format!("{ROLES}{grants}");
        let fixes = fixes(&policy, post, ExplainedSubject::Given(given("ann", &[])));
        let proposal = fixes.proposals.iter().find(|one| one.change.contains("the role `admin`"));
        let proposal = proposal.unwrap_or_else(|| panic!("{policy}\n{fixes}"));
        let [old, new] = [&proposal.removed, &proposal.added].map(|lines| lines.join("\n"));
        assert_eq!((&*old, &*new), (removed, added), "{policy}\n{fixes}");
        checked(&policy, post, &given("ann", &[]));
    }
}

#[test]
fn a_rule_is_added_to_a_role_of_the_caller() {
    for (role, added) in [
        (
            "guest: { allow: [GET /people] }",
            "  guest: { allow: [\"DELETE /people/1\", GET /people] }",
        ),
        ("guest:\n    allow:\n      - GET /people", "      - \"DELETE /people/1\""),
        ("guest:\n    deny: [GET /log]", "    allow: [\"DELETE /people/1\"]"),
        (
            "guest: { deny: [GET /log] }",
            "  guest: { allow: [\"DELETE /people/1\"], deny: [GET /log] }",
        ),
        ("guest:", "  guest: { allow: [\"DELETE /people/1\"] }"),
    ] {
        let policy = format!(
            "version: 1\nidentity: {{ basic: {{ verify: false }} }}\nroles:\n  {role}\ngrants:\n  guest: {{ users: [ann, bob] }}\n"
        );
        let proposals = checked(&policy, ("DELETE", "", "/people/1"), &given("ann", &[]));
        let [proposal] = &*proposals else { panic!("{policy}{proposals:?}") };
        assert_eq!(proposal.added.join("\n"), added, "{policy}");
        let who: Vec<String> = proposal.lets_in.iter().map(ToString::to_string).collect();
        assert_eq!(who, ["the user `bob` by Basic"]);
    }
    // Where the host is known, the rule is for this host only.
    let policy = format!("{ROLES}grants: {{ guest: {{ users: [ann] }} }}\n");
    let proposals = checked(&policy, ("GET", "a.example.com", "/a%3A/b"), &given("ann", &[]));
    let rule = "[\"GET a.example.com/a";
    assert!(proposals[0].added[0].contains(rule), "{proposals:?}");
    let proposals = checked(&policy, ("GET", "a", "/b"), &given("ann", &[]));
    let rule = "{ methods: [\"GET\"], hosts: [\"a\"], paths: [\"/b\"] }";
    assert!(proposals[0].added[0].contains(rule), "{proposals:?}");
}

/// Neither by a condition, nor because the caller becomes an exception among them.
#[test]
fn who_may_already_is_not_let_in() {
    let refund = r#""POST {claims.tenant}.example.com/refund""#;
    for deny in ["", "{ methods: [POST], paths: [/refund], when: \"'x-a' in request.headers\" }"] {
        let policy = format!(
            r#"version: 1
identity:
  jwt:
    - issuer: https://id.example.com
      audiences: [shop]
      keys: {{ url: "https://id.example.com/jwks" }}
      claims: {{ user: sub, groups: groups }}
roles: {{ s: {{ allow: [{refund}], deny: [{deny}] }} }}
grants: {{ s: {{ groups: [support] }} }}
"#
        );
        let claims = serde_json::json!({ "tenant": "acme" });
        let bob = ExplainedSubject::Given(Subject { claims, ..given("bob", &[]) });
        let fixes = fixes(&policy, ("POST", "acme.example.com", "/refund"), bob);
        let granted = &fixes.proposals[0];
        assert_eq!(granted.change, "grant the role `s` to the user `bob`");
        assert!(granted.lets_in.is_empty(), "{granted}");
    }
}

#[test]
fn what_allows_least_else_comes_first() {
    let hash = "{ password: \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\"";
    let users = format!(
        "{{ users: {{ ann: {hash}, groups: [staff] }}, bob: {hash} }}, eve: {hash} }} }} }}"
    );
    let roles = ROLES.replace("{ verify: false }", &users);
    let policy = format!(
        "{roles}  owner: {{ allow: [\"* /**\"] }}\n  writer: {{ allow: [POST /people] }}\n\
         grants:\n  guest: {{ users: [ann, bob, eve] }}\n  admin: {{ users: [bob] }}\n"
    );
    let proposals = checked(&policy, ("POST", "", "/people"), &given("ann", &["staff"]));
    let changes: Vec<&str> = proposals.iter().map(|proposal| &*proposal.change).collect();
    let expected = [
        "grant the role `writer` to the user `ann`",
        "grant the role `admin` to the user `ann`",
        "grant the role `writer` to the group `staff`",
    ];
    assert_eq!(changes, expected);
    // A caller cannot have a group that no source gives.
    let proposals = checked(&policy, ("POST", "", "/people"), &given("eve", &["unknown"]));
    assert!(proposals.iter().all(|one| !one.change.contains("group")), "{proposals:?}");
}

#[test]
fn an_included_file_is_changed_where_the_role_is() {
    let main = "version: 1\ninclude: [roles.yaml]\nidentity: { basic: { verify: false } }\n";
    let roles = "roles:\n  admin: { allow: [POST /people] }\ngrants:\n  admin: { users: [bob] }\n";
    let files = MapFiles::new("p/policy.yaml", main).and("p/roles.yaml", roles);
    let loaded = policy::load(&files, Path::new("p/policy.yaml")).unwrap();
    let authorizer = Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0;
    let request = Request { method: b"POST", path: b"/people", ..Request::default() };
    let caller = ExplainedSubject::Given(given("ann", &[]));
    let explainer = Explainer::new(&authorizer);
    let explanation = explainer.explain(&request, caller.clone(), NOW);
    let fixes = explainer.fixes(&request, caller, &explanation, (false, NOW));
    let [proposal] = &*fixes.proposals else { panic!("{fixes}") };
    assert_eq!((&*proposal.file, proposal.line), ("p/roles.yaml", 4));
}

/// A person must do something else first, or decide.
#[test]
fn what_no_change_should_allow_is_named() {
    let policy = "version: 1
identity: { basic: { verify: false } }
roles:
  guest: { allow: [GET /people], deny: [GET /people/1] }
  night: { allow: [{ methods: [GET], paths: [/night], when: \"user == 'eve'\" }] }
  admin: { allow: [GET /people/**] }
grants:
  guest: { users: [ann] }
  night: { users: [ann] }
";
    let ann = || ExplainedSubject::Given(given("ann", &[]));
    for (path, caller, needed) in [
        ("/people", ann(), "nothing: the request is allowed"),
        ("/people%2F1", ann(), "a valid request: "),
        ("/people", ExplainedSubject::FromRequest, "credentials: the request has none"),
        (
            "/people",
            ExplainedSubject::Invalid(CredentialsError::BadPassword),
            "valid credentials: ",
        ),
        ("/people/1", ann(), "no `deny` rule that matches: `guest: GET /people/1` "),
        ("/night", ann(), "a condition that is true: `user == 'eve'` of the rule"),
    ] {
        let fixes = fixes(policy, ("GET", "", path), caller);
        assert!(fixes.proposals.is_empty(), "{path}: {fixes}");
        assert!(fixes.needed[0].starts_with(needed), "{path}: {fixes}");
    }
    let fixes = fixes(policy, ("GET", "", "/nowhere"), ExplainedSubject::Given(given("zoe", &[])));
    assert!(fixes.proposals.is_empty() && fixes.needed[0].starts_with("another role"), "{fixes}");
}

#[test]
fn each_proposal_for_the_people_allows_the_request() {
    let policy = include_str!("../../../policies/people/policy.yaml");
    let mut count = 0;
    for user in ["alice", "bob"] {
        for method in ["GET", "POST", "DELETE"] {
            for path in ["/people", "/people/", "/people/7", "/people/a%3Bb", "/log"] {
                for host in ["", "people.example.com", "localhost"] {
                    count += checked(policy, (method, host, path), &given(user, &[])).len();
                }
            }
        }
    }
    assert!(count > 60, "{count}");
}
