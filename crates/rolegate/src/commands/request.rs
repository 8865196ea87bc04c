//! The request of a command line: its headers, its body and its caller.

use std::path::Path;

use authorizer::{Authorizer, Header, RequestBody};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use explain::{ExplainedSubject, Explainer, NamedCaller};
use policy::model::AUTHORIZATION;

use super::input;
use crate::cli::{BodyArgs, CallerArgs};
use crate::error::CommandError;

/// The note on a request to a search cluster, if no body is given and the permissions that the
/// request needs depend on the body.
pub(super) const NO_BODY: &str = "the permissions for this operation depend on its body, which \
                                  counts as empty: set it by `--body`";

/// A body and its type.
#[derive(Debug, Default)]
pub(super) struct Body {
    bytes: Option<Vec<u8>>,
    content_type: String,
}

impl Body {
    /// Reads the body that the arguments name.
    pub(super) fn read(args: &BodyArgs) -> Result<Self, CommandError> {
        let bytes = args.body.as_deref().map(read_body).transpose()?;
        Ok(Self { bytes, content_type: args.content_type.clone() })
    }

    /// The whole body, which is empty if none is given.
    pub(super) fn whole(&self) -> RequestBody<'_> {
        RequestBody::Whole(self.bytes.as_deref().unwrap_or_default())
    }

    pub(super) const fn is_given(&self) -> bool {
        self.bytes.is_some()
    }

    /// The `content-type`, if a body is given and these headers do not have it.
    pub(super) fn content_type_header(
        &self,
        headers: &[(String, String)],
    ) -> Option<(String, String)> {
        (self.is_given() && !has_header(headers, "content-type"))
            .then(|| ("content-type".to_owned(), self.content_type.clone()))
    }
}

/// The text itself, or the contents of `@FILE`, or standard input for `-`.
fn read_body(text: &str) -> Result<Vec<u8>, CommandError> {
    let path = match text.strip_prefix('@') {
        None if text != "-" => return Ok(text.as_bytes().to_vec()),
        None => text,
        Some(path) => path,
    };
    input::read(Path::new(path)).map_err(|error| {
        CommandError::arguments(format_args!("cannot read the body `{text}`: {error}"))
    })
}

/// The problem of an API key under a policy without any.
pub(super) const NO_API_KEYS: &str = "the policy has no `identity.api_keys`, so no key is valid";

/// The header line of a user and password with a colon between them (RFC 7617).
pub(super) fn basic_line(pair: &str) -> (String, String) {
    (AUTHORIZATION.to_owned(), format!("Basic {}", BASE64_STANDARD.encode(pair)))
}

pub(super) fn has_header(headers: &[(String, String)], name: &str) -> bool {
    headers.iter().any(|(header, _)| header.eq_ignore_ascii_case(name))
}

/// Headers as the authorizer takes them.
pub(super) fn borrowed_headers(headers: &[(String, String)]) -> Vec<Header<'_>> {
    headers
        .iter()
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect()
}

/// The caller, and the header with its credentials, if any.
pub(super) fn caller(
    args: &CallerArgs,
    authorizer: &Authorizer,
    host: &str,
) -> Result<(ExplainedSubject, Option<(String, String)>), CommandError> {
    let CallerArgs { basic, bearer, api_key, user, issuer, roles, groups } = args;
    if let Some(user) = user {
        let caller = NamedCaller { user, issuer: issuer.as_deref(), groups, roles };
        let subject = Explainer::new(authorizer)
            .named_caller(host, caller)
            .map_err(CommandError::arguments)?;
        return Ok((subject.map_or_else(ExplainedSubject::Invalid, ExplainedSubject::Given), None));
    }
    let identity = Explainer::new(authorizer).identity_on(host.as_bytes());
    if let Some(key) = api_key {
        let name = identity.api_key_header().ok_or_else(|| CommandError::arguments(NO_API_KEYS))?;
        let header = (name.to_owned(), read_credentials(key)?);
        return Ok((ExplainedSubject::FromRequest, Some(header)));
    }
    let header = match (basic, bearer) {
        (Some(pair), _) => Some(basic_line(&read_credentials(pair)?)),
        (None, Some(token)) => {
            if token != "-" && Path::new(token).is_file() {
                return Err(CommandError::arguments(
                    "`--bearer` takes the token itself, and this is a file: `--bearer - < FILE` \
                     reads its first line",
                ));
            }
            let token = read_credentials(token)?;
            if let Some(accepted) = accepted_instead(&token) {
                return Err(CommandError::arguments(format_args!("`--bearer` takes {accepted}")));
            }
            Some(identity.token_line(&token))
        }
        (None, None) => None,
    };
    Ok((ExplainedSubject::FromRequest, header))
}

/// The text that `--bearer` accepts in place of this one, for a message. `None` if this is a single
/// token.
fn accepted_instead(token: &str) -> Option<&'static str> {
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

/// The text itself, or the first line of standard input for `-`.
fn read_credentials(text: &str) -> Result<String, CommandError> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    input::read_line().map_err(|error| {
        CommandError::arguments(format_args!("cannot read standard input: {error}"))
    })
}
