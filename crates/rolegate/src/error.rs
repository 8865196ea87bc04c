//! Why a command fails.

use document::Problem;

use crate::exit::Exit;

/// Why a command fails. Each variant has an exit code.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// A policy, a bundle or test cases have these problems.
    #[error("{}", problem_lines(.0))]
    Problems(Vec<Problem>),
    /// A bundle is not signed by a given key.
    #[error("{0}")]
    Unsigned(String),
    /// The arguments are wrong, or a file that they name.
    #[error("{0}")]
    Arguments(String),
    /// A policy, a bundle or a configuration cannot be read or is not valid.
    #[error("{0}")]
    Policy(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl From<Vec<Problem>> for CommandError {
    fn from(problems: Vec<Problem>) -> Self {
        Self::Problems(problems)
    }
}

impl CommandError {
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Unsigned(_) => Exit::Denied,
            Self::Arguments(_) => Exit::Arguments,
            Self::Problems(_) | Self::Policy(_) => Exit::Policy,
            Self::Failed(_) => Exit::Failed,
        }
    }
}

/// The value of an argument is not valid.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidValue(pub(crate) String);

/// The problems of a file, as lines of text for people.
pub(crate) fn problem_lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
