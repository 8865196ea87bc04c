//! Threads with names and priorities, and panics.
//!
//! A panic is a bug. It is reported by its place only, without the data that was being processed,
//! and ends nothing but the job in which it happened.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::time::sleep;
use tracing::Span;

use crate::backoff::{jittered, pause_after};
use crate::errors::start_error;

/// How much a thread yields to the worker threads, as niceness (see nice(2)).
///
/// `SCHED_IDLE` disturbs requests less, but a thread of that class gets no time at all on a
/// processor that others keep busy. It then keeps the kernel locks that it holds, such as that of
/// the address space, and does not even end: processes took up to 30 s to exit (November 2026, see
/// `benches/README.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// The priority of a worker thread.
    Normal = 0,
    /// For hashing passwords: a third of the weight of a worker thread. A worker thread that wakes
    /// up preempts this thread at once. If both had the same weight, the worker thread would wait
    /// until the end of this thread's time slice. The p99 of its wait is 3.8 ms if this thread has
    /// niceness 0, 0.12 ms at 5 and 0.10 ms at 10 (Linux 6.18, November 2026). At 10, hashing
    /// would get only a tenth of a busy processor. A client that signs in for the first time must
    /// wait for a hash, and would give up before a slow one is finished.
    Hashing = 5,
    /// For loading policies and for the console: a tenth of the weight of a worker thread. At
    /// niceness 19, loading a policy would get one or two per cent of a processor while requests
    /// use all processors. A revoked permission would then stay active for minutes.
    Background = 10,
    /// For comparing a shadow policy, where requests may be dropped: 1/68 of the weight of a worker
    /// thread.
    Lowest = 19,
}

impl Priority {
    /// Sets the priority of the calling thread. If the system does not allow that, requests may
    /// have to wait longer; nothing else changes.
    #[cfg(target_os = "linux")]
    fn set(self) {
        // In POSIX, niceness belongs to the process; in Linux, each thread has its own.
        if let Err(error) = rustix::process::nice(self as i32) {
            tracing::debug!(%error, "a background thread keeps its priority");
        }
    }

    /// On other systems a priority applies to the whole process, so it is not changed.
    #[cfg(not(target_os = "linux"))]
    fn set(self) {}
}

/// Starts a thread in the caller's span. The caller must have normal priority: the thread inherits
/// the caller's niceness, and adds that of `priority`.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    priority: Priority,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let span = Span::current();
    thread::Builder::new().name(name.into()).spawn(move || {
        priority.set();
        let _entered = span.entered();
        work()
    })
}

/// A job has panicked. The panic hook has logged the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{job} panicked{}, which is a bug in rolegate", at(place))]
pub struct Panicked {
    job: &'static str,
    /// File, line and column. Empty if the panic hook is another program's.
    place: String,
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" at {place}") }
}

/// Runs a job that may panic. The caller must not use half-changed values afterwards.
pub fn catch<T>(job: &'static str, run: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| Panicked { job, place: PLACE.take() })
}

