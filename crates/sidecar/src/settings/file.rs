//! The settings file: YAML, one mapping of names to values or lists of values.

use std::path::{Path, PathBuf};

use clap::Command;
use clap::error::{ContextKind, ErrorKind};
use policy::{Place, Problem};
use saphyr_parser::{Event, Marker, Parser, Span};

use crate::output::problem_lines;

/// One setting in a file.
#[derive(Debug)]
pub(super) struct Entry {
    /// The id of the argument in clap.
    pub(super) id: String,
    /// Its values, at least one.
    pub(super) values: Vec<String>,
}

/// Why a settings file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It cannot be read.
    #[error("cannot read the settings file `{}`: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// Its problems.
    #[error("{}", problem_lines(.0))]
    Wrong(Vec<Problem>),
}

/// Reads a settings file and validates each entry with `settings`, a command with one argument for each setting.
pub(super) fn read(path: &Path, settings: &Command) -> Result<Vec<Entry>, SettingsError> {
    let text = crate::files::text(path)
        .map_err(|reason| SettingsError::Unreadable { path: path.to_owned(), reason })?;
    let written = parse(path, &text).map_err(|problem| SettingsError::Wrong(vec![problem]))?;
    let mut problems = duplicates(&written);
    let mut entries = Vec::new();
    for setting in written {
        match entry(setting, settings) {
            Ok(entry) => entries.push(entry),
            Err(problem) => problems.push(problem),
        }
    }
    problems.sort_by(|one, other| one.at.cmp(&other.at));
    if problems.is_empty() { Ok(entries) } else { Err(SettingsError::Wrong(problems)) }
}

/// A setting as written in the file.
struct Written {
    name: String,
    at: Place,
    values: Vec<(String, Place)>,
}

fn duplicates(written: &[Written]) -> Vec<Problem> {
    let earlier = |index: usize, name: &str| written.iter().take(index).find(|entry| entry.name == name);
    written
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| earlier(index, &entry.name).map(|first| (entry, first)))
        .map(|(entry, first)| {
            Problem::error(entry.at.clone(), format!("`{}` is set twice", entry.name))
                .related(first.at.clone(), "first set here")
        })
        .collect()
}

fn entry(written: Written, settings: &Command) -> Result<Entry, Problem> {
    let names = || settings.get_arguments().filter_map(|arg| arg.get_long().map(|long| (long, arg)));
    let Some((_, arg)) = names().find(|(long, _)| *long == written.name) else {
        return Err(unknown(&written, names().map(|(long, _)| long)));
    };
    let repeatable = matches!(arg.get_action(), clap::ArgAction::Append);
    if let Some((_, at)) = written.values.get(1)
        && !repeatable
    {
        return Err(Problem::error(at.clone(), format!("`{}` takes one value, not a list", written.name)));
    }
    for (value, at) in &written.values {
        validate(settings, &written.name, value).map_err(|message| Problem::error(at.clone(), message))?;
    }
    let id = arg.get_id().as_str().to_owned();
    Ok(Entry { id, values: written.values.into_iter().map(|(value, _)| value).collect() })
}

fn unknown<'a>(written: &Written, names: impl Iterator<Item = &'a str>) -> Problem {
    let problem = Problem::error(written.at.clone(), format!("unknown setting `{}`", written.name));
    let kebab = written.name.replace('_', "-").to_lowercase();
    match names.into_iter().find(|name| **name == *kebab || name.starts_with(&*kebab)) {
        Some(name) => problem.help(format!("did you mean `{name}`?")),
        None => problem
            .help("settings are named like the flags in `rolegate serve --help`, without the leading dashes"),
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

fn parse(path: &Path, text: &str) -> Result<Vec<Written>, Problem> {
    let mut reader = Reader { path, events: Parser::new_from_str(text) };
    loop {
        match reader.next()? {
            (Event::StreamStart | Event::DocumentStart(_), _) => {}
            (Event::MappingStart(..), _) => return reader.mapping(),
            // An empty file sets nothing.
            (Event::StreamEnd | Event::DocumentEnd, _) => return Ok(Vec::new()),
            (Event::Scalar(text, ..), _) if text.is_empty() || &*text == "~" => {}
            (_, at) => return Err(Problem::error(at, "a mapping of settings to values is expected")),
        }
    }
}

/// Reads the events of one file.
struct Reader<'a> {
    path: &'a Path,
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Place), Problem> {
        match self.events.next() {
            Some(Ok((event, Span { start, .. }))) => Ok((event, self.place(start))),
            Some(Err(error)) => {
                Err(Problem::error(self.place(*error.marker()), format!("not YAML: {}", error.info())))
            }
            None => Ok((Event::StreamEnd, Place::start_of(self.path))),
        }
    }

    fn place(&self, mark: Marker) -> Place {
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Place {
            file: self.path.into(),
            line: number(mark.line()).max(1),
            column: number(mark.col()).saturating_add(1),
        }
    }

    fn mapping(&mut self) -> Result<Vec<Written>, Problem> {
        let mut written = Vec::new();
        loop {
            match self.next()? {
                (Event::Scalar(name, ..), at) => {
                    written.push(Written { name: name.into_owned(), at, values: self.values()? });
                }
                (Event::MappingEnd, _) => break,
                (_, at) => return Err(Problem::error(at, "the name of a setting is expected")),
            }
        }
        match self.next()? {
            (Event::DocumentEnd, _) => {}
            (_, at) => return Err(Problem::error(at, "nothing may follow the settings")),
        }
        match self.next()? {
            (Event::StreamEnd, _) => Ok(written),
            (_, at) => Err(Problem::error(at, "a second document: only one is allowed")),
        }
    }

    fn values(&mut self) -> Result<Vec<(String, Place)>, Problem> {
        match self.next()? {
            (Event::Scalar(value, ..), at) => Ok(vec![(value.into_owned(), at)]),
            (Event::SequenceStart(..), at) => self.list(at),
            (_, at) => Err(Problem::error(at, "a value or a list of values is expected")),
        }
    }

    fn list(&mut self, start: Place) -> Result<Vec<(String, Place)>, Problem> {
        let mut values = Vec::new();
        loop {
            match self.next()? {
                (Event::Scalar(value, ..), at) => values.push((value.into_owned(), at)),
                (Event::SequenceEnd, _) if values.is_empty() => {
                    return Err(Problem::error(start, "at least one value is expected"));
                }
                (Event::SequenceEnd, _) => return Ok(values),
                (_, at) => return Err(Problem::error(at, "a value is expected")),
            }
        }
    }
}
