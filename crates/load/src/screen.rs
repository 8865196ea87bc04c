//! Output: results to standard output, everything else to standard error.

use std::io::{self, ErrorKind, Write};

pub(crate) fn text(text: &str) {
    put(&mut io::stdout(), text);
}

pub(crate) fn error(message: &str) {
    put(&mut io::stderr(), &format!("rolegate-load: {message}\n"));
}

pub(crate) fn note(line: &str) {
    put(&mut io::stderr(), &format!("\r{line}\n"));
}

/// Overwrites the status line of the terminal on standard error.
pub(crate) fn status(line: &str) {
    put(&mut io::stderr(), &format!("\r\x1b[K{line}"));
}

/// A reader that closes the pipe (`| head`) is not an error; any other error could not be reported
/// anywhere.
fn put(to: &mut dyn Write, text: &str) {
    let written = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = writeln!(io::stderr(), "rolegate-load: cannot print: {error}");
    }
}
