//! Saying to each free place when the next request starts.

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
    /// When it was meant to start, in nanoseconds since the start of the run.
    pub(super) intended: u64,
    /// Whether it counts, or is of the warm-up.
    pub(super) counts: bool,
    /// Whether a place was free before it was due. If not, it could not be in time.
    pub(super) awaited: bool,
}

/// The limits of a run, shared by its threads.
#[derive(Debug)]
pub(super) struct Course {
    /// The start of the warm-up.
    pub(super) epoch: Instant,
    /// The end of the warm-up, in nanoseconds since the start.
    pub(super) warm: u64,
    /// When no more is sent, in nanoseconds since the start.
    pub(super) end: u64,
    /// How many count at most.
    pub(super) requests: u64,
    /// When each is due; nothing is the closed loop.
    pub(super) schedule: Option<Schedule>,
    /// How many have been given out that count, in the closed loop.
    pub(super) taken: AtomicU64,
}

/// Gives the free places of one thread their starts, one after the other: each in turn waits for the next one, so that
/// nothing stands between the alarm and the sending.
#[derive(Debug)]
pub(super) struct Pacer {
    course: Arc<Course>,
    alarm: Alarm,
    turn: Mutex<()>,
    /// The number of the next request of this thread.
    next: Cell<u64>,
    /// Every thread takes each `stride`th.
    stride: u64,
    closed: Cell<bool>,
}

impl Course {
    /// Nanoseconds since the start of the run.
    pub(super) fn now(&self) -> u64 {
        nanoseconds(self.epoch.elapsed())
    }

    /// A moment as the clock has it.
    fn at(&self, moment: u64) -> Instant {
        self.epoch + Duration::from_nanos(moment)
    }
}

impl Pacer {
    /// The pacer of thread `number` of `stride`.
    pub(super) fn new(course: Arc<Course>, number: u64, stride: u64) -> io::Result<Self> {
        Ok(Self {
            course,
            alarm: Alarm::new()?,
            turn: Mutex::new(()),
            next: Cell::new(number),
            stride,
            closed: Cell::new(false),
        })
    }

    /// Waits for the start of the run.
    pub(super) async fn begin(&self) {
        // It fails where the descriptor is bad, which then ends the run at its first request.
        let _ = self.alarm.wait(self.course.epoch).await;
    }

    /// Waits for the next start; nothing is the end of the run.
    pub(super) async fn next(&self) -> Option<Tick> {
        match self.course.schedule {
            None => self.at_once(),
            Some(schedule) => self.when_due(schedule).await,
        }
    }

    /// No more starts from now on.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.alarm.ring();
    }

    /// How many were due and never given out: all before `moment`.
    pub(super) fn unsent(&self, moment: u64) -> u64 {
        let Some(schedule) = self.course.schedule else { return 0 };
        let last = schedule.warming().saturating_add(self.course.requests);
        let due = schedule.before(moment.min(self.course.end)).min(last);
        let first = self.next.get();
        due.saturating_sub(first).div_ceil(self.stride)
    }

    fn at_once(&self) -> Option<Tick> {
        let now = self.course.now();
        if self.closed.get() || now >= self.course.end {
            return None;
        }
        let counts = now >= self.course.warm;
        if counts && self.course.taken.fetch_add(1, Relaxed) >= self.course.requests {
            return None;
        }
        Some(Tick { intended: now, counts, awaited: true })
    }

    async fn when_due(&self, schedule: Schedule) -> Option<Tick> {
        let free = self.course.now();
        let _turn = self.turn.lock().await;
        let number = self.next.get();
        let intended = schedule.due(number);
        let place = number.checked_sub(schedule.warming());
        if intended >= self.course.end || place.is_some_and(|it| it >= self.course.requests) {
            return None;
        }
        if self.course.now() < intended && !self.closed.get() {
            // It fails where the descriptor is bad, which ends the run with what there is.
            self.alarm.wait(self.course.at(intended)).await.ok()?;
        }
        let awaited = free < intended;
        // What had a free place in time is sent also where we wake after the end: that is none of the server's doing.
        if self.closed.get() || (!awaited && self.course.now() >= self.course.end) {
            return None;
        }
        self.next.set(number.saturating_add(self.stride));
        Some(Tick { intended, counts: place.is_some(), awaited })
    }
}
