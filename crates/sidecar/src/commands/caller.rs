//! The caller, as given on the command line.

use std::io::Read;
use std::sync::Arc;

use authorizer::ExplainedSubject;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use identity::Subject;

use crate::cli::CallerArgs;

/// Maximum bytes read from standard input: no request can carry longer credentials.
const LONGEST: u64 = 64 << 10;

/// The caller, and the value of the `Authorization` header with its credentials, if any.
///
/// # Errors
/// When the credentials are to be read from standard input, and that fails.
pub(super) fn caller(args: &CallerArgs) -> Result<(ExplainedSubject, Option<String>), String> {
    Ok(match args {
        CallerArgs { user: Some(user), roles, groups, .. } => {
            (ExplainedSubject::Given(subject(user, roles, groups)), None)
        }
        CallerArgs { basic: Some(pair), .. } => {
            let encoded = BASE64_STANDARD.encode(given(pair)?);
            (ExplainedSubject::OfCredentials, Some(format!("Basic {encoded}")))
        }
        CallerArgs { bearer: Some(token), .. } => {
            (ExplainedSubject::OfCredentials, Some(format!("Bearer {}", given(token)?)))
        }
        CallerArgs { .. } => (ExplainedSubject::OfCredentials, None),
    })
}

fn subject(user: &str, roles: &[String], groups: &[String]) -> Subject {
    let names = |names: &[String]| names.iter().map(|name| Arc::from(name.as_str())).collect();
    let (groups, roles) = (names(groups), names(roles));
    let (issuer, source) = (None, None);
    Subject { user: user.into(), issuer, source, groups, roles, claims: serde_json::Value::Null }
}

/// The value itself, or the first line of standard input if the value is `-`.
fn given(value: &str) -> Result<String, String> {
    if value != "-" {
        return Ok(value.to_owned());
    }
    let mut text = String::new();
    std::io::stdin()
        .lock()
        .take(LONGEST)
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot read standard input: {error}"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
