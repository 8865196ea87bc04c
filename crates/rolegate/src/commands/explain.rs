//! `rolegate explain`: explains how a policy answers one request, or the denials of a log.

use std::fmt;
use std::path::Path;

use authorizer::{Request, has_token_elsewhere};
use explain::{ExplainedSubject, Explainer, Explanation, Fixes};
use serde::Serialize;

use super::decision_lines::DecisionFile;
use super::denials::Denials;
use super::fetched::{self, Needs};
use super::policy_files::PolicyFiles;
use super::request::{Body, NO_BODY, borrowed_headers, caller, has_header};
use crate::cli::{CallerArgs, ExplainArgs, RequestArgs};
use crate::error::{CommandError, Exit};
use crate::output::Output;
use runtime::clock;
use runtime::compiled_policy::CompiledPolicy;

/// The note on an answer that depends on variables of conditions, if they have no value.
const DEPENDS: &str = "set the variables of conditions by `--header`, `--client`, `--time`, \
                       `--claims` and the query of the URL";

/// Prints the explanation.
pub(crate) fn run(args: &ExplainArgs, output: &mut Output) -> Result<Exit, CommandError> {
    let request = args.request().map_err(CommandError::arguments)?;
    output.format = args.policy.output;
    let compiled =
        PolicyFiles::open(args.policy_path(), &args.policy.public_keys, output)?.load()?;
    let inputs = [
        args.body.body.as_deref().map(|body| body.strip_prefix('@').unwrap_or(body)),
        args.caller.basic.as_deref(),
        args.caller.bearer.as_deref(),
        args.caller.api_key.as_deref(),
        args.decision.as_deref().and_then(Path::to_str),
    ];
    if inputs.iter().filter(|input| **input == Some("-")).count() > 1 {
        return Err(CommandError::arguments(
            "only one of the arguments can be `-`: standard input is read once",
        ));
    }
    let body = Body::read(&args.body)?;
    match (&args.decision, request) {
        (Some(log), _) => explain_logged(log, (&body, args.fix), &compiled, output),
        (None, Some(request)) => explain_request(args, &request, &body, compiled, output),
        // `args.request()` has already failed in this case.
        (None, None) => Ok(Exit::Arguments),
    }
}

/// Explains a line of the decision log, or the denials of many.
fn explain_logged(
    log: &Path,
    (body, fix): (&Body, bool),
    compiled: &CompiledPolicy,
    output: &Output,
) -> Result<Exit, CommandError> {
    let authorizer = &compiled.authorizer;
    let lines = match DecisionFile::read(log)? {
        DecisionFile::Log(lines) => lines,
        DecisionFile::Line(line) => {
            let identity_warning = line.identity_warning(authorizer);
            let reason = line.outcome.reason.clone().unwrap_or_default();
            let mut explained =
                line.explain(authorizer, (body, fix), clock::now()).ok_or_else(|| {
                    CommandError::arguments(format_args!(
                        "`{reason}` is not a reason: is the line from another version of rolegate?"
                    ))
                })?;
            explained.explanation.notes.extend(identity_warning.map(str::to_owned));
            output.answer(&explained);
            return Ok(exit(explained.explanation.status));
        }
    };
    if body.is_given() {
        return Err(CommandError::arguments("`--body` is for one line of the decision log"));
    }
    if fix {
        return Err(CommandError::arguments("`--fix` is for one line of the decision log"));
    }
    let denials = Denials::read(lines, authorizer)?.ok_or_else(|| {
        CommandError::arguments(format_args!(
            "`{}` has no line of rolegate's decision log: each line is a JSON object",
            log.display()
        ))
    })?;
    if let Some(warning) = denials.identity_warning {
        output.warning(warning);
    }
    output.answer(&denials);
    // The exit code of a log does not depend on its decisions.
    Ok(Exit::Success)
}

fn explain_request(
    args: &ExplainArgs,
    request: &RequestArgs,
    body: &Body,
    compiled: CompiledPolicy,
    output: &Output,
) -> Result<Exit, CommandError> {
    let (path, host) = request.path_and_host();
    let has_host = request.has_host();
    let (mut subject, credentials) = caller(&args.caller, &compiled.authorizer, &host)?;
    if let (ExplainedSubject::Given(subject), Some(claims)) = (&mut subject, &args.claims) {
        subject.claims = claims.clone().into();
    }
    let identity = Explainer::new(&compiled.authorizer).identity_on(host.as_bytes());
    let lines = borrowed_headers(&args.variables.headers);
    let needs = Needs {
        keys: args.caller.bearer.is_some()
            || has_header(&args.variables.headers, "authorization")
            || has_token_elsewhere(&lines, identity),
        inventory: Explainer::new(&compiled.authorizer).is_of_cluster(host.as_bytes()),
    };
    let compiled = fetched::with_fetched(compiled, needs, output)?;
    let mut headers = args.variables.headers.clone();
    headers.extend(body.content_type_header(&headers));
    headers.extend(credentials);
    let client = args.variables.client();
    let request = Request {
        method: request.method.as_bytes(),
        host: host.as_bytes(),
        path: path.as_bytes(),
        headers: &borrowed_headers(&headers),
        client: client.as_bytes(),
        peer: client.as_bytes(),
        certificate: args.variables.certificate(),
        body: body.whole(),
        ..Request::default()
    };
    let explainer = Explainer::new(&compiled.authorizer).at(args.variables.time);
    let mut explanation = explainer.explain(&request, subject.clone(), clock::now());
    let fixes = args
        .fix
        .then(|| explainer.fixes(&request, subject, &explanation, (has_host, clock::now())));
    let CallerArgs { user, issuer, roles, groups, .. } = &args.caller;
    if user.is_some() || !groups.is_empty() {
        explanation.notes.extend(explainer.missing_identity_note(&host).map(str::to_owned));
    }
    let user = user.as_deref().filter(|_| issuer.is_none());
    explanation.notes.extend(explainer.unknown_name_messages(&host, user, (groups, roles)));
    if explanation.cluster.as_ref().is_some_and(|cluster| cluster.depends_on_body)
        && !body.is_given()
    {
        explanation.notes.push(NO_BODY.to_owned());
    }
    if !explanation.depends_on.is_empty() {
        explanation.notes.push(DEPENDS.to_owned());
    }
    let status = explanation.status;
    output.answer(&ExplainedRequest { explanation, fixes });
    Ok(exit(status))
}

/// An explanation with what would allow its request, if somebody asked for that.
#[derive(Serialize)]
struct ExplainedRequest {
    #[serde(flatten)]
    explanation: Explanation,
    #[serde(skip_serializing_if = "Option::is_none")]
    fixes: Option<Fixes>,
}

impl fmt::Display for ExplainedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { explanation, fixes } = self;
        write!(f, "{explanation}")?;
        fixes.as_ref().map_or(Ok(()), |fixes| write!(f, "{fixes}"))
    }
}

const fn exit(status: u16) -> Exit {
    if status == 200 { Exit::Success } else { Exit::No }
}
