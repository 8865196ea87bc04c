//! The output of commands.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use document::{Place, Problem, Severity};
use serde::Serialize;

use crate::cli::Format;
use crate::error::{CommandError, Exit};

/// Standard output, standard error, and the format of a command's answer.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Set by each command that has `--output`.
    pub(crate) format: Format,
}

impl Output {
    pub(crate) fn text(&self, text: &str) {
        put(io::stdout(), text);
    }

    pub(crate) fn line(&self, line: impl Display) {
        self.text(&format!("{line}\n"));
    }

    pub(crate) fn json(&self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(text),
            Err(error) => self.error(error),
        }
    }

    /// Prints an answer in the format of the command.
    pub(crate) fn answer(&self, answer: &(impl Display + Serialize)) {
        match self.format {
            Format::Text => self.line(answer),
            Format::Json => self.json(answer),
        }
    }

    /// Prints an error on standard error.
    pub(crate) fn error(&self, message: impl Display) {
        put(io::stderr(), &format!("rolegate: {message}\n"));
    }

    pub(crate) fn warning(&self, message: impl Display) {
        self.error(format_args!("warning: {message}"));
    }

    /// Prints a prompt on standard error.
    pub(crate) fn prompt(&self, text: &str) {
        put(io::stderr(), text);
    }

    /// Reports why a command failed. Returns its exit code.
    pub(crate) fn failure(&self, error: &CommandError) -> Exit {
        match (error, self.format) {
            (CommandError::Problems(problems), Format::Json) => self.json(&Report::new(problems)),
            (CommandError::Problems(problems), Format::Text) => {
                errors_first(problems).for_each(|problem| self.error(problem));
            }
            (_, Format::Text | Format::Json) => self.error(error),
        }
        error.exit()
    }
}

/// Writes a text. A closed pipe (`| head`) is no error. Any other failure is reported on standard
/// error; if that fails too, nothing can be done.
fn put(mut to: impl Write, text: &str) {
    let written = to.write_all(text.as_bytes()).and_then(|()| to.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = writeln!(io::stderr(), "rolegate: cannot print: {error}");
    }
}

/// The problems in the order of a report for people. Errors come before warnings, because they are
/// why a command stops.
pub(crate) fn errors_first(problems: &[Problem]) -> impl Iterator<Item = &Problem> {
    let errors = problems.iter().filter(|problem| !problem.is_warning());
    errors.chain(problems.iter().filter(|problem| problem.is_warning()))
}

/// `1 rule`, `2 rules`.
pub(crate) fn counted(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Problems as JSON.
#[derive(Serialize)]
pub(crate) struct Report<'a> {
    /// Whether there is no error. A command may set another value.
    pub(crate) ok: bool,
    /// The revision of the policy, if it is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<&'a str>,
    problems: Vec<ProblemReport<'a>>,
}

#[derive(Serialize)]
struct ProblemReport<'a> {
    severity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    #[serde(flatten)]
    at: PlaceReport<'a>,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related: Vec<RelatedReport<'a>>,
}

#[derive(Serialize)]
struct RelatedReport<'a> {
    #[serde(flatten)]
    at: PlaceReport<'a>,
    message: &'a str,
}

/// A place in a file as JSON.
#[derive(Serialize)]
pub(crate) struct PlaceReport<'a> {
    file: Cow<'a, str>,
    line: u32,
    column: u32,
}

impl<'a> Report<'a> {
    pub(crate) fn new(problems: &'a [Problem]) -> Self {
        Self {
            ok: problems.iter().all(Problem::is_warning),
            policy: None,
            problems: problems.iter().map(ProblemReport::new).collect(),
        }
    }
}

impl<'a> ProblemReport<'a> {
    fn new(problem: &'a Problem) -> Self {
        let related = problem.related.iter();
        Self {
            severity: match problem.severity {
                Severity::Error => "error",
                Severity::Warning(_) => "warning",
            },
            name: problem.kind().map(|kind| kind.name()),
            at: PlaceReport::new(&problem.at),
            message: &problem.message,
            help: problem.help.as_deref(),
            related: related
                .map(|(at, message)| RelatedReport { at: PlaceReport::new(at), message })
                .collect(),
        }
    }
}

impl<'a> PlaceReport<'a> {
    pub(crate) fn new(place: &'a Place) -> Self {
        Self { file: place.file.to_string_lossy(), line: place.line, column: place.column }
    }
}
