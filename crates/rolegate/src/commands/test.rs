//! `rolegate test`: runs the test cases of a policy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use document::{FileError, Place, Problem};
use explain::{CaseOutcome, Explainer};
use policy::cases::{self, Case, Credentials};
use serde::Serialize;

use super::fetched::{self, Needs};
use super::policy_files::{PolicyFiles, is_bundle};
use crate::cli::{Format, TestArgs};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::output::{Output, PlaceReport, counted};
use runtime::compiled_policy::CompiledPolicy;
use runtime::{clock, files};

/// Runs every case and prints its result.
pub(crate) fn run(args: &TestArgs, output: &mut Output) -> Result<Exit, CommandError> {
    output.format = args.output;
    let (compiled, file, cases) = load(args, output)?;
    let has_tokens = cases.iter().any(may_have_a_token);
    let needs = Needs { keys: has_tokens, inventory: has_tokens };
    let compiled = fetched::with_fetched(compiled, needs, output)?;
    let now = clock::now();
    let explainer = Explainer::new(&compiled.authorizer);
    let run_case = |case| {
        let mut outcome = explainer.run_case(case, now);
        outcome.failures.extend(impossible_user(case, explainer));
        explain_names(case, explainer, &mut outcome);
        CaseReport::new(case, outcome)
    };
    let results: Vec<CaseReport<'_>> = cases.iter().map(run_case).collect();
    let failed = results.iter().filter(|result| !result.ok).count();
    let warned = results.iter().filter(|result| result.warning.is_some()).count();
    let ok = failed == 0 && (warned == 0 || !args.strict);
    match output.format {
        Format::Json => output.json(&Report { ok, failed, cases: &results }),
        Format::Text => {
            let matters =
                |result: &CaseReport<'_>| !result.ok || args.strict && result.warning.is_some();
            let shown = results.iter().filter(|result| !args.quiet || matters(result));
            shown.for_each(|result| result.print(output));
            if !args.quiet || !ok {
                let passed = counted(results.len() - failed, "case");
                let mut summary = format!("{}: {passed} passed, {failed} failed", file.display());
                if warned > 0 {
                    summary += &format!(", {}", counted(warned, "warning"));
                }
                if failed == 0 && !ok {
                    summary += ", not accepted (--strict)";
                }
                output.line(summary);
            }
        }
    }
    Ok(if ok { Exit::Success } else { Exit::Case })
}

/// The policy, and the cases with their place.
fn load(
    args: &TestArgs,
    output: &Output,
) -> Result<(CompiledPolicy, PathBuf, Arc<[Case]>), CommandError> {
    let open = |path: &Path| PolicyFiles::open(path, &args.public_keys, output);
    let given = match (&args.cases, &args.policy) {
        (Some(cases), _) => cases.clone(),
        (None, Some(policy)) if policy.is_file() && !is_bundle(policy) => {
            policy.with_file_name("cases.yaml")
        }
        (None, Some(policy)) => policy.clone(),
        (None, None) => PathBuf::from("."),
    };
    // A folder that does not exist is the mistake, and not the policy that would be in it.
    if !given.exists() {
        read(&given, files::text(&given))?;
    }
    let has_policy = given.is_dir() || is_bundle(&given);
    let beside = if has_policy { Some(open(&given)?) } else { None };
    let (file, text) = match &beside {
        Some(files) => files.cases(),
        None => (given.clone(), files::text(&given)),
    };
    let policy = match (&args.policy, beside) {
        (Some(policy), _) => open(policy)?,
        (None, Some(files)) => files,
        (None, None) => open(&given.with_file_name("policy.yaml"))?,
    };
    let compiled = policy.load()?;
    let cases = read(&file, text)?;
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
        Credentials::None
        | Credentials::Basic(_)
        | Credentials::Bearer(_)
        | Credentials::Claims(_) => None,
    }
}

/// Adds the names that the policy does not have: to the failures of a case that fails, because
/// `bad_password` alone would not say so; to the warnings of a case that passes, if they are
/// probably mistakes. Also warns if nobody can sign in.
fn explain_names(case: &Case, explainer: Explainer<'_>, outcome: &mut CaseOutcome) {
    let mut warnings: Vec<String> = outcome.warning.take().into_iter().collect();
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
            warnings.extend(explainer.doubtful_names(case));
        }
        Credentials::None | Credentials::Basic(_) | Credentials::Bearer(_) => {}
    }
    if matches!(case.request.credentials, Credentials::User { .. }) {
        warnings.extend(explainer.without_identity(&case.request.host).map(str::to_owned));
    }
    outcome.warning = Some(warnings.join("; ")).filter(|warnings| !warnings.is_empty());
}

/// Reads the cases. A file without any is an error: it would pass without testing anything.
fn read(file: &Path, text: Result<String, FileError>) -> Result<Arc<[Case]>, Vec<Problem>> {
    let problem = |message: String| Problem::error(Place::start_of(file), message);
    let text = text.map_err(|reason| {
        let help = "name a file with cases, or a folder or bundle that contains a `cases.yaml`";
        vec![problem(format!("cannot read the cases: {reason}")).help(help)]
    })?;
    let cases = cases::parse(file, text.as_bytes())?;
    if cases.is_empty() {
        Err(vec![problem("there is no case in it".to_owned())])
    } else {
        Ok(cases)
    }
}

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    failed: usize,
    cases: &'a [CaseReport<'a>],
}

#[derive(Serialize)]
struct CaseReport<'a> {
    name: &'a str,
    ok: bool,
    #[serde(flatten)]
    at: PlaceReport<'a>,
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

impl<'a> CaseReport<'a> {
    fn new(case: &'a Case, outcome: CaseOutcome) -> Self {
        Self {
            name: &case.name,
            ok: outcome.failures.is_empty(),
            at: PlaceReport::new(&case.at),
            expected_status: case.expect.status,
            status: outcome.status,
            reason: outcome.reason,
            rule: outcome.rule,
            failures: outcome.failures,
            warning: outcome.warning,
            place: &case.at,
        }
    }

    fn print(&self, output: &Output) {
        let why = [self.reason, self.rule.as_deref()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ");
        let mark = if self.ok { "ok    " } else { "FAILED" };
        output.line(format_args!("{mark} {}: {} ({why})", self.name, self.status));
        for failure in &self.failures {
            output.line(format_args!("       {}: {failure}", self.place));
        }
        if let Some(warning) = &self.warning {
            output.line(format_args!("       {}: warning: {warning}", self.place));
        }
    }
}
