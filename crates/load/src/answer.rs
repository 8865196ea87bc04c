//! How a request ends: with an answer, or with a fault under whose name reports count it.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, ErrorKind};

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// An HTTP response with this status.
    Status(u16),
    /// A Check call that allows.
    Allowed,
    /// A Check call that denies, with this status for the client.
    Denied(u16),
}

impl Answer {
    /// The status that the client gets, or would get.
    pub const fn status(self) -> u16 {
        match self {
            Self::Status(status) | Self::Denied(status) => status,
            Self::Allowed => 200,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::Allowed => f.write_str("allowed"),
            Self::Denied(status) => write!(f, "denied {status}"),
        }
    }
}

/// Why there is no response. Few and constant texts, because reports count by them.
pub type Fault = Cow<'static, str>;

/// The server closed the connection before the response was complete.
pub(crate) const CLOSED: Fault = Fault::Borrowed("connection closed");
/// No complete response within the timeout.
pub(crate) const TIMEOUT: Fault = Fault::Borrowed("timeout");
/// Nothing listens at the address.
pub(crate) const REFUSED: Fault = Fault::Borrowed("connection refused");
/// No Unix socket is at the path.
pub(crate) const NO_SOCKET: Fault = Fault::Borrowed("no such socket");

/// The values of variables made a request that HTTP does not allow.
pub(crate) const INVALID: Fault = Fault::Borrowed("invalid request");

pub(crate) fn io_fault(error: &io::Error) -> Fault {
    match error.kind() {
        ErrorKind::ConnectionRefused => REFUSED,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => CLOSED,
        ErrorKind::NotFound => NO_SOCKET,
        ErrorKind::TimedOut => TIMEOUT,
        kind => kind.to_string().into(),
    }
}

pub(crate) fn h2_fault(error: &h2::Error) -> Fault {
    if let Some(error) = error.get_io() {
        return io_fault(error);
    }
    match error.reason() {
        Some(reason) if error.is_reset() => format!("stream reset: {reason:?}").into(),
        Some(reason) if error.is_go_away() => format!("GOAWAY: {reason:?}").into(),
        _ => CLOSED,
    }
}
