//! `rolegate check`: every problem of a policy.

use std::path::Path;

use identity::FetchedKeys;
use policy::{Place, Problem, Severity};
use serde::Serialize;

use crate::cli::{CheckArgs, Format};
use crate::exit::Exit;
use crate::output::Output;
use crate::snapshot::{self, Snapshot};

/// Prints every problem, then a summary.
pub fn check(args: &CheckArgs, output: &mut Output<'_>) -> Exit {
    let file = snapshot::policy_file(&args.policy);
    let attempt = snapshot::load(&file, &FetchedKeys::new(), None);
    let (problems, sound) = match &attempt.result {
        Ok(snapshot) => (&snapshot.warnings, Some(snapshot)),
        Err(problems) => (problems, None),
    };
    match args.output {
        Format::Text => {
            print_problems(problems, output);
            output.line(&summary(&file, problems, sound));
        }
        Format::Json => output.json(&Report::of(problems)),
    }
    if sound.is_some() { Exit::Fine } else { Exit::Policy }
}

/// Prints problems for people, one below the other.
pub(super) fn print_problems(problems: &[Problem], output: &mut Output<'_>) {
    for problem in problems {
        output.line(&problem.to_string());
    }
}

/// Problems as a program reads them.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    ok: bool,
    problems: Vec<ReportedProblem<'a>>,
}

#[derive(Serialize)]
struct ReportedProblem<'a> {
    severity: String,
    #[serde(flatten)]
    at: ReportedPlace,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related: Vec<Related<'a>>,
}

#[derive(Serialize)]
struct ReportedPlace {
    file: String,
    line: u32,
    column: u32,
}

#[derive(Serialize)]
struct Related<'a> {
    #[serde(flatten)]
    at: ReportedPlace,
    message: &'a str,
}

impl<'a> Report<'a> {
    pub(super) fn of(problems: &'a [Problem]) -> Self {
        Self {
            ok: count(problems, Severity::Error) == 0,
            problems: problems.iter().map(ReportedProblem::of).collect(),
        }
    }
}

impl<'a> ReportedProblem<'a> {
    fn of(problem: &'a Problem) -> Self {
        let related = |(at, message): &'a (Place, String)| Related { at: ReportedPlace::of(at), message };
        Self {
            severity: problem.severity.to_string(),
            at: ReportedPlace::of(&problem.at),
            message: &problem.message,
            help: problem.help.as_deref(),
            related: problem.related.iter().map(related).collect(),
        }
    }
}

impl ReportedPlace {
    fn of(place: &Place) -> Self {
        Self { file: place.file.display().to_string(), line: place.line, column: place.column }
    }
}

fn summary(file: &Path, problems: &[Problem], sound: Option<&Snapshot>) -> String {
    let (errors, warnings) = (count(problems, Severity::Error), count(problems, Severity::Warning));
    let found = match (errors, warnings) {
        (0, 0) => String::new(),
        (0, _) => format!(", {}", counted(warnings, "warning")),
        (_, 0) => counted(errors, "error"),
        _ => format!("{}, {}", counted(errors, "error"), counted(warnings, "warning")),
    };
    let Some(snapshot) = sound else { return format!("{}: {found}", file.display()) };
    let policy = &snapshot.loaded.policy;
    let (roles, rules) = (counted(policy.roles.len(), "role"), counted(policy.rules().count(), "rule"));
    format!("{}: ok ({roles}, {rules}){found}", file.display())
}

fn count(problems: &[Problem], severity: Severity) -> usize {
    problems.iter().filter(|problem| problem.severity == severity).count()
}

/// `1 rule`, `2 rules`.
pub(super) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
