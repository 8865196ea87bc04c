//! Checks by gRPC servers without Envoy (gRFC A92), and what gRPC clients behind Envoy are told.

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue};
use envoy_types::pb::envoy::service::auth::v3 as auth;
use envoy_types::pb::envoy::service::auth::v3::attribute_context::HttpRequest;
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use load::check_message::Checked;
use prost::Message as _;
use runtime::ActivePolicy;
use server::checks::RunningServer;

use crate::support::*;

const POLICY: &str = r#"
version: 1
identity: { basic: { verify: false } }
roles:
  anyone: { allow: [{ grpc: grpc.health.v1.Health/Check }] }
  clerk: { allow: [{ grpc: shop.Orders/Cancel }] }
grants: { clerk: { users: [ann] } }
allow_response: { set_headers: { x-user: "{user}" } }
"#;
const CANCEL: &str = "/shop.Orders/Cancel";
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// A server with this policy, and this role of the user ann besides.
fn serving(role: &str) -> RunningServer {
    let policy = POLICY.replace("grants: {", "  more: ROLE\ngrants: { more: { users: [ann] },");
    let policy = policy.replace("ROLE", role);
    serve_with(ActivePolicy::new(publish(&policy)), options())
}

fn lines(lines: &[(&str, &str)]) -> Option<HeaderMap> {
    let headers = lines.iter().map(|(key, value)| HeaderValue {
        key: (*key).to_owned(),
        value: (*value).to_owned(),
        ..HeaderValue::default()
    });
    Some(HeaderMap { headers: headers.collect() })
}

/// What a gRPC server sends about a call.
fn asked(path: &str, headers: &[(&str, &str)]) -> HttpRequest {
    HttpRequest {
        method: "POST".to_owned(),
        path: path.to_owned(),
        size: -1,
        protocol: "HTTP/2".to_owned(),
        header_map: lines(headers),
        ..HttpRequest::default()
    }
}

/// In a message with the address of the client.
fn encoded(http: HttpRequest) -> Vec<u8> {
    let mut message = Checked { source: Some("192.0.2.7"), ..Checked::default() }.message();
    message.attributes.as_mut().unwrap().request.as_mut().unwrap().http = Some(http);
    message.encode_to_vec()
}

/// The status that a peer makes of the verdict: 200 if the call may go on.
async fn status(server: &RunningServer, http: HttpRequest) -> Option<i32> {
    check(&connect(server).await, &encoded(http)).await.status()
}

/// The headers and the body of a denial.
async fn denied(server: &RunningServer, http: HttpRequest) -> (Vec<(String, String)>, String) {
    let verdict = check(&connect(server).await, &encoded(http)).await.verdict();
    told(verdict)
}

fn told(verdict: auth::CheckResponse) -> (Vec<(String, String)>, String) {
    let Some(HttpResponse::DeniedResponse(denied)) = verdict.http_response else {
        return Default::default();
    };
    let headers = denied.headers.into_iter().filter_map(|option| option.header);
    (headers.map(|header| (header.key, header.value)).collect(), denied.body)
}

#[tokio::test]
async fn a_grpc_server_gets_a_verdict() {
    let server = serving("{}");
    let (ann, bob) = (base64_of("ann:x"), base64_of("bob:x"));
    let [ann, bob] = [&ann, &bob].map(|value| [("authorization", value.as_str())]);
    for (path, headers, expected) in [
        (CANCEL, &ann[..], 200),
        (CANCEL, &bob, 403),
        (CANCEL, &[], 401),
        (CANCEL, &[("authorization", "Basic ?")], 401),
        (CANCEL, &[ann[0], ann[0]], 400),
        ("/shop.Orders/Get", &ann, 403),
        ("/shop.Orders/Cancel/", &ann, 403),
        (HEALTH, &[], 200),
        (HEALTH, &ann, 200),
    ] {
        assert_eq!(
            status(&server, asked(path, headers)).await,
            Some(expected),
            "{path} {headers:?}"
        );
    }
    // The metadata that the service gets.
    let verdict = check(&connect(&server).await, &encoded(asked(CANCEL, &ann))).await.verdict();
    let Some(HttpResponse::OkResponse(ok)) = verdict.http_response else { panic!("denied") };
    let set: Vec<_> = ok.headers.into_iter().filter_map(|option| option.header).collect();
    assert_eq!((&*set[0].key, &*set[0].value), ("x-user", "ann"));
}

/// Nothing that is missing allows a call.
#[tokio::test]
async fn a_missing_field_is_denied() {
    let server = serving("{}");
    let ann = base64_of("ann:x");
    let whole = asked(CANCEL, &[("authorization", &ann)]);
    assert_eq!(status(&server, whole.clone()).await, Some(200));
    let without_path = HttpRequest { path: String::new(), ..whole.clone() };
    assert_eq!(status(&server, without_path).await, Some(400));
    let without_method = HttpRequest { method: String::new(), ..whole.clone() };
    assert_eq!(status(&server, without_method).await, Some(400));
    // Without headers the caller is anonymous.
    for header_map in [None, lines(&[])] {
        let without_headers = HttpRequest { header_map, ..whole.clone() };
        assert_eq!(status(&server, without_headers).await, Some(401));
        let open = HttpRequest { path: HEALTH.to_owned(), ..asked(HEALTH, &[]) };
        assert_eq!(status(&server, HttpRequest { header_map: None, ..open }).await, Some(200));
    }
    let nothing = check(&connect(&server).await, &encoded(HttpRequest::default())).await;
    assert_eq!(nothing.denied(), 400);
}

