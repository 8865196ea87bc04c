//! The exit codes of the process.

use std::process::ExitCode;

/// The exit codes of `rolegate`; scripts rely on them. `rolegate --help` says what each means for
/// each command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success, or the answer is yes.
    Success = 0,
    /// The answer is no: a request is denied, a server is not ready, a policy changes an answer.
    Denied = 1,
    /// The arguments or the settings are not valid.
    Arguments = 2,
    /// A policy, a bundle, test cases or a configuration cannot be read or are not valid.
    Policy = 3,
    /// A test case failed.
    Case = 4,
    /// The process could not do its work, for example because a port is in use.
    Failed = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        // The enum has no fields and is `repr(u8)`: the cast gives its value.
        Self::from(exit as u8)
    }
}
