//! Runs long work on a low-priority thread, on one of higher priority if that takes too long, and gives up if that does, too.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use std::{io, thread};

use crate::priority;

/// How long work may take on the thread of the lowest priority. A policy of 100,000 rules takes a second or two of processor
/// time.
const LOWEST: Duration = Duration::from_secs(10);
/// How long it may then take on the other thread.
const HIGHER: Duration = Duration::from_secs(60);

/// The two threads that read the files of the policy and compile it.
///
/// Reading, compiling and freeing a large policy takes a second or two, and requests should not wait for any of it: that is
/// done at the lowest priority. But while requests use all of a processor, such a thread gets one or two per cent of it, and a
/// revoked permission must not stay active for minutes. So work that it does not finish in time is done by the other thread,
/// which has the priority of the policy thread.
///
/// The policy thread itself never touches the file system. One that does not answer (such as that of an NFS server, or a named
/// pipe without a writer) stops a thread for as long as it likes, and meanwhile the policy thread must still take fetched keys,
/// and notice when these or the policy become too old.
#[derive(Debug)]
pub(super) struct Background {
    lowest: Worker,
    higher: Worker,
}

/// Work has not finished in time, or has panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading the files has not finished: does their file system answer?")]
pub(super) struct Unfinished;

impl Background {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub(super) fn start() -> io::Result<Self> {
        Self::with(LOWEST, HIGHER)
    }

    /// With other maximum durations.
    pub(super) fn with(lowest: Duration, higher: Duration) -> io::Result<Self> {
        Ok(Self {
            lowest: Worker::start("background", priority::BACKGROUND, lowest)?,
            higher: Worker::start("policy-files", priority::POLICY, higher)?,
        })
    }

    /// Runs `work` at the lowest priority, and once more at a higher one if that does not finish in time. Returns its result.
    ///
    /// # Errors
    /// If neither finishes in time. Until one of them does, every call fails at once that finds no free thread.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl Fn() -> T + Send + Sync + 'static,
    ) -> Result<T, Unfinished> {
        let work = Arc::new(work);
        let again = work.clone();
        self.lowest.run(move || work()).or_else(|Unfinished| {
            tracing::warn!(
                "the background thread has not finished within {:?}, because requests use the processors, or because the file \
                 system does not answer: its work is done at a higher priority",
                self.lowest.timeout
            );
            self.higher.run(move || again())
        })
    }

    /// Runs short work at the higher priority. Returns its result.
    ///
    /// # Errors
    /// If it does not finish in time, or if the thread is not free.
    pub(super) fn run_short<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unfinished> {
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

/// One thread, and what it may do.
#[derive(Debug)]
struct Worker {
    jobs: Sender<Job>,
    /// Whether a job is unfinished.
    busy: Arc<AtomicBool>,
    /// How long a caller waits for a job.
    timeout: Duration,
}

type Job = Box<dyn FnOnce() + Send>;

impl Worker {
    fn start(name: &str, niceness: i32, timeout: Duration) -> io::Result<Self> {
        let (jobs, received) = channel::<Job>();
        let busy = Arc::new(AtomicBool::new(false));
        let freed = busy.clone();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            priority::lower(niceness);
            for job in received {
                // A job that panics, which is logged, has not said that the thread is free.
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    freed.store(false, Ordering::Release);
                }
            }
        })?;
        Ok(Self { jobs, busy, timeout })
    }

    fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Unfinished> {
        let (send, result) = channel();
        self.send(move |free| {
            // What the closure holds, such as the previous snapshot, is dropped before the thread counts as free.
            let result = work();
            free();
            // Fails if the caller has stopped waiting.
            let _ = send.send(result);
        })?;
        result.recv_timeout(self.timeout).map_err(|error| match error {
            RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected => Unfinished,
        })
    }

    /// Gives a job to the thread, or drops it if another is unfinished: no queue must build up behind a job that
    /// never ends. The job itself calls its argument when the thread is free again.
    fn send(&self, job: impl FnOnce(&dyn Fn()) + Send + 'static) -> Result<(), Unfinished> {
        if self.busy.swap(true, Ordering::AcqRel) {
            return Err(Unfinished);
        }
        let busy = self.busy.clone();
        let job = Box::new(move || job(&|| busy.store(false, Ordering::Release)));
        self.jobs.send(job).map_err(|_| Unfinished)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};
    use std::thread;
    use std::time::Duration;

    use super::{Background, HIGHER, Unfinished};

    const SHORT: Duration = Duration::from_millis(20);

    fn name() -> String {
        thread::current().name().unwrap_or_default().to_owned()
    }

    fn on(thread: &str) -> Result<String, Unfinished> {
        Ok(thread.to_owned())
    }

    /// Waits until the thread is used again.
    fn until(background: &Background, thread: &str) {
        let again = (0..6_000).any(|_| {
            thread::sleep(Duration::from_millis(5));
            background.run(name) == on(thread)
        });
        assert!(again, "{thread}");
    }

    #[test]
    fn runs_work_at_the_lowest_priority() {
        let background = Background::start().unwrap();
        for _ in 0..3 {
            assert_eq!(background.run(name), on("background"));
            assert_eq!(background.run_short(name), on("policy-files"));
        }
    }

    #[test]
    fn runs_work_at_a_higher_priority_if_it_takes_too_long() {
        let background = Background::with(SHORT, HIGHER).unwrap();
        let (release, wait) = channel::<()>();
        let wait = Mutex::new(wait);
        let done = background.run(move || {
            if name() == "background" {
                let _ = wait.lock().unwrap().recv();
            }
            name()
        });
        assert_eq!(done, on("policy-files"));
        // While that job hangs, nothing is queued behind it.
        assert_eq!(background.run(name), on("policy-files"));
        let (send, by) = channel();
        background.free(ReportsDrop(send));
        assert_eq!(by.try_recv(), Ok(name()));
        release.send(()).unwrap();
        until(&background, "background");
    }

    #[test]
    fn work_that_never_ends_stops_nobody() {
        let background = Background::with(SHORT, SHORT).unwrap();
        let (release, wait) = channel::<()>();
        let wait = Mutex::new(wait);
        let hangs = move || {
            let _ = wait.lock().unwrap().recv();
        };
        assert_eq!(background.run(hangs), Err(Unfinished));
        assert_eq!(background.run(name), Err(Unfinished), "no thread is free");
        assert_eq!(background.run_short(name), Err(Unfinished), "nor this one");
        release.send(()).unwrap();
        drop(release);
        until(&background, "background");
        while background.run_short(name) != on("policy-files") {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Reports which thread has dropped it.
    struct ReportsDrop(Sender<String>);

    impl Drop for ReportsDrop {
        fn drop(&mut self) {
            self.0.send(name()).unwrap();
        }
    }

    #[test]
    fn frees_at_the_lowest_priority() {
        let background = Background::start().unwrap();
        let (send, by) = channel();
        background.free(ReportsDrop(send));
        assert_eq!(by.recv().as_deref(), Ok("background"));
    }

    #[test]
    fn work_that_panics_ends_no_thread() {
        let background = Background::start().unwrap();
        let panics = || -> String { panic!("a bug") };
        assert_eq!(background.run(panics), Err(Unfinished));
        until(&background, "background");
        let higher = || if name() == "background" { panic!("a bug") } else { name() };
        assert_eq!(background.run(higher), on("policy-files"));
    }
}
