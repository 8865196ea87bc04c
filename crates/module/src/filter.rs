//! The HTTP filter: authorizes the request of a stream in the hooks that Envoy calls.

use std::sync::{Arc, Mutex, PoisonError};

use authorizer::{BulkErrors, Limit};
use identity::{Verification, VerificationKind, VerificationResult};
use runtime::counters::ErrorKind;
use runtime::hashing::{HashResult, NotHashed, Registration};
use runtime::{ClientNetwork, Received};
use tokio::task::AbortHandle;

use crate::abi::{self, Filter, Handled, Level, Reply, Route, Setup, Stream};
use crate::log;
use crate::settings::{FilterSettings, RouteSettings};
use crate::shared_policy::SharedPolicy;
use crate::start_error::StartError;
use crate::stats::Stats;
use crate::token_queue::{ADMITTED, Admission, DISPLACED};
use crate::worker::{self, Checked, Decided, Worker};

/// Authorizes requests with a policy.
#[derive(Debug)]
pub struct Authorization {
    /// `None` if Envoy only validates its configuration: then nothing is started.
    policy: Option<Arc<SharedPolicy>>,
    /// `None` only together with `policy`.
    stats: Option<Stats>,
}

/// The configuration of a route.
#[derive(Debug)]
pub enum RoutePolicy {
    /// Its requests are not authorized.
    Disabled,
    /// It has a policy of its own.
    Own(OwnPolicy),
}

/// The policy of a route. `None` if Envoy only validates its configuration.
#[derive(Debug)]
pub struct OwnPolicy(Option<Arc<SharedPolicy>>);

/// The state of a request while it waits, and until its response.
#[derive(Debug, Default)]
pub struct State {
    /// Boxed: most requests do not wait, and each has a state.
    paused: Option<Box<Paused>>,
    /// The number of hashes and introspections that the request has waited for. A second hash is
    /// needed if a reload changed the user's hash meanwhile.
    hash_waits: u64,
    /// The errors to add to the response of a bulk request that was forwarded without some items.
    bulk_errors: Option<Arc<BulkErrors>>,
}

impl State {
    fn keep(&mut self, paused: Paused) {
        self.paused = Some(Box::new(paused));
    }

    fn resume(&mut self) -> Option<Paused> {
        self.paused.take().map(|paused| *paused)
    }
}

#[derive(Debug)]
struct Paused {
    policy: Arc<SharedPolicy>,
    received: Received,
    wait: Wait,
}

#[derive(Debug)]
enum Wait {
    Password(PasswordWait),
    /// For admission to verify a token.
    Token(Admission),
    /// For the rest of the body.
    Body,
}

/// The wait for the hash of a password, or for the introspection of a token. Dropping it ends the
/// wait.
#[derive(Debug)]
struct PasswordWait {
    result: Arc<Mutex<Option<HashResult>>>,
    timeout: AbortHandle,
    _registration: Option<Registration>,
}

impl Drop for PasswordWait {
    fn drop(&mut self) {
        self.timeout.abort();
    }
}

/// The event that says that a hashing or an introspection has ended, with a result or not.
const HASHED: u64 = 1;
/// The event `TIMEOUT | hash_waits` says that the time for such a wait has passed. Each wait of a
/// request has its own event, because the event of a wait that has ended may still arrive.
const TIMEOUT: u64 = 1 << 32;

/// The answer if no decision can be made.
const ERROR: Reply<'static> = Reply { details: "rolegate_error", ..Reply::FAILURE };

/// The body in place of a response to which the errors of a bulk request cannot be added.
const NO_BULK_RESPONSE: &str = concat!(
    r#"{"error":{"root_cause":[],"type":"status_exception","reason":"the response of the "#,
    r#"cluster does not match the forwarded items, which may have been performed"},"status":502}"#,
);

impl Filter for Authorization {
    type Route = RoutePolicy;
    type State = State;

    fn new(_name: &[u8], config: &[u8], setup: &mut Setup<'_>) -> Option<Self> {
        log::start();
        logged(Self::start(config, setup))
    }

    fn route(_name: &[u8], config: &[u8], validating: bool) -> Option<RoutePolicy> {
        log::start();
        logged(RoutePolicy::start(config, validating))
    }

    fn request_headers(&self, state: &mut State, stream: Stream<'_, Self>) -> Handled {
        let policy = match stream.route() {
            Route::None => self.policy.as_ref(),
            Route::Config(RoutePolicy::Own(OwnPolicy(policy))) => policy.as_ref(),
            Route::Config(RoutePolicy::Disabled) => return stream.proceed(),
            Route::Foreign => None,
        };
        let Some(worker) = policy.map(Worker::get_or_create) else {
            self.count(&stream, ErrorKind::NotReady);
            return stream.reply(&ERROR);
        };
        let exchange =
            Exchange { filter: self, state, stream, worker: &worker, received: Received::now() };
        exchange.authorize(None)
    }

