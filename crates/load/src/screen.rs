//! What is printed: results on standard output, all else on standard error.

use std::io::{self, ErrorKind, Write};

/// Prints text on standard output.
pub(crate) fn text(text: &str) {
    put(&mut io::stdout(), text);
}

/// Prints a line on standard output.
pub(crate) fn line(line: &str) {
    text(&format!("{line}\n"));
}

/// Says what went wrong, on standard error.
pub(crate) fn error(message: &str) {
    put(&mut io::stderr(), &format!("rolegate-load: {message}\n"));
}

/// Says something on the way, on standard error.
pub(crate) fn note(line: &str) {
    put(&mut io::stderr(), &format!("\r{line}\n"));
}

/// Writes over the line that a terminal shows on standard error.
pub(crate) fn status(line: &str) {
    put(&mut io::stderr(), &format!("\r\x1b[K{line}"));
}

/// A reader who has seen enough (`| head`) is no error, and of anything else there is nobody left to tell.
fn put(to: &mut dyn Write, text: &str) {
    let written = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = writeln!(io::stderr(), "rolegate-load: cannot print: {error}");
    }
}
