//! Hashes passwords off the worker threads, on a few threads with a bounded queue (`queue` explains
//! its order). Equal verifications share a hash. Other threads, with another such queue, ask
//! issuers about opaque tokens.
//!
//! A queued verification is removed when all requests that wait for it are cancelled. A hash that
//! has begun is finished, and right credentials are cached: if hashing takes longer than a client
//! waits, its next attempt succeeds.

mod queue;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread;
use std::time::Instant;

use identity::{Verification, VerificationKind, VerificationResult};
use tokio::sync::oneshot;

use crate::client_network::ClientNetwork;
use crate::introspection::Asker;
use crate::threads::{Priority, catch, spawn};
use queue::{Entry, Queue};

/// Maximum number of threads by default. Anybody can keep all threads busy with wrong passwords,
/// and each running hash takes memory (19 MiB with the parameters of `rolegate hash-password`).
/// Half of 64 cores would take 608 MiB, more than the limit of most containers.
const MAX_DEFAULT_THREADS: usize = 8;

/// The number of threads for `hash-threads`: 0 means half the cores, from 1 to 8.
#[must_use]
pub fn threads(setting: usize) -> usize {
    threads_on(setting, thread::available_parallelism().map_or(1, NonZero::get))
}

fn threads_on(setting: usize, cores: usize) -> usize {
    match setting {
        0 => (cores / 2).clamp(1, MAX_DEFAULT_THREADS),
        threads => threads,
    }
}

/// Number of threads that ask issuers about opaque tokens. Each asks one question at a time, so an
/// issuer that answers in 50 ms gets at most 160 questions a second.
const QUESTIONS: usize = 8;

/// The hashing threads and their queue. The threads end when this is dropped.
#[derive(Debug)]
pub struct Hashing {
    passwords: Pool,
    /// The threads that ask about opaque tokens, started for the first such token; `None` if that
    /// failed.
    questions: OnceLock<Option<Pool>>,
    max_queued: usize,
}

/// Threads with a queue. They end when this is dropped.
#[derive(Debug)]
struct Pool {
    shared: Arc<Shared>,
}

/// Waits for a hash. Dropping it stops waiting.
#[derive(Debug)]
pub struct Wait {
    result: oneshot::Receiver<HashResult>,
    _registration: Option<Registration>,
}

/// Why credentials were not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotHashed {
    /// The queue was full of verifications that take precedence.
    Displaced,
    /// A bug: the verification panicked, or its threads have ended.
    Failed,
    /// The issuer of an opaque token did not say whether it is valid, or no thread could be started
    /// to ask it.
    Unavailable,
}

/// Called with each result. Caches right credentials, and returns whether they were right.
pub type CacheCallback = Box<dyn Fn(&VerificationResult) -> bool + Send + Sync>;

type SharedCallback = Arc<dyn Fn(&VerificationResult) -> bool + Send + Sync>;

/// The result of a hash.
pub type HashResult = Result<VerificationResult, NotHashed>;

/// Called once: on a hashing thread, or, if the queue is full or no thread can be started, on a
/// thread that calls [`Hashing::submit_with`]. Dropped without a call if its verification is still
/// queued when the [`Hashing`] is dropped.
pub type OnResult = Box<dyn FnOnce(HashResult) + Send>;

/// The registration of a waiter. Dropping it stops waiting.
#[derive(Debug)]
pub struct Registration {
    shared: Arc<Shared>,
    key: u128,
    waiter: u64,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    cache_result: SharedCallback,
}

struct State {
    queue: Queue<Job>,
    /// The waiters of the verifications that are running, by key.
    running: HashMap<u128, Waiters>,
    next_waiter: u64,
    totals: HashingTotals,
    ended: bool,
}

struct Job {
    verification: Verification,
    waiters: Waiters,
}

/// By number of the waiter. A map, because thousands may wait for a hash and leave together.
type Waiters = HashMap<u64, OnResult>;

/// Counters of the hashing threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct HashingTotals {
    /// Verifications that wait for a thread.
    pub queued: u64,
    /// Hashes computed since the start.
    pub done: u64,
    /// Verifications that used the hash of an equal verification.
    pub shared: u64,
    /// Verifications denied with 503, because the queue was full of verifications with precedence.
    pub denied: u64,
    /// Verifications removed from the queue, because no request waited for them any more.
    pub abandoned: u64,
    /// Hashes that no request waited for any more when they were finished.
    pub unawaited: u64,
}

impl Hashing {
    /// Starts the threads. At most `max_queued` verifications wait for a thread.
    pub fn start(
        threads: usize,
        max_queued: usize,
        cache_result: CacheCallback,
    ) -> io::Result<Self> {
        let passwords = Pool::new(max_queued, cache_result.into());
        for number in 0..threads {
            let shared = Arc::clone(&passwords.shared);
            let name = format!("hash-{number}");
            spawn(name, Priority::Hashing, move || {
                shared.work(|verification| Ok(verification.run()));
            })?;
        }
        Ok(Self { passwords, questions: OnceLock::new(), max_queued })
    }

