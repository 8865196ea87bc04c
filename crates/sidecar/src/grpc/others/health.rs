//! `grpc.health.v1`: serving while there is a policy in force and the end is not near.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tonic::codegen::tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{self, HealthCheckRequest, HealthCheckResponse};

use super::super::check::CheckService;
use super::super::server::Phase;

/// How soon a watcher learns that a policy is in force, or no longer.
const LOOK: Duration = Duration::from_millis(250);

/// The service.
#[derive(Debug)]
pub(super) struct Health {
    service: CheckService,
    phase: watch::Receiver<Phase>,
}

impl Health {
    pub(super) fn new(service: CheckService, phase: watch::Receiver<Phase>) -> Self {
        Self { service, phase }
    }

    /// `None` for a service that we do not have. The empty name is the whole process.
    fn status(&self, service: &str) -> Option<ServingStatus> {
        if !matches!(service, "" | envoy::SERVICE) {
            return None;
        }
        let serving = *self.phase.borrow() == Phase::Serving && self.service.is_ready();
        Some(if serving { ServingStatus::Serving } else { ServingStatus::NotServing })
    }
}

#[tonic::async_trait]
impl pb::health_server::Health for Health {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let status = self.status(&request.into_inner().service);
        let status = status.ok_or_else(|| Status::not_found("no such service"))?;
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let service = request.into_inner().service;
        let (tell, told) = mpsc::channel(1);
        let watcher = Self { service: self.service.clone(), phase: self.phase.clone() };
        tokio::spawn(watcher.tell(service, tell));
        Ok(Response::new(Box::pin(ReceiverStream::new(told))))
    }
}

impl Health {
    /// Tells each change, until the watcher leaves or the connections are drained.
    async fn tell(mut self, service: String, tell: mpsc::Sender<Result<HealthCheckResponse, Status>>) {
        let mut last = None;
        while *self.phase.borrow() != Phase::Draining {
            let status = self.status(&service).unwrap_or(ServingStatus::ServiceUnknown);
            if last != Some(status) {
                last = Some(status);
                if tell.send(Ok(HealthCheckResponse { status: status.into() })).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = tell.closed() => return,
                changed = self.phase.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}
