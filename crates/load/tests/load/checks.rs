//! Check calls and HTTP/2, against a server that decides by the method, and the sample application.

use std::path::Path;
use std::time::Duration;

use envoy_types::ext_authz::v3::pb::{
    Authorization, AuthorizationServer, CheckRequest, CheckResponse, DeniedHttpResponse,
    HttpResponse,
};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use envoy_types::pb::google::rpc;
use load::{Answer, Plan, Protocol, Rate, Request, RunResults, Workload, run};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Code, Response, Status};

/// It allows GET, denies POST with 401, PUT without a status, and fails for all else.
struct ByMethod;

/// Such a server on a Unix socket, until it is dropped.
pub(crate) fn server(path: &Path) -> Runtime {
    let runtime = Runtime::new().unwrap();
    let entered = runtime.enter();
    let incoming = UnixListenerStream::new(UnixListener::bind(path).unwrap());
    let server =
        tonic::transport::Server::builder().add_service(AuthorizationServer::new(ByMethod));
    runtime.spawn(server.serve_with_incoming(incoming));
    drop(entered);
    runtime
}

#[tonic::async_trait]
impl Authorization for ByMethod {
    async fn check(
        &self,
        request: tonic::Request<CheckRequest>,
    ) -> Result<Response<CheckResponse>, Status> {
        let request = request.into_inner();
        let http = request.attributes.unwrap().request.unwrap().http.unwrap();
        let lines = http.header_map.unwrap().headers;
        let line = |name: &str| {
            lines.iter().find(|header| header.key == name).map(|header| header.raw_value.clone())
        };
        assert_eq!(line(":method").unwrap(), http.method.as_bytes());
        assert_eq!(line(":path").unwrap(), http.path.as_bytes());
        assert!(
            line("authorization").is_none_or(|value| value == b"Basic YWxpY2U6d29uZGVybGFuZA==")
        );
        let denied = |code| {
            Ok(Response::new(CheckResponse {
                status: Some(rpc::Status { code: 7, ..Default::default() }),
                dynamic_metadata: None,
                http_response: code,
            }))
        };
        match http.method.as_str() {
            "GET" => Ok(Response::new(CheckResponse::default())),
            "POST" => denied(Some(HttpResponse::DeniedResponse(DeniedHttpResponse {
                status: Some(HttpStatus { code: 401 }),
                ..Default::default()
            }))),
            "PUT" => denied(None),
            _ => Err(Status::new(Code::Unavailable, "no")),
        }
    }
}

fn mix(methods: &[&str]) -> Workload {
    let request = |method: &&str| Request {
        method: (*method).to_owned(),
        ..Request::get("/people?a=b").basic("alice:wonderland")
    };
    Workload { requests: methods.iter().map(request).collect(), variables: Vec::new() }
}

#[test]
fn calls_are_counted_by_decision_over_tcp_and_over_a_unix_socket() {
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let router =
        tonic::transport::Server::builder().add_service(AuthorizationServer::new(ByMethod));
    runtime.spawn(router.serve_with_incoming(incoming));
    let workload = mix(&["GET", "POST", "PUT", "DELETE"]);
    let plan = Plan::check(&address).unwrap();
    let requests = Some(400);
    let results =
        run(&Plan { rate: Rate::Max, requests, duration: None, workload, ..plan }).unwrap();
    assert_eq!(results.requests(), 400);
    assert_eq!(
        results.responses.keys().collect::<Vec<_>>(),
        [&Answer::Allowed, &Answer::Denied(401), &Answer::Denied(403)]
    );
    assert_eq!(results.errors.keys().collect::<Vec<_>>(), ["grpc-status 14"]);
    assert!(
        results.responses.values().all(|latencies| (60..140).contains(&latencies.len())),
        "{results:?}"
    );
    assert_eq!(
        results.unexpected,
        results.responses[&Answer::Denied(401)].len()
            + results.responses[&Answer::Denied(403)].len()
    );
    runtime.shutdown_background();

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let runtime = server(&path);
    let plan = Plan::check(&format!("unix:{}", path.display())).unwrap();
    let results =
        run(&Plan { rate: Rate::Constant(500.0), requests, duration: None, ..plan }).unwrap();
    assert_eq!(results.responses[&Answer::Allowed].len(), 400, "{results:?}");
    runtime.shutdown_background();
}

fn of_app(protocol: Protocol, streams: usize) -> RunResults {
    let runtime = Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}/people", listener.local_addr().unwrap());
    runtime.spawn(load::app::serve(listener, std::future::pending(), load::app::people));
    let get = Request { weight: 3, ..Request::get("/people") };
    let post =
        Request { method: "POST".into(), body: "x".repeat(100_000), ..Request::get("/people") };
    let workload =
        Workload { requests: vec![get, post, Request::get("/nobody")], variables: Vec::new() };
    let (requests, connections) = (Some(300), 2);
    let plan = Plan {
        protocol,
        rate: Rate::Max,
        requests,
        duration: None,
        connections,
        ..Plan::http(&url).unwrap()
    };
    let results = run(&Plan { streams, workload, ..plan }).unwrap();
    runtime.shutdown_background();
    results
}

#[test]
fn the_application_answers_the_same_over_both_versions() {
    for (protocol, streams) in [(Protocol::Http1, 1), (Protocol::Http2, 1), (Protocol::Http2, 50)] {
        let results = of_app(protocol, streams);
        assert_eq!((results.corrected.len(), results.errors()), (300, 0), "{results:?}");
        assert_eq!(
            results.responses[&Answer::Status(200)].len()
                + results.responses[&Answer::Status(404)].len(),
            300
        );
        assert_eq!(results.unexpected, results.responses[&Answer::Status(404)].len());
        assert!(
            results.bytes_sent > 1_000_000 && results.bytes_received > 1_000_000,
            "{results:?}"
        );
    }
}

#[test]
fn a_server_that_goes_away_is_an_error_and_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let runtime = server(&path);
    let plan = Plan::check(&format!("unix:{}", path.display())).unwrap();
    let (duration, rate) = (Some(Duration::from_secs(1)), Rate::Constant(200.0));
    let running = std::thread::spawn(move || run(&Plan { duration, rate, ..plan }).unwrap());
    std::thread::sleep(Duration::from_millis(400));
    runtime.shutdown_background();
    std::fs::remove_file(&path).unwrap();
    let results = running.join().unwrap();
    assert!(!results.responses[&Answer::Allowed].is_empty() && results.errors() > 0);
    assert_eq!(results.requests() + results.generator.unsent, 200, "{results:?}");
}
