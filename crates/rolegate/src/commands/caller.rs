//! The caller, as given on the command line.

use std::io::{self, Read};

use authorizer::Authorizer;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use explain::{ExplainedSubject, Explainer, NamedCaller};

use crate::cli::CallerArgs;
use crate::error::CommandError;

/// Maximum bytes read from standard input: no request can carry longer credentials.
const MAX_CREDENTIALS: u64 = 64 << 10;

/// The caller, and the value of the `Authorization` header with its credentials, if any.
pub(super) fn caller(
    args: &CallerArgs,
    authorizer: &Authorizer,
    host: &str,
) -> Result<(ExplainedSubject, Option<String>), CommandError> {
    if let Some(user) = &args.user {
        let CallerArgs { issuer, roles, groups, .. } = args;
        let named = NamedCaller { user, issuer: issuer.as_deref(), groups, roles };
        let subject = Explainer::new(authorizer)
            .named_caller(host, named)
            .map_err(|error| CommandError::Arguments(error.to_string()))?;
        return Ok((subject.map_or_else(ExplainedSubject::Invalid, ExplainedSubject::Given), None));
    }
    let authorization = match (&args.basic, &args.bearer) {
        (Some(pair), _) => Some(format!("Basic {}", BASE64_STANDARD.encode(read_value(pair)?))),
        (None, Some(token)) => {
            let token = read_value(token)?;
            if let Some(problem) = token_problem(&token) {
                return Err(CommandError::Arguments(format!("`--bearer` takes {problem}")));
            }
            Some(format!("Bearer {token}"))
        }
        (None, None) => None,
    };
    Ok((ExplainedSubject::OfCredentials, authorization))
}

/// Why a text is not one token.
fn token_problem(token: &str) -> Option<&'static str> {
    if token.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer ")) {
        Some("the token alone, without `Bearer ` before it")
    } else if token.starts_with(['{', '[', '"']) {
        Some("the token alone, such as the text of `access_token` in this JSON")
    } else if token.contains(',') {
        Some("one token, and none has a comma in it")
    } else {
        None
    }
}

/// The value itself, or the first line of standard input if the value is `-`.
fn read_value(value: &str) -> Result<String, CommandError> {
    if value != "-" {
        return Ok(value.to_owned());
    }
    let mut text = String::new();
    let read = io::stdin().lock().take(MAX_CREDENTIALS).read_to_string(&mut text);
    read.map_err(|error| CommandError::Arguments(format!("cannot read standard input: {error}")))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