    /// The threads for this verification; `None` if they cannot be started.
    fn pool(&self, verification: &Verification) -> Option<&Pool> {
        if verification.kind() != VerificationKind::Introspection {
            return Some(&self.passwords);
        }
        let started = self.questions.get_or_init(|| {
            let cache_result = Arc::clone(&self.passwords.shared.cache_result);
            Pool::start_questions(self.max_queued, cache_result)
                .inspect_err(|error| tracing::error!(%error, "cannot start a thread"))
                .ok()
        });
        started.as_ref()
    }

    /// Queues a verification, or waits for an equal one that is queued or running.
    pub fn submit(&self, verification: Verification, network: ClientNetwork) -> Wait {
        let (sender, result) = oneshot::channel();
        // Sending fails if the waiter has left.
        let on_result = Box::new(move |result| drop(sender.send(result)));
        let registration = self.submit_with(verification, network, on_result);
        Wait { result, _registration: registration }
    }

    /// Like [`Self::submit`], with a callback, which may be called before this returns.
    #[must_use = "dropping the registration stops waiting"]
    pub fn submit_with(
        &self,
        verification: Verification,
        network: ClientNetwork,
        on_result: OnResult,
    ) -> Option<Registration> {
        match self.pool(&verification) {
            Some(pool) => Some(pool.submit_with(verification, network, on_result)),
            None => {
                on_result(Err(NotHashed::Unavailable));
                None
            }
        }
    }

    /// The current counters.
    pub fn totals(&self) -> HashingTotals {
        self.passwords.shared.lock().current_totals()
    }

    /// The current counters, for a thread that must not wait: `None` while another thread uses
    /// them.
    pub fn try_totals(&self) -> Option<HashingTotals> {
        match self.passwords.shared.state.try_lock() {
            Ok(state) => Some(state.current_totals()),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner().current_totals()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Pool {
    fn new(max_queued: usize, cache_result: SharedCallback) -> Self {
        let state = Mutex::new(State {
            queue: Queue::new(max_queued),
            running: HashMap::new(),
            next_waiter: 0,
            totals: HashingTotals::default(),
            ended: false,
        });
        Self { shared: Arc::new(Shared { state, wake: Condvar::new(), cache_result }) }
    }

    fn start_questions(max_queued: usize, cache_result: SharedCallback) -> io::Result<Self> {
        let questions = Self::new(max_queued, cache_result);
        for number in 0..QUESTIONS {
            let shared = Arc::clone(&questions.shared);
            spawn(format!("ask-{number}"), Priority::Hashing, move || {
                let mut asker = Asker::default();
                shared
                    .work(|verification| asker.verify(verification).ok_or(NotHashed::Unavailable));
            })?;
        }
        Ok(questions)
    }

    fn submit_with(
        &self,
        verification: Verification,
        network: ClientNetwork,
        on_result: OnResult,
    ) -> Registration {
        let key = verification.job_key();
        let mut state = self.shared.lock();
        let waiter = state.next_waiter;
        state.next_waiter += 1;
        let State { queue, running, totals, .. } = &mut *state;
        let mut displaced = None;
        let queued =
            queue.find(|job| job.verification.job_key() == key).map(|job| &mut job.waiters);
        if let Some(waiters) = queued.or_else(|| running.get_mut(&key)) {
            totals.shared += 1;
            waiters.insert(waiter, on_result);
        } else {
            let was_verified_before = verification.verified_before();
            let item = Job { verification, waiters: HashMap::from([(waiter, on_result)]) };
            displaced = queue.push(Entry { network, was_verified_before, item }, Instant::now());
            totals.denied += u64::from(displaced.is_some());
            self.shared.wake.notify_one();
        }
        drop(state);
        // Without the lock: callbacks may take it.
        if let Some(job) = displaced {
            answer(job.waiters, &Err(NotHashed::Displaced));
        }
        Registration { shared: Arc::clone(&self.shared), key, waiter }
    }
}

impl Wait {
    /// Waits for the hash.
    pub async fn hashed(&mut self) -> HashResult {
        (&mut self.result).await.unwrap_or(Err(NotHashed::Failed))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.lock().remove_waiter(self.key, self.waiter);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Dropped without the lock: callbacks may take it.
        let _queued = self.shared.lock().end();
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock can be used: no code under it leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, mut verify: impl FnMut(Verification) -> HashResult) {
        while let Some((verification, network)) = self.next_verification() {
            let key = verification.job_key();
            let mut is_wrong = false;
            let result = catch("verifying credentials", || {
                let result = verify(verification)?;
                is_wrong = !(self.cache_result)(&result);
                Ok(result)
            });
            let result = result.unwrap_or(Err(NotHashed::Failed));
            let waiters = self.lock().finish(key, network, is_wrong);
            // Without the lock: callbacks may take it. A panic in them must not end the thread.
            let _ = catch("answering after a hash", || answer(waiters, &result));
        }
    }

    /// The next verification; `None` when the [`Pool`] was dropped.
    fn next_verification(&self) -> Option<(Verification, ClientNetwork)> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            if let Some(Entry { network, item: Job { verification, waiters }, .. }) =
                state.queue.pop(Instant::now())
            {
                state.running.insert(verification.job_key(), waiters);
                return Some((verification, network));
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn current_totals(&self) -> HashingTotals {
        HashingTotals { queued: u64::try_from(self.queue.len()).unwrap_or(u64::MAX), ..self.totals }
    }

    /// Ends the threads, and returns the verifications that they leave.
    fn end(&mut self) -> Vec<Entry<Job>> {
        self.ended = true;
        self.queue.take_all()
    }

    /// Counts a hash, and returns its waiters.
    fn finish(&mut self, key: u128, network: ClientNetwork, is_wrong: bool) -> Waiters {
        self.totals.done += 1;
        if !is_wrong {
            // Only wrong credentials count against their network.
            self.queue.forgive_attempt(network, Instant::now());
        }
        let waiters = self.running.remove(&key).unwrap_or_default();
        if waiters.is_empty() {
            self.totals.unawaited += 1;
        }
        waiters
    }

    /// Removes a waiter that has left or has its result.
    fn remove_waiter(&mut self, key: u128, waiter: u64) {
        if let Some(waiters) = self.running.get_mut(&key) {
            waiters.remove(&waiter);
        } else if let Some(job) = self.queue.find(|job| job.verification.job_key() == key) {
            job.waiters.remove(&waiter);
            if job.waiters.is_empty() {
                self.totals.abandoned += 1;
                self.queue.remove(|job| job.verification.job_key() == key);
            }
        }
    }
}

fn answer(waiters: Waiters, result: &HashResult) {
    waiters.into_values().for_each(|on_result| on_result(result.clone()));
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use document::MapFiles;
    use identity::{Authenticator, Credentials, FetchedKeys, Limits, LocalCache, NotAuthenticated};
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    /// A verification that is equal to no other, because each authenticator has its own secret.
    fn verification() -> Verification {
        let policy = "version: 1\nidentity: { basic: { users: { ann: { password: \
                      \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" } } } }\n";
        let files = MapFiles::new("policy.yaml", policy);
        let identity = policy::load(&files, Path::new("policy.yaml")).unwrap().policy.identity;
        let (keys, limits) = (FetchedKeys::new(), Limits::default());
        let authenticator = Authenticator::<()>::compile(&identity, &keys, limits).unwrap().0;
        let header = testbed::grpc::basic("ann:password");
        let (credentials, now) = (Credentials::Authorization(header.as_bytes()), Duration::ZERO);
        let mut cache = LocalCache::default();
        let Err(NotAuthenticated::Pending(verification)) =
            authenticator.authenticate(Some(credentials), None, now, &mut cache, |_| ())
        else {
            panic!("not pending")
        };
        verification
    }

