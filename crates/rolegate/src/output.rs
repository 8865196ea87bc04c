//! The output of commands.

use std::io::{self, ErrorKind, Write};

use document::Problem;
use serde::Serialize;

/// Standard output and standard error, or their replacements in a test.
pub(crate) struct Output<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
}

impl<'a> Output<'a> {
    /// Prints to these writers.
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

    /// Prints an error on standard error.
    pub(crate) fn error(&mut self, message: &str) {
        Self::put(self.err, &format!("rolegate: {message}\n"));
    }

    /// Prints a warning on standard error.
    pub(crate) fn warning(&mut self, message: &str) {
        self.error(&format!("warning: {message}"));
    }

    /// Prints a prompt on standard error.
    pub(crate) fn prompt(&mut self, text: &str) {
        Self::put(self.err, text);
    }

    /// A closed pipe (`| head`) is no error. Any other failure is reported on standard error; if that fails too,
    /// nothing can be done.
    fn put(to: &mut dyn Write, text: &str) {
        let written = to.write_all(text.as_bytes()).and_then(|()| to.flush());
        if let Err(error) = written
            && error.kind() != ErrorKind::BrokenPipe
        {
            let _ = writeln!(io::stderr(), "rolegate: cannot print: {error}");
        }
    }
}

/// The problems of a file, as lines of text for people.
pub(crate) fn problem_lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
