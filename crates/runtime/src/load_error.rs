//! Why a policy is not loaded at the start.

use document::Problem;

/// Why a policy is not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It does not compile: every problem.
    #[error("the policy does not compile\n{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Policy(Vec<Problem>),
    /// The shadow policy does not compile: every problem.
    #[error("the shadow policy does not compile\n{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Shadow(Vec<Problem>),
    /// A setting, or a file that it names, cannot be used.
    #[error("{0}")]
    Setting(String),
}

impl From<Vec<Problem>> for LoadError {
    fn from(problems: Vec<Problem>) -> Self {
        Self::Policy(problems)
    }
}