    #[test]
    fn the_default_does_not_take_ever_more_memory_with_more_cores() {
        let by_default = [1, 2, 3, 4, 16, 17, 64, 1024].map(|cores| threads_on(0, cores));
        assert_eq!(by_default, [1, 1, 1, 2, 8, 8, 8, 8]);
        assert_eq!([threads_on(1, 64), threads_on(32, 1)], [1, 32]);
    }

    fn submit(pool: &Pool, network: u32) -> Registration {
        pool.submit_with(verification(), ClientNetwork::numbered(network), Box::new(|_| {}))
    }

    /// After an attempt of network 1, network 2 is first only if the attempt counts: otherwise the
    /// newest verification is.
    #[test]
    fn only_wrong_credentials_count_against_a_network() {
        type Verify = fn(Verification) -> HashResult;
        let cases: [(&str, Verify, bool, u32); 4] = [
            ("right", |verification| Ok(verification.run()), true, 1),
            ("wrong", |verification| Ok(verification.run()), false, 2),
            ("no answer", |_| Err(NotHashed::Unavailable), false, 1),
            ("panic", |_| panic!("on purpose"), false, 1),
        ];
        for (result, verify, is_right, network) in cases {
            let pool = Pool::new(2, Arc::new(move |_: &VerificationResult| is_right));
            let _attempt = submit(&pool, 1);
            pool.shared.work(|verification| {
                pool.shared.lock().ended = true;
                verify(verification)
            });
            let _waiting = [2, 1].map(|network| submit(&pool, network));
            let next = pool.shared.lock().queue.pop(Instant::now()).unwrap();
            assert_eq!(next.network, ClientNetwork::numbered(network), "{result}");
        }
    }

    #[test]
    fn counters_are_not_waited_for_while_they_change() {
        let hashing = Hashing::start(0, 1, Box::new(|_| true)).unwrap();
        let changing = hashing.passwords.shared.lock();
        assert!(hashing.try_totals().is_none());
        drop(changing);
        assert!(hashing.try_totals().is_some());
    }

    #[test]
    fn a_wait_for_threads_that_have_ended_fails() {
        let hashing = Hashing::start(0, 1, Box::new(|_| true)).unwrap();
        let mut wait = hashing.submit(verification(), ClientNetwork::default());
        drop(hashing);
        assert_eq!(wait.result.try_recv().err(), Some(TryRecvError::Closed));
    }
}
