//! `rolegate check`: reports every problem of a policy.

use std::path::Path;

use document::Problem;

use crate::cli::{CheckArgs, Format};
use crate::error::{CommandError, Exit};
use crate::output::{Output, Report, counted, errors_first};
use runtime::compiled_policy::CompiledPolicy;

/// Prints every problem, then a summary.
pub(crate) fn run(args: &CheckArgs, output: &mut Output) -> Result<Exit, CommandError> {
    let files = args.policy.open(output)?;
    let result = files.load();
    let (problems, compiled) = match &result {
        Ok(compiled) => (&compiled.warnings, Some(compiled)),
        Err(problems) => (problems, None),
    };
    let ok = compiled.is_some() && (problems.is_empty() || !args.strict);
    match output.format {
        Format::Json => {
            let mut report = Report::new(problems);
            report.ok = ok;
            report.policy = compiled.map(policy_revision);
            output.json(&report);
        }
        Format::Text => {
            errors_first(problems).for_each(|problem| output.line(problem));
            if compiled.is_some() && !problems.is_empty() {
                output.line(
                    "to accept a warning, write above its line: `# accept: NAME because REASON`",
                );
            }
            output.line(summary(files.path(), problems, compiled, ok));
        }
    }
    Ok(if ok { Exit::Success } else { Exit::Policy })
}

fn summary(
    file: &Path,
    problems: &[Problem],
    compiled: Option<&CompiledPolicy>,
    ok: bool,
) -> String {
    let warnings = problems.iter().filter(|problem| problem.is_warning()).count();
    let errors = problems.len() - warnings;
    let mut parts = Vec::from_iter(ok.then(|| "ok".to_owned()));
    if let Some(compiled) = compiled {
        let policy = &compiled.loaded.policy;
        parts.push(counted(policy.roles.len(), "role"));
        parts.push(counted(policy.rules().count(), "rule"));
    }
    for (number, noun) in [(errors, "error"), (warnings, "warning")] {
        if number > 0 {
            parts.push(counted(number, noun));
        }
    }
    if let Some(compiled) = compiled {
        if !ok {
            parts.push("not accepted (--strict)".to_owned());
        }
        parts.push(format!("policy {}", policy_revision(compiled)));
    }
    format!("{}: {}", file.display(), parts.join(", "))
}

fn policy_revision(compiled: &CompiledPolicy) -> &str {
    &compiled.authorizer.revision().policy
}
