//! `explain`: why a request is answered as it is.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Authorizer, Header, Request};
use explain::{ExplainedSubject, Explainer, Explanation, RoleSource};
use identity::Subject;

const POLICY: &str = r#"version: 1
identity: { basic: { verify: false } }
roles:
  anyone: { allow: [GET /open/**] }
  authenticated: { allow: [GET /whoami] }
  guest: { allow: [GET /people, "GET /users/{user}/**"] }
  staff: { extends: [guest], allow: ["* /people/{id}"], deny: ["DELETE /people/1", "GET /open/closed/**"] }
  auditor: { allow: [GET /log] }
grants:
  guest: { users: [alice, bob] }
  staff: { users: [bob], groups: [hr] }
  auditor: { groups: [hr] }
allow_response: { set_headers: { x-user: "{user}", x-groups: "{groups}" } }
"#;

fn authorizer(policy: &str) -> Authorizer {
    let files = document::MapFiles::new("policy.yaml", policy);
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0
}

fn given(user: &str, groups: &[&str], roles: &[&str]) -> ExplainedSubject {
    let arcs = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
    ExplainedSubject::Given(Subject {
        source: None,
        user: user.into(),
        issuer: None,
        groups: arcs(groups),
        roles: arcs(roles),
        claims: serde_json::Value::Null,
        actor: None,
    })
}

fn explain(method: &str, path: &str, subject: ExplainedSubject) -> Explanation {
    explain_under(POLICY, method, path, subject)
}

fn explain_under(policy: &str, method: &str, path: &str, subject: ExplainedSubject) -> Explanation {
    let request = Request {
        method: method.as_bytes(),
        host: b"localhost",
        path: path.as_bytes(),
        headers: &[],
        ..Request::default()
    };
    Explainer::new(&authorizer(policy)).explain(
        &request,
        subject,
        Duration::from_secs(1_800_000_000),
    )
}

#[test]
fn an_allowed_request_is_explained_by_its_rule_and_the_sources_of_the_roles() {
    let why = explain("DELETE", "/people/2", given("bob", &["hr"], &["auditor", "unknown"]));
    assert_eq!((why.status, why.reason), (200, None));
    let rule = why.rule.unwrap();
    assert_eq!((&*rule.role, &*rule.rule, rule.denies), ("staff", "* /people/{id}", false));
    assert!(rule.at.starts_with("policy.yaml:7:"), "{}", rule.at);
    let roles: Vec<(&str, &[RoleSource])> =
        why.caller.roles.iter().map(|role| (&*role.name, &*role.from)).collect();
    let expected: [(&str, &[RoleSource]); 5] = [
        ("anyone", &[RoleSource::Everyone]),
        ("authenticated", &[RoleSource::EveryoneAuthenticated]),
        (
            "guest",
            &[RoleSource::GrantedToUser("bob".into()), RoleSource::ExtendedBy("staff".into())],
        ),
        (
            "staff",
            &[RoleSource::GrantedToUser("bob".into()), RoleSource::GrantedToGroup("hr".into())],
        ),
        ("auditor", &[RoleSource::Given, RoleSource::GrantedToGroup("hr".into())]),
    ];
    assert_eq!(roles, expected);
    assert_eq!(
        why.set_headers,
        [("x-user".into(), "bob".into()), ("x-groups".into(), "hr".into())]
    );
}

#[test]
fn metadata_is_shown_beside_headers() {
    let metadata = "allow_response: { metadata: { rate: { staff: 5, else: 1 }, limit: { else: { unit: HOUR } } }, ";
    let policy = POLICY.replace("allow_response: { ", metadata);
    let why = explain_under(&policy, "DELETE", "/people/2", given("bob", &[], &[]));
    let shown = why.to_string();
    let expected =
        "sets:    x-user: bob\nsets:    metadata rate: 5\nsets:    metadata limit.unit: HOUR\n";
    assert!(shown.contains(expected), "{shown}");
    let why = explain_under(&policy, "DELETE", "/people/1", given("bob", &[], &[]));
    assert!(why.metadata.is_empty());
}

#[test]
fn a_denied_request_is_explained_by_its_deny_rule() {
    let why = explain("DELETE", "/people/1", given("bob", &[], &[]));
    assert_eq!((why.status, why.reason), (403, Some("denied")));
    assert_eq!(
        why.rule.map(|rule| (rule.rule, rule.denies)),
        Some(("DELETE /people/1".into(), true))
    );
    let why = explain("GET", "/open/closed/../x", given("bob", &[], &[]));
    assert_eq!((why.status, why.decided_on.as_deref()), (403, Some("/open/closed/../x")));
    assert_eq!(why.paths, ["/open/x"]);
}

#[test]
fn a_request_that_no_rule_allows_is_explained_by_the_missing_roles() {
    let why = explain("GET", "/log", given("alice", &[], &[]));
    assert_eq!((why.status, why.reason), (403, Some("not_allowed")));
    assert_eq!(why.missing.iter().map(|rule| &*rule.rule.role).collect::<Vec<_>>(), ["auditor"]);
    assert!(why.rule.is_none());
    let nobody = explain("GET", "/nothing", given("alice", &[], &[]));
    assert!(nobody.missing.is_empty());
    let other = explain("GET", "/users/bob/x", given("alice", &[], &[]));
    assert!(other.missing.is_empty(), "a rule for the user bob is not missing to alice");
}

#[test]
fn an_anonymous_caller_has_only_the_role_anyone() {
    let why = explain("GET", "/people", ExplainedSubject::FromRequest);
    assert_eq!(
        (why.status, why.reason, why.caller.user.as_deref()),
        (401, Some("missing_credentials"), None)
    );
    assert_eq!(why.caller.roles.iter().map(|role| &*role.name).collect::<Vec<_>>(), ["anyone"]);
    assert_eq!(why.missing.len(), 1);
}

#[test]
fn an_invalid_path_and_invalid_credentials_are_explained_without_secrets() {
    let why = explain("GET", "/..", ExplainedSubject::FromRequest);
    assert_eq!((why.status, why.reason), (400, Some("invalid_path")));
    assert_eq!(why.because.as_deref(), Some("dot segments that climb above the root"));
    let headers = [Header { name: b"authorization", value: b"Bearer secret-token" }];
    let request = Request {
        method: b"GET",
        host: b"",
        path: b"/open/x",
        headers: &headers,
        ..Request::default()
    };
    let why = Explainer::new(&authorizer(POLICY)).explain(
        &request,
        ExplainedSubject::FromRequest,
        Duration::ZERO,
    );
    assert_eq!((why.status, why.reason), (401, Some("unsupported_scheme")));
    let shown = format!("{why}{why:?}{}", serde_json::to_string(&why).unwrap());
    assert!(!shown.contains("secret-token"), "{shown}");
}

#[test]
fn an_explanation_agrees_with_the_verdict() {
    let authorizer = authorizer(POLICY);
    for path in [
        "/people",
        "/open/a;b",
        "/open/closed/x",
        "/users/alice/x",
        "/users/%61lice//x",
        "/a/../log",
        "/%2F",
    ] {
        for who in [None, Some(given("alice", &[], &[])), Some(given("carol", &["hr"], &[]))] {
            let request = Request {
                method: b"GET",
                host: b"",
                path: path.as_bytes(),
                headers: &[],
                ..Request::default()
            };
            let subject = match &who {
                Some(ExplainedSubject::Given(subject)) => Some(subject.clone()),
                Some(ExplainedSubject::FromRequest | ExplainedSubject::Invalid(_)) | None => None,
            };
            let why = Explainer::new(&authorizer).explain(
                &request,
                who.unwrap_or(ExplainedSubject::FromRequest),
                Duration::ZERO,
            );
            let mut scratch = authorizer::Scratch::default();
            assert_eq!(
                authorizer
                    .check_as(&request, Ok(subject), &mut scratch, std::time::Duration::ZERO)
                    .status(),
                why.status,
                "{path}"
            );
        }
    }
}

/// At most three of the caller's own rules, those about the path first.
#[test]
fn a_denial_names_the_rules_that_match_in_all_respects_but_one() {
    let near = |method: &str, path: &str, user: &str, roles: &[&str]| -> Vec<String> {
        let why = explain(method, path, given(user, &[], roles));
        why.nearly.iter().map(|near| format!("{}: {}", near.rule.rule, near.difference)).collect()
    };
    assert_eq!(
        near("GET", "/users/cora/1", "carl", &["guest"]),
        ["GET /users/{user}/**: `{user}` is `carl`, the path has `cora`"]
    );
    assert!(
        near("GET", "/users/cora/1", "carl", &[]).is_empty(),
        "a rule of a role that the caller has not"
    );
    assert_eq!(near("POST", "/whoami", "carl", &[]), ["GET /whoami: it is for `GET`, not `POST`"]);
    assert_eq!(
        near("GET", "/whoami/", "carl", &[]),
        ["GET /whoami: the path ends with `/`, the rule does not"]
    );
    assert_eq!(
        near("GET", "/Whoami", "carl", &[]),
        ["GET /whoami: it has `whoami`, the path has `Whoami`: paths are case-sensitive"]
    );
    assert!(near("POST", "/Whoami", "carl", &[]).is_empty(), "two respects");
    assert_eq!(
        near("GET", "/whoam", "carl", &[]),
        ["GET /whoami: it has `whoami`, the path has `whoam`"]
    );
    assert_eq!(
        near("GET", "/user/carl/1", "carl", &["guest"]),
        ["GET /users/{user}/**: it has `users`, the path has `user`"]
    );
    assert!(near("GET", "/user/cora/1", "carl", &["guest"]).is_empty(), "two respects");
    assert_eq!(
        near("GET", "/Log", "carl", &[]),
        [
            "GET /log: it has `log`, the path has `Log`: paths are case-sensitive; and the caller does not have the \
          role `auditor`"
        ]
    );
    let text = explain("get", "/whoami", given("carl", &[], &[])).to_string();
    assert!(text.starts_with("400 denied: the method is not a token in upper case"), "{text}");
    assert!(
        text.contains("\nnote:    methods are in upper case: `GET` was probably meant, not `get`"),
        "{text}"
    );
    let why = explain("POST", "/whoami", given("carl", &[], &[]));
    let text = why.to_string();
    assert!(text.contains("(policy.yaml:5:28): it is for `GET`, not `POST`"), "{text}");
    let json = serde_json::to_value(&why).unwrap();
    assert_eq!(
        json.pointer("/nearly/0/role").and_then(|role| role.as_str()),
        Some("authenticated")
    );
}

/// What is said to be missing would permit the request.
#[test]
fn a_role_that_would_still_be_denied_is_not_missing() {
    let policy = "version: 1\nidentity: { basic: { verify: false } }\nroles:\n  \
        anyone: { allow: [GET /open] }\n  authenticated: { deny: [GET /internal/secret] }\n  \
        base: { deny: ['* /internal/**'] }\n  admin: { extends: [base], allow: ['* /**'] }\n  \
        auditor: { allow: [GET /internal/log, GET /internal/secret] }\n";
    let explain = |path: &str, caller| explain_under(policy, "GET", path, caller);
    let missing = |why: &Explanation| {
        why.missing.iter().map(|rule| rule.rule.role.clone()).collect::<Vec<_>>()
    };
    let why = explain("/internal/log", given("ed", &[], &[]));
    assert_eq!(missing(&why), ["auditor"]);
    let note = "the role `admin` would not help: `base: * /internal/**` (denied at policy.yaml:6:";
    assert!(why.notes.iter().any(|found| found.starts_with(note)), "{:?}", why.notes);
    let why = explain("/internal/x", given("ed", &[], &[]));
    assert_eq!(missing(&why), [""; 0]);
    // Whoever has a role has credentials.
    let why = explain("/internal/secret", ExplainedSubject::FromRequest);
    assert_eq!(missing(&why), [""; 0]);
    assert_eq!(why.notes.len(), 2, "{:?}", why.notes);
    assert_eq!(missing(&explain("/other", ExplainedSubject::FromRequest)), ["admin"]);
}

#[test]
fn an_explanation_is_printed_line_by_line() {
    let text = explain("GET", "/log;v=1", given("alice", &["hr", "x"], &[])).to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "403 denied: no rule allows it (not_allowed)");
    assert_eq!(lines[1], "request: GET localhost/log;v=1");
    assert_eq!(lines[2], "         may also be read as /log");
    assert_eq!(lines[3], "caller:  alice, in hr, x");
}
