//! The yardstick of the wire benchmark: tonic with `envoy-types`, allowing whatever it is asked. One thread.
//!
//! `always_allow 127.0.0.1:9300`
#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to say")]

use envoy_types::pb::envoy::service::auth::v3::authorization_server::{Authorization, AuthorizationServer};
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use envoy_types::pb::envoy::service::auth::v3::{CheckRequest, CheckResponse, OkHttpResponse};
use envoy_types::pb::google::rpc;
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
    let address = address.expect("an address to listen at");
    let service = AuthorizationServer::new(AlwaysAllow);
    let served = tonic::transport::Server::builder().add_service(service).serve(address).await;
    served.expect("a server");
}
