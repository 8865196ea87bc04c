//! Panics, each a bug: reported by their location only, without the data that was being processed, and kept from ending what
//! must go on.

use std::future::poll_fn;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::thread;

/// Installs a panic hook that writes one line with the location to the log (or to standard error, before there is a
/// log). The message of the panic is left out: `unwrap`, indexing and the like print the value that they failed on,
/// which may be a secret.
pub fn show_only_the_place() {
    panic::set_hook(Box::new(show));
}

fn show(panic: &PanicHookInfo<'_>) {
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = thread::current();
    let thread = thread.name().unwrap_or_default();
    if tracing::dispatcher::has_been_set() {
        tracing::error!(at, thread, "panicked: this is a bug in rolegate");
    } else {
        // If standard error is closed, nothing can be done.
        let _ = writeln!(std::io::stderr(), "rolegate panicked at {at}: this is a bug");
    }
}

/// A future has panicked.
#[derive(Debug)]
pub(crate) struct Panicked;

/// Awaits a future that may panic. The runtime would drop a task that panics, and nobody would notice that its work is
/// no longer done. The future is not polled again, and what it shares with others is behind locks that they recover from.
///
/// # Errors
/// When it has panicked. The panic hook has logged where.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(_) => Poll::Ready(Err(Panicked)),
    })
    .await
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
            let panics = is_it && self.times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
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
