//! `grpc.health.v1`. The status is `SERVING` while three conditions hold: a policy is active; the
//! server is not about to stop; and everything that must be fetched (the keys that `keys-needed`
//! requires, the inventory of a search cluster) has been loaded at least once.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;
use prost::Message as _;
use runtime::ActivePolicy;
use runtime::counters::ErrorKind;
use tokio::sync::watch;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::super::respond;
use super::send_data;

/// How often a watch checks whether a policy is active.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The phase of the server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// It serves as before, but health checks report `NOT_SERVING`.
    HealthFailing,
    /// It accepts no more connections.
    Draining,
}

/// The health service.
#[derive(Clone, Debug)]
pub(super) struct Health {
    policy: ActivePolicy,
    phase: watch::Receiver<Phase>,
}

impl Health {
    pub(super) fn new(policy: ActivePolicy, phase: watch::Receiver<Phase>) -> Self {
        Self { policy, phase }
    }

    /// Answers a `Check`.
    pub(super) fn check(
        &self,
        message: &[u8],
        respond: &mut SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let Ok(request) = HealthCheckRequest::decode(message) else {
            return respond::error(respond, ErrorKind::Malformed);
        };
        match self.status(&request.service) {
            Some(status) => respond::message(respond, encoded(status)),
            None => respond::not_found(respond),
        }
    }

    /// Sends the status, and again when it changes. Ends when the peer disconnects, when it has not
    /// read a status for `send_timeout`, or when the server drains.
    pub(super) async fn watch(
        self,
        message: Bytes,
        mut respond: SendResponse<Bytes>,
        send_timeout: Duration,
    ) {
        let sent = match HealthCheckRequest::decode(message) {
            Err(_) => respond::error(&mut respond, ErrorKind::Malformed),
            Ok(request) => match respond::begin(&mut respond) {
                Err(error) => Err(error),
                Ok(stream) => self.send_changes(&request.service, stream, send_timeout).await,
            },
        };
        // A failed send means that the peer has left.
        drop(sent);
    }

    async fn send_changes(
        mut self,
        service: &str,
        mut stream: SendStream<Bytes>,
        send_timeout: Duration,
    ) -> Result<(), h2::Error> {
        let mut last = None;
        while *self.phase.borrow() != Phase::Draining {
            let status = self.status(service).unwrap_or(ServingStatus::ServiceUnknown);
            if last != Some(status) {
                last = Some(status);
                let sent =
                    tokio::time::timeout(send_timeout, send_data(&mut stream, encoded(status)))
                        .await;
                let Ok(sent) = sent else {
                    stream.send_reset(h2::Reason::CANCEL);
                    return Ok(());
                };
                sent?;
            }
            tokio::select! {
                reset = poll_fn(|cx| stream.poll_reset(cx)) => return reset.map(drop),
                changed = self.phase.changed() => if changed.is_err() { break },
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
        respond::end(&mut stream)
    }

    /// The status of a service: ext_authz, or the empty name for the whole process. `None` for any
    /// other.
    fn status(&self, service: &str) -> Option<ServingStatus> {
        if !matches!(service, "" | envoy::SERVICE) {
            return None;
        }
        let serving = *self.phase.borrow() == Phase::Serving && self.policy.is_ready();
        Some(if serving { ServingStatus::Serving } else { ServingStatus::NotServing })
    }
}

/// A response with its five-byte gRPC prefix.
fn encoded(status: ServingStatus) -> Bytes {
    respond::framed(&HealthCheckResponse { status: status.into() }.encode_to_vec())
}
