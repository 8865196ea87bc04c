//! Why a run fails.

/// Why a run has no results. The text contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// The plan is invalid.
    #[error("{0}")]
    Plan(String),
    /// A workload file cannot be used. The text names the file and the place.
    #[error("{0}")]
    Workload(String),
    /// The sample application cannot listen, or ends.
    #[error("{0}")]
    App(String),
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
