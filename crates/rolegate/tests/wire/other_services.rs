//! Health and reflection, on the same connection as checks.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::Request;
use prost::Message as _;
use runtime::ActivePolicy;
use server::checks::Options;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::support::*;

/// Any unary or streaming call, with one message.
async fn call(client: &Client, path: &str, message: &[u8]) -> Reply {
    testbed::grpc::call(client, path, framed(message)).await.unwrap()
}

async fn health(client: &Client, service: &str) -> Result<ServingStatus, String> {
    let message = HealthCheckRequest { service: service.to_owned() }.encode_to_vec();
    let reply = call(client, "/grpc.health.v1.Health/Check", &message).await;
    match reply.grpc.as_deref() {
        Some("0") => Ok(HealthCheckResponse::decode(&reply.body[5..]).unwrap().status()),
        other => Err(other.unwrap().to_owned()),
    }
}

#[tokio::test]
async fn health_reports_whether_a_policy_is_active() {
    let published = Arc::new(ArcSwapOption::empty());
    let server = serve_with(ActivePolicy::new(published.clone()), options());
    let client = connect(&server).await;
    for service in ["", envoy::SERVICE] {
        assert_eq!(health(&client, service).await, Ok(ServingStatus::NotServing));
    }
    published.store(people().load_full());
    for service in ["", envoy::SERVICE] {
        assert_eq!(health(&client, service).await, Ok(ServingStatus::Serving));
    }
    assert_eq!(health(&client, "other.Service").await, Err("5".to_owned()));
    server.fail_health_checks();
    assert_eq!(health(&client, "").await, Ok(ServingStatus::NotServing));
    // Its health checks fail, but it does not drain yet.
    assert!(check(&client, &by_alice()).await.is_ok());
}

#[tokio::test]
async fn a_health_watcher_gets_each_change() {
    let published = people();
    let server = serve_with(ActivePolicy::new(published.clone()), options());
    let mut client = connect(&server).await.ready().await.unwrap();
    let head = Request::post("http://rolegate/grpc.health.v1.Health/Watch")
        .header("content-type", "application/grpc");
    let (response, mut stream) = client.send_request(head.body(()).unwrap(), false).unwrap();
    stream.send_data(framed(&[]), true).unwrap();
    let mut body = response.await.unwrap().into_body();
    let mut next = async || {
        let data = tokio::time::timeout(Duration::from_secs(60), body.data()).await.unwrap();
        data.map(|data| HealthCheckResponse::decode(&data.unwrap()[5..]).unwrap().status())
    };
    assert_eq!(next().await, Some(ServingStatus::Serving));
    let policy = published.swap(None);
    assert_eq!(next().await, Some(ServingStatus::NotServing));
    published.store(policy);
    assert_eq!(next().await, Some(ServingStatus::Serving));
    // A drain does not wait for watchers.
    let drained = tokio::spawn(server.drain(Duration::from_secs(5)));
    while next().await.is_some() {}
    assert!(drained.await.unwrap());
}

#[tokio::test]
async fn reflection_describes_all_services_and_messages() {
    let server = serve();
    let client = connect(&server).await;
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        // `ServerReflectionRequest { list_services: "*" }` and `{ file_containing_symbol: … }`, in
        // both versions.
        let listed = call(&client, &path, &[7 << 3 | 2, 1, b'*']).await;
        let listed = String::from_utf8_lossy(&listed.body).into_owned();
        for service in [envoy::SERVICE, "grpc.health.v1.Health"] {
            assert!(listed.contains(service), "{version}: {service}");
        }
        let mut request = vec![4 << 3 | 2, u8::try_from(envoy::SERVICE.len()).unwrap()];
        request.extend_from_slice(envoy::SERVICE.as_bytes());
        let file = call(&client, &path, &request).await;
        assert_eq!(file.grpc.as_deref(), Some("0"));
        assert!(String::from_utf8_lossy(&file.body).contains("CheckResponse"));
    }
    assert!(check(&client, &by_alice()).await.is_ok());
}

#[tokio::test]
async fn unknown_methods_are_unimplemented() {
    let server = serve();
    let client = connect(&server).await;
    for path in [
        "/",
        "/other.Service/Call",
        "/envoy.service.auth.v3.Authorization/Other",
        "/grpc.health.v1.Health/No",
    ] {
        assert_eq!(call(&client, path, b"").await.error(), "12", "{path}");
    }
}

#[tokio::test]
async fn open_streams_do_not_affect_other_calls() {
    let server = serve();
    let client = connect(&server).await;
    let mut open = Vec::new();
    for _ in 0..50 {
        let mut client = client.clone().ready().await.unwrap();
        let head = Request::post("http://rolegate/grpc.health.v1.Health/Check");
        let head = head.header("content-type", "application/grpc").body(()).unwrap();
        open.push(client.send_request(head, false).unwrap());
    }
    assert!(check(&client, &by_alice()).await.is_ok());
    for (_, stream) in &mut open {
        stream.send_data(Bytes::from_static(&[0, 0]), false).unwrap();
        stream.send_reset(h2::Reason::CANCEL);
    }
    assert!(check(&client, &by_alice()).await.is_ok());
}

