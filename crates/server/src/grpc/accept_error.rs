//! Failed accepts: counted by why, and logged with what to change.

use std::io;

use rustix::io::Errno;

use super::notices::Notices;

/// Why a connection was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcceptError {
    /// The process or the system has no file descriptor left.
    FileDescriptors,
    /// The system has no memory left for it.
    Memory,
    /// It had failed or was closed by then. It concerns no other.
    Connection,
    /// Anything else.
    Other,
}

/// The failed accepts of all listeners.
#[derive(Debug)]
pub(super) struct AcceptErrors(Notices<AcceptError>);

impl AcceptError {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::FileDescriptors, Self::Memory, Self::Connection, Self::Other];

    /// The name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FileDescriptors => "file_descriptors",
            Self::Memory => "memory",
            Self::Connection => "connection",
            Self::Other => "other",
        }
    }

    const fn advice(self) -> &'static str {
        match self {
            Self::FileDescriptors => {
                "cannot accept a connection without a file descriptor; closing an idle one, if there is one: raise the limit \
                 of open files (`ulimit -n`), or lower `--max-connections`"
            }
            Self::Memory | Self::Connection | Self::Other => {
                "cannot accept a connection; closing an idle one, if there is one"
            }
        }
    }

    /// The kind of an error of accept(2), "Error handling".
    fn of(error: &io::Error) -> Self {
        use io::ErrorKind::{
            ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, InvalidInput, NotConnected,
            TimedOut,
        };
        let errno = Errno::from_io_error(error);
        if errno == Some(Errno::MFILE) || errno == Some(Errno::NFILE) {
            Self::FileDescriptors
        } else if errno == Some(Errno::NOMEM) || errno == Some(Errno::NOBUFS) {
            Self::Memory
        } else if matches!(
            error.kind(),
            ConnectionAborted
                | ConnectionRefused
                | ConnectionReset
                | Interrupted
                | InvalidInput
                | NotConnected
                | TimedOut
        ) {
            Self::Connection
        } else {
            Self::Other
        }
    }
}

impl AcceptErrors {
    pub(super) fn new() -> Self {
        Self(Notices::new(&AcceptError::ALL))
    }

    /// Counts it, and logs it unless that was done a short time ago, or it concerns one connection only. Returns its kind.
    pub(super) fn notice(&self, error: &io::Error) -> AcceptError {
        let kind = AcceptError::of(error);
        if self.0.notice(kind) && kind != AcceptError::Connection {
            tracing::warn!(%error, reason = kind.name(), "{}", kind.advice());
        }
        kind
    }

    /// How often each was seen.
    pub(super) fn counts(&self) -> Vec<(AcceptError, u64)> {
        self.0.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_an_error_is_known() {
        for (errno, kind) in [
            (Errno::MFILE, AcceptError::FileDescriptors),
            (Errno::NFILE, AcceptError::FileDescriptors),
            (Errno::NOBUFS, AcceptError::Memory),
            (Errno::CONNABORTED, AcceptError::Connection),
            (Errno::PERM, AcceptError::Other),
        ] {
            assert_eq!(AcceptError::of(&io::Error::from(errno)), kind, "{errno:?}");
        }
    }
}
