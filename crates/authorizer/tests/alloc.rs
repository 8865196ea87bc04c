//! The request of a caller whose credentials are cached allocates nothing, in this crate and in
//! those that it uses.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use authorizer::{Authorizer, Header, Outcome, Request, Scratch, Verdict};

const POLICY: &str = r#"
version: 1
identity:
  basic:
    verify: false
    users: { alice: {}, bob: { groups: [staff, night] } }
roles:
  anyone: { allow: [GET /open/**] }
  guest: { allow: ["GET /people", "GET /users/{user}/**", "GET api.example.com/v1/*.json"] }
  admin: { extends: [guest], allow: ["* /people/{id}"], deny: ["DELETE /people/1"] }
grants:
  guest: { users: [alice] }
  admin: { groups: [staff] }
allow_response:
  set_headers: { x-user: "{user}", x-roles: "{roles}", x-groups: "{groups}", x-rule: "by {rule}", x-revision: "{revision}" }
  remove_headers: [cookie]
deny_response: { explain: true }
"#;

const ALICE: Header<'_> = Header { name: b"authorization", value: b"Basic YWxpY2U6eA==" };
const BOB: Header<'_> = Header { name: b"authorization", value: b"Basic Ym9iOng=" };
const NOW: Duration = Duration::from_secs(1_800_000_000);

fn authorizer() -> Authorizer {
    let files = document::MapFiles::new("policy.yaml", POLICY);
    let loaded = policy::load(&files, Path::new("policy.yaml"))
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Authorizer::compile(Arc::new(loaded), &identity::FetchedKeys::new(), None).unwrap().0
}

/// Checks a request twice with the same scratch, reads each verdict as the server does, and counts
/// the allocations of the second check.
#[track_caller]
fn allocates_nothing(authorizer: &Authorizer, status: u16, request: &Request<'_>) {
    let mut scratch = Scratch::default();
    check(authorizer, request, &mut scratch);
    let mut got = (0, 0);
    let counted = measure(|| got = check(authorizer, request, &mut scratch));
    assert_eq!(got.0, status);
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

fn check(authorizer: &Authorizer, request: &Request<'_>, scratch: &mut Scratch) -> (u16, usize) {
    match authorizer.check(request, None, scratch, NOW) {
        Outcome::Pending(_) => panic!("the passwords are not checked here"),
        Outcome::Decided(verdict) => (verdict.status(), length(&verdict)),
    }
}

fn length(verdict: &Verdict<'_>) -> usize {
    match verdict {
        Verdict::Allowed(allowed) => {
            let set: usize = allowed.set().map(|(name, value)| name.len() + value.len()).sum();
            set + allowed.remove().map(str::len).sum::<usize>() + allowed.rule.len()
        }
        Verdict::Denied(denied) => {
            let headers: usize = denied.headers.iter().map(|header| header.value.len()).sum();
            headers + denied.body.len() + denied.reason.name().len()
        }
    }
}

#[test]
fn a_cached_caller_costs_no_allocation() {
    let authorizer = authorizer();
    let others = [
        Header { name: b":path", value: b"/people" },
        Header { name: b"user-agent", value: b"curl/8" },
        Header { name: b"x_user", value: b"mallory" },
        Header { name: b"x-user", value: b"mallory" },
    ];
    for (status, credentials, method, host, path) in [
        (200, ALICE, "GET", "localhost", "/people"),
        (200, ALICE, "GET", "LocalHost:8080", "/people?x=1"),
        (200, ALICE, "GET", "[0::1]:8080", "/people"),
        (200, ALICE, "GET", "localhost", "/users/alice/caf%C3%A9"),
        (200, ALICE, "GET", "api.example.com", "/v1/a.json"),
        (200, ALICE, "GET", "localhost", "/open/.well-known"),
        (403, ALICE, "POST", "localhost", "/people"),
        (200, BOB, "DELETE", "localhost", "/people/2"),
        (403, BOB, "DELETE", "localhost", "/people/1"),
        (403, BOB, "GET", "localhost", "/users/alice/x"),
        (400, BOB, "GET", "localhost", "/a%2Fb"),
        (200, ALICE, "GET", "localhost", "/static/./../people"),
        (200, ALICE, "GET", "localhost", "/%70eople"),
        (200, ALICE, "GET", "localhost", "/users/alice/a%40b;v=1/%2541//c%3Bd"),
        (403, ALICE, "GET", "localhost", "/users/bob;v=1/a%2Cb"),
        (400, ALICE, "GET", "localhost", "/people/;/../x"),
    ] {
        let headers: Vec<_> = others.into_iter().chain([credentials]).collect();
        let (method, host, path) = (method.as_bytes(), host.as_bytes(), path.as_bytes());
        allocates_nothing(
            &authorizer,
            status,
            &Request { method, host, path, headers: &headers, id: b"17", ..Request::default() },
        );
    }
}

#[test]
fn an_anonymous_caller_costs_no_allocation() {
    let authorizer = authorizer();
    for (status, path) in [(200, "/open/a"), (401, "/people")] {
        let path = path.as_bytes();
        allocates_nothing(
            &authorizer,
            status,
            &Request { method: b"GET", host: b"", path, headers: &[], ..Request::default() },
        );
    }
}

#[test]
fn allocations_are_counted() {
    let counted = measure(|| drop(std::hint::black_box(vec![1_u8; 100])));
    assert_eq!(counted.count_total, 1);
}
