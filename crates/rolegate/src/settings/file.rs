//! The settings file: a YAML mapping of names to values or lists of values.

use std::path::{Path, PathBuf};

use clap::Command;
use document::{FileError, Problem, Reader};
use runtime::settings::{Entry, read_entries};

use crate::error::problem_lines;

/// Why a settings file or the environment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the settings file `{}`: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: FileError,
    },
    /// The environment has variables that look like settings and are none.
    #[error("{}", .0.join("\n"))]
    UnknownVariables(Vec<String>),
    /// The file has these problems.
    #[error("{}", problem_lines(.0))]
    Wrong(Vec<Problem>),
}

/// Reads a settings file and validates each entry with `settings`, a command with an argument for
/// each setting.
pub(super) fn read(path: &Path, settings: &Command) -> Result<Vec<Entry>, SettingsError> {
    let text = runtime::files::text(path)
        .map_err(|reason| SettingsError::Unreadable { path: path.to_owned(), reason })?;
    let mut reader = Reader::new(path.into());
    // An empty file sets nothing.
    let root = reader.parse(text.as_bytes()).filter(|root| !root.is_nothing());
    let entries = root.map(|root| read_entries(&mut reader, &root, "the settings file", settings));
    let mut problems = reader.finish();
    problems.sort_by(|a, b| a.at.cmp(&b.at));
    if problems.is_empty() {
        Ok(entries.unwrap_or_default())
    } else {
        Err(SettingsError::Wrong(problems))
    }
}
