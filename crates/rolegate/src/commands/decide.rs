//! `rolegate decide`: decides requests that come as lines of JSON, for CI and batch jobs.
//!
//! * `lines`: the lines of standard input, one at a time;
//! * `request_line`: a request;
//! * `callers`: callers as the lines name them, kept for the next lines;
//! * `answer_line`: a decision.

mod answer_line;
mod callers;
mod lines;
mod request_line;

use std::io::{self, ErrorKind, Write};

use authorizer::{Authorizer, Header, Request, RequestBody, Scratch, has_token_elsewhere};
use explain::Explainer;
use identity::Certificate;
use policy::model::AUTHORIZATION;
use runtime::clock;

use super::decision_lines::LineNumbers;
use super::fetched::{self, Needs};
use super::policy_files::PolicyFiles;
use super::request::{NO_API_KEYS, basic_line};
use crate::cli::DecideArgs;
use crate::error::{CommandError, Exit};
use crate::output::{Output, counted};
use answer_line::{write_decision, write_error};
use callers::Callers;
use lines::{Line, Lines};
use request_line::{InvalidRequest, RequestLine};

/// Why deciding stops.
enum Stop {
    /// There are no more lines, or nobody reads the answers any more.
    End,
    /// The current line needs the keys of issuers or the inventory of a search cluster, and the
    /// policy has URLs for them.
    Fetch,
}

/// Answers each line of standard input by a line on standard output.
pub(crate) fn run(args: &DecideArgs, output: &Output) -> Result<Exit, CommandError> {
    let files = PolicyFiles::open(args.policy.get(), &args.public_keys, output)?;
    let mut compiled = files.load()?;
    let mut lines = Lines::new(io::stdin().lock());
    let mut answers = io::BufWriter::with_capacity(lines::BUFFER, io::stdout().lock());
    let mut invalid = LineNumbers::default();
    // These include the URL of the inventory.
    let mut may_fetch = !compiled.key_urls().is_empty();
    while let Stop::Fetch =
        decide(&compiled.authorizer, &mut lines, &mut answers, (&mut invalid, may_fetch))?
    {
        let needs = Needs { keys: true, inventory: true };
        compiled = fetched::with_fetched(compiled, needs, output)?;
        may_fetch = false;
    }
    if invalid.count == 0 {
        return Ok(Exit::Success);
    }
    let count = counted(invalid.count, "line");
    output.error(format_args!("{count} not valid, so not decided: {invalid}"));
    Ok(Exit::Arguments)
}

/// Decides the lines from the current line on.
fn decide(
    authorizer: &Authorizer,
    lines: &mut Lines<'_>,
    answers: &mut impl Write,
    (invalid, may_fetch): (&mut LineNumbers, bool),
) -> Result<Stop, CommandError> {
    let (mut callers, mut scratch) = (Callers::new(authorizer), Scratch::default());
    loop {
        let written = match lines.current() {
            Line::None => Ok(()),
            Line::TooLong => {
                invalid.add(lines.number);
                write_error(answers, lines.number, &InvalidRequest::too_long())
            }
            Line::Whole(line) => match RequestLine::parse(line) {
                Ok(request) if may_fetch && needs_fetched(&request, authorizer) => {
                    return Ok(Stop::Fetch);
                }
                Ok(request) => match answer(&request, &mut callers, &mut scratch, answers) {
                    Ok(written) => written,
                    Err(error) => {
                        invalid.add(lines.number);
                        write_error(answers, lines.number, &error)
                    }
                },
                Err(error) => {
                    invalid.add(lines.number);
                    write_error(answers, lines.number, &error)
                }
            },
        };
        // Another program may write a line and wait for its answer, so the answers are flushed
        // before a read that may wait.
        let written =
            written.and_then(|()| if lines.may_wait() { answers.flush() } else { Ok(()) });
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Stop::End),
            Err(error) => return Err(CommandError::failed(format_args!("cannot print: {error}"))),
        }
        let read = lines.read_next();
        if !read.map_err(|error| {
            CommandError::failed(format_args!("cannot read standard input: {error}"))
        })? {
            return Ok(Stop::End);
        }
    }
}

/// Decides a request, and writes the decision. The inner result is the result of the writing.
fn answer(
    line: &RequestLine<'_>,
    callers: &mut Callers<'_>,
    scratch: &mut Scratch,
    answers: &mut impl Write,
) -> Result<io::Result<()>, InvalidRequest> {
    let authorizer = callers.authorizer;
    let now = line.time()?.unwrap_or_else(clock::now);
    let credentials = credentials(line, authorizer)?;
    let own_headers = line.headers.0.iter().map(|(name, value)| (&**name, &**value));
    let credentials = credentials.iter().map(|(name, value)| (&**name, &**value));
    let headers: Vec<Header<'_>> = own_headers
        .chain(credentials)
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    let client = line.client.map(|client| client.to_string()).unwrap_or_default();
    let request = Request {
        method: line.method.as_bytes(),
        host: line.host.as_bytes(),
        path: line.path.as_bytes(),
        headers: &headers,
        client: client.as_bytes(),
        peer: client.as_bytes(),
        certificate: line.certificate.as_deref().map(Certificate::Named),
        body: RequestBody::Whole(line.body.as_bytes()),
        ..Request::default()
    };
    let verdict = match callers.get(line)? {
        None => authorizer.check_inline(&request, scratch, now),
        Some(caller) => caller.check(&request, scratch, now),
    };
    Ok(write_decision(answers, &verdict))
}

/// The header with the credentials of a line, if it has any.
fn credentials(
    line: &RequestLine<'_>,
    authorizer: &Authorizer,
) -> Result<Option<(String, String)>, InvalidRequest> {
    let identity = || authorizer.backend(line.host.as_bytes()).identity();
    if let Some(pair) = &line.basic {
        return Ok(Some(basic_line(pair)));
    }
    if let Some(token) = &line.bearer {
        return Ok(Some(identity().token_line(token)));
    }
    let Some(key) = &line.api_key else { return Ok(None) };
    match identity().api_key_header() {
        Some(name) => Ok(Some((name.to_owned(), (**key).to_owned()))),
        None => Err(InvalidRequest(NO_API_KEYS.to_owned())),
    }
}

/// Whether a request needs what the policy may have URLs for. A request that may have a token needs
/// keys. A request to a search cluster needs the cluster's inventory.
fn needs_fetched(line: &RequestLine<'_>, authorizer: &Authorizer) -> bool {
    let explainer = Explainer::new(authorizer);
    let host = line.host.as_bytes();
    let headers = &line.headers.0;
    let lines: Vec<Header<'_>> = headers
        .iter()
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    line.bearer.is_some()
        || headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION))
        || has_token_elsewhere(&lines, explainer.identity_on(host))
        || explainer.is_of_cluster(host)
}
