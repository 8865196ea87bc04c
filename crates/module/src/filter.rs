//! The HTTP filter: what the event hooks that Envoy calls for a stream do.

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
use crate::stats::Stats;
use crate::token_queue::{ADMITTED, Admission, DISPLACED};
use crate::worker::{self, Checked, Decided, Worker};

/// Authorizes requests with one policy.
#[derive(Debug)]
pub struct Authorization {
    /// `None` if Envoy only validates its configuration: then nothing is started.
    policy: Option<Arc<SharedPolicy>>,
    /// `None` only together with `policy`.
    stats: Option<Stats>,
}

/// What a route configures.
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

/// What a request keeps while it waits, and until its response.
#[derive(Debug, Default)]
pub struct State {
    /// Boxed: most requests do not wait, and each has a state.
    paused: Option<Box<Paused>>,
    /// How many passwords it has waited for, the one that it waits for among them: another one, if its user was changed meanwhile.
    passwords: u64,
    /// What must be added to the response of a bulk request that went on without some of its items.
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

/// The wait for a hash. Dropping it ends the wait.
#[derive(Debug)]
struct PasswordWait {
    result: Arc<Mutex<Option<HashResult>>>,
    timeout: AbortHandle,
    _registration: Registration,
}

impl Drop for PasswordWait {
    fn drop(&mut self) {
        self.timeout.abort();
    }
}

/// The event that says that the hashing of a password has ended, with a result or not.
const HASHED: u64 = 1;
/// Events from this one on say that the time for that has passed. Each wait of a request has its own, `TIMEOUT | passwords`, because that of
/// a wait that has ended may still arrive.
const TIMEOUT: u64 = 1 << 32;

/// The answer if no decision can be made.
const ERROR: Reply<'static> = Reply { details: "rolegate_error", ..Reply::FAILURE };

/// The body in place of a response to which the errors of a bulk request cannot be added.
const NO_BULK_RESPONSE: &[u8] = br#"{"error":{"root_cause":[],"type":"status_exception","reason":"the response of the cluster is not one to the permitted items, which may have been performed"},"status":502}"#;

impl Filter for Authorization {
    type Route = RoutePolicy;
    type State = State;

    fn new(_name: &[u8], config: &[u8], setup: &mut Setup<'_>) -> Result<Self, String> {
        log::start();
        let settings = FilterSettings::read(config).map_err(named)?;
        if setup.validating() {
            SharedPolicy::validate(&settings).map_err(named)?;
            return Ok(Self { policy: None, stats: None });
        }
        let policy = SharedPolicy::get_or_start(settings).map_err(named)?;
        let stats = Stats::define(setup).map_err(|error| named(error.to_string()))?;
        Ok(Self { policy: Some(policy), stats: Some(stats) })
    }

    fn route(_name: &[u8], config: &[u8], validating: bool) -> Result<RoutePolicy, String> {
        log::start();
        Ok(match RouteSettings::read(config).map_err(named)? {
            RouteSettings::Disabled => RoutePolicy::Disabled,
            RouteSettings::Policy(settings) if validating => {
                SharedPolicy::validate(&settings).map_err(named)?;
                RoutePolicy::Own(OwnPolicy(None))
            }
            RouteSettings::Policy(settings) => {
                RoutePolicy::Own(OwnPolicy(Some(SharedPolicy::get_or_start(*settings).map_err(named)?)))
            }
        })
    }

    fn request_headers(&self, state: &mut State, stream: Stream<'_, Self>) -> Handled {
        let policy = match stream.route() {
            Route::None => self.policy.as_ref(),
            Route::Of(RoutePolicy::Own(OwnPolicy(policy))) => policy.as_ref(),
            Route::Of(RoutePolicy::Disabled) => return stream.proceed(),
            Route::Foreign => None,
        };
        let Some(worker) = policy.map(Worker::of) else {
            self.count(&stream, ErrorKind::NotReady);
            return stream.reply(&ERROR);
        };
        self.authorize(state, stream, &worker, Received::now(), None)
    }

    fn request_body(&self, state: &mut State, stream: Stream<'_, Self>) -> Handled {
        let Some(Paused { policy, received: _, wait: Wait::Body }) = state.resume() else {
            self.count(&stream, ErrorKind::Internal);
            return stream.reply(&ERROR);
        };
        // It counts as received once its body is: how long a client takes to send that is no latency of this filter.
        let received = Received::now();
        if stream.is_complete() {
            return self.authorize(state, stream, &Worker::of(&policy), received, None);
        }
        if stream.body_size() > policy.settings.max_request_body {
            return self.deny(state, stream, &Worker::of(&policy), received, Limit::BodySize);
        }
        state.keep(Paused { policy, received, wait: Wait::Body });
        stream.buffer()
    }

