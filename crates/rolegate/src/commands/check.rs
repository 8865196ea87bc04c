//! `rolegate check`: reports every problem of a policy.

use std::path::Path;

use document::Problem;

use super::loaded::{self, Report, counted};
use crate::cli::{CheckArgs, Format};
use crate::exit::Exit;
use crate::output::Output;
use runtime::compiled_policy::CompiledPolicy;

/// Prints every problem, then a summary.
pub(crate) fn check(args: &CheckArgs, output: &mut Output<'_>) -> Exit {
    let files = match loaded::open(args.policy.path(), &args.public_keys, args.output, output) {
        Ok(files) => files,
        Err(exit) => return exit,
    };
    let result = files.load();
    let (problems, sound) = match &result {
        Ok(compiled) => (&compiled.warnings, Some(compiled)),
        Err(problems) => (problems, None),
    };
    let fine = sound.is_some() && (problems.is_empty() || !args.strict);
    match args.output {
        Format::Json => {
            output.json(&Report::of(problems).with_policy(sound.map(policy_revision)).with_ok(fine))
        }
        Format::Text => {
            // Errors first: they are why it fails.
            let (warnings, errors): (Vec<_>, Vec<_>) =
                problems.iter().partition(|problem| problem.is_warning());
            errors.iter().chain(&warnings).for_each(|problem| output.line(&problem.to_string()));
            output.line(&summary(files.path(), problems, sound, fine));
        }
    }
    if fine { Exit::Success } else { Exit::Policy }
}

fn summary(file: &Path, problems: &[Problem], sound: Option<&CompiledPolicy>, fine: bool) -> String {
    let warnings = problems.iter().filter(|problem| problem.is_warning()).count();
    let numbers = [(problems.len() - warnings, "error"), (warnings, "warning")];
    let found = numbers.iter().filter(|(number, _)| *number > 0).map(|(number, noun)| counted(*number, noun));
    let sizes = sound.map(|compiled| {
        let policy = &compiled.loaded.policy;
        format!("{}, {}", counted(policy.roles.len(), "role"), counted(policy.rules().count(), "rule"))
    });
    let revision = sound.map(|compiled| format!("policy {}", policy_revision(compiled)));
    let ok = fine.then(|| "ok".to_owned());
    let strict = (sound.is_some() && !fine).then(|| "not accepted (--strict)".to_owned());
    let parts = ok.into_iter().chain(sizes).chain(found).chain(strict).chain(revision);
    let parts: Vec<String> = parts.collect();
    format!("{}: {}", file.display(), parts.join(", "))
}

fn policy_revision(compiled: &CompiledPolicy) -> &str {
    &compiled.authorizer.revision().policy
}
