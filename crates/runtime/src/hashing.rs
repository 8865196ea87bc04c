//! Hashes passwords off the worker threads: few threads, a bounded queue (see `queue` for its order), and one hash
//! for equal verifications.
//!
//! A wrong password that is sent a thousand times at once costs one hash. A queued verification is removed from the queue
//! when all requests that wait for it have been cancelled. A hash that has been started is finished, and right
//! credentials are cached, even if no request waits for it any more: if hashing takes longer than a client waits, its
//! next attempt succeeds.

mod queue;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Instant;

use identity::{Verification, VerificationResult};
use tokio::sync::oneshot;

use crate::client_network::ClientNetwork;
use crate::threads::{Priority, catch, spawn};
use queue::{Entry, Queue};

/// The most threads by default, however many cores there are. Each takes the memory that its hash names while it works
/// (19 MiB for one of `rolegate hash-password`), and strangers who send wrong passwords decide how many work at once. Half of
/// 64 cores would take 608 MiB, more than the limit of memory of most services and containers.
const MAX_DEFAULT_THREADS: usize = 8;

/// The number of hashing threads for the setting `hash-threads`: 0 means half the cores, at least 1 and at most 8.
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

/// The hashing threads and their queue. The threads end when this is dropped.
#[derive(Debug)]
pub struct Hashing {
    shared: Arc<Shared>,
}

/// Waits for a hash. Dropping it stops waiting.
#[derive(Debug)]
pub struct Wait {
    result: oneshot::Receiver<HashResult>,
    /// Removes this waiter when dropped.
    _registration: Registration,
}

/// Why a password was not hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotHashed {
    /// The queue was full of verifications that take precedence.
    Displaced,
    /// A bug: hashing the password panicked, or the threads that hash have ended.
    Failed,
}

/// Called with each result: caches the credentials if the password was right, and returns whether it was.
pub type CacheResult = Box<dyn Fn(&VerificationResult) -> bool + Send + Sync>;

/// The result of a hash.
pub type HashResult = Result<VerificationResult, NotHashed>;

/// What a waiter wants to be done with the result: called once, on a hashing thread or, if the queue is full, on the one
/// that queues a verification. Dropped without a call when the threads end before the password is hashed.
pub type OnResult = Box<dyn FnOnce(HashResult) + Send>;

/// The registration of one waiter. Dropping it stops waiting.
#[derive(Debug)]
pub struct Registration {
    shared: Arc<Shared>,
    key: u128,
    number: u64,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    cache_result: CacheResult,
}

#[derive(Debug)]
struct State {
    queue: Queue<Job>,
    /// The waiters of the verifications that are running, by key.
    running: HashMap<u128, Waiters>,
    /// The number of the next waiter.
    next: u64,
    totals: HashingTotals,
    ended: bool,
}

#[derive(Debug)]
struct Job {
    verification: Verification,
    waiters: Waiters,
}

/// The waiters of one verification, by number: a map, because thousands may wait for one and leave together.
#[derive(Default)]
struct Waiters(HashMap<u64, OnResult>);

/// Counters of the hashing threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct HashingTotals {
    /// Verifications that wait for a thread.
    pub queued: u64,
    /// Hashes computed since the start.
    pub done: u64,
    /// Verifications that used the hash of an equal verification.
    pub shared: u64,
    /// Verifications whose requests were denied with 503, because the queue was full of ones that take precedence.
    pub denied: u64,
    /// Verifications removed from the queue, because all requests that waited for them had been cancelled, or had passed
    /// their deadline.
    pub abandoned: u64,
    /// Hashes finished after all requests that waited for them had been cancelled, or had passed their deadline.
    pub unawaited: u64,
}

