//! Wakes a task at a given time, more precisely than the runtime's timers, which have a resolution
//! of a millisecond.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Wakes the waiting task at a given time, with a kernel timer that the runtime polls together with
/// its sockets. The kernel wakes late (by tens of µs on a machine that sleeps in between), so the
/// timer is set earlier by the usual delay, and the remaining time is spent polling the sockets.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: AsyncFd<OwnedFd>,
    /// The usual delay of a kernel wake-up, in nanoseconds.
    usual_delay: Cell<u64>,
}

/// The maximum time to stay awake before the moment. With few cores, this time is taken from the
/// server. Measured once on two cores (2026-11-21, generator on one, application on the other): a
/// request is sent 18 µs after its moment at 100/s, 2 µs at 1,000/s and 1 µs at 5,000/s
/// (differences of the medians), which costs 0.01, 0.06 and 0.14 of a core, including sending.
const MAX_SPIN: u64 = 50_000;

/// For shorter waits, the timer is not worth its system calls.
const MIN_SLEEP: Duration = Duration::from_micros(5);

impl Alarm {
    #[expect(
        deprecated,
        reason = "the replacement is unsafe, as a descriptor could be closed under it"
    )]
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        Ok(Self {
            timer: AsyncFd::with_interest(timer, Interest::READABLE)?,
            usual_delay: Cell::new(0),
        })
    }

    /// Waits until `due`, and returns the actual time. [`Alarm::ring`] ends the wait early.
    pub(super) async fn wait(&self, due: Instant) -> io::Result<Instant> {
        let mut now = Instant::now();
        let usual_delay = Duration::from_nanos(self.usual_delay.get());
        let sleep = due.saturating_duration_since(now).saturating_sub(usual_delay);
        if sleep > MIN_SLEEP {
            let wake = now + sleep;
            self.set(sleep)?;
            self.timer.readable().await?.clear_ready();
            now = Instant::now();
            self.learn(nanoseconds(now.saturating_duration_since(wake)));
            if now < wake {
                return Ok(now);
            }
        }
        while now < due {
            tokio::task::yield_now().await;
            now = Instant::now();
        }
        Ok(now)
    }

    pub(super) fn ring(&self) {
        // Fails only for an invalid descriptor or time, and these are valid.
        let _ = self.set(Duration::from_nanos(1));
    }

    fn set(&self, time: Duration) -> io::Result<()> {
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        let once = Itimerspec { it_interval: never, it_value: time };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// A running mean, in which a single late wake-up has little weight.
    fn learn(&self, late: u64) {
        let late = late.min(MAX_SPIN);
        self.usual_delay.set((self.usual_delay.get() * 7 + late) / 8);
    }
}

/// A duration in nanoseconds; the maximum if it does not fit.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
