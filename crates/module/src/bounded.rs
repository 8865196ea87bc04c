//! Work that Envoy's main thread waits for, but not for ever: opening and reading files. Their file system may not answer, as that of an NFS
//! server or a named pipe without a writer.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::start_error::cannot_start;

/// What loads a configuration. Much more time than the largest policy takes; until then Envoy neither starts nor updates anything.
pub(crate) static LOADING: Bounded = Bounded::new(Duration::from_secs(60));

/// How many threads may be late. A rejected configuration may be sent again and again.
const MAX_LATE: usize = 8;

/// Runs work on a thread for each, with a time limit.
#[derive(Debug)]
pub(crate) struct Bounded {
    limit: Duration,
    /// The threads of work that nobody waits for any more.
    late: Mutex<Vec<JoinHandle<()>>>,
}

impl Bounded {
    const fn new(limit: Duration) -> Self {
        Self { limit, late: Mutex::new(Vec::new()) }
    }

    /// Runs work, and returns its result. One that comes too late is dropped on its thread.
    ///
    /// # Errors
    /// When it has not finished in time or has panicked, when too much work of before has not finished yet, or when the system
    /// cannot create a thread.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.retain(|thread| !thread.is_finished());
        if late.len() >= MAX_LATE {
            return Err(format!(
                "not tried: opening the files of {MAX_LATE} earlier configurations has not finished: does their file system answer?"
            ));
        }
        // Others need not wait until this has finished.
        drop(late);
        let (send, result) = channel();
        let work = move || {
            // Fails if it is too late.
            let _ = send.send(work());
        };
        let thread =
            thread::Builder::new().name("rolegate-load".to_owned()).spawn(work).map_err(cannot_start)?;
        result.recv_timeout(self.limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                self.late.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
                let limit = self.limit;
                format!("opening the files has not finished after {limit:?}: does their file system answer?")
            }
            RecvTimeoutError::Disconnected => {
                "opening the files panicked: this is a bug in rolegate".to_owned()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::{Bounded, MAX_LATE};

    #[test]
    fn work_that_does_not_end_is_not_waited_for() {
        let bounded = Bounded::new(Duration::from_millis(100));
        let (end, ended) = channel::<()>();
        assert_eq!(
            bounded.run(move || ended.recv().is_err()),
            Err("opening the files has not finished after 100ms: does their file system answer?".to_owned())
        );
        drop(end);
        assert_eq!(Bounded::new(Duration::from_secs(60)).run(|| 1), Ok(1));
    }

    #[test]
    fn work_that_panics_is_an_error() {
        let result = Bounded::new(Duration::from_secs(60)).run(|| assert!(std::env::args().len() == 0));
        assert_eq!(result, Err("opening the files panicked: this is a bug in rolegate".to_owned()));
    }

    /// Nobody waits for more than so many, and none is left once they end.
    #[test]
    fn threads_that_are_late_are_bounded() {
        let bounded = Bounded::new(Duration::ZERO);
        let mut ends = Vec::new();
        for _ in 0..MAX_LATE {
            let (end, ended) = channel::<()>();
            ends.push(end);
            assert!(bounded.run(move || ended.recv().is_err()).is_err());
        }
        let (ran, has_run) = channel();
        assert!(bounded.run(move || ran.send(())).unwrap_err().starts_with("not tried: "));
        assert!(has_run.recv().is_err(), "it was not started");
        drop(ends);
        let is_free = (0..3_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let (ran, has_run) = channel();
            let _ = bounded.run(move || ran.send(()));
            has_run.recv().is_ok()
        });
        assert!(is_free);
    }
}
