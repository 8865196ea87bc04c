//! Why a command fails, and the exit codes.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use document::Problem;

/// The exit codes of `rolegate`; scripts rely on them. `rolegate --help` has their meanings for
/// each command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success, or the answer is yes.
    Success = 0,
    /// The answer is no: a request is denied, a server is not ready, a policy changes an answer.
    No = 1,
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
    #[error("{0}")]
    Failed(String),
}

impl From<Vec<Problem>> for CommandError {
    fn from(problems: Vec<Problem>) -> Self {
        Self::Problems(problems)
    }
}

impl CommandError {
    pub(crate) fn arguments(message: impl Display) -> Self {
        Self::Arguments(message.to_string())
    }

    pub(crate) fn policy(message: impl Display) -> Self {
        Self::Policy(message.to_string())
    }

    pub(crate) fn failed(message: impl Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// A file cannot be read, written or used.
    pub(crate) fn failed_at(file: &Path, error: impl Display) -> Self {
        Self::Failed(format!("{}: {error}", file.display()))
    }

    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::Unsigned(_) => Exit::No,
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
