//! Hashing passwords off the request threads: few threads, a bounded queue (see `queue` for its order), and equal checks
//! run once.
//!
//! One wrong password that is sent a thousand times at once costs one hash. Nothing is hashed that nobody waits for: a
//! check whose callers have left leaves the queue at once. A hash that has been begun is finished and remembered, also
//! where its callers have left: where hashing takes longer than a client waits, the next try then succeeds.

mod queue;
mod source;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use identity::{PasswordCheck, PasswordChecked};
use tokio::sync::oneshot;

use super::counters::HashingTotals;
use queue::{Entry, Queue};
pub(super) use source::Source;

/// The threads and what waits for them. They end when the last handle is dropped.
#[derive(Debug)]
pub(super) struct Hashing {
    shared: Arc<Shared>,
}

/// Waits for a hash. Dropping it gives up.
#[derive(Debug)]
pub(super) struct Wait {
    told: oneshot::Receiver<Told>,
    /// Leaves when dropped.
    _place: Place,
}

/// Why there is no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotHashed {
    /// The queue is full of checks that come first.
    Displaced,
    /// The thread panicked over it.
    Panicked,
}

/// What is done with each hash: it is remembered if the password was right. Returns whether it was.
pub(super) type Remember = Box<dyn Fn(&PasswordChecked) -> bool + Send + Sync>;

type Told = Result<PasswordChecked, NotHashed>;

/// One that waits for a check.
#[derive(Debug)]
struct Place {
    shared: Arc<Shared>,
    key: u128,
    number: u64,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    remember: Remember,
}

#[derive(Debug)]
struct State {
    queue: Queue<Job>,
    /// Those that wait for a check that is being hashed, by its key.
    running: HashMap<u128, Waiters>,
    /// The number of the next that waits.
    next: u64,
    totals: HashingTotals,
    ended: bool,
}

#[derive(Debug)]
struct Job {
    check: PasswordCheck,
    waiters: Waiters,
}

/// Those that wait for one check, by their numbers. Thousands may wait for one, and leave together.
#[derive(Debug, Default)]
struct Waiters(HashMap<u64, oneshot::Sender<Told>>);

impl Hashing {
    /// Starts the threads. At most `max_queued` checks wait for one.
    pub(super) fn start(threads: usize, max_queued: usize, remember: Remember) -> io::Result<Self> {
        let state = State {
            queue: Queue::new(max_queued),
            running: HashMap::new(),
            next: 0,
            totals: HashingTotals::default(),
            ended: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), wake: Condvar::new(), remember });
        let hashing = Self { shared };
        for number in 0..threads {
            let shared = Arc::clone(&hashing.shared);
            thread::Builder::new().name(format!("hash-{number}")).spawn(move || shared.work())?;
        }
        Ok(hashing)
    }

    /// Has a password hashed, or waits for an equal one that is.
    pub(super) fn submit(&self, check: PasswordCheck, source: Source) -> Wait {
        let (tell, told) = oneshot::channel();
        let key = check.key();
        let mut state = self.shared.lock();
        let number = state.next;
        state.next += 1;
        let State { queue, running, totals, .. } = &mut *state;
        let queued = queue.find(|job| job.check.key() == key).map(|job| &mut job.waiters);
        if let Some(waiters) = queued.or_else(|| running.get_mut(&key)) {
            totals.shared += 1;
            waiters.0.insert(number, tell);
        } else {
            let verified_before = check.verified_before();
            let item = Job { check, waiters: Waiters(HashMap::from([(number, tell)])) };
            if let Some(displaced) = queue.push(Entry { source, verified_before, item }, Instant::now()) {
                totals.rejected += 1;
                displaced.waiters.tell(&Err(NotHashed::Displaced));
            }
            self.shared.wake.notify_one();
        }
        drop(state);
        Wait { told, _place: Place { shared: Arc::clone(&self.shared), key, number } }
    }

    pub(super) fn totals(&self) -> HashingTotals {
        let state = self.shared.lock();
        HashingTotals { queued: u64::try_from(state.queue.len()).unwrap_or(u64::MAX), ..state.totals }
    }
}

impl Wait {
    /// The hash, once it is there.
    pub(super) async fn hashed(&mut self) -> Told {
        (&mut self.told).await.unwrap_or(Err(NotHashed::Panicked))
    }
}

impl Drop for Place {
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
        // Nothing under the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((check, source)) = self.next() {
            let key = check.key();
            let hashed = catch_unwind(AssertUnwindSafe(|| {
                let checked = check.run();
                let right = (self.remember)(&checked);
                (checked, right)
            }));
            let (told, right) = match hashed {
                Ok((checked, right)) => (Ok(checked), right),
                Err(_) => (Err(NotHashed::Panicked), false),
            };
            self.lock().finish(key, source, right, &told);
        }
    }

    /// The next check; `None` at the end.
    fn next(&self) -> Option<(PasswordCheck, Source)> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            if let Some(Entry { source, item: Job { check, waiters }, .. }) = state.queue.pop(Instant::now())
            {
                state.running.insert(check.key(), waiters);
                return Some((check, source));
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn finish(&mut self, key: u128, source: Source, right: bool, told: &Told) {
        self.totals.done += 1;
        if right {
            self.queue.right(source, Instant::now());
        }
        let waiters = self.running.remove(&key).unwrap_or_default();
        if waiters.0.is_empty() {
            self.totals.unawaited += 1;
        }
        waiters.tell(told);
    }

    /// One that waited has left, or has been told.
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

    fn tell(self, told: &Told) {
        // Whoever has left by now need not be told.
        self.0.into_values().for_each(|tell| drop(tell.send(told.clone())));
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}
