//! Requests that are large, or that a well-behaved client would not send, through a real Envoy.

use testbed::Stack;
use testbed::client::{Answer, Version};
use testbed::policies::Example;

use super::{ALICE, each_form, start};

const BOB: &str = "Basic Ym9iOmJ1aWxkZXI=";

/// The people example in each form.
async fn in_each_form() -> Vec<Stack> {
    let people = Example::named("people").unwrap();
    let mut stacks = Vec::new();
    for options in each_form() {
        stacks.push(start(&people.file, &options).await);
    }
    stacks
}

async fn send(
    stack: &Stack,
    version: Version,
    method: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut connection = stack.connect(version).await.unwrap();
    connection.send(method, "/people", "localhost", &headers, body).await.unwrap()
}

/// The application gets the whole body, whatever part of it is sent along to rolegate. It may be
/// any bytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_forwarded() {
    let people = Example::named("people").unwrap();
    for with_request_body in [None, Some(1024), Some(1 << 20)] {
        for mut options in each_form() {
            options.envoy.with_request_body = with_request_body;
            let stack = start(&people.file, &options).await;
            let body = "a line of a body that is longer than one frame\n".repeat(3000);
            for version in [Version::Http1, Version::Http2] {
                let answer =
                    send(&stack, version, "POST", &[("authorization", BOB)], body.as_bytes()).await;
                assert_eq!(
                    answer.status,
                    200,
                    "{with_request_body:?} {version:?}: {}",
                    answer.text()
                );
                assert_eq!(
                    answer.json()["body"].as_str(),
                    Some(body.as_str()),
                    "{with_request_body:?} {version:?}"
                );
                let answer =
                    send(&stack, version, "POST", &[("authorization", ALICE)], body.as_bytes())
                        .await;
                assert_eq!(answer.status, 403, "{with_request_body:?} {version:?}");
                let odd = [0, 0xFF, 0xFE, 0x80];
                let answer = send(&stack, version, "POST", &[("authorization", BOB)], &odd).await;
                assert_eq!(answer.status, 200, "{with_request_body:?} {version:?}");
            }
            assert_eq!(stack.app.requests(), 4);
        }
    }
}

/// A message of this size spans frames.
#[tokio::test(flavor = "multi_thread")]
async fn a_header_of_60_kb_changes_nothing() {
    let large = "x".repeat(60 * 1024);
    for stack in in_each_form().await {
        for version in [Version::Http1, Version::Http2] {
            let headers = [("x-large", large.as_str()), ("authorization", ALICE)];
            let answer = send(&stack, version, "GET", &headers, b"").await;
            assert_eq!(answer.status, 200, "{version:?}: {}", answer.text());
            assert_eq!(
                answer.json()["headers"]["x-large"][0].as_str().map(str::len),
                Some(large.len())
            );
            assert_eq!(
                send(&stack, version, "POST", &headers, b"").await.status,
                403,
                "{version:?}"
            );
            assert_eq!(
                send(&stack, version, "GET", &[("x-large", &large)], b"").await.status,
                401,
                "{version:?}"
            );
        }
    }
}

/// `SECURITY.md`, S11: more than one `Authorization` is denied, as two lines and as one with a
/// comma.
#[tokio::test(flavor = "multi_thread")]
async fn two_authorization_headers_are_denied_through_envoy() {
    for stack in in_each_form().await {
        for version in [Version::Http1, Version::Http2] {
            for second in [ALICE, BOB, "Bearer x", "x"] {
                let headers = [("authorization", ALICE), ("authorization", second)];
                let answer = send(&stack, version, "GET", &headers, b"").await;
                assert_eq!(answer.status, 400, "{version:?} `{second}`: {}", answer.text());
            }
            let joined = format!("{ALICE}, {BOB}");
            assert_eq!(
                send(&stack, version, "GET", &[("authorization", &joined)], b"").await.status,
                400
            );
        }
        assert_eq!(stack.app.requests(), 0);
    }
}

