//! The golden cases of `policies/people` through a real nginx, HAProxy, Caddy and Traefik with the
//! shipped configurations, each with rolegate beside it.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::indexing_slicing, reason = "an answer that cannot be read is a failed test")]

use std::path::Path;

use testbed::Guarded;
use testbed::client::{Connection, Version};
use testbed::golden::Caller;
use testbed::grpc::basic;
use testbed::policies::Example;
use testbed::proxy::{Kind, ProxyStack};

/// The cases that a proxy answers itself, or whose path it changes.
struct Differences {
    /// Names of invalid requests about which it asks nobody. Each gets 400, as its case says.
    answered_itself: &'static [&'static str],
    /// Names of cases whose path is resolved into a valid one before rolegate is asked. The answer
    /// is that of the other path, which the application receives.
    resolved: &'static [&'static str],
}

const PERCENT: &str = "a percent sign without its digits is invalid";

/// No case is one that only Envoy can allow.
const fn differences(kind: Kind) -> Differences {
    match kind {
        Kind::Nginx => Differences {
            answered_itself: &[
                "a path that climbs above the root is invalid, unless Envoy has normalized it",
                PERCENT,
                "an invalid request is denied before its caller is authenticated",
            ],
            resolved: &[],
        },
        Kind::Haproxy => Differences { answered_itself: &[], resolved: &[] },
        Kind::Caddy => Differences { answered_itself: &[PERCENT], resolved: &[] },
        Kind::Traefik => Differences {
            answered_itself: &[PERCENT],
            resolved: &[
                "a path that climbs above the root is invalid, unless Envoy has normalized it",
                "two slashes at the start are ambiguous, since a host may be read after them",
            ],
        },
    }
}

async fn start(kind: Kind) -> (Example, ProxyStack) {
    let example = Example::named("people").unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_rolegate"));
    let stack = ProxyStack::start(program, &example.file, kind).await.unwrap();
    (example, stack)
}

/// Each case gets its status, its headers and, in the decision log, its reason and rule.
async fn cases_hold(kind: Kind) {
    let (example, stack) = start(kind).await;
    let identity = &example.loaded.policy.identity;
    let mut caller = Caller::connect(&stack, identity, None, Version::Http1).await.unwrap();
    let (mut wrong, mut answered_itself, mut resolved) = (Vec::new(), Vec::new(), Vec::new());
    for case in &*example.cases {
        let outcome = caller.run(case).await.unwrap();
        wrong.extend(outcome.wrong.iter().map(|what| format!("`{}`: {what}", case.name)));
        if outcome.decision.is_null() {
            answered_itself.push(&*case.name);
        }
        if outcome.expected != case.expect.status {
            resolved.push(&*case.name);
        }
    }
    assert!(example.cases.len() > 30, "only {} cases were found", example.cases.len());
    assert!(wrong.is_empty(), "{kind:?}, {} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    let expected = differences(kind);
    assert_eq!(answered_itself, expected.answered_itself, "{kind:?}");
    assert_eq!(resolved, expected.resolved, "{kind:?}");

    // rolegate is not sent the body, and the application receives all of it.
    let mut connection = Connection::open(stack.address(), Version::Http1).await.unwrap();
    let bob = [("authorization".to_owned(), basic("bob:builder"))];
    let body = format!("{{\"name\":\"{}\"}}", "carol".repeat(10_000));
    let sent = connection.send("POST", "/people", "localhost", &bob, body.as_bytes());
    let echo = sent.await.unwrap().json();
    assert_eq!(echo["body"], body, "{kind:?}");
    assert_eq!(echo["headers"]["x-user"][0], "bob", "{kind:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cases_hold_through_nginx_and_haproxy() {
    for kind in [Kind::Nginx, Kind::Haproxy] {
        cases_hold(kind).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Caddy and Traefik: `make test-proxies`"]
async fn cases_hold_through_caddy_and_traefik() {
    for kind in [Kind::Caddy, Kind::Traefik] {
        cases_hold(kind).await;
    }
}
