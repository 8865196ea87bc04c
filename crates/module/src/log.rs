//! The library's log lines go to Envoy's log.

use std::io::{self, Write};
use std::sync::Once;

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

use crate::abi;

/// Writes lines of a level.
struct Lines(abi::Level);

/// Writers for lines of each level.
struct Writers;

impl Write for Lines {
    /// Writes a whole line: the formatter writes each line with a single call.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        abi::log(self.0, String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Writers {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        Lines(abi::Level::Info)
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Lines {
        Lines(match *metadata.level() {
            Level::ERROR => abi::Level::Error,
            Level::WARN => abi::Level::Warn,
            Level::INFO => abi::Level::Info,
            Level::DEBUG | Level::TRACE => abi::Level::Debug,
        })
    }
}

/// Passes log lines on to Envoy, which decides by its own log level which of them are written.
pub(crate) fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        // The subscriber is this library's own, since it has its own copy of `tracing`. So none was
        // set before.
        drop(tracing::subscriber::set_global_default(subscriber()));
    });
}

/// Only this project's own lines: the HTTP stack would print headers at `debug`, and with them
/// credentials.
fn subscriber() -> impl Subscriber + Send + Sync {
    let ours = ["console", "rolegate", "runtime", "server"].map(|name| (name, Level::DEBUG));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(Writers)
        .with_ansi(false)
        .without_time()
        .with_level(false)
        .with_target(false)
        .log_internal_errors(false);
    tracing_subscriber::registry().with(lines.with_filter(Targets::new().with_targets(ours)))
}