    fn scheduled(&self, state: &mut State, stream: Stream<'_, Self>, event: u64) -> Handled {
        let Some(Paused { policy, received, wait }) = state.resume() else {
            self.count(&stream, ErrorKind::Internal);
            return stream.reply(&ERROR);
        };
        let (received, worker) = (received.waited(), Worker::of(&policy));
        match (wait, event) {
            (Wait::Password(wait), HASHED) => {
                let result = wait.result.lock().unwrap_or_else(PoisonError::into_inner).take();
                match result {
                    Some(Ok(verified)) => self.authorize(state, stream, &worker, received, Some(&verified)),
                    Some(Err(NotHashed::Displaced)) => {
                        self.deny(state, stream, &worker, received, Limit::Capacity)
                    }
                    Some(Err(NotHashed::Failed)) | None => self.fail(stream, &worker, ErrorKind::Internal),
                }
            }
            (Wait::Password(_), event) if event == TIMEOUT | state.passwords => {
                self.deny(state, stream, &worker, received, Limit::Deadline)
            }
            (Wait::Token(admission), ADMITTED) => {
                let handled = self.verify(state, stream, &worker, received);
                drop(admission);
                handled
            }
            (Wait::Token(_), DISPLACED) => self.deny(state, stream, &worker, received, Limit::Capacity),
            // The time of a wait that has ended.
            (wait, TIMEOUT..) => {
                state.keep(Paused { policy, received, wait });
                stream.pause()
            }
            // An event that nobody sends.
            (Wait::Password(_) | Wait::Token(_) | Wait::Body, _) => {
                self.fail(stream, &worker, ErrorKind::Internal)
            }
        }
    }

