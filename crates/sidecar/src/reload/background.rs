//! Long work on a thread of its own, at the lowest priority, but done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use std::{io, thread};

use crate::priority;

/// How long work may take in the background before it is done with a larger share of the processor. A policy of 100,000
/// rules is a second or two of it.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// A thread at the lowest priority.
///
/// Reading, compiling and freeing a large policy takes a second or two, and a request should not wait for any of it.
/// But while requests use all of a processor, such a thread gets one or two per cent of it, and a grant that was taken back
/// must not stay active for minutes. So what it does not do in time is done by the thread that wants it.
#[derive(Debug)]
pub(super) struct Background {
    jobs: Sender<Job>,
    /// Whether it has something left to do. It has for ever if that has panicked.
    busy: Arc<AtomicBool>,
}

/// The thread has something to do, or is gone.
#[derive(Debug)]
struct Busy;

type Job = Box<dyn FnOnce() + Send>;

impl Background {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, given) = channel::<Job>();
        thread::Builder::new().name("background".to_owned()).spawn(move || {
            priority::lower(priority::BACKGROUND);
            for job in given {
                job();
            }
        })?;
        Ok(Self { jobs, busy: Arc::default() })
    }

    /// Does this in the background, or here when it takes longer than `timeout` there: its result.
    pub(super) fn run<T: Send + 'static>(
        &self,
        timeout: Duration,
        work: impl Fn() -> T + Send + Sync + 'static,
    ) -> T {
        let work = Arc::new(work);
        let (send, result) = channel();
        let there = work.clone();
        let job = move |free: &dyn Fn()| {
            let result = there();
            // With all that it holds, such as the snapshot before.
            drop(there);
            free();
            // Nobody waits for it any more when it took too long.
            let _ = send.send(result);
        };
        if self.send(job).is_ok() {
            match result.recv_timeout(timeout) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => tracing::warn!(
                    "the processors are busy: the policy thread now does what the background thread did not finish in {timeout:?}"
                ),
                // It panicked there, which has been logged.
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        // What still comes of it there is not kept beside what is made here.
        drop(result);
        work()
    }

    /// Drops this in the background, or here while there is something left to do there.
    pub(super) fn free<T: Send + 'static>(&self, what: T) {
        // What was not sent is dropped with the closure.
        let _ = self.send(move |free| {
            drop(what);
            free();
        });
    }

    /// Gives a job to the thread, or drops it: what has no end there must not have a queue. The job says itself when
    /// the thread is free again.
    fn send(&self, job: impl FnOnce(&dyn Fn()) + Send + 'static) -> Result<(), Busy> {
        if self.busy.swap(true, Ordering::AcqRel) {
            return Err(Busy);
        }
        let busy = self.busy.clone();
        let job = Box::new(move || job(&|| busy.store(false, Ordering::Release)));
        self.jobs.send(job).map_err(|_| Busy)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread;
    use std::time::Duration;

    use super::{Background, TIMEOUT};

    fn name() -> String {
        thread::current().name().unwrap_or_default().to_owned()
    }

    #[test]
    fn does_it_elsewhere() {
        let background = Background::start().unwrap();
        for _ in 0..3 {
            assert_eq!(background.run(TIMEOUT, name), "background");
        }
    }

    #[test]
    fn does_here_what_comes_to_nothing_there() {
        let background = Background::start().unwrap();
        let here = name();
        let (release, wait) = channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let mine = here.clone();
        let done = background.run(Duration::from_millis(20), move || {
            if name() != mine {
                let _ = wait.lock().unwrap().recv();
            }
            name()
        });
        assert_eq!(done, here);
        // While that hangs nothing is queued behind it.
        assert_eq!(background.run(TIMEOUT, name), here);
        let (send, by) = channel();
        background.free(Told(send));
        assert_eq!(by.try_recv(), Ok(here));
        // And afterwards it goes on.
        release.send(()).unwrap();
        let again = (0..6_000).any(|_| {
            thread::sleep(Duration::from_millis(5));
            background.run(TIMEOUT, name) == "background"
        });
        assert!(again);
    }

    /// Tells which thread has freed it.
    struct Told(Sender<String>);

    impl Drop for Told {
        fn drop(&mut self) {
            self.0.send(name()).unwrap();
        }
    }

    #[test]
    fn frees_elsewhere() {
        let background = Background::start().unwrap();
        let (send, by) = channel();
        background.free(Told(send));
        assert_eq!(by.recv().as_deref(), Ok("background"));
    }

    #[test]
    fn a_thread_that_is_gone_is_no_reason_not_to_do_it() {
        let background = Background::start().unwrap();
        let mine = name();
        assert_eq!(
            background.run(TIMEOUT, move || if name() == mine { name() } else { panic!("a bug") }),
            name()
        );
        assert_eq!(background.run(TIMEOUT, name), name());
        assert_eq!(background.run(TIMEOUT, name), name());
    }
}
