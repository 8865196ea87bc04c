//! Verdicts over the wire: requests get the right ones, and errors are never OK.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use authorizer::Verdict;
use envoy_types::pb::envoy::service::auth::v3 as auth;
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use prost::Message as _;
use runtime::counters::ErrorKind;
use runtime::{ActivePolicy, DecisionContext, DecisionRecord, DecisionSink};
use server::checks::{Options, Protocol, RunningServer};

use crate::support::*;

pub(crate) fn errors(server: &RunningServer, kind: ErrorKind) -> u64 {
    server.totals().checks.errors.into_iter().find(|(each, _)| *each == kind).unwrap().1
}

#[tokio::test]
async fn both_forms_of_headers_get_the_same_verdicts() {
    let server = serve();
    let client = connect(&server).await;
    for shape in [Shape::Map, Shape::Raw] {
        let verdict = |method, path, headers: &[(&str, &str)]| {
            let (client, message) = (client.clone(), message(shape, method, path, headers));
            async move { check(&client, &message).await }
        };
        let allowed =
            verdict("GET", "/people", &[("authorization", ALICE), ("x-user", "root")]).await;
        assert!(allowed.is_ok(), "{shape:?}");
        let Some(HttpResponse::OkResponse(ok)) = allowed.verdict().http_response else {
            panic!("no headers")
        };
        let set: Vec<_> = ok.headers.iter().filter_map(|option| option.header.as_ref()).collect();
        assert!(set.iter().any(|header| header.key == "x-user" && header.value == "alice"));
        assert_eq!(verdict("POST", "/people", &[("authorization", ALICE)]).await.denied(), 403);
        assert_eq!(verdict("GET", "/people", &[("authorization", WRONG)]).await.denied(), 401);
        assert_eq!(verdict("GET", "/people", &[]).await.denied(), 401);
        assert_eq!(verdict("GET", "/people%2F", &[("authorization", ALICE)]).await.denied(), 400);
    }
    let totals = server.totals();
    assert_eq!(totals.checks.allowed, 2);
    let denied: u64 = totals.checks.denied.iter().map(|(_, count)| count).sum();
    assert_eq!(denied, 8);
    assert_eq!((totals.checks.check.count(), totals.checks.evaluation.count()), (10, 10));
}

/// A denial rather than an error, because a client can cause it: `failure_mode_allow` would let an
/// error pass.
#[tokio::test]
async fn too_many_header_lines_are_denied() {
    let server = serve();
    let client = connect(&server).await;
    let mut lines = vec![("x-filler", "1"); envoy::request::MAX_HEADERS - 5];
    lines.push(("authorization", ALICE));
    assert!(check(&client, &message(Shape::Raw, "GET", "/people", &lines)).await.is_ok());
    lines.push(("authorization", WRONG));
    let reply = check(&client, &message(Shape::Raw, "GET", "/people", &lines)).await;
    assert_eq!(reply.denied(), 400);
}

#[tokio::test]
async fn two_authorization_headers_are_denied() {
    let server = serve();
    let client = connect(&server).await;
    let message = message(
        Shape::Raw,
        "GET",
        "/people",
        &[("authorization", ALICE), ("Authorization", ALICE)],
    );
    assert_eq!(check(&client, &message).await.denied(), 400);
}

#[tokio::test]
async fn parallel_checks_on_two_connections_get_the_right_answers() {
    let server = serve();
    let (one, two) = (connect(&server).await, connect(&server).await);
    let mut checks = tokio::task::JoinSet::new();
    for number in 0..400 {
        let client = if number % 2 == 0 { one.clone() } else { two.clone() };
        checks.spawn(async move {
            let path = if number % 3 == 0 { "/people" } else { "/other" };
            let reply =
                check(&client, &message(Shape::Raw, "GET", path, &[("authorization", ALICE)]))
                    .await;
            assert_eq!(reply.is_ok(), number % 3 == 0);
        });
    }
    while let Some(result) = checks.join_next().await {
        result.unwrap();
    }
    assert!(server.totals().in_flight == 0);
}

#[tokio::test]
async fn equal_passwords_in_parallel_are_hashed_once() {
    let server = serve();
    let client = connect(&server).await;
    for authorization in [ALICE, WRONG] {
        let before = server.totals().hashing.done;
        let check_message =
            message(Shape::Raw, "GET", "/people", &[("authorization", authorization)]);
        let checks = (0..50).map(|_| {
            let (client, check_message) = (client.clone(), check_message.clone());
            tokio::spawn(async move { check(&client, &check_message).await })
        });
        for reply in checks.collect::<Vec<_>>() {
            assert_eq!(reply.await.unwrap().is_ok(), authorization == ALICE);
        }
        // A second batch of frames may arrive just after the first hash.
        let hashed = server.totals().hashing.done - before;
        assert!((1..=2).contains(&hashed), "{hashed}");
    }
    let hashing = server.totals().hashing;
    assert!(hashing.shared >= 80 && hashing.queued == 0, "{hashing:?}");
}

