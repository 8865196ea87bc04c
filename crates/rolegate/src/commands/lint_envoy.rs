//! `rolegate lint-envoy`: what makes rolegate unsafe, broken or slow in a configuration of Envoy.

use std::path::Path;

use envoy_lint::{Finding, Severity};
use serde::Serialize;

use super::import::read;
use crate::cli::{Format, LintEnvoyArgs};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, PlaceReport, counted};

/// Prints every finding, then a summary.
pub(crate) fn run(args: &LintEnvoyArgs, output: &mut Output) -> Result<Exit, CommandError> {
    output.format = args.output;
    let findings = envoy_lint::lint(&args.file, &read(&args.file)?, &args.accept)?;
    let counts = |finding: &Finding| args.strict || finding.kind.severity() != Severity::Note;
    let ok = !findings.iter().any(counts);
    match output.format {
        Format::Json => {
            output
                .json(&Report { ok, findings: findings.iter().map(FindingReport::new).collect() });
        }
        Format::Text => {
            findings.iter().for_each(|finding| output.line(finding));
            output.line(summary(&args.file, &findings, ok));
        }
    }
    Ok(if ok { Exit::Success } else { Exit::Denied })
}

/// Findings as JSON.
#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    findings: Vec<FindingReport<'a>>,
}

#[derive(Serialize)]
struct FindingReport<'a> {
    severity: &'static str,
    name: &'static str,
    #[serde(flatten)]
    at: PlaceReport<'a>,
    message: &'a str,
    fix: &'a str,
}

impl<'a> FindingReport<'a> {
    fn new(finding: &'a Finding) -> Self {
        Self {
            severity: finding.kind.severity().name(),
            name: finding.kind.name(),
            at: PlaceReport::new(&finding.at),
            message: &finding.message,
            fix: &finding.fix,
        }
    }
}

fn summary(file: &Path, findings: &[Finding], ok: bool) -> String {
    let count =
        |severity| findings.iter().filter(|finding| finding.kind.severity() == severity).count();
    let mut parts = Vec::new();
    if ok {
        parts.push("ok".to_owned());
    }
    for (severity, name) in
        [(Severity::Unsafe, "unsafe"), (Severity::Broken, "broken"), (Severity::Slow, "slow")]
    {
        match count(severity) {
            0 => {}
            number => parts.push(format!("{number} {name}")),
        }
    }
    match count(Severity::Note) {
        0 => {}
        notes => parts.push(counted(notes, "note")),
    }
    format!("{}: {}", file.display(), parts.join(", "))
}
