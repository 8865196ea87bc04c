//! How the process ends.

use std::process::ExitCode;

/// The exit codes of `rolegate`; scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All is well; for `explain`: the request is allowed.
    Fine = 0,
    /// `explain`: the request is refused. `health`: the server is not ready.
    Denied = 1,
    /// The arguments or the settings are wrong.
    Arguments = 2,
    /// The policy, or the cases beside it, cannot be read or do not compile.
    Policy = 3,
    /// `test`: a case failed.
    Case = 4,
    /// The process could not do its work: a taken port, say.
    Failed = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        // A fieldless enum of this representation: the cast is its value.
        Self::from(exit as u8)
    }
}
