//! How a run ends: the errors of this crate, and the exit codes of the process.

use std::process::ExitCode;

/// Why a run has no results. The text contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// An argument, the plan or a workload file is invalid.
    #[error("{0}")]
    Plan(String),
    /// A file cannot be written, or the sample application cannot listen.
    #[error("{0}")]
    System(String),
    /// The server cannot be reached.
    #[error("cannot reach `{target}`: {reason}")]
    Unreachable {
        /// The server.
        target: String,
        /// The error of the system.
        reason: String,
    },
    /// The generator itself got an error from the system.
    #[error("the load generator failed: {0}")]
    Generator(String),
}

impl Failed {
    pub(crate) fn plan(why: impl Into<String>) -> Self {
        Self::Plan(why.into())
    }
}

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
