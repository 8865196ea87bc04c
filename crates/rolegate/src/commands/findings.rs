//! Prints the findings of `lint-envoy` and `lint-proxy`.

use std::path::Path;

use document::{Finding, FindingKind, FindingSeverity};
use serde::Serialize;

use crate::cli::Format;
use crate::error::Exit;
use crate::output::{Output, PlaceReport, counted};

/// Prints every finding, then a summary. With `strict`, notes are failures, too.
pub(super) fn print<K: FindingKind>(
    file: &Path,
    findings: &[Finding<K>],
    strict: bool,
    output: &Output,
) -> Exit {
    let ok =
        findings.iter().all(|finding| !strict && finding.kind.severity() == FindingSeverity::Note);
    match output.format {
        Format::Json => {
            let findings = findings.iter().map(FindingReport::new).collect();
            output.json(&Report { ok, findings });
        }
        Format::Text => {
            findings.iter().for_each(|finding| output.line(finding));
            output.line(summary(file, findings, ok));
        }
    }
    if ok { Exit::Success } else { Exit::No }
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
    fn new<K: FindingKind>(finding: &'a Finding<K>) -> Self {
        Self {
            severity: finding.kind.severity().name(),
            name: finding.kind.name(),
            at: PlaceReport::new(&finding.at),
            message: &finding.message,
            fix: &finding.fix,
        }
    }
}

fn summary<K: FindingKind>(file: &Path, findings: &[Finding<K>], ok: bool) -> String {
    let mut parts = Vec::from_iter(ok.then(|| "ok".to_owned()));
    for severity in FindingSeverity::ALL {
        let number = findings.iter().filter(|f| f.kind.severity() == severity).count();
        if number > 0 {
            parts.push(match severity {
                FindingSeverity::Note => counted(number, "note"),
                FindingSeverity::Unsafe | FindingSeverity::Broken | FindingSeverity::Slow => {
                    format!("{number} {}", severity.name())
                }
            });
        }
    }
    format!("{}: {}", file.display(), parts.join(", "))
}
