//! The process log, on standard error. Decisions have a log of their own, see `runtime::decisions`.
//!
//! No thread waits for the reader of the log: a full pipe would otherwise block the thread that
//! loads policies, or the thread that answers probes, until the log is read. Lines that do not fit
//! into the queue of [`Lines`] are dropped and counted.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::error::CommandError;
use crate::settings::{LogFormat, LogLevel};
use runtime::lines::{Counts, InPieces, Lines, Writer};

/// Maximum time that shutdown waits until the last lines are read.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// The log of this process.
#[derive(Debug)]
pub(crate) struct Logs {
    queue: Queue,
    writer: Writer,
    counts: Arc<Counts>,
}

/// The queue for lines, until the log is closed.
#[derive(Clone, Debug)]
struct Queue(Arc<ArcSwapOption<Lines>>);

impl Logs {
    pub(crate) fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Queues a line of text. This never waits for the reader of the log. Printing on standard
    /// error could.
    pub(crate) fn text(&self, line: &str) {
        self.queue.offer(format!("{line}\n").as_bytes());
    }

    /// Closes the log and waits, for a limited time, until its lines are written. Later lines are
    /// lost.
    pub(crate) fn finish(self) {
        self.queue.0.store(None);
        self.writer.finish(FINISH_TIMEOUT);
    }
}

impl Queue {
    fn offer(&self, line: &[u8]) {
        if let Some(lines) = &*self.0.load() {
            lines.offer(line.to_vec());
        }
    }
}

impl Write for Queue {
    /// Queues a whole line: the formatter writes each line with a single call.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.offer(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the log of this process, with its thread.
///
/// # Errors
/// When a log was started before, or the system cannot create a thread.
pub(crate) fn start(format: LogFormat, level: LogLevel) -> Result<Logs, CommandError> {
    let counts = Arc::new(Counts::default());
    let (lines, writer) = Lines::start("logs", InPieces::new(io::stderr()), counts.clone())
        .map_err(CommandError::failed)?;
    let queue = Queue(Arc::new(ArcSwapOption::from_pointee(lines)));
    subscribe(format, level, queue.clone()).map_err(CommandError::failed)?;
    Ok(Logs { queue, writer, counts })
}

/// Whether lines are text for people, not JSON.
pub(crate) fn is_text(format: LogFormat) -> bool {
    match format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    }
}

fn subscribe(format: LogFormat, level: LogLevel, queue: Queue) -> Result<(), TryInitError> {
    // An event that cannot be formatted is lost. Otherwise the formatter would queue a text about
    // it, even if the lines are JSON. Writing to the queue never fails.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(move || queue.clone())
        .with_ansi(io::stderr().is_terminal())
        .log_internal_errors(false);
    let lines = if is_text(format) {
        lines.with_target(false).boxed()
    } else {
        // The only span of this project marks lines about the shadow policy.
        lines.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
    };
    tracing_subscriber::registry().with(lines.with_filter(filter(level))).try_init()
}

/// Only this project's own lines have the chosen level: at `debug` the HTTP stack would print
/// headers, and with them credentials.
fn filter(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let ours = ["console", "program", "runtime", "server"].map(|name| (name, level));
    Targets::new().with_targets(ours).with_default(LevelFilter::ERROR)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn all_our_crates_log_at_the_chosen_level_and_others_errors_only() {
        let targets = filter(LogLevel::Debug);
        for ours in ["console::difference", "program::serve", "runtime::reload", "server::admin"] {
            assert!(targets.would_enable(ours, &Level::DEBUG), "{ours}");
        }
        assert!(!targets.would_enable("hyper", &Level::WARN));
    }
}
