//! The log: what happens now and then, on standard error. Decisions have a log of their own, in `decisions`.
//!
//! No thread waits for whoever reads: a full pipe would hold the thread that loads policies, or the one that answers
//! probes, for as long as nobody reads it. Lines that do not fit into the queue of [`Lines`] are dropped and counted.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::lines::{Counts, Lines, Writer};
use crate::settings::{LogFormat, LogLevel};

/// How long the end waits for the last lines to be read.
const LAST_LINES: Duration = Duration::from_secs(2);

/// The log of this process.
#[derive(Debug)]
pub(crate) struct Logs {
    queue: Queue,
    writer: Writer,
    counts: Arc<Counts>,
}

/// Where lines go, until the log ends.
#[derive(Clone, Debug)]
struct Queue(Arc<ArcSwapOption<Lines>>);

/// Why there is no log.
#[derive(Debug)]
pub(crate) enum LogsError {
    /// The system has no thread to give.
    Thread(io::Error),
    /// It was started before.
    Twice(TryInitError),
}

impl std::fmt::Display for LogsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Thread(error) => error.fmt(f),
            Self::Twice(error) => error.fmt(f),
        }
    }
}

impl Logs {
    /// What became of its lines.
    pub(crate) fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Waits until what was logged is written, but not for ever. What is logged later is lost.
    pub(crate) fn finish(self) {
        self.queue.0.store(None);
        self.writer.finish(LAST_LINES);
    }
}

impl Write for Queue {
    /// One whole line: that is how they are made.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(lines) = &*self.0.load() {
            lines.offer(line.to_vec());
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the log of this process.
///
/// # Errors
/// When it was started before, or the system has no thread to give.
pub(crate) fn start(format: LogFormat, level: LogLevel) -> Result<Logs, LogsError> {
    let counts = Arc::new(Counts::default());
    let (lines, writer) = Lines::start("logs", io::stderr(), counts.clone()).map_err(LogsError::Thread)?;
    let queue = Queue(Arc::new(ArcSwapOption::from_pointee(lines)));
    subscribe(format, level, queue.clone()).map_err(LogsError::Twice)?;
    Ok(Logs { queue, writer, counts })
}

fn subscribe(format: LogFormat, level: LogLevel, queue: Queue) -> Result<(), TryInitError> {
    let text = match format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    // A line that cannot be written is lost. To tell of it on standard error, which is where it could not be written,
    // would panic: in the thread that accepts connections, for instance.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(move || queue.clone())
        .with_ansi(io::stderr().is_terminal())
        .log_internal_errors(false);
    let lines = if text {
        lines.with_target(false).boxed()
    } else {
        lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
    };
    tracing_subscriber::registry().with(lines.with_filter(filter(level))).try_init()
}

/// Only this project's own lines are at the chosen level: at `debug` the HTTP stack would print headers, and with them
/// what must never be in a log.
fn filter(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    Targets::new().with_target("sidecar", level).with_default(LevelFilter::ERROR)
}
