//! The baseline: a server of Check calls that allows everything, written in the usual way with tonic and the message
//! types of `envoy-types`. Its cost is the minimum for a server on this stack.

use std::path::PathBuf;

use envoy_types::ext_authz::v3::pb::{
    Authorization, AuthorizationServer, CheckRequest, CheckResponse, HttpResponse, OkHttpResponse,
};
use envoy_types::pb::google::rpc;
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

#[derive(Debug)]
struct Always;

#[tonic::async_trait]
impl Authorization for Always {
    async fn check(&self, _: Request<CheckRequest>) -> Result<Response<CheckResponse>, Status> {
        Ok(Response::new(CheckResponse {
            status: Some(rpc::Status::default()),
            dynamic_metadata: None,
            http_response: Some(HttpResponse::OkResponse(OkHttpResponse::default())),
        }))
    }
}

/// Where it listens.
#[derive(Debug)]
pub enum Listener {
    /// On a port.
    Tcp(TcpListener),
    /// On a Unix socket; the file is removed at the end.
    Unix(UnixListener, PathBuf),
}

/// Serves until `end`.
///
/// # Errors
/// When the server cannot be started.
pub async fn serve(listener: Listener, end: impl Future<Output = ()>) -> Result<(), tonic::transport::Error> {
    let server = Server::builder().tcp_nodelay(true).add_service(AuthorizationServer::new(Always));
    match listener {
        Listener::Tcp(listener) => {
            let nodelay = tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
            server.serve_with_incoming_shutdown(nodelay, end).await
        }
        Listener::Unix(listener, path) => {
            let served = server.serve_with_incoming_shutdown(UnixListenerStream::new(listener), end).await;
            let _ = std::fs::remove_file(path);
            served
        }
    }
}
