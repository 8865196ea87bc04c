//! The yardstick of the wire benchmark: tonic with `envoy-types`, allowing whatever it is asked. One thread. It prints
//! where it listens, so that it may be given port 0.
//!
//! `always_allow 127.0.0.1:0`
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark that cannot start has nothing to say"
)]

use envoy_types::pb::envoy::service::auth::v3::authorization_server::{Authorization, AuthorizationServer};
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{CheckRequest, CheckResponse, OkHttpResponse};
use envoy_types::pb::google::rpc;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug)]
struct AlwaysAllow;

#[tonic::async_trait]
impl Authorization for AlwaysAllow {
    async fn check(&self, request: Request<CheckRequest>) -> Result<Response<CheckResponse>, Status> {
        if request.into_inner().attributes.is_none() {
            return Err(Status::invalid_argument("no attributes"));
        }
        let status = rpc::Status { code: 0, ..Default::default() };
        let allowed = HttpResponse::OkResponse(OkHttpResponse::default());
        Ok(Response::new(CheckResponse {
            status: Some(status),
            http_response: Some(allowed),
            ..Default::default()
        }))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let address = std::env::args().nth(1).and_then(|address| address.parse().ok());
    let incoming = TcpIncoming::bind(address.expect("an address to listen at")).expect("a listener");
    println!("listening on {}", incoming.local_addr().expect("an address"));
    let service = AuthorizationServer::new(AlwaysAllow);
    let server = tonic::transport::Server::builder().add_service(service);
    server.serve_with_incoming(incoming.with_nodelay(Some(true))).await.expect("a server");
}
