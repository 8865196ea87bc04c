//! `rolegate explain`: explains how a policy answers one request, or the denials of a log.

use std::fmt::Display;
use std::path::Path;

use authorizer::Request;
use explain::Explainer;
use serde::Serialize;

use super::body::{Body, NO_BODY};
use super::decision_lines::OneOrMore;
use super::denials::Denials;
use super::fetched::{self, Needs};
use super::{caller, loaded};
use crate::cli::{CallerArgs, ExplainArgs, Format, RequestArgs};
use crate::exit::Exit;
use crate::output::Output;
use runtime::clock;
use runtime::compiled_policy::CompiledPolicy;

/// Prints the explanation.
pub(crate) fn explain(args: &ExplainArgs, output: &mut Output<'_>) -> Exit {
    let request = match args.request() {
        Ok(request) => request,
        Err(error) => {
            output.error(&error);
            return Exit::Arguments;
        }
    };
    let compiled = match loaded::load(args.policy(), &args.public_keys, args.output, output) {
        Ok(compiled) => compiled,
        Err(exit) => return exit,
    };
    let from_input = [
        args.body.body.as_deref(),
        args.caller.basic.as_deref(),
        args.caller.bearer.as_deref(),
        args.decision.as_deref().and_then(Path::to_str),
    ];
    if from_input.iter().filter(|given| **given == Some("-")).count() > 1 {
        output.error("only one of the arguments can be `-`: standard input is read once");
        return Exit::Arguments;
    }
    let body = match Body::read(&args.body) {
        Ok(body) => body,
        Err(error) => {
            output.error(&error);
            return Exit::Arguments;
        }
    };
    match (&args.decision, request) {
        (Some(from), _) => explain_logged(from, &body, &compiled, args.output, output),
        (None, Some(request)) => explain_request(args, &request, &body, compiled, output),
        (None, None) => Exit::Arguments,
    }
}

/// Explains a line of the decision log, or the denials of many.
fn explain_logged(
    from: &Path,
    body: &Body,
    compiled: &CompiledPolicy,
    format: Format,
    output: &mut Output<'_>,
) -> Exit {
    let authorizer = &compiled.authorizer;
    let printed = OneOrMore::read(from).and_then(|given| match given {
        OneOrMore::One(line) => {
            let nobody = line.without_identity(authorizer);
            let mut repeated = line.explain(authorizer, body, clock::now())?;
            repeated.explanation.notes.extend(nobody.map(str::to_owned));
            Ok(print(&repeated, repeated.explanation.status, format, output))
        }
        OneOrMore::More(_) if body.is_given() => {
            Err("`--body` is for one line of the decision log".to_owned())
        }
        OneOrMore::More(lines) => {
            let denials =
                Denials::read(lines, authorizer).map_err(|error| format!("`{}`: {error}", from.display()))?;
            if let Some(why) = denials.without_identity() {
                output.warning(why);
            }
            // The log was read, and what it says of denied requests is not an answer to one.
            Ok(print(&denials, 200, format, output))
        }
    });
    match printed {
        Ok(exit) => exit,
        Err(error) => {
            output.error(&error);
            Exit::Arguments
        }
    }
}

fn explain_request(
    args: &ExplainArgs,
    request: &RequestArgs,
    body: &Body,
    compiled: CompiledPolicy,
    output: &mut Output<'_>,
) -> Exit {
    let (path, host) = request.path_and_host();
    let (asker, authorization) = match caller::caller(&args.caller, &compiled.authorizer, &host) {
        Ok(caller) => caller,
        Err(error) => {
            output.error(&error);
            return Exit::Arguments;
        }
    };
    let needs = Needs {
        keys: args.caller.bearer.is_some() || fetched::has_authorization(&args.headers),
        inventory: Explainer::new(&compiled.authorizer).is_of_cluster(host.as_bytes()),
    };
    let compiled = match fetched::with_fetched(compiled, needs, args.output, output) {
        Ok(compiled) => compiled,
        Err(exit) => return exit,
    };
    let mut lines = args.headers.clone();
    lines.extend(body.header(&lines));
    lines.extend(authorization.map(|value| ("authorization".to_owned(), value)));
    let headers: Vec<_> = lines.iter().map(|(name, value)| header(name, value)).collect();
    let client = args.client.map(|address| address.to_string()).unwrap_or_default();
    let request = Request {
        method: request.method.as_bytes(),
        host: host.as_bytes(),
        path: path.as_bytes(),
        headers: &headers,
        client: client.as_bytes(),
        body: body.whole(),
        ..Request::default()
    };
    let explainer = Explainer::new(&compiled.authorizer);
    let mut explanation = explainer.explain(&request, asker, clock::now());
    let CallerArgs { user, issuer, roles, groups, .. } = &args.caller;
    if user.is_some() || !groups.is_empty() {
        explanation.notes.extend(explainer.without_identity(&host).map(str::to_owned));
    }
    let user = user.as_deref().filter(|_| issuer.is_none());
    explanation.notes.extend(explainer.unknown_names(&host, user, (groups, roles)));
    if explanation.cluster.as_ref().is_some_and(|cluster| cluster.depends_on_body) && !body.is_given() {
        explanation.notes.push(NO_BODY.to_owned());
    }
    print(&explanation, explanation.status, args.output, output)
}

fn print(
    explanation: &(impl Display + Serialize),
    status: u16,
    format: Format,
    output: &mut Output<'_>,
) -> Exit {
    match format {
        Format::Text => output.line(&explanation.to_string()),
        Format::Json => output.json(explanation),
    }
    if status == 200 { Exit::Success } else { Exit::Denied }
}

fn header<'a>(name: &'a str, value: &'a str) -> authorizer::Header<'a> {
    authorizer::Header { name: name.as_bytes(), value: value.as_bytes() }
}
