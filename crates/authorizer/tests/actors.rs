//! Requests of an application that calls for a user (`combine: both`).
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use authorizer::{Authorizer, Header, Outcome, Reason, Request, Scratch, Verdict};
use document::MapFiles;
use identity::{Certificate, CredentialsError};

const NOW: Duration = Duration::from_secs(1_800_000_000);

const POLICY: &str = r#"
version: 1
identity:
  basic: { realm: people, verify: false }
  certificates: { from: peer, users: { "spiffe://example.org/{sa}": "svc/{sa}" } }
  combine: both
roles:
  anyone: { allow: [GET /open] }
  reader: { allow: ["GET /reports/{user}"] }
  writer: { allow: [POST /reports] }
  daily: { allow: [{ rule: GET /daily, when: "user == 'alice'" }] }
  blocked: { deny: ["* /**"] }
grants:
  reader: { users: [alice, carol, svc/web, svc/bad] }
  writer: { users: [alice, svc/job] }
  daily: { users: [alice, carol, svc/web] }
  blocked: { users: [carol, svc/bad] }
allow_response: { set_headers: { x-user: "{user}", x-actor: "{actor}", x-roles: "{roles}" } }
"#;

const ALICE: &str = "Basic YWxpY2U6eA==";
const BOB: &str = "Basic Ym9iOng=";
const CAROL: &str = "Basic Y2Fyb2w6eA==";
const WEB: &[u8] = b"spiffe://example.org/web";
const JOB: &[u8] = b"spiffe://example.org/job";
const BAD: &[u8] = b"spiffe://example.org/bad";
const UNNAMED: &[u8] = b"spiffe://example.com/web";

fn authorizer() -> Authorizer {
    let files = MapFiles::new("policy.yaml", POLICY.to_owned());
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0
}

/// The reason of a denial, or the headers of an allowed request.
fn check(
    authorizer: &Authorizer,
    scratch: &mut Scratch,
    rule: &str,
    (user, certificate): (Option<&str>, Option<&[u8]>),
) -> Result<String, Reason> {
    let (method, path) = rule.split_once(' ').unwrap();
    let headers: Vec<_> =
        user.iter().map(|user| Header { name: b"authorization", value: user.as_bytes() }).collect();
    let request = Request {
        method: method.as_bytes(),
        path: path.as_bytes(),
        headers: &headers,
        certificate: certificate.map(Certificate::Principal),
        ..Request::default()
    };
    match authorizer.check(&request, None, scratch, NOW) {
        Outcome::Decided(Verdict::Allowed(allowed)) => {
            Ok(allowed.set().map(|(_, value)| value).collect::<Vec<_>>().join(" "))
        }
        Outcome::Decided(Verdict::Denied(denied)) => Err(denied.reason),
        Outcome::Pending(_) => panic!("nothing is verified later"),
    }
}

const INCOMPLETE: Result<String, Reason> =
    Err(Reason::InvalidCredentials(CredentialsError::IncompleteCredentials));

#[test]
fn one_of_two_required_credentials_is_refused_even_where_anyone_may() {
    let authorizer = authorizer();
    let callers =
        [(Some(ALICE), None), (None, Some(WEB)), (Some(ALICE), Some(UNNAMED)), (Some(BOB), None)];
    for caller in callers {
        for rule in ["GET /open", "GET /reports/alice", "GET /nothing"] {
            let verdict = check(&authorizer, &mut Scratch::default(), rule, caller);
            assert_eq!(verdict, INCOMPLETE, "{rule} {caller:?}");
        }
    }
    for caller in [(None, None), (None, Some(UNNAMED))] {
        let open = check(&authorizer, &mut Scratch::default(), "GET /open", caller);
        assert_eq!(open, Ok(String::new()));
        let closed = check(&authorizer, &mut Scratch::default(), "GET /reports/alice", caller);
        assert_eq!(closed, Err(Reason::MissingCredentials));
    }
}

/// A method and path, the credentials and the certificate, and the verdict.
type Case<'a> = (&'a str, (&'a str, &'a [u8]), Result<&'a str, Reason>);

