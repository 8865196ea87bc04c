//! Why a policy is not loaded at the start.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use policy::Problem;

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

/// A file that a setting names cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`{setting}` {}: {why}", file.display())]
pub(crate) struct SettingError {
    setting: &'static str,
    file: PathBuf,
    why: String,
}

impl SettingError {
    /// For this reason.
    pub(crate) fn new(setting: &'static str, file: &Path, why: &dyn Display) -> Self {
        Self { setting, file: file.to_owned(), why: why.to_string() }
    }
}
