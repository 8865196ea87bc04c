//! Serves the example at 127.0.0.1:8080: `cargo run --package axum-example -- policies/people`.

use std::error::Error;
use std::net::SocketAddr;

use axum::ServiceExt as _;
use rolegate_authorizer::Authorizer;

fn main() -> Result<(), Box<dyn Error>> {
    let policy = std::env::args().nth(1).ok_or("name the policy: a file or a folder")?;
    let service = axum_example::service(Authorizer::load(policy)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
        let service = service.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, service).await
    })?;
    Ok(())
}