    fn request_body(&self, state: &mut State, stream: Stream<'_, Self>) -> Handled {
        let Some(Paused { policy, received: _, wait: Wait::Body }) = state.resume() else {
            self.count(&stream, ErrorKind::Internal);
            return stream.reply(&ERROR);
        };
        // The request counts as received when the body has arrived: the time that a client takes to
        // send it is no latency of this filter.
        let (worker, received) = (Worker::get_or_create(&policy), Received::now());
        let exchange = Exchange { filter: self, state, stream, worker: &worker, received };
        if exchange.stream.is_complete() {
            return exchange.authorize(None);
        }
        if exchange.stream.body_size() > policy.settings.max_request_body {
            return exchange.deny(Limit::BodySize);
        }
        exchange.state.keep(Paused { policy, received, wait: Wait::Body });
        exchange.stream.buffer()
    }

    fn scheduled(&self, state: &mut State, stream: Stream<'_, Self>, event: u64) -> Handled {
        let Some(Paused { policy, received, wait }) = state.resume() else {
            self.count(&stream, ErrorKind::Internal);
            return stream.reply(&ERROR);
        };
        let (worker, received) = (Worker::get_or_create(&policy), received.resumed_now());
        let exchange = Exchange { filter: self, state, stream, worker: &worker, received };
        match (wait, event) {
            (Wait::Password(wait), HASHED) => {
                let result = wait.result.lock().unwrap_or_else(PoisonError::into_inner).take();
                match result {
                    Some(Ok(verified)) => exchange.authorize(Some(&verified)),
                    Some(Err(NotHashed::Displaced)) => exchange.deny(Limit::Capacity),
                    Some(Err(NotHashed::Unavailable)) => exchange.deny(Limit::Introspection),
                    Some(Err(NotHashed::Failed)) | None => exchange.fail(ErrorKind::Internal),
                }
            }
            (Wait::Password(_), event) if event == TIMEOUT | exchange.state.hash_waits => {
                exchange.deny(Limit::Deadline)
            }
            (Wait::Token(admission), ADMITTED) => {
                let handled = exchange.verify();
                drop(admission);
                handled
            }
            (Wait::Token(_), DISPLACED) => exchange.deny(Limit::Capacity),
            // The timeout of a wait that has ended.
            (wait, TIMEOUT..) => {
                exchange.state.keep(Paused { policy, received, wait });
                exchange.stream.pause()
            }
            // An event that nobody sends.
            (Wait::Password(_) | Wait::Token(_) | Wait::Body, _) => {
                exchange.fail(ErrorKind::Internal)
            }
        }
    }

    fn response(&self, state: &mut State, body: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
        let changed = state.bulk_errors.take().and_then(|errors| errors.add_to(body));
        changed.ok_or_else(|| {
            abi::log(
                Level::Warn,
                "rolegate: a response to a bulk request does not match the forwarded items: 502",
            );
            NO_BULK_RESPONSE.into()
        })
    }

    fn panicked(&self, stream: &Stream<'_, Self>) -> Reply<'static> {
        self.count(stream, ErrorKind::Internal);
        ERROR
    }
}

impl Authorization {
    fn start(config: &[u8], setup: &mut Setup<'_>) -> Result<Self, StartError> {
        let settings = FilterSettings::read(config)?;
        if setup.validating() {
            SharedPolicy::validate(&settings)?;
            return Ok(Self { policy: None, stats: None });
        }
        let policy = SharedPolicy::get_or_start(settings)?;
        Ok(Self { policy: Some(policy), stats: Some(Stats::define(setup)?) })
    }

    /// Counts a request about which the filter's own policy can make no decision.
    fn count(&self, stream: &Stream<'_, Self>, kind: ErrorKind) {
        if let Some(policy) = &self.policy {
            Worker::get_or_create(policy).thread.counters().count_error(kind);
        }
        if let Some(stats) = &self.stats {
            stats.failed(stream, kind);
        }
    }
}

impl RoutePolicy {
    fn start(config: &[u8], validating: bool) -> Result<Self, StartError> {
        Ok(match RouteSettings::read(config)? {
            RouteSettings::Disabled => Self::Disabled,
            RouteSettings::Policy(settings) if validating => {
                SharedPolicy::validate(&settings)?;
                Self::Own(OwnPolicy(None))
            }
            RouteSettings::Policy(settings) => {
                Self::Own(OwnPolicy(Some(SharedPolicy::get_or_start(*settings)?)))
            }
        })
    }
}

/// A request in a hook of its stream.
struct Exchange<'h, 's> {
    filter: &'h Authorization,
    state: &'h mut State,
    stream: Stream<'s, Authorization>,
    worker: &'h Worker,
    received: Received,
}

impl Exchange<'_, '_> {
    /// Authorizes the request, or pauses it until its credentials are verified.
    fn authorize(self, verified: Option<&VerificationResult>) -> Handled {
        let checked = self.worker.check(&self.stream, verified, self.received);
        self.conclude(checked)
    }

    fn conclude(self, checked: Result<Checked, ErrorKind>) -> Handled {
        match checked {
            Ok(Checked::Decided(decided)) => self.apply_verdict(decided),
            Ok(Checked::Pending(verification)) => self.wait(verification),
            Ok(Checked::BodyNeeded) => self.buffer(),
            Err(kind) => self.fail(kind),
        }
    }

