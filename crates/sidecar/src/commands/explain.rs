//! `rolegate explain`: explains how a policy answers one request.

use std::fmt::Display;
use std::path::Path;

use authorizer::Request;
use identity::FetchedKeys;
use serde::Serialize;

use super::{caller, loaded, logged};
use crate::cli::{ExplainArgs, Format, RequestArgs};
use crate::clock;
use crate::exit::Exit;
use crate::keys::Client;
use crate::output::Output;
use crate::snapshot::{KeyUrls, Snapshot};

/// Prints the explanation.
pub(crate) fn explain(args: &ExplainArgs, output: &mut Output<'_>) -> Exit {
    let snapshot = match loaded::load(&args.policy, args.output, output) {
        Ok(snapshot) => snapshot,
        Err(exit) => return exit,
    };
    match (&args.decision, &args.request) {
        (Some(from), _) => explain_logged(from, &snapshot, args.output, output),
        (None, Some(request)) => explain_request(args, request, snapshot, output),
        (None, None) => {
            output.error("give a request, such as `GET /people`, or `--decision FILE`");
            Exit::Arguments
        }
    }
}

/// Explains a line of the decision log.
fn explain_logged(from: &Path, snapshot: &Snapshot, format: Format, output: &mut Output<'_>) -> Exit {
    let repeated = logged::read(from).and_then(|line| line.explain(&snapshot.authorizer, clock::now()));
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
    snapshot: Snapshot,
    output: &mut Output<'_>,
) -> Exit {
    let (asker, authorization) = match caller::caller(&args.caller) {
        Ok(caller) => caller,
        Err(error) => {
            output.error(&error);
            return Exit::Arguments;
        }
    };
    let snapshot =
        if args.caller.bearer.is_some() { with_keys(snapshot, args.output, output) } else { Ok(snapshot) };
    let snapshot = match snapshot {
        Ok(snapshot) => snapshot,
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
        id: b"",
    };
    let explanation = snapshot.authorizer.explain(&request, asker, clock::now());
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
    if status == 200 { Exit::Fine } else { Exit::Denied }
}

fn header<'a>(name: &'a str, value: &'a str) -> authorizer::Header<'a> {
    authorizer::Header { name: name.as_bytes(), value: value.as_bytes() }
}

/// Compiles the policy with the keys that its issuers publish now. Tokens whose keys cannot be fetched do not verify.
fn with_keys(snapshot: Snapshot, format: Format, output: &mut Output<'_>) -> Result<Snapshot, Exit> {
    let urls = snapshot.key_urls();
    if urls.is_empty() {
        return Ok(snapshot);
    }
    let fetched = fetch(&urls, output);
    Snapshot::compile(snapshot.loaded, &fetched, None).map_err(|problems| {
        loaded::report(&problems, format, output);
        Exit::Policy
    })
}

fn fetch(urls: &KeyUrls, output: &mut Output<'_>) -> FetchedKeys {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output.error(&format!("keys not fetched: {error}"));
            return FetchedKeys::new();
        }
    };
    let client = Client::default();
    let mut fetched = FetchedKeys::new();
    for (url, source) in urls {
        match runtime.block_on(client.fetch(url)) {
            Ok(keys) => _ = fetched.insert(url.clone(), keys),
            Err(error) => {
                output.error(&format!("keys of {} at `{url}` not fetched: {error}", source.issuers));
            }
        }
    }
    runtime.shutdown_background();
    fetched
}