/// Awaits a future, and returns an error if it panics. The executor would silently drop a task that
/// panics.
pub(crate) async fn catch_future<T>(
    job: &'static str,
    future: impl Future<Output = T>,
) -> Result<T, Panicked> {
    let mut future = pin!(future);
    poll_fn(|context| match catch(job, || future.as_mut().poll(context)) {
        Ok(polled) => polled.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

/// Runs a job until it returns. After a panic the job begins again, after longer and longer pauses.
pub(crate) fn keep_running(
    job: &'static str,
    mut run: impl FnMut(),
    mut on_panic: impl FnMut(&Panicked, Duration),
) {
    let mut panics = 0;
    while let Err(panicked) = catch(job, &mut run) {
        panics += 1;
        let pause = jittered(pause_after(panics));
        // The report writes to the log, which may panic, too.
        let _ = catch(job, || on_panic(&panicked, pause));
        thread::sleep(pause);
    }
}

/// Like [`keep_running`], for a task.
pub(crate) async fn keep_running_task<F: Future<Output = ()>>(
    job: &'static str,
    mut run: impl FnMut() -> F,
    mut on_panic: impl FnMut(&Panicked, Duration),
) {
    let mut panics = 0;
    while let Err(panicked) = catch_future(job, run()).await {
        panics += 1;
        let pause = jittered(pause_after(panics));
        let _ = catch(job, || on_panic(&panicked, pause));
        sleep(pause).await;
    }
}

/// Maximum number of threads of [`run_within`] with the same counter.
const MAX_RUNNING: usize = 8;

/// Why [`run_within`] has no result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts say it")]
pub enum Unfinished {
    #[error("reading the files has not finished after {0:?}: does their file system answer?")]
    Late(Duration),
    #[error(
        "not tried: {MAX_RUNNING} earlier reads of files have not finished: does their file \
         system answer?"
    )]
    Busy,
    #[error(transparent)]
    Panicked(#[from] Panicked),
    #[error("{}", start_error(.0, "`hash-threads`"))]
    Thread(#[from] io::Error),
}

/// Runs work on files on its own thread, with a time limit: an NFS server or a named pipe may never
/// answer. A late result is dropped. `running` counts these threads.
pub fn run_within<T: Send + 'static>(
    limit: Duration,
    running: &'static AtomicUsize,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unfinished> {
    let (send, result) = channel();
    if running.fetch_add(1, Ordering::Relaxed) >= MAX_RUNNING {
        running.fetch_sub(1, Ordering::Relaxed);
        return Err(Unfinished::Busy);
    }
    spawn(name, Priority::Normal, move || {
        let result = catch("reading the files", work);
        running.fetch_sub(1, Ordering::Relaxed);
        // Fails if it is too late.
        let _ = send.send(result);
    })
    .inspect_err(|_| _ = running.fetch_sub(1, Ordering::Relaxed))?;
    Ok(result.recv_timeout(limit).map_err(|_| Unfinished::Late(limit))??)
}

thread_local! {
    /// Where this thread panicked last.
    static PLACE: RefCell<String> = RefCell::default();
}

/// Installs a panic hook that writes one line with the place to the log (or to standard error,
/// before there is a log). The message of the panic is left out: `unwrap`, indexing and the like
/// print the value that they failed on, which may be a secret.
pub fn show_only_the_place() {
    panic::set_hook(Box::new(|panic| {
        let at = record_place(panic);
        if tracing::dispatcher::has_been_set() {
            let thread = thread::current();
            let thread = thread.name().unwrap_or_default();
            tracing::error!(at, thread, "panicked: this is a bug in rolegate");
        } else {
            // If standard error is closed, nothing can be done.
            let _ = writeln!(io::stderr(), "rolegate panicked at {at}: this is a bug");
        }
    }));
}

/// Returns the place of a panic, for a panic hook. Also keeps the place for [`catch`].
pub fn record_place(panic: &PanicHookInfo<'_>) -> String {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    // Fails while the thread ends.
    let _ = PLACE.try_with(|last| last.replace(place.clone()));
    place
}

/// A log that panics, to have a panic in code that logs.
#[cfg(test)]
pub(crate) mod panicking_log {
    use std::io::{self, Write};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tracing::Subscriber;

    struct Writer {
        at: &'static str,
        times: Arc<AtomicU32>,
    }

    impl Write for Writer {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let take = |left: u32| left.checked_sub(1);
            let is_it = String::from_utf8_lossy(line).contains(self.at);
            let panics =
                is_it && self.times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
            assert!(!panics, "on purpose");
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// One that panics at lines with this text, so many times.
    pub(crate) fn at(at: &'static str, times: u32) -> impl Subscriber + Send + Sync {
        let times = Arc::new(AtomicU32::new(times));
        tracing_subscriber::fmt().with_writer(move || Writer { at, times: times.clone() }).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::{MAX_RUNNING, Priority, Unfinished, run_within, spawn};

    const LONG: Duration = Duration::from_secs(60);

    /// `nice(0)` returns the niceness of the calling thread.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_has_its_own_priority() {
        let before = rustix::process::nice(0).unwrap();
        let lowest =
            spawn("lowest", Priority::Lowest, || rustix::process::nice(0).unwrap()).unwrap();
        assert_eq!(lowest.join().unwrap(), (before + 19).min(19));
        assert_eq!(rustix::process::nice(0).unwrap(), before);
    }

    #[test]
    fn work_that_panics_is_an_error() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let panicked = run_within(LONG, &RUNNING, "test", || assert!(std::env::args().len() == 0));
        assert!(matches!(panicked, Err(Unfinished::Panicked(_))), "{panicked:?}");
        assert_eq!(run_within(LONG, &RUNNING, "test", || 1).ok(), Some(1));
    }

    /// Nobody waits for more than so many, and none is left once they end.
    #[test]
    fn threads_that_are_late_are_bounded() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let mut ends = Vec::new();
        for _ in 0..MAX_RUNNING {
            let (end, ended) = channel::<()>();
            ends.push(end);
            let late = run_within(Duration::ZERO, &RUNNING, "test", move || ended.recv().is_err());
            assert!(matches!(late, Err(Unfinished::Late(_))), "{late:?}");
        }
        let busy = run_within(LONG, &RUNNING, "test", || ());
        assert!(matches!(busy, Err(Unfinished::Busy)), "{busy:?}");
        drop(ends);
        let is_free = (0..3_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            run_within(LONG, &RUNNING, "test", || ()).is_ok()
        });
        assert!(is_free);
    }
}
