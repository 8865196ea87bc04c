//! Requests of a connection whose message has not arrived as a whole, because the rest of it is in the next read.
//!
//! The connection itself continues them whenever it has read. A task with timers of its own for each would cost more than its
//! answer, and run outside of the connection's time slices: peers that sent messages of 6 KB, each in two reads, delayed
//! others by hundreds of microseconds (November 2026). A message gets a task only if its rest takes longer than
//! [`exchange::GRACE`], if the connection already continues [`MOST`] others, if it must be answered before the end of `GRACE`, or when
//! the connection has ended.

use std::pin::Pin;
use std::task::Context;

use runtime::Received;
use tokio::time::{Instant, Sleep, sleep_until};

use super::exchange::Receiving;

/// Maximum number of messages that a connection continues itself. Chosen, not measured: a connection that has read looks at
/// each of them.
const MOST: usize = 16;

/// The requests, and a timer for those that take long.
#[derive(Default)]
pub(super) struct Unfinished {
    requests: Vec<Receiving>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether the timer runs. It is not stopped when the last request is answered, but set again only after it has ended.
    is_set: bool,
}

impl Unfinished {
    /// Adds one. It gets a task at once if there are too many, or if it has to be answered before the others get theirs.
    pub(super) fn add(&mut self, request: Receiving) {
        if self.requests.len() < MOST && request.may_wait() {
            self.requests.push(request);
        } else {
            request.spawn();
        }
    }

    /// Answers those whose message is complete. To be called when the connection has read. Returns their number.
    pub(super) fn answer(&mut self, received: Received) -> usize {
        let before = self.requests.len();
        let mut index = 0;
        while let Some(request) = self.requests.get_mut(index) {
            match request.poll() {
                Some(message) => self.requests.swap_remove(index).answer(message, received),
                None => index += 1,
            }
        }
        before - self.requests.len()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Gives a task to each that has taken long, and wakes the task of `cx` when the next one has.
    pub(super) fn expire(&mut self, cx: &mut Context<'_>) {
        while self.is_set || !self.requests.is_empty() {
            if !self.is_set {
                let Some(next) = self.requests.iter().map(Receiving::until).min() else { return };
                match &mut self.timer {
                    Some(timer) => timer.as_mut().reset(next),
                    None => self.timer = Some(Box::pin(sleep_until(next))),
                }
                self.is_set = true;
            }
            if self.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_pending()) {
                return;
            }
            self.is_set = false;
            let now = Instant::now();
            self.requests.extract_if(.., |request| request.until() <= now).for_each(Receiving::spawn);
        }
    }

    /// Gives a task to each: the connection has ended.
    pub(super) fn spawn_all(&mut self) {
        self.requests.drain(..).for_each(Receiving::spawn);
    }
}
