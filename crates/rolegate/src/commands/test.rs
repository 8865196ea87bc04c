//! `rolegate test`: runs the test cases of a policy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use document::{FileError, Place, Problem};
use explain::{CaseOutcome, Explainer};
use policy::cases::{self, Case, Credentials};
use serde::Serialize;

use super::fetched::{self, Needs};
use super::loaded::{self, ReportedPlace, counted};
use super::policy_files::is_bundle;
use crate::cli::{Format, TestArgs};
use crate::exit::Exit;
use crate::output::Output;
use runtime::compiled_policy::CompiledPolicy;
use runtime::{clock, files};

/// Runs every case and prints its result.
pub(crate) fn test(args: &TestArgs, output: &mut Output<'_>) -> Exit {
    let (compiled, file, cases) = match load(args, output) {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    let has_tokens = cases.iter().any(may_have_a_token);
    let needs = Needs { keys: has_tokens, inventory: has_tokens };
    let compiled = match fetched::with_fetched(compiled, needs, args.output, output) {
        Ok(compiled) => compiled,
        Err(exit) => return exit,
    };
    let now = clock::now();
    let explainer = Explainer::new(&compiled.authorizer);
    let run = |case| {
        let mut outcome = explainer.run_case(case, now);
        outcome.failures.extend(impossible_user(case, explainer));
        explain_names(case, explainer, &mut outcome);
        Result::of(case, outcome)
    };
    let results: Vec<Result<'_>> = cases.iter().map(run).collect();
    let failed = results.iter().filter(|result| !result.ok).count();
    let warned = results.iter().filter(|result| result.warning.is_some()).count();
    let fine = failed == 0 && (warned == 0 || !args.strict);
    match args.output {
        Format::Json => output.json(&Results { ok: fine, failed, cases: &results }),
        Format::Text => {
            let matters = |result: &Result<'_>| !result.ok || args.strict && result.warning.is_some();
            let shown = results.iter().filter(|result| !args.quiet || matters(result));
            shown.for_each(|result| result.print(output));
            if !args.quiet || !fine {
                let passed = counted(results.len() - failed, "case");
                let warnings = (warned > 0).then(|| format!(", {}", counted(warned, "warning")));
                let strict = (failed == 0 && !fine).then_some(", not accepted (--strict)");
                let more = warnings.as_deref().into_iter().chain(strict).collect::<String>();
                output.line(&format!("{}: {passed} passed, {failed} failed{more}", file.display()));
            }
        }
    }
    if fine { Exit::Success } else { Exit::Case }
}

/// The policy, and the cases with their place.
fn load(
    args: &TestArgs,
    output: &mut Output<'_>,
) -> std::result::Result<(CompiledPolicy, PathBuf, Arc<[Case]>), Exit> {
    let open =
        |path: &Path, output: &mut Output<'_>| loaded::open(path, &args.public_keys, args.output, output);
    let reported = |problems: Vec<Problem>, output: &mut Output<'_>| {
        loaded::report(&problems, args.output, output);
        Exit::Policy
    };
    let given = match (&args.cases, &args.policy) {
        (Some(cases), _) => cases.clone(),
        (None, Some(policy)) if policy.is_file() && !is_bundle(policy) => policy.with_file_name("cases.yaml"),
        (None, Some(policy)) => policy.clone(),
        (None, None) => PathBuf::from("."),
    };
    // A folder that does not exist is the mistake, and not the policy that would be in it.
    if !given.exists() {
        read(&given, files::text(&given)).map_err(|problems| reported(problems, output))?;
    }
    let has_both = given.is_dir() || is_bundle(&given);
    let both = has_both.then(|| open(&given, output)).transpose()?;
    let (file, text) = match &both {
        Some(both) => both.cases(),
        None => (given.clone(), files::text(&given)),
    };
    let policy = match (&args.policy, both) {
        (Some(policy), _) => open(policy, output)?,
        (None, Some(both)) => both,
        (None, None) => open(&given.with_file_name("policy.yaml"), output)?,
    };
    let compiled = loaded::compiled(&policy, args.output, output)?;
    let cases = read(&file, text).map_err(|problems| reported(problems, output))?;
    Ok((compiled, file, cases))
}

