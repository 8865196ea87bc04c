//! The exit codes of the process.

use std::process::ExitCode;

/// The exit codes of `rolegate-load`; scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The run is complete, and no threshold was crossed.
    Success = 0,
    /// The arguments or the workload are wrong.
    Arguments = 2,
    /// A `--fail-if` condition is true.
    Threshold = 4,
    /// The server cannot be reached, a port is in use, or a file cannot be written.
    Failed = 5,
    /// The run was interrupted; its results so far were printed.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        // A fieldless enum of this representation: the cast is its value.
        Self::from(exit as u8)
    }
}