/// Headers in two places are an error, whether they are the same or not.
#[tokio::test]
async fn headers_in_two_places_are_not_decided_about() {
    let server = serving("{}");
    let client = connect(&server).await;
    let (ann, bob) = (base64_of("ann:x"), base64_of("bob:x"));
    for (in_map, in_lines) in [
        (("authorization", &ann), ("authorization", &ann)),
        (("authorization", &ann), ("authorization", &bob)),
        (("authorization", &ann), ("x-note", &bob)),
        (("x-note", &bob), ("authorization", &ann)),
    ] {
        let mut both = asked(CANCEL, &[(in_lines.0, in_lines.1)]);
        both.headers.insert(in_map.0.to_owned(), in_map.1.to_owned());
        assert_eq!(check(&client, &encoded(both)).await.error(), "3", "{in_map:?} {in_lines:?}");
    }
}

/// A gRPC server leaves `host` out. Where a policy names hosts, a call without `:authority` is
/// denied, because a `deny` rule for its host would not match.
#[tokio::test]
async fn a_call_without_a_host_is_denied_where_hosts_count() {
    let closed = "{ deny: [\"* admin.example.com/**\"] }";
    let (any, by_host) = (serving("{}"), serving(closed));
    let ann = base64_of("ann:x");
    let ann = ("authorization", ann.as_str());
    let [admin, www] =
        ["admin.example.com:443", "www.example.com"].map(|host| (":authority", host));
    for (headers, on_any, on_host) in [
        (&[ann][..], 200, 400),
        (&[ann, www], 200, 200),
        (&[ann, admin], 200, 403),
        (&[ann, (":authority", "")], 200, 400),
        (&[ann, www, www], 400, 400),
        (&[ann, www, admin], 400, 400),
        (&[ann, (":authority", "www.example.com/")], 400, 400),
        // What a client calls `host` is not the host.
        (&[ann, ("host", "www.example.com")], 200, 400),
    ] {
        for (server, expected) in [(&any, on_any), (&by_host, on_host)] {
            let found = status(server, asked(CANCEL, headers)).await;
            assert_eq!(found, Some(expected), "{headers:?}");
        }
    }
}

/// The peer makes a message and a content type of its own.
#[tokio::test]
async fn a_grpc_client_is_told_why_in_one_line() {
    let server = serving("{}");
    let bob = base64_of("bob:x");
    let bob = ("authorization", bob.as_str());
    let (forbidden, unauthorized) = (("grpc-status", "7"), ("grpc-status", "16"));
    let call = ("content-type", "application/grpc+proto");
    for headers in [&[bob][..], &[bob, call]] {
        let (headers, body) = denied(&server, asked(CANCEL, headers)).await;
        assert_eq!(headers, [forbidden].map(owned));
        assert_eq!(body, "forbidden");
    }
    let challenge = ("www-authenticate", "Basic realm=\"rolegate\", charset=\"UTF-8\"");
    let (headers, body) = denied(&server, asked(CANCEL, &[])).await;
    assert_eq!(headers, [challenge, unauthorized].map(owned));
    assert_eq!(body, "unauthorized");

    // By Envoy.
    let client = connect(&server).await;
    for (content_type, status) in [
        ("application/grpc", Some("7")),
        ("application/grpc+json", Some("7")),
        ("application/grpc-web", None),
        ("application/grpc;a=b", None),
        ("application/json", None),
    ] {
        for shape in [Shape::Map, Shape::Raw] {
            let message = message(shape, "POST", CANCEL, &[bob, ("content-type", content_type)]);
            let (headers, body) = told(check(&client, &message).await.verdict());
            let found = headers.iter().find(|(name, _)| name == "grpc-status");
            assert_eq!(found.map(|(_, value)| value.as_str()), status, "{content_type}");
            let is_json = headers.contains(&owned(("content-type", "application/json")));
            assert_eq!(is_json, status.is_none(), "{content_type}");
            let text = if is_json { "{\"error\"" } else { "forbidden; request: 1234567890" };
            assert!(body.starts_with(text), "{content_type}: {body}");
        }
    }
}

/// Overload is no fault of the server that a client would report.
#[tokio::test]
async fn a_grpc_client_is_told_to_try_again() {
    let server = serve();
    let mut client = connect(&server).await.ready().await.unwrap();
    let call = [("authorization", ALICE), ("content-type", "application/grpc")];
    let head = head().header("grpc-timeout", "1u").body(()).unwrap();
    let (response, mut stream) = client.send_request(head, false).unwrap();
    stream.send_data(framed(&message(Shape::Raw, "POST", CANCEL, &call)), true).unwrap();
    let (headers, body) = told(reply(response).await.unwrap().verdict());
    assert_eq!(headers, [owned(("grpc-status", "14"))]);
    assert!(body.starts_with("unavailable; request: "), "{body}");
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}
