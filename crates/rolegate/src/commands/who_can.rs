//! `rolegate who-can`: lists who may make a request.

use authorizer::Request;
use explain::Explainer;
use runtime::clock;

use super::fetched::{self, Needs};
use super::request::{Body, NO_BODY, borrowed_headers};
use super::what_can::note_on_cluster;
use crate::cli::WhoCanArgs;
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Prints who may make the request, and the rules that take part.
pub(crate) fn run(args: &WhoCanArgs, output: &mut Output) -> Result<Exit, CommandError> {
    let compiled = args.policy.load(output)?;
    let body = Body::read(&args.body)?;
    let (path, host) = args.request.path_and_host();
    let inventory = Explainer::new(&compiled.authorizer).is_of_cluster(host.as_bytes());
    let compiled = fetched::with_fetched(compiled, Needs { keys: false, inventory }, output)?;
    let mut headers = args.variables.headers.clone();
    headers.extend(body.content_type_header(&headers));
    let client = args.variables.client();
    let request = Request {
        method: args.request.method.as_bytes(),
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
    let mut answer = explainer.who_can(&request, clock::now());
    if !args.request.has_host() {
        answer.notes.extend(explainer.other_hosts(&request));
        if answer.cluster.is_none() {
            answer.notes.extend(note_on_cluster(explainer.policy()));
        }
    }
    if answer.cluster.as_ref().is_some_and(|cluster| cluster.depends_on_body) && !body.is_given() {
        answer.notes.push(NO_BODY.to_owned());
    }
    output.answer(&answer);
    Ok(match (answer.callers.is_empty(), answer.left_out) {
        (false, _) => Exit::Success,
        (true, false) => Exit::No,
        (true, true) => Exit::Failed,
    })
}
