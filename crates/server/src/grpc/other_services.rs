//! The services other than ext_authz: health, which is implemented here, and reflection, which
//! tonic implements.
//!
//! Every peer that reaches the listener can make these calls. So each message must arrive, and each
//! answer be read, within a time limit. Unfinished messages and streaming calls count against
//! budgets. These are not the budget of checks: these calls never keep a check from being answered.

mod health;
mod reflection;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use authorizer::Limit;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::Request;
use runtime::ActivePolicy;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::message::{Incoming, Limits};
use super::respond;
use crate::checks::budget::Budget;
use crate::checks::checker::Failure;
use health::Health;
pub(crate) use health::Phase;
use reflection::Reflection;

/// Maximum size of a message, in bytes. A health request contains the name of a service; a
/// reflection request that of a type.
const MAX_MESSAGE: usize = 4 << 10;
/// Maximum bytes that the unfinished messages of all health calls hold together. Separate from
/// [`CALLS`]: streaming RPCs must not keep a probe from being answered.
const MESSAGES: usize = 4 << 20;
/// Maximum bytes that streaming RPCs (`Watch`, `ServerReflectionInfo`) hold together.
const CALLS: usize = 2 << 20;
/// Bytes that a health watch holds in addition to its messages: a task, a stream, its headers.
/// Estimated, not measured.
const WATCH: usize = 6 << 10;
/// Bytes that a reflection call holds: the flow-control window of its stream. A peer that reads no
/// answers can make the server buffer that much.
const REFLECTION: usize = 256 << 10;

/// The services. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OtherServices {
    health: Health,
    reflection: Arc<Reflection>,
    /// Limits of the messages of health calls.
    limits: Limits,
    /// The budget of streaming RPCs.
    calls: Arc<Budget>,
    /// Maximum time for a message to arrive or to be read by the peer.
    request_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    HealthCheck,
    HealthWatch,
    Reflection,
}

impl OtherServices {
    /// # Errors
    /// When the protobuf descriptors are inconsistent.
    pub(crate) fn new(
        policy: ActivePolicy,
        phase: watch::Receiver<Phase>,
        request_timeout: Duration,
    ) -> Result<Self, tonic_reflection::server::Error> {
        Ok(Self {
            health: Health::new(policy, phase),
            reflection: Arc::new(Reflection::new()?),
            limits: Limits { message: MAX_MESSAGE, budget: Budget::new(usize::MAX, MESSAGES) },
            calls: Budget::new(usize::MAX, CALLS),
            request_timeout,
        })
    }

    /// Whether a method with this path is served.
    pub(super) fn serves(&self, path: &str) -> bool {
        method(path).is_some()
    }

    /// Accepts a stream: answers it now, or spawns a task that does.
    ///
    /// # Errors
    /// If the peer has reset the stream.
    pub(super) fn accept(
        &self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let Some(method) = method(request.uri().path()) else {
            return respond::unimplemented(&mut respond);
        };
        let services = self.clone();
        if method == Method::Reflection {
            let reserved = match self.calls.reserve(REFLECTION) {
                Ok(reserved) => reserved,
                Err(overload) => return respond::limit(&mut respond, overload.into()),
            };
            spawn_local(async move {
                let _ended =
                    services.reflection.serve(request, respond, services.request_timeout).await;
                drop(reserved);
            });
            return Ok(());
        }
        let mut incoming = Incoming::new(request.into_body());
        match incoming.poll(&self.limits, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(message) => self.health(method, message, respond),
            Poll::Pending => {
                spawn_local(async move {
                    let message = poll_fn(|cx| incoming.poll(&services.limits, cx));
                    let message = timeout(services.request_timeout, message).await;
                    // A failed send means that the peer has reset the stream: nothing is left to
                    // do.
                    let _ = services.health(
                        method,
                        message.unwrap_or(Err(Limit::Deadline.into())),
                        respond,
                    );
                });
                Ok(())
            }
        }
    }

    /// Answers a health call, once its message has arrived.
    fn health(
        &self,
        method: Method,
        message: Result<Bytes, Failure>,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        match message {
            Err(Failure::Error(kind)) => respond::error(&mut respond, kind),
            Err(Failure::Limit(limit)) => respond::limit(&mut respond, limit),
            Err(Failure::Overload(overload)) => respond::limit(&mut respond, overload.into()),
            Ok(message) if method == Method::HealthWatch => match self.calls.reserve(WATCH) {
                Err(overload) => respond::limit(&mut respond, overload.into()),
                Ok(reserved) => {
                    let watch = self.health.clone().watch(message, respond, self.request_timeout);
                    spawn_local(async move {
                        watch.await;
                        drop(reserved);
                    });
                    Ok(())
                }
            },
            Ok(message) => self.health.check(&message, &mut respond),
        }
    }
}

impl fmt::Debug for OtherServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtherServices").finish_non_exhaustive()
    }
}

fn method(path: &str) -> Option<Method> {
    match path {
        "/grpc.health.v1.Health/Check" => Some(Method::HealthCheck),
        "/grpc.health.v1.Health/Watch" => Some(Method::HealthWatch),
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        | "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo" => {
            Some(Method::Reflection)
        }
        _ => None,
    }
}

/// Sends data as fast as the peer opens its flow-control window.
async fn send_data(stream: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), h2::Error> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let Some(capacity) = poll_fn(|cx| stream.poll_capacity(cx)).await else { return Ok(()) };
        let part = data.split_to(capacity?.min(data.len()));
        stream.send_data(part, false)?;
    }
    Ok(())
}