#[test]
fn both_need_the_role_of_a_rule() {
    let authorizer = authorizer();
    // One thread decides all of them, so that no caller gets what another had.
    let scratch = &mut Scratch::default();
    let both = "alice svc/web reader,daily";
    let cases: &[Case<'_>] = &[
        ("GET /reports/alice", (ALICE, WEB), Ok(both)),
        // `{user}` is the user, not the application.
        ("GET /reports/svc", (ALICE, WEB), Err(Reason::NotAllowed)),
        // The one has it, the other has not.
        ("POST /reports", (ALICE, WEB), Err(Reason::NotAllowed)),
        ("POST /reports", (BOB, JOB), Err(Reason::NotAllowed)),
        ("POST /reports", (ALICE, JOB), Ok("alice svc/job writer")),
        ("GET /reports/alice", (ALICE, JOB), Err(Reason::NotAllowed)),
        ("GET /reports/bob", (BOB, WEB), Err(Reason::NotAllowed)),
        // A `deny` rule of either counts.
        ("GET /reports/alice", (ALICE, BAD), Err(Reason::Denied)),
        ("GET /reports/carol", (CAROL, WEB), Err(Reason::Denied)),
        ("GET /open", (CAROL, WEB), Err(Reason::Denied)),
        ("GET /open", (BOB, BAD), Err(Reason::Denied)),
        ("GET /open", (BOB, WEB), Ok("bob svc/web")),
        // Conditions are about the user.
        ("GET /daily", (ALICE, WEB), Ok(both)),
        ("GET /daily", (ALICE, JOB), Err(Reason::NotAllowed)),
        ("GET /reports/alice", (ALICE, WEB), Ok(both)),
    ];
    for _ in 0..2 {
        for (rule, (user, certificate), expected) in cases {
            let caller = (Some(*user), Some(*certificate));
            let verdict = check(&authorizer, scratch, rule, caller);
            assert_eq!(verdict.as_deref().map_err(|error| *error), *expected, "{rule} {user}");
            let alone = check(&authorizer, scratch, rule, (Some(user), None));
            assert_eq!(alone, INCOMPLETE, "{rule} {user}");
            let alone = check(&authorizer, scratch, rule, (None, Some(certificate)));
            assert_eq!(alone, INCOMPLETE, "{rule} {user}");
        }
    }
}

#[test]
fn two_cached_callers_cost_no_allocation() {
    let authorizer = authorizer();
    let mut scratch = Scratch::default();
    let headers = [Header { name: b"authorization", value: ALICE.as_bytes() }];
    let request = Request {
        method: b"GET",
        path: b"/reports/alice",
        headers: &headers,
        certificate: Some(Certificate::Principal(WEB)),
        ..Request::default()
    };
    let mut allows = || {
        let outcome = authorizer.check(&request, None, &mut scratch, NOW);
        matches!(outcome, Outcome::Decided(Verdict::Allowed(_)))
    };
    assert!(allows());
    let allocated = measure(|| assert!((0..100).all(|_| allows())));
    assert_eq!(allocated.count_total, 0);
}

/// A caller whom a tool names has the actor of the certificate beside it, and needs one.
#[test]
fn an_assumed_caller_needs_an_actor() {
    let authorizer = authorizer();
    let subject = |user: &str| {
        Ok(Some(identity::Subject {
            user: user.into(),
            issuer: None,
            source: None,
            groups: Vec::new(),
            roles: Vec::new(),
            claims: serde_json::Value::Null,
            actor: None,
        }))
    };
    let check = |user: &str, certificate: Option<&[u8]>| {
        let request = Request {
            method: b"GET",
            path: b"/reports/alice",
            certificate: certificate.map(Certificate::Principal),
            ..Request::default()
        };
        let mut scratch = Scratch::default();
        match authorizer.check_as(&request, subject(user), &mut scratch, NOW) {
            Verdict::Allowed(_) => Ok(String::new()),
            Verdict::Denied(denied) => Err(denied.reason),
        }
    };
    assert_eq!(check("alice", Some(WEB)), Ok(String::new()));
    assert_eq!(check("alice", Some(BAD)), Err(Reason::Denied));
    assert_eq!(check("alice", None), INCOMPLETE);
    assert_eq!(check("alice", Some(UNNAMED)), INCOMPLETE);
    let prepared = authorizer.assumed_caller(b"", subject("alice").map(Option::unwrap));
    let request = Request { method: b"GET", path: b"/reports/alice", ..Request::default() };
    let mut scratch = Scratch::default();
    let Verdict::Denied(denied) = prepared.check(&request, &mut scratch, NOW) else {
        panic!("allowed without an actor")
    };
    assert_eq!(Err(denied.reason), INCOMPLETE);
}
