//! Reports a panic by its location only, without the data that was being processed.

use std::io::Write;
use std::panic::{self, PanicHookInfo};
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