    /// Verifies the token of an admitted request, unless another request with the same token has
    /// done so.
    fn verify(self) -> Handled {
        let checked = self.worker.check(&self.stream, None, self.received);
        let Ok(Checked::Pending(verification)) = checked else { return self.conclude(checked) };
        match self.worker.thread.verify(verification) {
            Ok(verified) => {
                Self { received: self.received.resumed_now(), ..self }.authorize(Some(&verified))
            }
            Err(kind) => self.fail(kind),
        }
    }

    /// Pauses the request until its credentials are verified, or denies it if there is no capacity.
    fn wait(self, verification: Verification) -> Handled {
        let (Some(scheduler), Some(policy)) = (self.stream.scheduler(), self.worker.policy())
        else {
            return self.fail(ErrorKind::Unanswerable);
        };
        let network = ClientNetwork::from_address(worker::client(&self.stream));
        let wait = match verification.kind() {
            VerificationKind::Password | VerificationKind::Introspection => {
                let result = Arc::new(Mutex::new(None));
                let (kept, waker) = (Arc::clone(&result), scheduler.clone());
                let on_result = Box::new(move |hashed| {
                    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(hashed);
                    waker.commit(HASHED);
                });
                let registration = policy.hashing.submit_with(verification, network, on_result);
                self.state.hash_waits += 1;
                let event = TIMEOUT | self.state.hash_waits;
                let timeout = policy.after(policy.settings.hash_timeout, scheduler, event);
                Wait::Password(PasswordWait { result, timeout, _registration: registration })
            }
            VerificationKind::Token => match self.worker.tokens.enqueue(network, scheduler) {
                Ok(admission) => Wait::Token(admission),
                Err(runtime::fair_queue::Full) => return self.deny(Limit::Capacity),
            },
        };
        self.state.keep(Paused { policy, received: self.received, wait });
        self.stream.pause()
    }

    /// Buffers a body that the decision depends on. Denies the request if the body is too large
    /// already. The limit is `max-request-body`, which may be more than Envoy buffers by default.
    /// So this is only for an authenticated caller.
    fn buffer(mut self) -> Handled {
        let (size, max) = (self.stream.body_size(), self.worker.max_request_body);
        // `Worker::check` did not read this body: if it is complete, it is over the limit.
        if self.stream.is_complete() || size > max {
            return self.deny(Limit::BodySize);
        }
        let Some(policy) = self.worker.policy() else { return self.fail(ErrorKind::Unanswerable) };
        // If the body filled the buffers while the request was paused, Envoy does not read on until
        // the buffered bytes are at most half of the limit.
        let limit = max.max(size.saturating_mul(2).saturating_add(1));
        self.stream.raise_buffer_limit(u64::try_from(limit).unwrap_or(u64::MAX));
        self.state.keep(Paused { policy, received: self.received, wait: Wait::Body });
        self.stream.buffer()
    }

    /// Denies a request that exceeds a limit.
    fn deny(self, limit: Limit) -> Handled {
        match self.worker.deny(limit, &self.stream, self.received) {
            Ok(denied) => self.apply_verdict(denied),
            Err(kind) => self.fail(kind),
        }
    }

    /// Forwards the request, or answers it. If the verdict cannot be applied, the request gets an
    /// error and is counted as an error, too: the decision was counted and logged already.
    fn apply_verdict(mut self, decided: Decided) -> Handled {
        let Decided { mut verdict, decided_at } = decided;
        let bulk = verdict.take_bulk();
        let latency =
            self.worker.thread.record_latency(self.received, decided_at).unwrap_or_default();
        if !verdict.change(&mut self.stream, bulk.as_ref()) {
            return self.fail(ErrorKind::Unanswerable);
        }
        self.state.bulk_errors = bulk.map(|bulk| bulk.errors);
        if let Some(stats) = &self.filter.stats {
            stats.decided(&self.stream, verdict.reason(), latency);
            if self.worker.take_due_gauges(decided_at) {
                let is_set = SharedPolicy::try_all()
                    .is_some_and(|policies| stats.set_gauges(&self.stream, &policies));
                if !is_set {
                    self.worker.retry_gauges(decided_at);
                }
            }
        }
        let handled = verdict.apply(self.stream);
        self.worker.reuse(verdict);
        handled
    }

    /// Answers a request about which no decision can be made.
    fn fail(self, kind: ErrorKind) -> Handled {
        self.worker.thread.counters().count_error(kind);
        if let Some(stats) = &self.filter.stats {
            stats.failed(&self.stream, kind);
        }
        self.stream.reply(&ERROR)
    }
}

/// The value of a result. If it is an error, logs the error to Envoy's log and returns `None`.
fn logged<T>(result: Result<T, StartError>) -> Option<T> {
    result.inspect_err(|error| abi::log(Level::Error, format!("rolegate: {error}"))).ok()
}

#[cfg(test)]
mod tests;