#[tokio::test]
async fn a_check_is_denied_if_the_hash_queue_is_full() {
    let service = ActivePolicy::new(people());
    let server = serve_with(service, Options { hash_queue: 1, ..options() });
    let client = connect(&server).await;
    let checks = (0..30).map(|number| {
        let credentials = base64_of(&format!("alice:guess-{number}"));
        let check_message =
            message(Shape::Raw, "GET", "/people", &[("authorization", &credentials)]);
        let client = client.clone();
        tokio::spawn(async move { check(&client, &check_message).await })
    });
    let mut overloaded = 0;
    for reply in checks.collect::<Vec<_>>() {
        let reply = reply.await.unwrap();
        assert!(!reply.is_ok());
        overloaded += usize::from(reply.denied() == 503);
    }
    assert!(overloaded >= 20, "{overloaded}");
    assert_eq!(server.totals().hashing.denied, overloaded as u64);
    // Afterwards checks are answered again.
    assert!(check(&client, &by_alice()).await.is_ok());
}

#[tokio::test]
async fn a_check_is_denied_if_its_deadline_passes_before_the_hash() {
    let server = serve();
    let mut client = connect(&server).await.ready().await.unwrap();
    let head = head().header("grpc-timeout", "1u").body(()).unwrap();
    let (response, mut stream) = client.send_request(head, false).unwrap();
    stream.send_data(framed(&by_alice()), true).unwrap();
    assert_eq!(reply(response).await.unwrap().denied(), 503);
    assert_eq!(server.totals().checks.denied, [("deadline_exceeded", 1)]);
}

#[tokio::test]
async fn without_a_policy_every_check_is_an_error() {
    let published = Arc::new(ArcSwapOption::empty());
    let server = serve_with(ActivePolicy::new(published.clone()), options());
    let client = connect(&server).await;
    assert_eq!(check(&client, &by_alice()).await.error(), "14");
    published.store(people().load_full());
    assert!(check(&client, &by_alice()).await.is_ok());
    published.store(None);
    assert_eq!(check(&client, &by_alice()).await.error(), "14");
    assert_eq!(errors(&server, ErrorKind::NotReady), 2);
}

/// Counts decisions, and panics on every second one.
#[derive(Debug, Default)]
pub(crate) struct Panics(AtomicUsize);

impl DecisionSink for Panics {
    fn offer(&self, _: &Verdict<'_>, _: &DecisionContext<'_>) {
        assert!(self.0.fetch_add(1, Relaxed) % 2 == 1, "on purpose");
    }
}

#[tokio::test]
async fn a_panic_is_an_error_for_its_own_request_only() {
    let sink = Arc::new(Panics::default());
    let server = serve_with(ActivePolicy::new(people()).with_decisions(sink.clone()), options());
    let client = connect(&server).await;
    for _ in 0..5 {
        assert_eq!(check(&client, &by_alice()).await.error(), "13");
        assert!(check(&client, &by_alice()).await.is_ok());
    }
    assert_eq!(errors(&server, ErrorKind::Internal), 5);
    assert_eq!(sink.0.load(Relaxed), 10);
    assert_eq!(server.totals().connections, 1);
}

/// Collects the records.
#[derive(Debug, Default)]
struct Collects(std::sync::Mutex<Vec<String>>);

impl DecisionSink for Collects {
    fn offer(&self, verdict: &Verdict<'_>, context: &DecisionContext<'_>) {
        let record = DecisionRecord::new(verdict, context, None);
        self.0.lock().unwrap().push(format!("{record:?}"));
    }
}

