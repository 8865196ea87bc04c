//! Bodies of requests to a search cluster, in every form in which they arrive.

use std::time::Duration;

use testbed::Stack;
use testbed::client::{Answer, End, Pieces, Version};
use testbed::grpc::basic;
use testbed::policies::Example;

use super::{each_form, start, with};

const VERSIONS: [Version; 2] = [Version::Http1, Version::Http2];

/// A bulk request with this many items for an index.
fn bulk(items: usize, last: &str) -> Vec<u8> {
    let item = |index: &str| {
        format!(
            "{{\"index\": {{\"_index\": \"{index}\"}}}}\n{{\"text\": \"{}\"}}\n",
            "x".repeat(180)
        )
    };
    (item("logs-2026-11").repeat(items) + &item(last)).into_bytes()
}

async fn send(stack: &Stack, version: Version, path: &str, body: Pieces) -> Answer {
    send_as(stack, version, "shipper:anchor", path, body).await
}

async fn send_as(
    stack: &Stack,
    version: Version,
    caller: &str,
    path: &str,
    body: Pieces,
) -> Answer {
    let headers =
        [("authorization", basic(caller)), ("content-type", "application/x-ndjson".to_owned())];
    let headers = headers.map(|(name, value)| (name.to_owned(), value));
    let trailer = ("trailer".to_owned(), "x-checksum".to_owned());
    let headers: Vec<_> = headers.into_iter().chain([trailer]).collect();
    let mut connection = stack.connect(version).await.unwrap();
    connection.send_pieces("POST", path, "localhost", &headers, body).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_decided_about_in_whatever_pieces_it_arrives() {
    let search = Example::named("search").unwrap();
    for options in each_form() {
        let stack = start(&search.file, &options).await;
        for version in VERSIONS {
            // The first request waits for its password, too. The largest is larger than what Envoy
            // buffers by default.
            for (items, size) in [
                (15_000, 60_000),
                (1, usize::MAX),
                (1, 1),
                (1, 100),
                (200, 1000),
                (15_000, usize::MAX),
            ] {
                for end in [End::Data, End::Trailers] {
                    let body = bulk(items, "logs-2026-12");
                    let answer =
                        send(&stack, version, "/_bulk", Pieces::split(&body, size, end)).await;
                    assert_eq!(answer.status, 200, "{version:?} {items} {size} {end:?}");
                    let echo = answer.json();
                    assert_eq!(
                        echo["body"].as_str().map(str::len),
                        Some(body.len()),
                        "{version:?} {size} {end:?}"
                    );
                    assert!(
                        echo["body"].as_str().unwrap().as_bytes() == body,
                        "another body is passed on"
                    );
                    let before = stack.app.requests();
                    let body = bulk(items, "salaries");
                    let answer =
                        send(&stack, version, "/_bulk", Pieces::split(&body, size, end)).await;
                    assert_eq!(answer.status, 403, "{version:?} {items} {size} {end:?}");
                    assert_eq!(stack.app.requests(), before);
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_bound_gets_413() {
    let search = Example::named("search").unwrap();
    let stack = start(&search.file, &with(&["max-request-body: 64KiB", "hash-timeout: 15s"])).await;
    for version in VERSIONS {
        for end in [End::Data, End::Trailers, End::Never] {
            let body = Pieces::split(&bulk(400, "logs-2026-12"), 5_000, end);
            let answer = send(&stack, version, "/_bulk", body).await;
            assert_eq!(answer.status, 413, "{version:?} {end:?}");
            assert_eq!(answer.json()["status"], 413, "{version:?} {end:?}");
            // A caller who is not authenticated does not learn of the bound.
            let body = Pieces::split(&bulk(400, "logs-2026-12"), 5_000, End::Data);
            let answer = send_as(&stack, version, "shipper:wrong", "/_bulk", body).await;
            assert_eq!(answer.status, 401, "{version:?} {end:?}");
        }
        let answer =
            send(&stack, version, "/_bulk", Pieces::whole(&bulk(100, "logs-2026-12"))).await;
        assert_eq!(answer.status, 200, "{version:?}");
    }
}

/// Envoy reads no more than its buffers hold while a password is hashed. Then the body is read on,
/// or is too large.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_fills_the_buffers_while_its_password_is_hashed_is_answered() {
    let search = Example::named("search").unwrap();
    for options in each_form() {
        for version in VERSIONS {
            for (max, items, status) in
                [("max-request-body: 1MiB", 14_000, 413), ("max-request-body: 1536KiB", 6_400, 200)]
            {
                let mut options = options.clone();
                options.arguments.push(max);
                let stack = start(&search.file, &options).await;
                let body = bulk(items, "logs-2026-12");
                let answer =
                    send(&stack, version, "/_bulk", Pieces::split(&body, 60_000, End::Data)).await;
                assert_eq!(answer.status, status, "{version:?} {max}: {} bytes", body.len());
            }
        }
    }
}

/// A body that never ends is neither passed on nor in the way of others, and is forgotten when its
/// client leaves.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_never_ends_is_never_passed_on() {
    let search = Example::named("search").unwrap();
    let stack = start(&search.file, &with(&["hash-timeout: 15s"])).await;
    for version in VERSIONS {
        for items in [0, 100, 15_000] {
            let before = stack.app.requests();
            let body = Pieces::split(&bulk(items, "logs-2026-12"), 10_000, End::Never);
            let never = tokio::time::timeout(
                Duration::from_millis(300),
                send(&stack, version, "/_bulk", body),
            );
            assert!(never.await.is_err(), "{version:?}: it is answered");
            assert_eq!(stack.app.requests(), before, "{version:?}");
            let answer =
                send(&stack, version, "/_bulk", Pieces::whole(&bulk(1, "logs-2026-12"))).await;
            assert_eq!(answer.status, 200, "{version:?}");
        }
    }
    let decided = stack.wait_for_decisions(6).await.unwrap();
    assert!(decided.iter().all(|line| line["decision"] == "allowed"), "{decided:?}");
    assert_eq!(stack.app.requests(), 6);
}

/// One document names no index: it is passed on while it arrives.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_count_is_not_buffered() {
    let search = Example::named("search").unwrap();
    let stack = start(&search.file, &with(&["max-request-body: 1KiB", "hash-timeout: 15s"])).await;
    let document = format!("{{\"text\": \"{}\"}}", "x".repeat(3 << 20));
    for version in VERSIONS {
        let body = Pieces::split(document.as_bytes(), 50_000, End::Data);
        let answer = send(&stack, version, "/logs-2026-11/_doc", body).await;
        assert_eq!(answer.status, 200, "{version:?}");
        assert_eq!(answer.json()["body"].as_str().map(str::len), Some(document.len()));
    }
}

/// What follows an upgrade is no body. A search without its body is denied.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_not_passed_on_where_a_body_counts() {
    let search = Example::named("search").unwrap();
    let stack = start(&search.file, &with(&["hash-timeout: 15s"])).await;
    let mut headers = vec![("authorization", basic("leo:harbour"))];
    headers.extend([("connection", "upgrade".to_owned()), ("upgrade", "websocket".to_owned())]);
    let headers: Vec<_> =
        headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut connection = stack.connect(Version::Http1).await.unwrap();
    let answer =
        connection.send("GET", "/logs-2026-11/_search", "localhost", &headers, b"").await.unwrap();
    assert_eq!((answer.status, stack.app.requests()), (403, 0));
}
