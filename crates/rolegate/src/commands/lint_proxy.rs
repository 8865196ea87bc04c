//! `rolegate lint-proxy`: finds causes why rolegate would be unsafe or broken behind nginx or Caddy.

use std::path::Path;

use document::{Files, MapFiles};
use proxy_lint::{Finding, Options, Severity};
use runtime::files::RecordedFiles;
use serde::Serialize;

use super::import::read;
use crate::cli::{Format, LintProxyArgs};
use crate::error::{CommandError, Exit};
use crate::output::{Output, PlaceReport, counted};

/// Prints every finding, then a summary.
pub(crate) fn run(args: &LintProxyArgs, output: &mut Output) -> Result<Exit, CommandError> {
    output.format = args.output;
    let file = &args.file;
    let on_disk = RecordedFiles::default();
    let standard_input;
    let files: &dyn Files = if file == Path::new("-") {
        standard_input = MapFiles::new("-", read(file)?);
        &standard_input
    } else {
        &on_disk
    };
    let identity_headers: Vec<String> =
        args.identity_header.iter().map(|name| name.to_ascii_lowercase()).collect();
    let options = Options {
        proxy: args.proxy(),
        identity_headers: &identity_headers,
        accepted: &args.accept,
    };
    let findings = proxy_lint::lint(files, file, options)?;
    let ok = findings.iter().all(|f| !args.strict && f.kind.severity() == Severity::Note);
    match output.format {
        Format::Json => {
            let findings = findings.iter().map(FindingReport::new).collect();
            output.json(&Report { ok, findings });
        }
        Format::Text => {
            findings.iter().for_each(|finding| output.line(finding));
            output.line(summary(file, &findings, ok));
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
    for severity in [Severity::Unsafe, Severity::Broken, Severity::Note] {
        let number = findings.iter().filter(|f| f.kind.severity() == severity).count();
        if number > 0 {
            parts.push(match severity {
                Severity::Note => counted(number, "note"),
                Severity::Unsafe | Severity::Broken => format!("{number} {}", severity.name()),
            });
        }
    }
    format!("{}: {}", file.display(), parts.join(", "))
}
