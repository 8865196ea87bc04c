//! Runs long work on a low-priority thread, on one of higher priority if that takes too long, and gives up if that does, too.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use tracing::Span;

use crate::priority;

/// How long work may take on the thread of the lowest priority. A policy of 100,000 rules takes a second or two of processor
/// time.
const LOWEST: Duration = Duration::from_secs(10);
/// How long it may then take on the other thread.
const HIGHER: Duration = Duration::from_secs(60);
/// When a job counts as one that will never end, such as one that opens a pipe which has been removed since.
const STUCK: Duration = Duration::from_secs(300);
/// How many threads may be stuck like this, for each of the two priorities.
const MAX_REPLACED: u32 = 8;

/// The two threads that read the files of the policy and compile it.
///
/// Reading, compiling and freeing a large policy takes a second or two, and requests should not wait for any of it: that is
/// done at the lowest priority. But while requests use all of a processor, such a thread gets one or two per cent of it, and a
/// revoked permission must not stay active for minutes. So work that it does not finish in time is done by the other thread,
/// which has the priority of the policy thread.
///
/// The policy thread itself never touches the file system. One that does not answer (such as that of an NFS server, or a named
/// pipe without a writer) stops a thread for as long as it likes. The policy thread waits for a minute or two, and then goes on
/// to take fetched keys, and to notice when these or the policy become too old.
#[derive(Debug)]
pub(super) struct Background {
    lowest: Worker,
    higher: Worker,
}

/// Work has no result yet, or never will.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfinished<T> {
    /// No thread is free: work of before has not finished.
    #[error("{NO_ANSWER}")]
    Busy,
    /// It takes longer than its caller waits. Its result may still come.
    #[error("{NO_ANSWER}")]
    TimedOut(Receiver<T>),
    /// It has panicked.
    #[error("reading the files panicked: this is a bug in rolegate")]
    Panicked,
}

const NO_ANSWER: &str = "reading the files has not finished: does their file system answer?";

impl Background {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub(super) fn start() -> io::Result<Self> {
        Self::with(LOWEST, HIGHER, STUCK)
    }

    /// With other durations.
    pub(super) fn with(lowest: Duration, higher: Duration, stuck: Duration) -> io::Result<Self> {
        Ok(Self {
            lowest: Worker::start("background", priority::BACKGROUND, (lowest, stuck))?,
            higher: Worker::start("policy-files", priority::POLICY, (higher, stuck))?,
        })
    }

    /// Runs `work` at the lowest priority, and once more at a higher one if that does not finish in time. Returns its result.
    ///
    /// # Errors
    /// If neither finishes in time.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl Fn() -> T + Send + Sync + 'static,
    ) -> Result<T, Unfinished<T>> {
        let work = Arc::new(work);
        let again = work.clone();
        let first = match self.lowest.run(move || work()) {
            Ok(result) => return Ok(result),
            Err(first) => first,
        };
        if matches!(first, Unfinished::TimedOut(_)) {
            tracing::warn!(
                "the background thread has not finished within {:?}, because requests use the processors, or because the file \
                 system does not answer: its work is done at a higher priority",
                self.lowest.timeout
            );
        }
        self.higher.run(move || again()).map_err(|second| match second {
            Unfinished::Busy => first,
            Unfinished::TimedOut(_) | Unfinished::Panicked => second,
        })
    }

    /// Runs short work at the higher priority. Returns its result.
    ///
    /// # Errors
    /// If it does not finish in time, or if the thread is not free.
    pub(super) fn run_short<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unfinished<T>> {
        self.higher.run(work)
    }

    /// Drops a value at the lowest priority, or here while that thread is not free.
    pub(super) fn free<T: Send + 'static>(&self, value: T) {
        // If it is not sent, it is dropped with the closure.
        let _ = self.lowest.send(move |free| {
            drop(value);
            free();
        });
    }
}

/// A thread that does one job after the other.
#[derive(Debug)]
struct Worker {
    name: &'static str,
    niceness: i32,
    /// How long a caller waits for a job.
    timeout: Duration,
    /// After this time a job will not end any more, and another thread takes the place of the one that does it.
    stuck: Duration,
    thread: RefCell<Thread>,
    /// How many threads were replaced.
    replaced: Cell<u32>,
}

#[derive(Debug)]
struct Thread {
    jobs: Sender<Job>,
    /// Whether a job is unfinished.
    busy: Arc<AtomicBool>,
    /// When the last job began.
    since: Instant,
}

type Job = Box<dyn FnOnce() + Send>;

impl Worker {
    fn start(name: &'static str, niceness: i32, (timeout, stuck): (Duration, Duration)) -> io::Result<Self> {
        let thread = RefCell::new(Thread::start(name, niceness)?);
        Ok(Self { name, niceness, timeout, stuck, thread, replaced: Cell::new(0) })
    }

    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Unfinished<T>> {
        let (send, result) = channel();
        let sent = self.send(move |free| {
            // What the closure holds, such as the previous snapshot, is dropped before the thread counts as free.
            let result = work();
            free();
            // Fails if the caller has stopped waiting.
            let _ = send.send(result);
        });
        sent.map_err(|Busy| Unfinished::Busy)?;
        match result.recv_timeout(self.timeout) {
            Ok(result) => Ok(result),
            Err(RecvTimeoutError::Timeout) => Err(Unfinished::TimedOut(result)),
            Err(RecvTimeoutError::Disconnected) => Err(Unfinished::Panicked),
        }
    }

    /// Gives a job to the thread, or drops it if another is unfinished: no queue must build up behind a job that
    /// never ends. The job itself calls its argument when the thread is free again.
    fn send(&self, job: impl FnOnce(&dyn Fn()) + Send + 'static) -> Result<(), Busy> {
        let mut thread = self.thread.borrow_mut();
        if thread.busy.swap(true, Ordering::AcqRel) {
            if thread.since.elapsed() < self.stuck || self.replaced.get() >= MAX_REPLACED {
                return Err(Busy);
            }
            // The policy thread starts it, whose niceness it has.
            *thread = Thread::start(self.name, self.niceness - priority::POLICY).map_err(|_| Busy)?;
            thread.busy.store(true, Ordering::Release);
            self.replaced.set(self.replaced.get() + 1);
            tracing::error!(
                thread = self.name,
                "a thread has not come back from the file system for {:?}: another takes its place",
                self.stuck
            );
        }
        thread.since = Instant::now();
        let busy = thread.busy.clone();
        let job = Box::new(move || job(&|| busy.store(false, Ordering::Release)));
        thread.jobs.send(job).map_err(|_| Busy)
    }
}

/// A job is unfinished.
struct Busy;

impl Thread {
    fn start(name: &str, niceness: i32) -> io::Result<Self> {
        let (jobs, received) = channel::<Job>();
        let busy = Arc::new(AtomicBool::new(false));
        let freed = busy.clone();
        let span = Span::current();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            priority::lower(niceness);
            let _entered = span.entered();
            for job in received {
                // A job that panics, which is logged, has not said that the thread is free.
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    freed.store(false, Ordering::Release);
                }
            }
        })?;
        Ok(Self { jobs, busy, since: Instant::now() })
    }
}

#[cfg(test)]
mod tests;
