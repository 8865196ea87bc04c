//! Reloads, overload and clients that leave, under load: no request fails, and none passes that
//! must not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use load::{Answer, Protocol, RunResults};
use testbed::client::Version;
use testbed::grpc::basic;
use testbed::policies::{self, Example};
use testbed::traffic::{Kinds, Tally, Traffic};
use testbed::{Options, Stack, repository};

use super::{ALICE, PATIENT, QUEUE_OF_16, QUEUE_OF_2000, authorization, each_form, start};

/// Four clients that may read, and four that alice's policy denies.
pub(crate) fn traffic(stack: &Stack, protocol: Protocol) -> Traffic {
    let (allowed, denied) = (("GET", "/people"), ("POST", "/people"));
    let kinds = Kinds { credentials: "alice:wonderland", allowed, denied };
    Traffic::start(stack.envoy.address, 4, protocol, &kinds).unwrap()
}

pub(crate) async fn get(stack: &Stack) -> u16 {
    let mut connection = stack.connect(Version::Http1).await.unwrap();
    connection.send("GET", "/people", "localhost", &authorization(ALICE), b"").await.unwrap().status
}

/// No request reached the application that the policy denies.
pub(crate) fn nothing_slipped_through(stack: &Stack, tally: &Tally) {
    assert!(!tally.denied.responses.contains_key(&Answer::Status(200)), "{tally:?}");
    assert_eq!(stack.app.forbidden(), 0, "{tally:?}");
}

/// The statuses of the responses, and the errors of requests without one.
pub(crate) fn statuses(results: &RunResults) -> Vec<String> {
    let answers = results.responses.keys().map(ToString::to_string);
    answers.chain(results.errors.keys().map(ToString::to_string)).collect()
}

pub(crate) fn only_right_answers(stack: &Stack, tally: &Tally) {
    nothing_slipped_through(stack, tally);
    for (results, status) in [(&tally.allowed, "200"), (&tally.denied, "403")] {
        assert_eq!(statuses(results), [status], "{tally:?}\n{}", stack.envoy.log());
    }
}

/// The form that ships.
fn shipped() -> Options {
    each_form().swap_remove(0)
}

/// A copy of the policy `people`, which a test may change.
struct Policy {
    folder: tempfile::TempDir,
    text: String,
}

impl Policy {
    #[expect(clippy::disallowed_methods, reason = "a test changes the file")]
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        policies::copy(&repository().join("policies/people"), folder.path()).unwrap();
        let text = Example::in_folder(folder.path()).unwrap().file;
        Self { text: std::fs::read_to_string(text).unwrap(), folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("policy.yaml")
    }

    /// Replaces it at once, as an editor does.
    fn write(&self, text: &str) {
        let new = self.folder.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.file()).unwrap();
    }
}

/// Waits until so many reloads have succeeded and so many have failed, at least.
async fn reloaded(stack: &Stack, wanted: (u64, u64)) {
    let until = Instant::now() + PATIENT;
    loop {
        let reloads = stack.reloads().await.unwrap();
        if reloads.0 >= wanted.0 && reloads.1 >= wanted.1 {
            return;
        }
        assert!(Instant::now() < until, "{reloads:?}, not {wanted:?}: {}", stack.envoy.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_under_load_fails_no_request() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let policy = Policy::new();
        let stack = start(&policy.file(), &shipped()).await;
        let traffic = traffic(&stack, protocol);
        for number in 1..=5 {
            traffic.more(100).await.unwrap();
            policy.write(&format!("{}# {number}\n", policy.text));
            reloaded(&stack, (number, 0)).await;
        }
        traffic.more(100).await.unwrap();
        only_right_answers(&stack, &traffic.stop().await.unwrap());
    }
}

/// The last good policy is kept while the file is gone or does not load; then the next good one is
/// active.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_removed_or_broken_under_load_fails_no_request() {
    let policy = Policy::new();
    let stack = start(&policy.file(), &shipped()).await;
    let traffic = traffic(&stack, Protocol::Http1);
    traffic.more(100).await.unwrap();
    std::fs::remove_file(policy.file()).unwrap();
    reloaded(&stack, (0, 1)).await;
    traffic.more(100).await.unwrap();
    let failed = stack.reloads().await.unwrap().1;
    policy.write("roles: nonsense");
    reloaded(&stack, (0, failed + 1)).await;
    traffic.more(100).await.unwrap();
    policy.write(&format!("{}# again\n", policy.text));
    reloaded(&stack, (1, 0)).await;
    traffic.more(100).await.unwrap();
    only_right_answers(&stack, &traffic.stop().await.unwrap());
    policy.write("version: 1\nroles: {}\n");
    let until = Instant::now() + PATIENT;
    while get(&stack).await != 401 {
        assert!(
            Instant::now() < until,
            "the new policy, to which nobody is known, does not become active"
        );
    }
}

