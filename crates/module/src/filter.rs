//! The HTTP filter: what the event hooks that Envoy calls for a stream do.

use std::sync::{Arc, Mutex, PoisonError};

use authorizer::Limit;
use identity::{Verification, VerificationKind, VerificationResult};
use runtime::counters::ErrorKind;
use runtime::hashing::{HashResult, NotHashed, Registration};
use runtime::{ClientNetwork, Received};
use tokio::task::AbortHandle;

use crate::abi::{Filter, Handled, Reply, Route, Setup, Stream};
use crate::instance::Instance;
use crate::log;
use crate::settings::{FilterSettings, RouteSettings};
use crate::stats::Stats;
use crate::token_queue::{ADMITTED, Admission, DISPLACED};
use crate::worker::{self, Checked, Worker};

/// Authorizes requests with one policy.
#[derive(Debug)]
pub struct Authorization {
    /// `None` if Envoy only validates its configuration: then nothing is started.
    instance: Option<Arc<Instance>>,
    /// `None` only together with `instance`.
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

/// The policy of a route.
#[derive(Debug)]
pub struct OwnPolicy(Arc<Instance>);

/// What a request keeps while it waits.
#[derive(Debug, Default)]
pub struct State {
    paused: Option<Paused>,
}

#[derive(Debug)]
struct Paused {
    instance: Arc<Instance>,
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

/// The event that says that a password is hashed.
const HASHED: u64 = 1;
/// The event that says that the time for that has passed.
const TIMEOUT: u64 = 2;

/// The answer if no decision can be made.
const ERROR: Reply<'static> = Reply { details: "rolegate_error", ..Reply::FAILURE };

impl Filter for Authorization {
    type Route = RoutePolicy;
    type State = State;

    fn new(_name: &[u8], config: &[u8], setup: &mut Setup<'_>) -> Result<Self, String> {
        log::start();
        let settings = FilterSettings::read(config).map_err(named)?;
        if setup.validating() {
            Instance::validate(&settings).map_err(named)?;
            return Ok(Self { instance: None, stats: None });
        }
        let instance = Instance::with(settings).map_err(named)?;
        let stats = Stats::define(setup).map_err(|error| named(error.to_string()))?;
        Ok(Self { instance: Some(instance), stats: Some(stats) })
    }

    fn route(_name: &[u8], config: &[u8]) -> Result<RoutePolicy, String> {
        log::start();
        Ok(match RouteSettings::read(config).map_err(named)? {
            RouteSettings::Disabled => RoutePolicy::Disabled,
            RouteSettings::Policy(settings) => {
                RoutePolicy::Own(OwnPolicy(Instance::with(*settings).map_err(named)?))
            }
        })
    }

    fn request_headers(&self, state: &mut State, stream: Stream<'_, Self>) -> Handled {
        let instance = match stream.route() {
            Route::None => self.instance.clone(),
            Route::Of(RoutePolicy::Own(OwnPolicy(instance))) => Some(Arc::clone(instance)),
            Route::Of(RoutePolicy::Disabled) => return stream.proceed(),
            Route::Foreign => None,
        };
        let Some(instance) = instance else {
            self.count(&stream, self.instance.as_ref(), ErrorKind::NotReady);
            return stream.reply(&ERROR);
        };
        self.authorize(state, stream, instance, Received::now(), None)
    }

    fn request_body(&self, state: &mut State, stream: Stream<'_, Self>) -> Handled {
        let Some(Paused { instance, received, wait: Wait::Body }) = state.paused.take() else {
            let reply = self.panicked(&stream);
            return stream.reply(&reply);
        };
        if stream.is_complete() {
            return self.authorize(state, stream, instance, received, None);
        }
        if stream.body_size() > instance.settings.max_request_body {
            return self.deny(stream, &instance, received, Limit::BodySize);
        }
        state.paused = Some(Paused { instance, received, wait: Wait::Body });
        stream.buffer()
    }

    fn scheduled(&self, state: &mut State, stream: Stream<'_, Self>, event: u64) -> Handled {
        let Some(Paused { instance, received, wait }) = state.paused.take() else {
            let reply = self.panicked(&stream);
            return stream.reply(&reply);
        };
        match (wait, event) {
            (Wait::Password(wait), HASHED) => {
                let result = wait.result.lock().unwrap_or_else(PoisonError::into_inner).take();
                match result {
                    Some(Ok(verified)) => self.authorize(state, stream, instance, received, Some(&verified)),
                    Some(Err(NotHashed::Displaced)) => {
                        self.deny(stream, &instance, received, Limit::Capacity)
                    }
                    Some(Err(NotHashed::Panicked)) | None => {
                        self.fail(stream, &instance, ErrorKind::Panicked)
                    }
                }
            }
            (Wait::Password(_), TIMEOUT) => self.deny(stream, &instance, received, Limit::Deadline),
            (Wait::Token(admission), ADMITTED) => {
                let handled = self.verify(state, stream, instance, received);
                drop(admission);
                handled
            }
            (Wait::Token(_), DISPLACED) => self.deny(stream, &instance, received, Limit::Capacity),
            // An event that nobody sends.
            (Wait::Password(_) | Wait::Token(_) | Wait::Body, _) => {
                self.fail(stream, &instance, ErrorKind::Panicked)
            }
        }
    }

