//! What commands print.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

/// Standard output and standard error, or what stands for them in a test.
pub(crate) struct Output<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
}

impl<'a> Output<'a> {
    /// Prints to these.
    pub(crate) fn new(out: &'a mut dyn Write, err: &'a mut dyn Write) -> Self {
        Self { out, err }
    }

    /// Prints text.
    pub(crate) fn text(&mut self, text: &str) {
        Self::put(self.out, text);
    }

    /// Prints a line.
    pub(crate) fn line(&mut self, line: &str) {
        Self::put(self.out, &format!("{line}\n"));
    }

    /// Prints one JSON value.
    pub(crate) fn json(&mut self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(&text),
            Err(error) => self.error(&error.to_string()),
        }
    }

    /// Says what went wrong, on standard error.
    pub(crate) fn error(&mut self, message: &str) {
        Self::put(self.err, &format!("rolegate: {message}\n"));
    }

    /// Asks something, on standard error.
    pub(crate) fn prompt(&mut self, text: &str) {
        Self::put(self.err, text);
    }

    /// A reader who has seen enough (`| head`) is no error, and of anything else there is nobody left to tell.
    fn put(to: &mut dyn Write, text: &str) {
        let written = to.write_all(text.as_bytes()).and_then(|()| to.flush());
        if let Err(error) = written
            && error.kind() != ErrorKind::BrokenPipe
        {
            let _ = writeln!(io::stderr(), "rolegate: cannot print: {error}");
        }
    }
}
