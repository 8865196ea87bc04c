//! What a panic leaves behind: where it was, and nothing of what was being looked at.

use std::io::Write;
use std::panic::{self, PanicHookInfo};
use std::thread;

/// From now on a panic is one line in the log (or on standard error, before there is a log) with its place. The message
/// of a panic is left out: `unwrap`, indexing and the like print the value they failed on, and that may be a secret.
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
        // There is nobody left to tell of a standard error that is closed.
        let _ = writeln!(std::io::stderr(), "rolegate panicked at {at}: this is a bug");
    }
}
