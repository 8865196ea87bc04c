//! Long work, done when nothing else wants the processor, but done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use std::{io, thread};

use crate::priority::stand_aside;

/// How long work may take before it is done with a share of the processor. A policy of 100,000 rules is a second or two
/// of it.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A thread that stands aside for all others.
///
/// Reading, compiling and freeing a large policy takes a second or two, and a request should not wait for any of it.
/// But while requests take all the processor there is, such a thread comes to nothing, and a grant that was taken back
/// must not stay in force for that. So what it does not do in time is done by the thread that asked.
#[derive(Debug)]
pub(super) struct Aside {
    jobs: Sender<Job>,
    /// Whether it has something left to do. It has for ever if that has panicked.
    busy: Arc<AtomicBool>,
}

/// The thread has something to do, or is gone.
#[derive(Debug)]
struct Busy;

type Job = Box<dyn FnOnce() + Send>;

impl Aside {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, given) = channel::<Job>();
        thread::Builder::new().name("aside".to_owned()).spawn(move || {
            stand_aside();
            for job in given {
                job();
            }
        })?;
        Ok(Self { jobs, busy: Arc::default() })
    }

    /// Does this aside, or here when it takes longer than `patience` there: its result.
    pub(super) fn run<T: Send + 'static>(
        &self,
        patience: Duration,
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
            match result.recv_timeout(patience) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => tracing::warn!(
                    "the processors are busy: policy work that waited for a free one now takes its share of them"
                ),
                // It panicked there, which has been logged.
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        // What still comes of it there is not kept beside what is made here.
        drop(result);
        work()
    }

    /// Lets go of this aside, or here while there is something left to do aside.
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

    use super::{Aside, PATIENCE};

    fn name() -> String {
        thread::current().name().unwrap_or_default().to_owned()
    }

    #[test]
    fn does_it_elsewhere() {
        let aside = Aside::start().unwrap();
        for _ in 0..3 {
            assert_eq!(aside.run(PATIENCE, name), "aside");
        }
    }

    #[test]
    fn does_here_what_comes_to_nothing_there() {
        let aside = Aside::start().unwrap();
        let here = name();
        let (release, wait) = channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let mine = here.clone();
        let done = aside.run(Duration::from_millis(20), move || {
            if name() != mine {
                let _ = wait.lock().unwrap().recv();
            }
            name()
        });
        assert_eq!(done, here);
        // While that hangs nothing is queued behind it.
        assert_eq!(aside.run(PATIENCE, name), here);
        let (send, by) = channel();
        aside.free(Told(send));
        assert_eq!(by.try_recv(), Ok(here));
        // And afterwards it goes on.
        release.send(()).unwrap();
        let again = (0..6_000).any(|_| {
            thread::sleep(Duration::from_millis(5));
            aside.run(PATIENCE, name) == "aside"
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
        let aside = Aside::start().unwrap();
        let (send, by) = channel();
        aside.free(Told(send));
        assert_eq!(by.recv().as_deref(), Ok("aside"));
    }

    #[test]
    fn a_thread_that_is_gone_is_no_reason_not_to_do_it() {
        let aside = Aside::start().unwrap();
        let mine = name();
        assert_eq!(
            aside.run(PATIENCE, move || if name() == mine { name() } else { panic!("a bug") }),
            name()
        );
        assert_eq!(aside.run(PATIENCE, name), name());
        assert_eq!(aside.run(PATIENCE, name), name());
    }
}
