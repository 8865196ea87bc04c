//! Loads the policy that a command uses.

use std::path::Path;

use document::{Place, Problem, Severity};
use serde::Serialize;

use super::policy_files::{NotOpened, PolicyFiles};
use crate::cli::{Format, PublicKeys};
use crate::exit::Exit;
use crate::output::Output;
use runtime::compiled_policy::CompiledPolicy;

/// Loads the policy, or reports why it does not compile.
pub(super) fn load(
    policy: &Path,
    keys: &PublicKeys,
    format: Format,
    output: &mut Output<'_>,
) -> Result<CompiledPolicy, Exit> {
    compiled(&open(policy, keys, format, output)?, format, output)
}

/// The files of the policy, or reports why there are none.
pub(super) fn open(
    policy: &Path,
    keys: &PublicKeys,
    format: Format,
    output: &mut Output<'_>,
) -> Result<PolicyFiles, Exit> {
    PolicyFiles::open(policy, keys, output).map_err(|not_opened| match not_opened {
        NotOpened::Bundle(problems) => {
            report(&problems, format, output);
            Exit::Policy
        }
        NotOpened::Other(exit, message) => {
            output.error(&message);
            exit
        }
    })
}

/// Loads the policy in these files, or reports why it does not compile.
pub(super) fn compiled(
    files: &PolicyFiles,
    format: Format,
    output: &mut Output<'_>,
) -> Result<CompiledPolicy, Exit> {
    files.load().map_err(|problems| {
        report(&problems, format, output);
        Exit::Policy
    })
}

/// Reports the problems that stop a command: as JSON on standard output, as text on standard error.
pub(super) fn report(problems: &[Problem], format: Format, output: &mut Output<'_>) {
    match format {
        Format::Json => output.json(&Report::of(problems)),
        Format::Text => {
            // Errors first: they are why the command stops.
            let (warnings, errors): (Vec<_>, Vec<_>) =
                problems.iter().partition(|problem| problem.is_warning());
            errors.iter().chain(&warnings).for_each(|problem| output.error(&problem.to_string()));
        }
    }
}

/// Problems, for output as JSON.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    ok: bool,
    /// The revision of the policy, if it is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    problems: Vec<ReportedProblem<'a>>,
}

#[derive(Serialize)]
struct ReportedProblem<'a> {
    severity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    #[serde(flatten)]
    at: ReportedPlace,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related: Vec<Related<'a>>,
}

/// A place in a file, for output as JSON.
#[derive(Serialize)]
pub(super) struct ReportedPlace {
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
            ok: problems.iter().all(|problem| problem.severity != Severity::Error),
            policy: None,
            problems: problems.iter().map(ReportedProblem::of).collect(),
        }
    }

    /// With the revision of the policy.
    pub(super) fn with_policy(self, policy: Option<&'a str>) -> Self {
        Self { policy, ..self }
    }

    /// With another `ok` than that of a policy without errors.
    pub(super) fn with_ok(self, ok: bool) -> Self {
        Self { ok, ..self }
    }
}

impl<'a> ReportedProblem<'a> {
    fn of(problem: &'a Problem) -> Self {
        let related = |(at, message): &'a (Place, String)| Related { at: ReportedPlace::of(at), message };
        let (severity, name) = match problem.severity {
            Severity::Error => ("error", None),
            Severity::Warning(kind) => ("warning", Some(kind.name())),
        };
        Self {
            severity,
            name,
            at: ReportedPlace::of(&problem.at),
            message: &problem.message,
            help: problem.help.as_deref(),
            related: problem.related.iter().map(related).collect(),
        }
    }
}

impl ReportedPlace {
    pub(super) fn of(place: &Place) -> Self {
        Self { file: place.file.display().to_string(), line: place.line, column: place.column }
    }
}

/// `1 rule`, `2 rules`.
pub(super) fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
