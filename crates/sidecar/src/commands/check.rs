//! `rolegate check`: reports every problem of a policy.

use std::path::Path;

use identity::FetchedKeys;
use policy::Problem;

use super::loaded::{Report, counted};
use crate::cli::{CheckArgs, Format};
use crate::exit::Exit;
use crate::output::Output;
use runtime::snapshot::{self, Snapshot};

/// Prints every problem, then a summary.
pub(crate) fn check(args: &CheckArgs, output: &mut Output<'_>) -> Exit {
    let file = snapshot::policy_file(&args.policy);
    let attempt = snapshot::load(&file, &FetchedKeys::new());
    let (problems, sound) = match &attempt.result {
        Ok(snapshot) => (&snapshot.warnings, Some(snapshot)),
        Err(problems) => (problems, None),
    };
    match args.output {
        Format::Json => output.json(&Report::of(problems).with_policy(sound.map(policy_revision))),
        Format::Text => {
            problems.iter().for_each(|problem| output.line(&problem.to_string()));
            output.line(&summary(&file, problems, sound));
        }
    }
    let fine = sound.is_some() && (problems.is_empty() || !args.strict);
    if fine { Exit::Success } else { Exit::Policy }
}

fn summary(file: &Path, problems: &[Problem], sound: Option<&Snapshot>) -> String {
    let warnings = problems.iter().filter(|problem| problem.is_warning()).count();
    let numbers = [(problems.len() - warnings, "error"), (warnings, "warning")];
    let found = numbers.iter().filter(|(number, _)| *number > 0).map(|(number, noun)| counted(*number, noun));
    let sizes = sound.map(|snapshot| {
        let policy = &snapshot.loaded.policy;
        format!("ok, {}, {}", counted(policy.roles.len(), "role"), counted(policy.rules().count(), "rule"))
    });
    let revision = sound.map(|snapshot| format!("policy {}", policy_revision(snapshot)));
    let parts: Vec<String> = sizes.into_iter().chain(found).chain(revision).collect();
    format!("{}: {}", file.display(), parts.join(", "))
}

fn policy_revision(snapshot: &Snapshot) -> &str {
    &snapshot.authorizer.revision().policy
}
