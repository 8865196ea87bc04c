//! The log of the process, for tests.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log of this thread while `run` runs.
pub(crate) fn logged(run: impl FnOnce()) -> String {
    let log = Log::default();
    let to = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || to.clone()).finish();
    tracing::subscriber::with_default(subscriber, run);
    String::from_utf8(log.0.lock().unwrap().clone()).unwrap()
}
