//! The kinds of failed requests, with the names under which reports count them.

use std::io::{self, ErrorKind};

use super::tally::Fault;

/// The server closed the connection before the response was complete.
pub(super) const CLOSED: Fault = Fault::Borrowed("connection closed");

/// No complete response within the timeout.
pub(super) const TIMEOUT: Fault = Fault::Borrowed("timeout");

/// The fault for an error of the system.
pub(super) fn of_io(error: &io::Error) -> Fault {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".into(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => CLOSED,
        ErrorKind::NotFound => "no such socket".into(),
        ErrorKind::TimedOut => TIMEOUT,
        kind => kind.to_string().into(),
    }
}

/// The fault for an HTTP/2 error.
pub(super) fn of_h2(error: &h2::Error) -> Fault {
    if let Some(error) = error.get_io() {
        return of_io(error);
    }
    match error.reason() {
        Some(reason) if error.is_reset() => format!("stream reset: {reason:?}").into(),
        Some(reason) if error.is_go_away() => format!("GOAWAY: {reason:?}").into(),
        _ => CLOSED,
    }
}