    fn panicked(&self, stream: &Stream<'_, Self>) -> Reply<'static> {
        self.count(stream, self.instance.as_ref(), ErrorKind::Panicked);
        ERROR
    }
}

impl Authorization {
    /// Authorizes a request, or pauses it until its credentials are verified.
    fn authorize(
        &self,
        state: &mut State,
        stream: Stream<'_, Self>,
        instance: Arc<Instance>,
        received: Received,
        verified: Option<&VerificationResult>,
    ) -> Handled {
        let worker = Worker::of(&instance);
        let checked = worker.check(&stream, instance.settings.max_request_body, verified, received);
        match checked {
            Ok(Checked::Decided) => self.finish(stream, &instance, &worker, received),
            Ok(Checked::Pending(verification)) => self.wait(state, stream, instance, received, verification),
            Ok(Checked::BodyNeeded) => self.buffer(state, stream, instance, received),
            Err(kind) => self.fail(stream, &instance, kind),
        }
    }

    /// Verifies the token of an admitted request, unless another request with the same token has done so.
    fn verify(
        &self,
        state: &mut State,
        stream: Stream<'_, Self>,
        instance: Arc<Instance>,
        received: Received,
    ) -> Handled {
        let worker = Worker::of(&instance);
        let checked = worker.check(&stream, instance.settings.max_request_body, None, received);
        match checked {
            Ok(Checked::Decided) => self.finish(stream, &instance, &worker, received),
            Ok(Checked::Pending(verification)) => match worker.thread.verify(verification) {
                Ok(verified) => self.authorize(state, stream, instance, received, Some(&verified)),
                Err(kind) => self.fail(stream, &instance, kind),
            },
            Ok(Checked::BodyNeeded) => self.buffer(state, stream, instance, received),
            Err(kind) => self.fail(stream, &instance, kind),
        }
    }

    /// Pauses a request until its credentials are verified, or denies it if there is no capacity for that.
    fn wait(
        &self,
        state: &mut State,
        stream: Stream<'_, Self>,
        instance: Arc<Instance>,
        received: Received,
        verification: Verification,
    ) -> Handled {
        let Some(scheduler) = stream.scheduler() else {
            return self.fail(stream, &instance, ErrorKind::Unanswerable);
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
                let registration = instance.hashing.submit_with(verification, network, on_result);
                let timeout = instance.after(instance.settings.hash_timeout, scheduler, TIMEOUT);
                Wait::Password(PasswordWait { result, timeout, _registration: registration })
            }
            VerificationKind::Token => match Worker::of(&instance).tokens.enqueue(network, scheduler) {
                Ok(admission) => Wait::Token(admission),
                Err(runtime::fair_queue::Full) => {
                    return self.deny(stream, &instance, received, Limit::Capacity);
                }
            },
        };
        state.paused = Some(Paused { instance, received, wait });
        stream.pause()
    }

    /// Buffers the body of a request that counts, unless it has arrived and is too large. Only that of an authenticated caller,
    /// up to `max-request-body`, which may be more than Envoy buffers by default.
    fn buffer(
        &self,
        state: &mut State,
        mut stream: Stream<'_, Self>,
        instance: Arc<Instance>,
        received: Received,
    ) -> Handled {
        if stream.is_complete() {
            return self.deny(stream, &instance, received, Limit::BodySize);
        }
        stream.raise_buffer_limit(u64::try_from(instance.settings.max_request_body).unwrap_or(u64::MAX));
        state.paused = Some(Paused { instance, received, wait: Wait::Body });
        stream.buffer()
    }

    /// Denies a request that exceeds a limit.
    fn deny(
        &self,
        stream: Stream<'_, Self>,
        instance: &Arc<Instance>,
        received: Received,
        limit: Limit,
    ) -> Handled {
        let worker = Worker::of(instance);
        let denied = worker.deny(limit, &stream, received);
        match denied {
            Ok(()) => self.finish(stream, instance, &worker, received),
            Err(kind) => self.fail(stream, instance, kind),
        }
    }

    /// Counts the verdict that `worker` has, and applies it.
    fn finish(
        &self,
        stream: Stream<'_, Self>,
        instance: &Arc<Instance>,
        worker: &Worker,
        received: Received,
    ) -> Handled {
        let verdict = worker.verdict.borrow();
        if let Some(stats) = &self.stats {
            let time = worker.thread.answered(received).unwrap_or_default();
            stats.decided(&stream, verdict.reason(), time);
            if worker.is_time_for_gauges(received.at)
                && let Some(statuses) = Instance::all_statuses()
            {
                stats.set(&stream, &statuses);
            }
        }
        let handled = verdict.apply(stream, instance.settings.metadata);
        drop(verdict);
        match handled {
            Ok(handled) => handled,
            Err(stream) => self.fail(stream, instance, ErrorKind::Unanswerable),
        }
    }

    /// Answers a request about which no decision can be made.
    fn fail(&self, stream: Stream<'_, Self>, instance: &Arc<Instance>, kind: ErrorKind) -> Handled {
        self.count(&stream, Some(instance), kind);
        stream.reply(&ERROR)
    }

    /// Counts a request about which no decision can be made.
    fn count(&self, stream: &Stream<'_, Self>, instance: Option<&Arc<Instance>>, kind: ErrorKind) {
        if let Some(worker) = instance.map(Worker::of) {
            worker.thread.counters().error(kind);
        }
        if let Some(stats) = &self.stats {
            stats.failed(stream, kind);
        }
    }
}

/// A message for Envoy's log.
fn named(problem: String) -> String {
    format!("rolegate: {problem}")
}

#[cfg(test)]
mod tests;
