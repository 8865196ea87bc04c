//! The log: what happens now and then, on standard error. Decisions have a log of their own, in `decisions`.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::settings::{LogFormat, LogLevel};

/// Starts the log of this process.
///
/// # Errors
/// When it was started before.
pub(crate) fn start(format: LogFormat, level: LogLevel) -> Result<(), TryInitError> {
    let text = match format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    // A line that cannot be written is lost. To tell of it on standard error, which is where it could not be written,
    // would panic: in the thread that accepts connections, for instance.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
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
