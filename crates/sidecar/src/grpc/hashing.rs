//! Hashing passwords off the request threads: few threads, a bounded queue, and equal checks run once.
//!
//! Who sends one wrong password a thousand times at once costs one hash. Who sends a thousand different ones fills the
//! queue, and what does not fit is an overload error, never an OK.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use identity::{PasswordCheck, PasswordChecked};
use tokio::sync::oneshot;

use super::counters::HashingTotals;

/// The threads and what waits for them. They end when the last handle is dropped.
#[derive(Debug)]
pub(super) struct Hashing {
    shared: Arc<Shared>,
    bound: usize,
}

/// What a check that waits is told; an error means that the hash will never come.
pub(super) type Wait = oneshot::Receiver<PasswordChecked>;

/// There are too many checks waiting.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<PasswordCheck>,
    /// Who waits for a check that is queued or being hashed, by its key.
    waiting: HashMap<u128, Vec<oneshot::Sender<PasswordChecked>>>,
    totals: HashingTotals,
    ended: bool,
}

impl Hashing {
    /// Starts the threads. At most `bound` checks wait for one.
    pub(super) fn start(threads: usize, bound: usize) -> io::Result<Self> {
        let hashing = Self { shared: Arc::default(), bound };
        for number in 0..threads {
            let shared = Arc::clone(&hashing.shared);
            thread::Builder::new().name(format!("hash-{number}")).spawn(move || shared.work())?;
        }
        Ok(hashing)
    }

    /// Has a password hashed, or waits for an equal one that is.
    pub(super) fn submit(&self, check: PasswordCheck) -> Result<Wait, Full> {
        let (tell, wait) = oneshot::channel();
        let mut state = self.shared.lock();
        let State { queue, waiting, totals, .. } = &mut *state;
        match waiting.entry(check.key()) {
            Entry::Occupied(mut equal) => {
                totals.shared += 1;
                equal.get_mut().push(tell);
            }
            Entry::Vacant(_) if queue.len() >= self.bound => {
                totals.rejected += 1;
                return Err(Full);
            }
            Entry::Vacant(first) => {
                first.insert(vec![tell]);
                queue.push_back(check);
                self.shared.wake.notify_one();
            }
        }
        Ok(wait)
    }

    pub(super) fn totals(&self) -> HashingTotals {
        let state = self.shared.lock();
        HashingTotals { queued: u64::try_from(state.queue.len()).unwrap_or(u64::MAX), ..state.totals }
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
        while let Some(check) = self.next() {
            let key = check.key();
            let checked = catch_unwind(AssertUnwindSafe(|| check.run()));
            let mut state = self.lock();
            state.totals.done += 1;
            let waiting = state.waiting.remove(&key).unwrap_or_default();
            drop(state);
            // After a panic nobody is told, and dropping the senders says so.
            if let Ok(checked) = checked {
                waiting.into_iter().for_each(|tell| drop(tell.send(checked.clone())));
            }
        }
    }

    /// The next check that anybody still waits for; `None` at the end.
    fn next(&self) -> Option<PasswordCheck> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            match state.queue.pop_front() {
                Some(check) if state.given_up(check.key()) => {}
                Some(check) => return Some(check),
                None => state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl State {
    /// Whether all who waited for it have left; then it is forgotten.
    fn given_up(&mut self, key: u128) -> bool {
        let given_up =
            self.waiting.get(&key).is_none_or(|waiting| waiting.iter().all(oneshot::Sender::is_closed));
        if given_up {
            self.waiting.remove(&key);
        }
        given_up
    }
}
