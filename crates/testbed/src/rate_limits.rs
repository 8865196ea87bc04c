//! A rate-limit service for Envoy (`envoy.service.ratelimit.v3`) that counts requests.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::envoy::r#type::v3::RateLimitUnit;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::process::Failed;

/// A running service, on the runtime of its test. Dropping it stops it.
#[derive(Debug)]
pub struct RateLimits {
    address: SocketAddr,
    counts: Counts,
    task: JoinHandle<()>,
}

/// How many requests each descriptor had. A key is the text of a descriptor and of the limit that
/// Envoy sent with it.
#[derive(Clone, Debug, Default)]
struct Counts(Arc<Mutex<BTreeMap<String, u32>>>);

impl RateLimits {
    /// Starts it.
    pub async fn start() -> Result<Self, Failed> {
        let failed = |error: std::io::Error| Failed::io("rate limits", &error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let counts = Counts::default();
        let server = Server::builder().add_service(RateLimitServiceServer::new(counts.clone()));
        let task = tokio::spawn(async move {
            // An error ends it, and then its test fails.
            let _ = server.serve_with_incoming(TcpIncoming::from(listener)).await;
        });
        Ok(Self { address, counts, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests there were for each descriptor, such as `tenant=acme, 100 per MINUTE`.
    pub fn counts(&self) -> BTreeMap<String, u32> {
        self.counts.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for RateLimits {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tonic::async_trait]
impl RateLimitService for Counts {
    /// Limits each descriptor to as many requests as Envoy says, whatever the unit.
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut code = Code::Ok;
        for descriptor in request.into_inner().descriptors {
            let count = counts.entry(name(&descriptor)).or_default();
            *count += 1;
            if descriptor.limit.is_some_and(|limit| *count > limit.requests_per_unit) {
                code = Code::OverLimit;
            }
        }
        Ok(Response::new(RateLimitResponse { overall_code: code.into(), ..Default::default() }))
    }
}

fn name(descriptor: &RateLimitDescriptor) -> String {
    let entries = descriptor.entries.iter().map(|entry| format!("{}={}", entry.key, entry.value));
    let limit = descriptor.limit.map_or("no limit".to_owned(), |limit| {
        let unit = RateLimitUnit::try_from(limit.unit).unwrap_or_default();
        format!("{} per {}", limit.requests_per_unit, unit.as_str_name())
    });
    entries.chain([limit]).collect::<Vec<_>>().join(", ")
}