const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
const HEALTH_WATCH: &str = "/grpc.health.v1.Health/Watch";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// Begins a call and sends these bytes of its body, which is not ended.
async fn begin(
    client: &Client,
    path: &str,
    bytes: &[u8],
) -> (h2::client::ResponseFuture, h2::SendStream<Bytes>) {
    let mut client = client.clone().ready().await.unwrap();
    let head =
        Request::post(format!("http://rolegate{path}")).header("content-type", "application/grpc");
    let (response, mut stream) = client.send_request(head.body(()).unwrap(), false).unwrap();
    stream.send_data(Bytes::copy_from_slice(bytes), false).unwrap();
    (response, stream)
}

#[tokio::test]
async fn a_message_over_four_kib_is_rejected() {
    let server = serve();
    let client = connect(&server).await;
    for path in [HEALTH_CHECK, HEALTH_WATCH] {
        // Only the prefix: the answer does not wait for the rest.
        let (response, _stream) = begin(&client, path, &[0, 0, 0, 0x10, 1]).await;
        assert_eq!(reply(response).await.unwrap().error(), "8", "{path}");
        let (response, _stream) = begin(&client, path, &[0, 0, 0, 0x10, 0]).await;
        drop(response);
    }
    assert!(call(&client, REFLECTION, &[0; 0x1001]).await.body.is_empty());
    assert_eq!(health(&client, "").await, Ok(ServingStatus::Serving));
}

#[tokio::test]
async fn a_call_whose_message_is_late_fails() {
    let service = ActivePolicy::new(people());
    let server =
        serve_with(service, Options { request_timeout: Duration::from_millis(50), ..options() });
    let client = connect(&server).await;
    for path in [HEALTH_CHECK, HEALTH_WATCH] {
        let (response, _stream) = begin(&client, path, &[0, 0, 0, 0, 9, 1]).await;
        assert_eq!(reply(response).await.unwrap().error(), "4", "{path}");
    }
    let (response, _stream) = begin(&client, REFLECTION, &[0, 0, 0, 0, 9, 1]).await;
    assert!(reply(response).await.is_err(), "the stream is reset");
    assert_eq!(health(&client, "").await, Ok(ServingStatus::Serving));
}

/// A client that sends requests and reads no answers: the answers are not queued without limit.
#[tokio::test]
async fn a_reflection_call_whose_answers_are_not_read_is_reset() {
    let server = serve();
    let client = connect(&server).await;
    let (response, mut stream) = begin(&client, REFLECTION, b"").await;
    let mut request = vec![4 << 3 | 2, u8::try_from(envoy::SERVICE.len()).unwrap()];
    request.extend_from_slice(envoy::SERVICE.as_bytes());
    let request = framed(&request);
    // Each answer has a few KiB, and none is read: the window of the stream is 64 KiB.
    let mut sent = 0;
    while sent < 4 << 20 && stream.send_data(request.clone(), false).is_ok() {
        sent += request.len();
        stream.reserve_capacity(request.len());
        let room = std::future::poll_fn(|cx| stream.poll_capacity(cx));
        match tokio::time::timeout(Duration::from_secs(60), room).await {
            Ok(Some(Ok(_))) => {}
            Ok(None | Some(Err(_))) => break,
            Err(_) => panic!("the call is still there after {sent} bytes"),
        }
    }
    assert!(sent < 1 << 20, "{sent}");
    drop(response);
    assert_eq!(health(&connect(&server).await, "").await, Ok(ServingStatus::Serving));
}

/// Long calls can use up their budget without an effect on health checks or checks.
#[tokio::test]
async fn watchers_beyond_the_budget_are_rejected() {
    let server = serve();
    let mut watched = Vec::new();
    let mut rejected = 0;
    let clients = [connect(&server).await, connect(&server).await];
    for number in 0..1000 {
        let (response, mut stream) = begin(&clients[number % 2], HEALTH_WATCH, &framed(b"")).await;
        stream.send_data(Bytes::new(), true).unwrap();
        let head = response.await.unwrap();
        match head.headers().get("grpc-status") {
            Some(status) => {
                assert_eq!(status, "8");
                rejected += 1;
            }
            None => watched.push(head),
        }
    }
    assert!(rejected > 500 && watched.len() > 100, "{rejected}, {}", watched.len());
    for client in &clients {
        assert_eq!(health(client, "").await, Ok(ServingStatus::Serving));
        assert!(check(client, &by_alice()).await.is_ok());
    }
    // Dropping the watches returns their budget.
    drop(watched);
    for _ in 0..500 {
        let (response, mut stream) = begin(&clients[0], HEALTH_WATCH, &framed(b"")).await;
        stream.send_data(Bytes::new(), true).unwrap();
        if response.await.unwrap().headers().get("grpc-status").is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the budget is not returned");
}