#[tokio::test]
async fn the_decision_sink_gets_the_reason_and_no_secret() {
    let sink = Arc::new(Collects::default());
    let server = serve_with(ActivePolicy::new(people()).with_decisions(sink.clone()), options());
    let client = connect(&server).await;
    check(
        &client,
        &message(Shape::Raw, "GET", "/x/../people?token=hush", &[("authorization", ALICE)]),
    )
    .await;
    check(
        &client,
        &message(Shape::Map, "GET", "/a%2Fb?token=hush#hush", &[("authorization", WRONG)]),
    )
    .await;
    let records = sink.0.lock().unwrap();
    assert_eq!(records.len(), 2);
    for part in [
        "path: \"/people\"",
        "user: \"alice\"",
        "decision: \"allowed\"",
        "guest: GET /people",
        "1234567890",
    ] {
        assert!(records[0].contains(part), "{part} in {}", records[0]);
    }
    assert!(
        records[1].contains("path: \"/a%2Fb\"") && records[1].contains("invalid_path"),
        "{}",
        records[1]
    );
    let all = records.concat();
    for secret in ["hush", "wonderland", "looking-glass", "YWxp", "Basic"] {
        assert!(!all.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn tcp_and_unix_listeners_are_served_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rolegate.sock");
    let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listeners = [server::Listener::Tcp(tcp), server::Listener::Unix(unix)];
    let listeners = listeners.map(|listener| (Protocol::Grpc, listener)).into();
    let server =
        server::checks::Server::start(listeners, ActivePolicy::new(people()), options()).unwrap();
    assert_eq!(server.addresses()[1].to_string(), format!("unix:{}", path.display()));
    for address in server.addresses() {
        let client = connect_to(address).await;
        assert!(check(&client, &by_alice()).await.is_ok());
    }
}

/// Envoy forwards the bytes of a client unchanged. What a client can cause is a denial.
#[tokio::test]
async fn fields_that_are_not_utf8_are_denied() {
    let server = serve();
    let client = connect(&server).await;
    let replaced = |text: &[u8]| {
        let mut message = message(Shape::Map, "GET", "/people", &[("x-note", "lorem")]);
        let places: Vec<usize> =
            (0..message.len()).filter(|at| message[*at..].starts_with(text)).collect();
        assert!(!places.is_empty());
        places.into_iter().for_each(|at| message[at] = 0xFF);
        message
    };
    for (text, status) in [
        (&b"people.example.com"[..], 400),
        (b"/people", 400),
        (b"GET", 400),
        (b"lorem", 401),
        (b"x-note", 401),
    ] {
        let reply = check(&client, &replaced(text)).await;
        assert_eq!(reply.denied(), status, "{}", String::from_utf8_lossy(text));
    }
}

/// The parts of a request in its answer are bounded, because an answer stays in memory until it is
/// read.
#[tokio::test]
async fn the_size_of_an_answer_is_bounded() {
    let server = serve();
    let client = connect(&server).await;
    let mut request =
        auth::CheckRequest::decode(&*message(Shape::Raw, "GET", "/people", &[])).unwrap();
    let http =
        request.attributes.as_mut().unwrap().request.as_mut().unwrap().http.as_mut().unwrap();
    http.id = "\u{1}".repeat(200_000);
    let reply = check(&client, &request.encode_to_vec()).await;
    assert_eq!(reply.denied(), 401);
    assert!(reply.body.len() < 4096, "{}", reply.body.len());

    // Aliases of a header that the policy sets. The answer names each once.
    let mut lines = vec![("authorization", ALICE)];
    lines.extend((0..9_000).map(|number| (["x_user", "x.user"][number % 2], "root")));
    let reply = check(&client, &message(Shape::Raw, "GET", "/people", &lines)).await;
    assert!(reply.is_ok());
    assert!(reply.body.len() < 1024, "{}", reply.body.len());

    let long = |headers: usize| {
        let values = (0..headers).map(|number| format!("x-{number}: {}", "x".repeat(8_000)));
        let values = values.collect::<Vec<_>>().join(", ");
        let headers = format!("allow_response: {{ set_headers: {{ {values} }} }}");
        publish(&format!(
            "version: 1\nroles: {{ anyone: {{ allow: [GET /people] }} }}\n{headers}\n"
        ))
    };
    for (headers, denied) in [(8, false), (9, true)] {
        let server = serve_with(ActivePolicy::new(long(headers)), options());
        let client = connect(&server).await;
        let reply = check(&client, &message(Shape::Raw, "GET", "/people", &[])).await;
        assert_eq!(reply.is_ok(), !denied, "{headers}");
        assert!(!denied || reply.denied() == 400);
    }
}

/// A caller whose credentials are cached needs no hash, so its check is answered while the hashing
/// threads are busy.
#[tokio::test]
async fn a_cached_caller_does_not_wait_for_the_hashes_of_others() {
    let server = serve();
    let client = connect(&server).await;
    assert!(check(&client, &by_alice()).await.is_ok());
    let guesses = (0..200).map(|number| {
        let credentials = base64_of(&format!("alice:other-{number}"));
        let check_message =
            message(Shape::Raw, "GET", "/people", &[("authorization", &credentials)]);
        let client = client.clone();
        tokio::spawn(async move { check(&client, &check_message).await })
    });
    let guesses: Vec<_> = guesses.collect();
    tokio::task::yield_now().await;
    assert!(check(&client, &by_alice()).await.is_ok());
    assert!(server.totals().in_flight > 0);
    for guess in guesses {
        // On a busy machine, all of them may take longer than a check may.
        let denied = guess.await.unwrap().denied();
        assert!([401, 503].contains(&denied), "{denied}");
    }
}