impl Hashing {
    /// Starts the threads. At most `max_queued` verifications wait for a thread.
    pub fn start(threads: usize, max_queued: usize, cache_result: CacheResult) -> io::Result<Self> {
        let state = State {
            queue: Queue::new(max_queued),
            running: HashMap::new(),
            next: 0,
            totals: HashingTotals::default(),
            ended: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new(), cache_result });
        let hashing = Self { shared };
        for number in 0..threads {
            let shared = Arc::clone(&hashing.shared);
            spawn(format!("hash-{number}"), Priority::Hashing, move || shared.work())?;
        }
        Ok(hashing)
    }

    /// Queues a password to be hashed, or waits for an equal verification that is queued or running.
    pub fn submit(&self, verification: Verification, network: ClientNetwork) -> Wait {
        let (sender, result) = oneshot::channel();
        // Sending fails for a waiter that has left, which is fine.
        let registration =
            self.submit_with(verification, network, Box::new(move |hashed| drop(sender.send(hashed))));
        Wait { result, _registration: registration }
    }

    /// The same for a waiter that is not a future: calls `on_result` with the result, possibly before this returns.
    #[must_use = "dropping the registration stops waiting"]
    pub fn submit_with(
        &self,
        verification: Verification,
        network: ClientNetwork,
        on_result: OnResult,
    ) -> Registration {
        let key = verification.key();
        let mut state = self.shared.lock();
        let number = state.next;
        state.next += 1;
        let State { queue, running, totals, .. } = &mut *state;
        let mut displaced = None;
        let queued = queue.find(|job| job.verification.key() == key).map(|job| &mut job.waiters);
        if let Some(waiters) = queued.or_else(|| running.get_mut(&key)) {
            totals.shared += 1;
            waiters.0.insert(number, on_result);
        } else {
            let verified_before = verification.verified_before();
            let item = Job { verification, waiters: Waiters(HashMap::from([(number, on_result)])) };
            displaced = queue.push(Entry { network, verified_before, item }, Instant::now());
            totals.denied += u64::from(displaced.is_some());
            self.shared.wake.notify_one();
        }
        drop(state);
        // Not under the lock: what a waiter does may take it.
        if let Some(job) = displaced {
            job.waiters.send(&Err(NotHashed::Displaced));
        }
        Registration { shared: Arc::clone(&self.shared), key, number }
    }

    /// The current counters.
    #[must_use]
    pub fn totals(&self) -> HashingTotals {
        self.shared.lock().totals()
    }

    /// The same, for a thread that must not wait: `None` while another one uses the queue.
    #[must_use]
    pub fn try_totals(&self) -> Option<HashingTotals> {
        match self.shared.state.try_lock() {
            Ok(state) => Some(state.totals()),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner().totals()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Wait {
    /// The hash, as soon as it is computed.
    pub async fn hashed(&mut self) -> HashResult {
        (&mut self.result).await.unwrap_or(Err(NotHashed::Failed))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.lock().leave(self.key, self.number);
    }
}

impl Drop for Hashing {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock can be used: no code under it leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((verification, network)) = self.next() {
            let key = verification.key();
            let hashed = catch("hashing a password", || {
                let result = verification.run();
                let right = (self.cache_result)(&result);
                (result, right)
            });
            let (result, right) = match hashed {
                Ok((result, right)) => (Ok(result), right),
                Err(_) => (Err(NotHashed::Failed), false),
            };
            // Not under the lock: what a waiter does may take it.
            let waiters = self.lock().finish(key, network, right);
            // A bug of one waiter must not end the thread.
            let _ = catch("answering after a hash", || waiters.send(&result));
        }
    }

    /// The next verification; `None` when [`Hashing`] was dropped.
    fn next(&self) -> Option<(Verification, ClientNetwork)> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            if let Some(Entry { network, item: Job { verification, waiters }, .. }) =
                state.queue.pop(Instant::now())
            {
                state.running.insert(verification.key(), waiters);
                return Some((verification, network));
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn totals(&self) -> HashingTotals {
        HashingTotals { queued: u64::try_from(self.queue.len()).unwrap_or(u64::MAX), ..self.totals }
    }

    /// Counts a hash, and returns those who wait for it.
    fn finish(&mut self, key: u128, network: ClientNetwork, right: bool) -> Waiters {
        self.totals.done += 1;
        if right {
            self.queue.undo_attempt(network, Instant::now());
        }
        let waiters = self.running.remove(&key).unwrap_or_default();
        if waiters.0.is_empty() {
            self.totals.unawaited += 1;
        }
        waiters
    }

    /// Removes a waiter that has left or has its result.
    fn leave(&mut self, key: u128, number: u64) {
        if let Some(waiters) = self.running.get_mut(&key) {
            waiters.leave(number);
        } else if let Some(job) = self.queue.find(|job| job.verification.key() == key) {
            job.waiters.leave(number);
            if job.waiters.0.is_empty() {
                self.totals.abandoned += 1;
                self.queue.remove(|job| job.verification.key() == key);
            }
        }
    }
}

impl Waiters {
    fn leave(&mut self, number: u64) {
        self.0.remove(&number);
    }

    fn send(self, result: &HashResult) {
        self.0.into_values().for_each(|on_result| on_result(result.clone()));
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waiters").field(&self.0.len()).finish()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_does_not_take_ever_more_memory_with_more_cores() {
        let by_default = [1, 2, 3, 4, 16, 17, 64, 1024].map(|cores| threads_on(0, cores));
        assert_eq!(by_default, [1, 1, 1, 2, 8, 8, 8, 8]);
        assert_eq!([threads_on(1, 64), threads_on(32, 1)], [1, 32]);
    }

    #[test]
    fn totals_are_not_waited_for_while_the_queue_is_used() {
        let hashing = Hashing::start(0, 1, Box::new(|_| false)).unwrap();
        assert!(hashing.try_totals().is_some());
        let using = hashing.shared.lock();
        assert!(hashing.try_totals().is_none());
        drop(using);
        assert!(hashing.try_totals().is_some());
    }
}
