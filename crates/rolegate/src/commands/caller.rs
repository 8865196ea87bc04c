//! The caller, as given on the command line.

use std::io::Read;

use authorizer::Authorizer;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use explain::{ExplainedSubject, Explainer, NamedCaller};

use crate::cli::CallerArgs;

/// Maximum bytes read from standard input: no request can carry longer credentials.
const LONGEST: u64 = 64 << 10;

/// The caller, and the value of the `Authorization` header with its credentials, if any.
///
/// # Errors
/// When the credentials are to be read from standard input, and that fails.
/// Or when a token is given with its scheme, or a user who cannot be one of the issuer.
pub(super) fn caller(
    args: &CallerArgs,
    authorizer: &Authorizer,
    host: &str,
) -> Result<(ExplainedSubject, Option<String>), String> {
    Ok(match args {
        CallerArgs { user: Some(user), issuer, roles, groups, .. } => {
            let named = NamedCaller { user, issuer: issuer.as_deref(), groups, roles };
            let subject =
                Explainer::new(authorizer).named_caller(host, named).map_err(|error| error.to_string())?;
            (subject.map_or_else(ExplainedSubject::Invalid, ExplainedSubject::Given), None)
        }
        CallerArgs { basic: Some(pair), .. } => {
            let encoded = BASE64_STANDARD.encode(given(pair)?);
            (ExplainedSubject::OfCredentials, Some(format!("Basic {encoded}")))
        }
        CallerArgs { bearer: Some(token), .. } => {
            let token = given(token)?;
            if token.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer ")) {
                return Err("`--bearer` takes the token alone, without `Bearer ` before it".to_owned());
            }
            if token.starts_with(['{', '[', '"']) {
                return Err(
                    "`--bearer` takes the token alone, such as the text of `access_token` in this JSON"
                        .to_owned(),
                );
            }
            if token.contains(',') {
                return Err("`--bearer` takes one token, and none has a comma in it".to_owned());
            }
            (ExplainedSubject::OfCredentials, Some(format!("Bearer {token}")))
        }
        CallerArgs { .. } => (ExplainedSubject::OfCredentials, None),
    })
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
