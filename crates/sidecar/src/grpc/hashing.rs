//! Hashes passwords off the request threads: few threads, a bounded queue (see `queue` for its order), and one hash
//! for equal checks.
//!
//! A wrong password that is sent a thousand times at once costs one hash. A queued check is removed from the queue when
//! the gRPC client has cancelled all requests that wait for it. A hash that has been started is finished, and right
//! credentials are cached, even if no request waits for it any more: if hashing takes longer than a client waits, its
//! next attempt succeeds.

mod queue;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use identity::{Verification, Verified};
use tokio::sync::oneshot;

use super::client_network::ClientNetwork;
use super::counters::HashingTotals;
use queue::{Entry, Queue};

/// The hashing threads and their queue. The threads end when this is dropped.
#[derive(Debug)]
pub(super) struct Hashing {
    shared: Arc<Shared>,
}

/// Waits for a hash. Dropping it stops waiting.
#[derive(Debug)]
pub(super) struct Wait {
    result: oneshot::Receiver<HashResult>,
    /// Removes this waiter when dropped.
    _registration: Registration,
}

/// Why a password was not hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotHashed {
    /// The queue is full of checks that take precedence.
    Displaced,
    /// The thread panicked while it hashed the password.
    Panicked,
}

/// Called with each result: caches the credentials if the password was right, and returns whether it was.
pub(super) type CacheVerified = Box<dyn Fn(&Verified) -> bool + Send + Sync>;

type HashResult = Result<Verified, NotHashed>;

/// The registration of one waiter.
#[derive(Debug)]
struct Registration {
    shared: Arc<Shared>,
    key: u128,
    number: u64,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    cache_verified: CacheVerified,
}

#[derive(Debug)]
struct State {
    queue: Queue<Job>,
    /// The waiters of the checks that are being hashed, by the key of the check.
    running: HashMap<u128, Waiters>,
    /// The number of the next waiter.
    next: u64,
    totals: HashingTotals,
    ended: bool,
}

#[derive(Debug)]
struct Job {
    check: Verification,
    waiters: Waiters,
}

/// The waiters of one check, by number: a map, because thousands may wait for one check and leave together.
#[derive(Debug, Default)]
struct Waiters(HashMap<u64, oneshot::Sender<HashResult>>);

impl Hashing {
    /// Starts the threads. At most `max_queued` checks wait for a thread.
    pub(super) fn start(
        threads: usize,
        max_queued: usize,
        cache_verified: CacheVerified,
    ) -> io::Result<Self> {
        let state = State {
            queue: Queue::new(max_queued),
            running: HashMap::new(),
            next: 0,
            totals: HashingTotals::default(),
            ended: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new(), cache_verified });
        let hashing = Self { shared };
        for number in 0..threads {
            let shared = Arc::clone(&hashing.shared);
            thread::Builder::new().name(format!("hash-{number}")).spawn(move || shared.work())?;
        }
        Ok(hashing)
    }

    /// Queues a password to be hashed, or waits for an equal check that is queued or running.
    pub(super) fn submit(&self, check: Verification, network: ClientNetwork) -> Wait {
        let (sender, result) = oneshot::channel();
        let key = check.key();
        let mut state = self.shared.lock();
        let number = state.next;
        state.next += 1;
        let State { queue, running, totals, .. } = &mut *state;
        let queued = queue.find(|job| job.check.key() == key).map(|job| &mut job.waiters);
        if let Some(waiters) = queued.or_else(|| running.get_mut(&key)) {
            totals.shared += 1;
            waiters.0.insert(number, sender);
        } else {
            let verified_before = check.verified_before();
            let item = Job { check, waiters: Waiters(HashMap::from([(number, sender)])) };
            if let Some(displaced) = queue.push(Entry { network, verified_before, item }, Instant::now()) {
                totals.rejected += 1;
                displaced.waiters.send(&Err(NotHashed::Displaced));
            }
            self.shared.wake.notify_one();
        }
        drop(state);
        Wait { result, _registration: Registration { shared: Arc::clone(&self.shared), key, number } }
    }

    pub(super) fn totals(&self) -> HashingTotals {
        let state = self.shared.lock();
        HashingTotals { queued: u64::try_from(state.queue.len()).unwrap_or(u64::MAX), ..state.totals }
    }
}

impl Wait {
    /// The hash, as soon as it is computed.
    pub(super) async fn hashed(&mut self) -> HashResult {
        (&mut self.result).await.unwrap_or(Err(NotHashed::Panicked))
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
        while let Some((check, network)) = self.next() {
            let key = check.key();
            let hashed = catch_unwind(AssertUnwindSafe(|| {
                let checked = check.run();
                let right = (self.cache_verified)(&checked);
                (checked, right)
            }));
            let (result, right) = match hashed {
                Ok((checked, right)) => (Ok(checked), right),
                Err(_) => (Err(NotHashed::Panicked), false),
            };
            self.lock().finish(key, network, right, &result);
        }
    }

    /// The next check to hash; `None` when the server has stopped.
    fn next(&self) -> Option<(Verification, ClientNetwork)> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            if let Some(Entry { network, item: Job { check, waiters }, .. }) = state.queue.pop(Instant::now())
            {
                state.running.insert(check.key(), waiters);
                return Some((check, network));
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn finish(&mut self, key: u128, network: ClientNetwork, right: bool, result: &HashResult) {
        self.totals.done += 1;
        if right {
            self.queue.undo_attempt(network, Instant::now());
        }
        let waiters = self.running.remove(&key).unwrap_or_default();
        if waiters.0.is_empty() {
            self.totals.unawaited += 1;
        }
        waiters.send(result);
    }

    /// Removes a waiter that has left or has its result.
    fn leave(&mut self, key: u128, number: u64) {
        if let Some(waiters) = self.running.get_mut(&key) {
            waiters.leave(number);
        } else if let Some(job) = self.queue.find(|job| job.check.key() == key) {
            job.waiters.leave(number);
            if job.waiters.0.is_empty() {
                self.totals.abandoned += 1;
                self.queue.remove(|job| job.check.key() == key);
            }
        }
    }
}

impl Waiters {
    fn leave(&mut self, number: u64) {
        self.0.remove(&number);
    }

    fn send(self, result: &HashResult) {
        // Sending fails for a waiter that has left, which is fine.
        self.0.into_values().for_each(|sender| drop(sender.send(result.clone())));
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}