fn may_have_a_token(case: &Case) -> bool {
    matches!(case.request.credentials, Credentials::Bearer(_))
        || fetched::has_authorization(&case.request.headers)
}

/// Why no caller can be the user of the case: it would test nothing.
fn impossible_user(case: &Case, explainer: Explainer<'_>) -> Option<String> {
    match &case.request.credentials {
        Credentials::User { name, .. } => {
            // A search cluster may have users of its own.
            let identity = explainer.identity_on(case.request.host.as_bytes());
            explain::impossible_user(name, identity)
        }
        Credentials::None | Credentials::Basic(_) | Credentials::Bearer(_) | Credentials::Claims(_) => None,
    }
}

/// Adds to the failures of a case which of its names the policy does not have: without a password, `bad_password` alone
/// would not say so. Of a case that passes, it warns of those that are probably mistakes. Of each with a user, it warns if nobody can
/// sign in.
fn explain_names(case: &Case, explainer: Explainer<'_>, outcome: &mut CaseOutcome) {
    match &case.request.credentials {
        Credentials::User { name, groups } if !outcome.failures.is_empty() => {
            let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
            for unknown in explainer.unknown_names(&case.request.host, Some(name), (&groups, &[])) {
                if !outcome.failures.contains(&unknown) {
                    outcome.failures.push(unknown);
                }
            }
        }
        Credentials::User { .. } | Credentials::Claims(_) => {
            outcome.warning =
                joined(outcome.warning.take().into_iter().chain(explainer.doubtful_names(case)));
        }
        Credentials::None | Credentials::Basic(_) | Credentials::Bearer(_) => {}
    }
    if matches!(case.request.credentials, Credentials::User { .. }) {
        let warnings = outcome.warning.take().into_iter();
        let warnings = warnings.chain(explainer.without_identity(&case.request.host).map(str::to_owned));
        outcome.warning = joined(warnings);
    }
}

fn joined(warnings: impl Iterator<Item = String>) -> Option<String> {
    let warnings = warnings.collect::<Vec<_>>().join("; ");
    Some(warnings).filter(|warnings| !warnings.is_empty())
}

/// Reads the cases. A file without any is an error: it would pass without testing anything.
fn read(
    file: &Path,
    text: std::result::Result<String, FileError>,
) -> std::result::Result<Arc<[Case]>, Vec<Problem>> {
    let problem = |message: String| vec![Problem::error(Place::start_of(file), message)];
    let text = text.map_err(|reason| {
        let help = "name a file with cases, or a folder or bundle that contains a `cases.yaml`";
        vec![Problem::error(Place::start_of(file), format!("cannot read the cases: {reason}")).help(help)]
    })?;
    let cases = cases::parse(file, text.as_bytes())?;
    if cases.is_empty() { Err(problem("there is no case in it".to_owned())) } else { Ok(cases) }
}

#[derive(Serialize)]
struct Results<'a> {
    ok: bool,
    failed: usize,
    cases: &'a [Result<'a>],
}

#[derive(Serialize)]
struct Result<'a> {
    name: &'a str,
    ok: bool,
    #[serde(flatten)]
    at: ReportedPlace,
    expected_status: u16,
    status: u16,
    reason: Option<&'static str>,
    rule: Option<String>,
    failures: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    #[serde(skip)]
    place: &'a Place,
}

impl<'a> Result<'a> {
    fn of(case: &'a Case, outcome: CaseOutcome) -> Self {
        Self {
            name: &case.name,
            ok: outcome.failures.is_empty(),
            at: ReportedPlace::of(&case.at),
            expected_status: case.expect.status,
            status: outcome.status,
            reason: outcome.reason,
            rule: outcome.rule,
            failures: outcome.failures,
            warning: outcome.warning,
            place: &case.at,
        }
    }

    fn print(&self, output: &mut Output<'_>) {
        let why = [self.reason, self.rule.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(", ");
        let mark = if self.ok { "ok    " } else { "FAILED" };
        output.line(&format!("{mark} {}: {} ({why})", self.name, self.status));
        for failure in &self.failures {
            output.line(&format!("       {}: {failure}", self.place));
        }
        if let Some(warning) = &self.warning {
            output.line(&format!("       {}: warning: {warning}", self.place));
        }
    }
}