/// `SECURITY.md`, S12: a client cannot send the headers that an OK sets, however often and in
/// whichever spelling.
#[tokio::test(flavor = "multi_thread")]
async fn an_identity_cannot_be_smuggled() {
    for stack in in_each_form().await {
        for version in [Version::Http1, Version::Http2] {
            let headers = [
                ("x-user", "bob"),
                ("x-user", "root"),
                ("x_user", "bob"),
                ("x.user", "bob"),
                ("x+user", "bob"),
                ("x!user", "bob"),
                ("x-roles", "admin"),
                ("x_roles", "admin"),
                ("authorization", ALICE),
            ];
            let answer = send(&stack, version, "GET", &headers, b"").await;
            assert_eq!(answer.status, 200, "{version:?}: {}", answer.text());
            let seen = answer.json()["headers"].clone();
            assert_eq!(seen["x-user"], serde_json::json!(["alice"]), "{version:?}: {seen}");
            assert_eq!(seen["x-roles"], serde_json::json!(["guest"]), "{version:?}: {seen}");
            for alias in ["x_user", "x.user", "x+user", "x!user", "x_roles"] {
                assert!(seen[alias].is_null(), "{version:?}: {seen}");
            }
        }
    }
}

/// `SECURITY.md`, S4: no header changes the path, method or host that is evaluated.
#[tokio::test(flavor = "multi_thread")]
async fn no_header_overrides_method_path_or_host() {
    let elsewhere = [
        ("x-original-url", "/people"),
        ("x-rewrite-url", "/people"),
        ("x-forwarded-uri", "/people"),
        ("x-forwarded-host", "localhost"),
        ("x-forwarded-method", "GET"),
        ("x-envoy-original-path", "/people"),
        ("x-http-method-override", "GET"),
        ("x-http-method", "GET"),
        ("x-method-override", "GET"),
    ];
    for stack in in_each_form().await {
        for version in [Version::Http1, Version::Http2] {
            for header in elsewhere {
                let answer =
                    send(&stack, version, "POST", &[header, ("authorization", ALICE)], b"").await;
                assert_eq!(answer.status, 403, "{version:?} {header:?}");
            }
        }
        assert_eq!(stack.app.requests(), 0);
    }
}

/// `SECURITY.md`, S4: Envoy itself refuses such a method over HTTP/1.1 only.
#[tokio::test(flavor = "multi_thread")]
async fn a_method_with_lower_case_letters_reaches_no_application() {
    for stack in in_each_form().await {
        for version in [Version::Http1, Version::Http2] {
            for method in ["get", "Get", "delete"] {
                let answer = send(&stack, version, method, &[("authorization", ALICE)], b"").await;
                assert_eq!(answer.status, 400, "{version:?} {method}");
            }
        }
        assert_eq!(stack.app.requests(), 0);
    }
}

/// Bytes that are not UTF-8 in a header arrive as they are, or as `!`: neither is an error of
/// rolegate.
#[tokio::test(flavor = "multi_thread")]
async fn a_header_may_be_any_bytes() {
    for stack in in_each_form().await {
        for version in [Version::Http1, Version::Http2] {
            let headers = [("x-odd", "caf\u{e9}\u{ff}"), ("authorization", ALICE)];
            assert_eq!(
                send(&stack, version, "GET", &headers, b"").await.status,
                200,
                "{version:?}"
            );
            let headers = [("authorization", "Basic caf\u{e9}")];
            assert_eq!(
                send(&stack, version, "GET", &headers, b"").await.status,
                401,
                "{version:?}"
            );
        }
    }
}

/// Envoy answers a gRPC request with 200, and with the status of the denial in `grpc-status`.
#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_request_is_denied_with_a_grpc_status() {
    for stack in in_each_form().await {
        for version in [Version::Http1, Version::Http2] {
            for content_type in ["application/grpc", "application/grpc+proto"] {
                let denied = [(ALICE, "7"), ("Bearer x", "16"), ("Basic YTpi, Basic YTpi", "3")];
                for (authorization, status) in denied {
                    let headers =
                        [("content-type", content_type), ("authorization", authorization)];
                    let answer = send(&stack, version, "POST", &headers, b"").await;
                    let found = answer.header("grpc-status");
                    assert_eq!(
                        (answer.status, found.as_deref()),
                        (200, Some(status)),
                        "{version:?} {content_type}"
                    );
                    assert!(answer.header("grpc-message").is_some(), "{version:?} {content_type}");
                }
            }
            let headers = [("content-type", "application/grpc-web"), ("authorization", ALICE)];
            let answer = send(&stack, version, "POST", &headers, b"").await;
            assert_eq!((answer.status, answer.header("grpc-status")), (403, None), "{version:?}");
        }
        assert_eq!(stack.app.requests(), 0);
    }
}
