//! `rolegate explain`: explains how a policy answers one request.

use std::fmt::Display;
use std::path::Path;

use authorizer::Request;
use serde::Serialize;

use super::{caller, fetched, loaded, logged};
use crate::cli::{CallerArgs, ExplainArgs, Format, RequestArgs};
use crate::exit::Exit;
use crate::output::Output;
use runtime::clock;
use runtime::compiled_policy::CompiledPolicy;

/// Prints the explanation.
pub(crate) fn explain(args: &ExplainArgs, output: &mut Output<'_>) -> Exit {
    let compiled = match loaded::load(&args.policy, args.output, output) {
        Ok(compiled) => compiled,
        Err(exit) => return exit,
    };
    match (&args.decision, &args.request) {
        (Some(from), _) => explain_logged(from, &compiled, args.output, output),
        (None, Some(request)) => explain_request(args, request, compiled, output),
        (None, None) => {
            output.error("give a request, such as `GET /people`, or `--decision FILE`");
            Exit::Arguments
        }
    }
}

/// Explains a line of the decision log.
fn explain_logged(from: &Path, compiled: &CompiledPolicy, format: Format, output: &mut Output<'_>) -> Exit {
    let repeated = logged::read(from).and_then(|line| line.explain(&compiled.authorizer, clock::now()));
    match repeated {
        Ok(repeated) => print(&repeated, repeated.explanation.status, format, output),
        Err(error) => {
            output.error(&error);
            Exit::Arguments
        }
    }
}

fn explain_request(
    args: &ExplainArgs,
    request: &RequestArgs,
    compiled: CompiledPolicy,
    output: &mut Output<'_>,
) -> Exit {
    let (asker, authorization) = match caller::caller(&args.caller, &compiled.authorizer) {
        Ok(caller) => caller,
        Err(error) => {
            output.error(&error);
            return Exit::Arguments;
        }
    };
    let needs_keys = args.caller.bearer.is_some() || fetched::has_authorization(&args.headers);
    let compiled = match fetched::with_keys(compiled, needs_keys, args.output, output) {
        Ok(compiled) => compiled,
        Err(exit) => return exit,
    };
    let (path, host) = request.path_and_host();
    let mut lines = args.headers.clone();
    lines.extend(authorization.map(|value| ("authorization".to_owned(), value)));
    let headers: Vec<_> = lines.iter().map(|(name, value)| header(name, value)).collect();
    let request = Request {
        method: request.method.as_bytes(),
        host: host.as_bytes(),
        path: path.as_bytes(),
        headers: &headers,
        ..Request::default()
    };
    let mut explanation = compiled.authorizer.explain(&request, asker, clock::now());
    let CallerArgs { user, issuer, roles, groups, .. } = &args.caller;
    let user = user.as_deref().filter(|_| issuer.is_none());
    explanation.notes.extend(caller::unknown_names(user, roles, groups, &compiled.loaded.policy));
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