    fn response(&self, state: &mut State, body: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
        let changed = state.bulk_errors.take().and_then(|errors| errors.add_to(body));
        changed.ok_or_else(|| {
            abi::log(
                Level::Warn,
                "rolegate: a response to a bulk request is not one to its permitted items: 502",
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
    /// Authorizes a request, or pauses it until its credentials are verified.
    fn authorize(
        &self,
        state: &mut State,
        stream: Stream<'_, Self>,
        worker: &Worker,
        received: Received,
        verified: Option<&VerificationResult>,
    ) -> Handled {
        match worker.check(&stream, verified, received) {
            Ok(Checked::Decided(decided)) => self.apply_verdict(state, stream, worker, received, decided),
            Ok(Checked::Pending(verification)) => self.wait(state, stream, worker, received, verification),
            Ok(Checked::BodyNeeded) => self.buffer(state, stream, worker, received),
            Err(kind) => self.fail(stream, worker, kind),
        }
    }

    /// Verifies the token of an admitted request, unless another request with the same token has done so.
    fn verify(
        &self,
        state: &mut State,
        stream: Stream<'_, Self>,
        worker: &Worker,
        received: Received,
    ) -> Handled {
        match worker.check(&stream, None, received) {
            Ok(Checked::Decided(decided)) => self.apply_verdict(state, stream, worker, received, decided),
            Ok(Checked::Pending(verification)) => match worker.thread.verify(verification) {
                Ok(verified) => self.authorize(state, stream, worker, received.waited(), Some(&verified)),
                Err(kind) => self.fail(stream, worker, kind),
            },
            Ok(Checked::BodyNeeded) => self.buffer(state, stream, worker, received),
            Err(kind) => self.fail(stream, worker, kind),
        }
    }

    /// Pauses a request until its credentials are verified, or denies it if there is no capacity for that.
    fn wait(
        &self,
        state: &mut State,
        stream: Stream<'_, Self>,
        worker: &Worker,
        received: Received,
        verification: Verification,
    ) -> Handled {
        let (Some(scheduler), Some(policy)) = (stream.scheduler(), worker.policy()) else {
            return self.fail(stream, worker, ErrorKind::Unanswerable);
        };
        let network = ClientNetwork::of(worker::client(&stream));
        let wait = match verification.kind() {
            VerificationKind::Password => {
                let result = Arc::new(Mutex::new(None));
                let (kept, waker) = (Arc::clone(&result), scheduler.clone());
                let on_result = Box::new(move |hashed| {
                    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(hashed);
                    waker.commit(HASHED);
                });
                let registration = policy.hashing.submit_with(verification, network, on_result);
                state.passwords += 1;
                let event = TIMEOUT | state.passwords;
                let timeout = policy.after(policy.settings.hash_timeout, scheduler, event);
                Wait::Password(PasswordWait { result, timeout, _registration: registration })
            }
            VerificationKind::Token => match worker.tokens.enqueue(network, scheduler) {
                Ok(admission) => Wait::Token(admission),
                Err(runtime::fair_queue::Full) => {
                    return self.deny(state, stream, worker, received, Limit::Capacity);
                }
            },
        };
        state.keep(Paused { policy, received, wait });
        stream.pause()
    }

    /// Buffers a body that the decision depends on, unless it is too large already: only for an authenticated caller, and up to
    /// `max-request-body`, which may be more than Envoy buffers by default.
    fn buffer(
        &self,
        state: &mut State,
        mut stream: Stream<'_, Self>,
        worker: &Worker,
        received: Received,
    ) -> Handled {
        let (size, max) = (stream.body_size(), worker.max_request_body);
        // `Worker::check` reads a complete body unless it is over the limit, so this one is.
        if stream.is_complete() || size > max {
            return self.deny(state, stream, worker, received, Limit::BodySize);
        }
        let Some(policy) = worker.policy() else {
            return self.fail(stream, worker, ErrorKind::Unanswerable);
        };
        // A body that filled the buffers while the request was paused is no longer read. Envoy reads on once what it has is at
        // most half of the limit.
        let limit = max.max(size.saturating_mul(2).saturating_add(1));
        stream.raise_buffer_limit(u64::try_from(limit).unwrap_or(u64::MAX));
        state.keep(Paused { policy, received, wait: Wait::Body });
        stream.buffer()
    }

    /// Denies a request that exceeds a limit.
    fn deny(
        &self,
        state: &mut State,
        stream: Stream<'_, Self>,
        worker: &Worker,
        received: Received,
        limit: Limit,
    ) -> Handled {
        match worker.deny(limit, &stream, received) {
            Ok(denied) => self.apply_verdict(state, stream, worker, received, denied),
            Err(kind) => self.fail(stream, worker, kind),
        }
    }

    /// Applies a verdict: forwards the request, or answers it. If it cannot be applied, the request gets an error and is counted as
    /// one, but the decision was counted and logged already.
    fn apply_verdict(
        &self,
        state: &mut State,
        mut stream: Stream<'_, Self>,
        worker: &Worker,
        received: Received,
        decided: Decided,
    ) -> Handled {
        let Decided { mut verdict, at } = decided;
        let bulk = verdict.take_bulk();
        let latency = worker.thread.record_latency(received, at).unwrap_or_default();
        if !verdict.change(&mut stream, bulk.as_ref()) {
            return self.fail(stream, worker, ErrorKind::Unanswerable);
        }
        state.bulk_errors = bulk.map(|bulk| bulk.errors);
        if let Some(stats) = &self.stats {
            stats.decided(&stream, verdict.reason(), latency);
            if worker.is_time_for_gauges(received.at)
                && !SharedPolicy::all_observed().is_some_and(|policies| stats.set(&stream, &policies))
            {
                worker.retry_gauges(received.at);
            }
        }
        let handled = verdict.apply(stream);
        worker.reuse(verdict);
        handled
    }

    /// Answers a request about which no decision can be made.
    fn fail(&self, stream: Stream<'_, Self>, worker: &Worker, kind: ErrorKind) -> Handled {
        worker.thread.counters().error(kind);
        if let Some(stats) = &self.stats {
            stats.failed(&stream, kind);
        }
        stream.reply(&ERROR)
    }

    /// Counts a request about which the filter's own policy can make no decision.
    fn count(&self, stream: &Stream<'_, Self>, kind: ErrorKind) {
        if let Some(policy) = &self.policy {
            Worker::of(policy).thread.counters().error(kind);
        }
        if let Some(stats) = &self.stats {
            stats.failed(stream, kind);
        }
    }
}

/// A message for Envoy's log.
fn named(problem: impl std::fmt::Display) -> String {
    format!("rolegate: {problem}")
}

#[cfg(test)]
mod tests;
