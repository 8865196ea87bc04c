//! `rolegate test`: runs the test cases of a policy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use authorizer::has_token_elsewhere;
use document::{FileError, Place, Problem};
use explain::{CaseOutcome, Explainer};
use policy::cases::{self, Case, Credentials};
use serde::Serialize;

use super::fetched::{self, Needs};
use super::policy_files::{PolicyFiles, is_bundle};
use super::request::{borrowed_headers, has_header};
use crate::cli::{Format, TestArgs};
use crate::error::{CommandError, Exit};
use crate::output::{Output, PlaceReport, counted};
use runtime::compiled_policy::CompiledPolicy;
use runtime::{clock, files};

/// Runs every case and prints its result.
pub(crate) fn run(args: &TestArgs, output: &mut Output) -> Result<Exit, CommandError> {
    output.format = args.output;
    let (compiled, file, cases) = load(args, output)?;
    let identity = &compiled.authorizer.loaded().policy.identity;
    let has_tokens = cases.iter().any(|case| {
        matches!(case.request.credentials, Credentials::Bearer(_))
            || has_header(&case.request.headers, "authorization")
            || has_token_elsewhere(&borrowed_headers(&case.request.headers), identity)
    });
    let needs = Needs { keys: has_tokens, inventory: has_tokens };
    let compiled = fetched::with_fetched(compiled, needs, output)?;
    let now = clock::now();
    let explainer = Explainer::new(&compiled.authorizer);
    let results: Vec<CaseReport<'_>> = cases
        .iter()
        .map(|case| {
            let mut outcome = explainer.run_case(case, now);
            explain_names(case, explainer, &mut outcome);
            CaseReport::new(case, outcome)
        })
        .collect();
    let failed = results.iter().filter(|result| !result.ok).count();
    let warned = results.iter().filter(|result| result.warning.is_some()).count();
    let ok = failed == 0 && (warned == 0 || !args.strict);
    match output.format {
        Format::Json => output.json(&Report { ok, failed, cases: &results }),
        Format::Text => {
            for result in &results {
                if !args.quiet || !result.ok || args.strict && result.warning.is_some() {
                    result.print(output);
                }
            }
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
    let keys = &args.public_keys;
    let path = match (&args.cases, &args.policy) {
        (Some(cases), _) => cases.clone(),
        (None, Some(policy)) if policy.is_file() && !is_bundle(policy) => {
            policy.with_file_name("cases.yaml")
        }
        (None, Some(policy)) => policy.clone(),
        (None, None) => PathBuf::from("."),
    };
    // If the folder does not exist, it is reported, and not the policy that would be in it.
    if !path.exists() {
        read(&path, files::text(&path))?;
    }
    let has_policy = path.is_dir() || is_bundle(&path);
    let policy_with_cases =
        has_policy.then(|| PolicyFiles::open(&path, keys, output)).transpose()?;
    let (file, text) = match &policy_with_cases {
        Some(policy) => policy.cases(),
        None => (path.clone(), files::text(&path)),
    };
    let policy = match (&args.policy, policy_with_cases) {
        (Some(policy), _) => PolicyFiles::open(policy, keys, output)?,
        (None, Some(policy)) => policy,
        (None, None) => PolicyFiles::open(&path.with_file_name("policy.yaml"), keys, output)?,
    };
    let compiled = policy.load()?;
    let cases = read(&file, text)?;
    Ok((compiled, file, cases))
}

/// Reports the names that the policy does not have. In a case that fails they are failures, because
/// `bad_password` alone would not explain it. In a case that passes they are warnings, if they are
/// probably mistakes. A case with a user name that no caller can have fails: it would test nothing.
/// Also warns if nobody can sign in.
fn explain_names(case: &Case, explainer: Explainer<'_>, outcome: &mut CaseOutcome) {
    let mut warnings: Vec<String> = outcome.warning.take().into_iter().collect();
    warnings.append(&mut outcome.doubts);
    let host = &case.request.host;
    match &case.request.credentials {
        Credentials::User { name, groups } => {
            // A search cluster may have users of its own.
            let identity = explainer.identity_on(host.as_bytes());
            outcome.failures.extend(explain::missing_prefix_message(name, identity));
            if outcome.failures.is_empty() {
                warnings.extend(explainer.doubts_about_names(case));
            } else {
                let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
                for unknown in explainer.unknown_name_messages(host, Some(name), (&groups, &[])) {
                    if !outcome.failures.contains(&unknown) {
                        outcome.failures.push(unknown);
                    }
                }
            }
            warnings.extend(explainer.missing_identity_note(host).map(str::to_owned));
        }
        Credentials::Claims(_) => warnings.extend(explainer.doubts_about_names(case)),
        Credentials::None
        | Credentials::Basic(_)
        | Credentials::Bearer(_)
        | Credentials::ApiKey(_) => {}
    }
    outcome.warning = Some(warnings.join("; ")).filter(|warnings| !warnings.is_empty());
}

/// Reads the cases. A file without cases is an error: it would pass without testing anything.
fn read(file: &Path, text: Result<String, FileError>) -> Result<Arc<[Case]>, Vec<Problem>> {
    let start = Place::start_of(file);
    let text = text.map_err(|reason| {
        let problem = Problem::error(start.clone(), format!("cannot read the cases: {reason}"));
        let help = "name a file with cases, or a folder or bundle that contains a `cases.yaml`";
        vec![problem.help(help)]
    })?;
    let cases = cases::parse(file, text.as_bytes())?;
    if cases.is_empty() {
        Err(vec![Problem::error(start, "there is no case in it")])
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
        let reason_and_rule = [self.reason, self.rule.as_deref()];
        let why = reason_and_rule.into_iter().flatten().collect::<Vec<_>>().join(", ");
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
