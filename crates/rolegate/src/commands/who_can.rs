//! `rolegate who-can`: lists who may make a request.

use authorizer::{Header, Request};
use explain::Explainer;
use runtime::clock;

use super::body::{Body, NO_BODY};
use super::fetched::{self, Needs};
use super::loaded;
use crate::cli::{Format, WhoCanArgs};
use crate::exit::Exit;
use crate::output::Output;

/// Prints who may make the request, and the rules that take part.
pub(crate) fn who_can(args: &WhoCanArgs, output: &mut Output<'_>) -> Exit {
    let compiled = match loaded::load(args.policy.path(), &args.public_keys, args.output, output) {
        Ok(compiled) => compiled,
        Err(exit) => return exit,
    };
    let body = match Body::read(&args.body) {
        Ok(body) => body,
        Err(error) => {
            output.error(&error);
            return Exit::Arguments;
        }
    };
    let (path, host) = args.request.path_and_host();
    let inventory = Explainer::new(&compiled.authorizer).is_of_cluster(host.as_bytes());
    let needs = Needs { keys: false, inventory };
    let compiled = match fetched::with_fetched(compiled, needs, args.output, output) {
        Ok(compiled) => compiled,
        Err(exit) => return exit,
    };
    let lines: Vec<_> = body.header(&[]).into_iter().collect();
    let lines = lines.iter().map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() });
    let headers: Vec<_> = lines.collect();
    let request = Request {
        method: args.request.method.as_bytes(),
        host: host.as_bytes(),
        path: path.as_bytes(),
        headers: &headers,
        body: body.whole(),
        ..Request::default()
    };
    let mut who = Explainer::new(&compiled.authorizer).who_can(&request, clock::now());
    if who.cluster.as_ref().is_some_and(|cluster| cluster.depends_on_body) && !body.is_given() {
        who.notes.push(NO_BODY.to_owned());
    }
    match args.output {
        Format::Text => output.line(&who.to_string()),
        Format::Json => output.json(&who),
    }
    match (who.callers.is_empty(), who.left_out) {
        (false, _) => Exit::Success,
        (true, false) => Exit::Denied,
        (true, true) => Exit::Failed,
    }
}
