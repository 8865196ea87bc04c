//! `rolegate lint-envoy`: finds causes why rolegate would be unsafe, broken or slow in a
//! configuration of Envoy.

use std::path::Path;

use envoy_lint::{Finding, Severity};
use serde::Serialize;

use super::import::read;
use crate::cli::{Format, LintEnvoyArgs};
use crate::error::{CommandError, Exit};
use crate::output::{Output, PlaceReport, counted};

/// Prints every finding, then a summary.
pub(crate) fn run(args: &LintEnvoyArgs, output: &mut Output) -> Result<Exit, CommandError> {
    output.format = args.output;
    let findings = envoy_lint::lint(&args.file, &read(&args.file)?, &args.accept)?;
    let ok = findings.iter().all(|f| !args.strict && f.kind.severity() == Severity::Note);
    match output.format {
        Format::Json => {
            let findings = findings.iter().map(FindingReport::new).collect();
            output.json(&Report { ok, findings });
        }
        Format::Text => {
            findings.iter().for_each(|finding| output.line(finding));
            output.line(summary(&args.file, &findings, ok));
        }
    }
    Ok(if ok { Exit::Success } else { Exit::No })
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
    let mut parts = Vec::from_iter(ok.then(|| "ok".to_owned()));
    for severity in [Severity::Unsafe, Severity::Broken, Severity::Slow, Severity::Note] {
        let number = findings.iter().filter(|f| f.kind.severity() == severity).count();
        if number > 0 {
            parts.push(match severity {
                Severity::Note => counted(number, "note"),
                Severity::Unsafe | Severity::Broken | Severity::Slow => {
                    format!("{number} {}", severity.name())
                }
            });
        }
    }
    format!("{}: {}", file.display(), parts.join(", "))
}
