//! The settings file: YAML, one mapping of names to values or lists of values.

use std::path::{Path, PathBuf};

use clap::Command;
use clap::error::{ContextKind, ErrorKind};
use document::{Fields, FileError, Key, Mark, Node, Problem, Reader, Value};

use crate::output::problem_lines;

/// One setting in a file.
#[derive(Debug)]
pub(super) struct Entry {
    /// The id of the argument in clap.
    pub(super) id: String,
    /// Its values, at least one.
    pub(super) values: Vec<String>,
}

/// Why a settings file or the environment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It cannot be read.
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
    /// Its problems.
    #[error("{}", problem_lines(.0))]
    Wrong(Vec<Problem>),
}

/// Reads a settings file and validates each entry with `settings`, a command with one argument for each setting.
pub(super) fn read(path: &Path, settings: &Command) -> Result<Vec<Entry>, SettingsError> {
    let text = runtime::files::text(path)
        .map_err(|reason| SettingsError::Unreadable { path: path.to_owned(), reason })?;
    let mut reader = Reader::new(path.into());
    // An empty file sets nothing.
    let root = reader.parse(text.as_bytes()).filter(|root| !root.is_nothing());
    let written = root.as_ref().and_then(|root| reader.entries(root, "the settings file"));
    let written = written.iter().flat_map(Fields::iter);
    let entries = written.filter_map(|(key, node)| entry(&mut reader, key, node, settings)).collect();
    let mut problems = reader.finish();
    problems.sort_by(|one, other| one.at.cmp(&other.at));
    if problems.is_empty() { Ok(entries) } else { Err(SettingsError::Wrong(problems)) }
}

fn entry(reader: &mut Reader, key: &Key, node: &Node, settings: &Command) -> Option<Entry> {
    let name = &*key.text;
    let Some(arg) = settings.get_arguments().find(|arg| arg.get_long() == Some(name)) else {
        reader.error_help(key.at, format!("unknown setting `{name}`"), suggestion(name, settings));
        return None;
    };
    let values = values(reader, node)?;
    let repeatable = matches!(arg.get_action(), clap::ArgAction::Append);
    if let Some((at, _)) = values.get(1).filter(|_| !repeatable) {
        reader.error(*at, format!("`{name}` takes one value, not a list"));
        return None;
    }
    for (at, value) in &values {
        if let Err(message) = validate(settings, name, value) {
            reader.error(*at, message);
        }
    }
    let values = values.into_iter().map(|(_, value)| value.to_owned()).collect();
    Some(Entry { id: arg.get_id().as_str().to_owned(), values })
}

/// A value, or a list of at least one, each with its place. Nothing is interpreted as YAML would: a value is the text
/// that would follow `--name=`.
fn values<'n>(reader: &mut Reader, node: &'n Node) -> Option<Vec<(Mark, &'n str)>> {
    let nodes = match &node.value {
        Value::Scalar(_) => std::slice::from_ref(node),
        Value::List(nodes) if !nodes.is_empty() => nodes,
        Value::List(_) => {
            reader.error(node.at, "at least one value is expected");
            return None;
        }
        Value::Map(_) => {
            reader.error(node.at, "a value or a list of values is expected");
            return None;
        }
    };
    let mut values = Vec::with_capacity(nodes.len());
    for node in nodes {
        match &node.value {
            Value::Scalar(scalar) => values.push((node.at, &*scalar.text)),
            Value::List(_) | Value::Map(_) => {
                reader.error(node.at, "a value is expected");
                return None;
            }
        }
    }
    Some(values)
}

fn suggestion(name: &str, settings: &Command) -> String {
    let names = || settings.get_arguments().filter_map(|arg| arg.get_long());
    let kebab = name.replace('_', "-").to_lowercase();
    match names().find(|known| known.starts_with(&*kebab)).or_else(|| document::closest(name, names())) {
        Some(known) => format!("did you mean `{known}`?"),
        None => "settings are named like the flags in `rolegate serve --help`, without the leading dashes"
            .to_owned(),
    }
}

/// Validates a value: it must be accepted as `--name=value` on the command line.
fn validate(settings: &Command, name: &str, value: &str) -> Result<(), String> {
    let arguments = ["settings".to_owned(), format!("--{name}={value}")];
    let Err(error) = settings.clone().try_get_matches_from(arguments) else { return Ok(()) };
    let reason = match (error.kind(), std::error::Error::source(&error)) {
        (ErrorKind::InvalidValue, _) => match error.get(ContextKind::ValidValue) {
            Some(valid) => format!("one of {valid} is expected"),
            None => "a value is missing".to_owned(),
        },
        (_, Some(source)) => source.to_string(),
        (kind, None) => kind.to_string(),
    };
    Err(format!("`{value}` for `{name}`: {reason}"))
}
