//! `rolegate lint-envoy`: what makes rolegate unsafe, broken or slow in a configuration of Envoy.

use std::path::Path;

use envoy_lint::{Finding, Severity};
use serde::Serialize;

use super::import::read;
use super::loaded::{ReportedPlace, counted, report};
use crate::cli::{Format, LintEnvoyArgs};
use crate::exit::Exit;
use crate::output::Output;

/// Prints every finding, then a summary.
pub(crate) fn lint_envoy(args: &LintEnvoyArgs, output: &mut Output<'_>) -> Exit {
    let bytes = match read(&args.file) {
        Ok(bytes) => bytes,
        Err(messages) => {
            messages.iter().for_each(|message| output.error(message));
            return Exit::Policy;
        }
    };
    let findings = match envoy_lint::lint(&args.file, &bytes, &args.accept) {
        Ok(findings) => findings,
        Err(problems) => {
            report(&problems, args.output, output);
            return Exit::Policy;
        }
    };
    let counts = |finding: &Finding| args.strict || finding.kind.severity() != Severity::Note;
    let fine = !findings.iter().any(counts);
    match args.output {
        Format::Json => {
            output.json(&Report { ok: fine, findings: findings.iter().map(Reported::of).collect() })
        }
        Format::Text => {
            findings.iter().for_each(|finding| output.line(&finding.to_string()));
            output.line(&summary(&args.file, &findings, fine));
        }
    }
    if fine { Exit::Success } else { Exit::Denied }
}

/// Findings, for output as JSON.
#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    findings: Vec<Reported<'a>>,
}

#[derive(Serialize)]
struct Reported<'a> {
    severity: &'static str,
    name: &'static str,
    #[serde(flatten)]
    at: ReportedPlace,
    message: &'a str,
    fix: &'a str,
}

impl<'a> Reported<'a> {
    fn of(finding: &'a Finding) -> Self {
        Self {
            severity: finding.kind.severity().name(),
            name: finding.kind.name(),
            at: ReportedPlace::of(&finding.at),
            message: &finding.message,
            fix: &finding.fix,
        }
    }
}

fn summary(file: &Path, findings: &[Finding], fine: bool) -> String {
    let number = |severity| findings.iter().filter(|finding| finding.kind.severity() == severity).count();
    let dangers = number(Severity::Unsafe);
    let (broken, slow) = (number(Severity::Broken), number(Severity::Slow));
    let found = [
        fine.then(|| "ok".to_owned()),
        (dangers > 0).then(|| format!("{dangers} unsafe")),
        (broken > 0).then(|| format!("{broken} broken")),
        (slow > 0).then(|| format!("{slow} slow")),
        Some(number(Severity::Note)).filter(|notes| *notes > 0).map(|notes| counted(notes, "note")),
    ];
    let found: Vec<String> = found.into_iter().flatten().collect();
    format!("{}: {}", file.display(), found.join(", "))
}
