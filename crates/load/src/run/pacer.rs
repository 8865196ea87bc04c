//! Assigns the start of the next request to each free slot.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::alarm::{Alarm, nanoseconds};
use super::schedule::Schedule;

/// The start of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tick {
    /// The intended start, in nanoseconds since the start of the run.
    pub(super) intended: u64,
    /// Whether the request is measured, or belongs to the warm-up.
    pub(super) is_measured: bool,
    /// Whether a slot was free before the request was due. If not, it could not be sent in time.
    pub(super) slot_was_free: bool,
}

/// The limits of a run, shared by its threads.
#[derive(Debug)]
pub(super) struct RunLimits {
    /// The start of the warm-up.
    pub(super) epoch: Instant,
    /// The end of the warm-up, in nanoseconds since `epoch`.
    pub(super) warm: u64,
    /// The time after which nothing is sent, in nanoseconds since `epoch`.
    pub(super) end: u64,
    /// The maximum number of measured requests.
    pub(super) requests: u64,
    /// When each request is due; `None` for a closed loop.
    pub(super) schedule: Option<Schedule>,
    /// The number of measured requests that have been assigned, in a closed loop.
    pub(super) assigned: AtomicU64,
}

/// Assigns starts to the free slots of a thread, in order. The slot whose turn it is waits for the
/// alarm itself, so that nothing comes between the alarm and sending.
#[derive(Debug)]
pub(super) struct Pacer {
    limits: Arc<RunLimits>,
    alarm: Alarm,
    turn: Mutex<()>,
    /// The number of this thread's next request.
    next: Cell<u64>,
    /// Each thread handles every `stride`th request.
    stride: u64,
    is_closed: Cell<bool>,
}

impl RunLimits {
    /// Nanoseconds since the start of the run.
    pub(super) fn now(&self) -> u64 {
        nanoseconds(self.epoch.elapsed())
    }
}

impl Pacer {
    pub(super) fn new(limits: Arc<RunLimits>, number: u64, stride: u64) -> io::Result<Self> {
        Ok(Self {
            limits,
            alarm: Alarm::new()?,
            turn: Mutex::new(()),
            next: Cell::new(number),
            stride,
            is_closed: Cell::new(false),
        })
    }

    pub(super) async fn begin(&self) {
        // Fails only if the descriptor is bad; the first request then ends the run.
        let _ = self.alarm.wait(self.limits.epoch).await;
    }

    /// Waits for the next start; `None` at the end of the run.
    pub(super) async fn next(&self) -> Option<Tick> {
        match self.limits.schedule {
            None => self.at_once(),
            Some(schedule) => self.when_due(schedule).await,
        }
    }

    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.alarm.ring();
    }

    /// The number of requests that were due before `moment` and never assigned.
    pub(super) fn unsent(&self, moment: u64) -> u64 {
        let Some(schedule) = self.limits.schedule else { return 0 };
        let last = schedule.warming().saturating_add(self.limits.requests);
        let due = schedule.before(moment.min(self.limits.end)).min(last);
        due.saturating_sub(self.next.get()).div_ceil(self.stride)
    }

    fn at_once(&self) -> Option<Tick> {
        let now = self.limits.now();
        if self.is_closed.get() || now >= self.limits.end {
            return None;
        }
        let is_measured = now >= self.limits.warm;
        if is_measured && self.limits.assigned.fetch_add(1, Relaxed) >= self.limits.requests {
            return None;
        }
        Some(Tick { intended: now, is_measured, slot_was_free: true })
    }

    async fn when_due(&self, schedule: Schedule) -> Option<Tick> {
        let free = self.limits.now();
        let _turn = self.turn.lock().await;
        let number = self.next.get();
        let intended = schedule.due(number);
        let position = number.checked_sub(schedule.warming());
        if intended >= self.limits.end
            || position.is_some_and(|position| position >= self.limits.requests)
        {
            return None;
        }
        if self.limits.now() < intended && !self.is_closed.get() {
            // Fails only if the descriptor is bad, which ends the run with the results so far.
            let due = self.limits.epoch + Duration::from_nanos(intended);
            self.alarm.wait(due).await.ok()?;
        }
        let slot_was_free = free < intended;
        // A request for which a slot was free in time is sent even if this thread wakes up after
        // the end: the server did not cause that.
        if self.is_closed.get() || (!slot_was_free && self.limits.now() >= self.limits.end) {
            return None;
        }
        self.next.set(number.saturating_add(self.stride));
        Some(Tick { intended, is_measured: position.is_some(), slot_was_free })
    }
}