/// `SECURITY.md`, S8: more wrong passwords than can be hashed are denied, also by an Envoy that
/// lets requests pass on errors. A caller whose password is verified does not notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_wrong_passwords_allows_nothing() {
    let people = Example::named("people").unwrap();
    let mut options = shipped();
    (options.envoy.failure_mode_allow, options.envoy.health_checks) = (true, false);
    // A quarter of it is what the sidecar has to answer before Envoy gives up.
    options.envoy.timeout = Duration::from_secs(2);
    options.arguments.extend(QUEUE_OF_16);
    let stack = start(&people.file, &options).await;
    assert_eq!(get(&stack).await, 200);
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..300 {
        let mut connection = stack.connect(Version::Http1).await.unwrap();
        clients.spawn(async move {
            let wrong = authorization(&basic(&format!("alice:guess-{number}")));
            connection.send("GET", "/people", "localhost", &wrong, b"").await.unwrap().status
        });
    }
    for _ in 0..10 {
        assert_eq!(get(&stack).await, 200, "{}", stack.envoy.log());
    }
    let mut statuses = BTreeMap::<u16, usize>::new();
    while let Some(status) = clients.join_next().await {
        *statuses.entry(status.unwrap()).or_default() += 1;
    }
    assert_eq!(statuses.keys().collect::<Vec<_>>(), [&401, &503], "{statuses:?}");
    assert_eq!(stack.app.requests(), 11, "the allowed ones");
}

/// `SECURITY.md`, S22: a burst of 1,000 requests that are cancelled while they wait harms no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_requests_that_are_cancelled_while_they_wait_harm_no_other() {
    let people = Example::named("people").unwrap();
    let mut options = shipped();
    options.arguments.extend(QUEUE_OF_2000);
    let stack = start(&people.file, &options).await;
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..50 {
        let connection = stack.connect(Version::Http2).await.unwrap();
        for stream in 0..20 {
            let mut connection = connection.share().unwrap();
            clients.spawn(async move {
                let wrong = authorization(&basic(&format!("alice:guess-{number}-{stream}")));
                connection.send("GET", "/people", "localhost", &wrong, b"").await.is_ok()
            });
        }
    }
    in_flight(&stack, |requests| requests > 900).await;
    clients.shutdown().await;
    in_flight(&stack, |requests| requests == 0).await;
    for _ in 0..20 {
        assert_eq!(get(&stack).await, 200, "{}", stack.envoy.log());
    }
    assert_eq!(stack.app.requests(), 20);
}

/// Waits until as many requests as `wanted` are in flight.
async fn in_flight(stack: &Stack, wanted: impl Fn(u64) -> bool) {
    let until = Instant::now() + PATIENT;
    loop {
        let now = stack.envoy.stat("http.public.downstream_rq_active").await.unwrap();
        if now.is_some_and(&wanted) {
            return;
        }
        assert!(Instant::now() < until, "{now:?} requests are in flight");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
