//! The decisions of the library are those of the cases in `policies/`.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use policy::cases::{self, Case, Credentials};
use rolegate_authorizer::{Authorizer, Decision, Request, User};

const POLICY: &str = "version: 1\nidentity: { basic: { users: { ann: { password: \
     \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\", groups: [staff] } } } }\n\
     roles: { reader: { allow: [GET /a] } }\ngrants: { reader: { groups: [staff] } }\n";

/// What is decided for the request of a case. `None` if the case has credentials that this test
/// does not send.
fn decide(authorizer: &Authorizer, case: &Case) -> Option<Decision> {
    let sent = &case.request;
    let mut request =
        Request::new(&sent.method, &sent.path).host(&sent.host).body(sent.body.as_bytes());
    for (name, value) in &sent.headers {
        request = request.header(name, value);
    }
    if let Ok(address) = sent.client.parse::<IpAddr>() {
        request = request.client(address).peer(address);
    }
    if let Some(names) = &sent.certificate {
        request = request.certificate(names);
    }
    if let Some(time) = sent.at {
        request = request.time(UNIX_EPOCH + time);
    }
    match &sent.credentials {
        Credentials::None => Some(authorizer.authorize(&request)),
        Credentials::User { name, groups } => {
            let user = groups.iter().fold(User::new(name), |user, group| user.group(&**group));
            Some(authorizer.authorize_user(&request, &user).unwrap())
        }
        Credentials::Basic(_)
        | Credentials::Bearer(_)
        | Credentials::ApiKey(_)
        | Credentials::Claims(_) => None,
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the cases are files")]
fn the_cases_of_the_examples_hold() {
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    let mut decided = 0;
    for entry in std::fs::read_dir(policies).unwrap().flatten() {
        let file = entry.path().join("cases.yaml");
        let Ok(text) = std::fs::read(&file) else { continue };
        let authorizer = Authorizer::load(entry.path()).unwrap();
        for case in cases::parse(&file, &text).unwrap().iter() {
            let Some(decision) = decide(&authorizer, case) else { continue };
            decided += 1;
            let at = format!("{}: {}", case.at, case.name);
            let (status, rule, reason) = match &decision {
                Decision::Allowed(allowed) => (200, Some(allowed.rule()), None),
                Decision::Denied(denied) => (denied.status(), denied.rule(), Some(denied.reason())),
            };
            let expect = &case.expect;
            assert_eq!(status, expect.status, "{at}: {decision:?}");
            assert_eq!(decision.is_allowed(), status == 200);
            assert!(expect.rule.is_none() || rule == expect.rule.as_deref(), "{at}: {decision:?}");
            let is_expected = expect.reason.is_none() || reason == expect.reason.as_deref();
            assert!(is_expected, "{at}: {decision:?}");
        }
    }
    assert!(decided > 50, "{decided}");
}

#[test]
fn a_user_of_the_policy_has_its_groups_and_no_other_user_is_one() {
    let authorizer = Authorizer::from_text(POLICY).unwrap();
    let request = Request::new("GET", "/a");
    let ann = authorizer.authorize_user(&request, &User::new("ann")).unwrap();
    assert!(ann.is_allowed(), "{ann:?}");
    let eve = authorizer.authorize_user(&request, &User::new("eve").group("staff")).unwrap();
    let Decision::Denied(denied) = &eve else { panic!("{eve:?}") };
    assert_eq!((denied.status(), denied.reason()), (401, "bad_password"));
    let of_token = User::new("ann").issuer("https://id.example");
    assert!(authorizer.authorize_user(&request, &of_token).is_err());
    assert!(authorizer.explain_user(&request, &of_token).is_err());
    let why = authorizer.explain_user(&request, &User::new("ann")).unwrap();
    assert!(why.contains("reader: GET /a"), "{why}");
}

/// A clock before 1970 must not make expired credentials valid.
#[test]
fn a_time_before_1970_is_the_end_of_time() {
    let authorizer = Authorizer::from_text(
        "version: 1\nroles: { anyone: { allow: [{ rule: GET /a, when: 'request.time < \
         timestamp(\"2026-01-01T00:00:00Z\")' }] } }\n",
    )
    .unwrap();
    let at = |time| authorizer.authorize(&Request::new("GET", "/a").time(time)).is_allowed();
    assert!(at(UNIX_EPOCH));
    assert!(!at(UNIX_EPOCH - Duration::from_secs(1)));
}

#[test]
fn a_policy_that_is_not_valid_has_its_problems() {
    let error = Authorizer::from_text("version: 1\nroles: { a: { allow: [GET a] } }").unwrap_err();
    let [problem] = error.problems() else { panic!("{error}") };
    assert_eq!((problem.file(), problem.line()), (Path::new("policy.yaml"), 2));
    assert!(problem.column() > 1 && !problem.is_warning(), "{error}");
    assert!(error.to_string().starts_with("policy.yaml:2:"), "{error}");
    let nothing: [(&str, &str); 0] = [];
    assert!(Authorizer::from_files(nothing).is_err());
    assert!(Authorizer::load("nowhere").is_err());
}
