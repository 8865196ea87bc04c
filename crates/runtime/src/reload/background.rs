//! Runs long work on a low-priority thread, and elsewhere if that thread does not finish in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use std::{io, thread};

use crate::priority;

/// How long work may take in the background before the caller does it, at its own higher priority. A policy of
/// 100,000 rules takes a second or two of processor time.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// The thread for background work, at the lowest priority.
///
/// Reading, compiling and freeing a large policy takes a second or two, and requests should not wait for any of it.
/// But while requests use all of a processor, such a thread gets one or two per cent of it, and a revoked permission
/// must not stay active for minutes. So work that it does not finish in time is done by the calling thread.
#[derive(Debug)]
pub(super) struct Background {
    jobs: Sender<Job>,
    /// Whether a job is unfinished. Stays true for ever if a job has panicked.
    busy: Arc<AtomicBool>,
}

/// A job is unfinished, or the thread has ended.
#[derive(Debug)]
struct Busy;

type Job = Box<dyn FnOnce() + Send>;

impl Background {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, received) = channel::<Job>();
        thread::Builder::new().name("background".to_owned()).spawn(move || {
            priority::lower(priority::BACKGROUND);
            for job in received {
                job();
            }
        })?;
        Ok(Self { jobs, busy: Arc::default() })
    }

    /// Runs `work` in the background, or on the calling thread if that takes longer than `timeout`. Returns its
    /// result.
    pub(super) fn run<T: Send + 'static>(
        &self,
        timeout: Duration,
        work: impl Fn() -> T + Send + Sync + 'static,
    ) -> T {
        let work = Arc::new(work);
        let (send, result) = channel();
        let background_work = work.clone();
        let job = move |free: &dyn Fn()| {
            let result = background_work();
            // Drops what the closure holds, such as the previous snapshot, before the thread counts as free.
            drop(background_work);
            free();
            // Fails if the caller has stopped waiting.
            let _ = send.send(result);
        };
        if self.send(job).is_ok() {
            match result.recv_timeout(timeout) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => tracing::warn!(
                    "the background thread has not finished within {timeout:?}, because requests use the processors: the policy thread does its work"
                ),
                // The job panicked, which has been logged.
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        // Closes the channel, so that a late result from the background is dropped, not kept beside the one computed
        // here.
        drop(result);
        work()
    }

    /// Drops a value in the background, or here while another job is unfinished.
    pub(super) fn free<T: Send + 'static>(&self, value: T) {
        // If it is not sent, it is dropped with the closure.
        let _ = self.send(move |free| {
            drop(value);
            free();
        });
    }

    /// Gives a job to the thread, or drops it if another is unfinished: no queue must build up behind a job that
    /// never ends. The job itself calls its argument when the thread is free again.
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
    fn runs_a_task_on_the_background_thread() {
        let background = Background::start().unwrap();
        for _ in 0..3 {
            assert_eq!(background.run(TIMEOUT, name), "background");
        }
    }

    #[test]
    fn runs_a_task_itself_if_the_background_thread_does_not_finish_it() {
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
        // While that job hangs, nothing is queued behind it.
        assert_eq!(background.run(TIMEOUT, name), here);
        let (send, by) = channel();
        background.free(ReportsDrop(send));
        assert_eq!(by.try_recv(), Ok(here));
        // Once it ends, the thread is used again.
        release.send(()).unwrap();
        let again = (0..6_000).any(|_| {
            thread::sleep(Duration::from_millis(5));
            background.run(TIMEOUT, name) == "background"
        });
        assert!(again);
    }

    /// Reports which thread has dropped it.
    struct ReportsDrop(Sender<String>);

    impl Drop for ReportsDrop {
        fn drop(&mut self) {
            self.0.send(name()).unwrap();
        }
    }

    #[test]
    fn frees_on_the_background_thread() {
        let background = Background::start().unwrap();
        let (send, by) = channel();
        background.free(ReportsDrop(send));
        assert_eq!(by.recv().as_deref(), Ok("background"));
    }

    #[test]
    fn runs_a_task_itself_if_the_background_thread_is_gone() {
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
