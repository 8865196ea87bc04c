//! Callers as lines name them.

use std::collections::HashMap;

use authorizer::{AssumedCaller, Authorizer};
use explain::{Explainer, NamedCaller};
use identity::CredentialsError;
use serde_json::value::RawValue;

use super::request_line::{InvalidRequest, RequestLine, json_error};

/// Callers that are kept: a batch has the same ones again and again, and to resolve their roles and
/// headers takes longer than a decision.
const MAX_CALLERS: usize = 4_096;
/// Maximum size of the text that identifies a caller that is kept, in bytes.
const MAX_KEY: usize = 4 << 10;

/// The callers of the last lines.
pub(super) struct Callers<'p> {
    pub(super) authorizer: &'p Authorizer,
    kept: HashMap<Box<[u8]>, LineCaller<'p>>,
    /// The last caller that is not kept.
    last: Option<LineCaller<'p>>,
    key: Vec<u8>,
}

/// The caller of a line.
pub(super) enum LineCaller<'p> {
    /// Whoever has its credentials; anonymous without credentials.
    FromRequest,
    /// This one.
    Assumed(AssumedCaller<'p>),
    /// Its credentials would be invalid.
    Invalid(CredentialsError),
}

impl<'p> Callers<'p> {
    pub(super) fn new(authorizer: &'p Authorizer) -> Self {
        Self { authorizer, kept: HashMap::new(), last: None, key: Vec::new() }
    }

    /// The caller of a request.
    pub(super) fn get(
        &mut self,
        request: &RequestLine<'_>,
    ) -> Result<&LineCaller<'p>, InvalidRequest> {
        if request.user.is_none() && request.claims.is_none() {
            return Ok(&LineCaller::FromRequest);
        }
        let Self { authorizer, kept, last, key } = self;
        write_key(request, authorizer, key);
        if key.len() > MAX_KEY {
            return Ok(last.insert(caller(request, authorizer)?));
        }
        if !kept.contains_key(&**key) {
            let caller = caller(request, authorizer)?;
            if kept.len() >= MAX_CALLERS {
                kept.clear();
            }
            kept.insert(key.as_slice().into(), caller);
        }
        // It is there.
        Ok(kept.get(&**key).unwrap_or(&LineCaller::Invalid(CredentialsError::BadPassword)))
    }
}

/// What identifies a caller: texts, each behind its length, so that no two callers are equal.
fn write_key(request: &RequestLine<'_>, authorizer: &Authorizer, key: &mut Vec<u8>) {
    key.clear();
    // On the hosts of a search cluster a name may be another caller's.
    let has_cluster = authorizer.cluster().is_some();
    let is_of_cluster =
        has_cluster && Explainer::new(authorizer).is_of_cluster(request.host.as_bytes());
    key.push(u8::from(is_of_cluster));
    let names = [request.user.as_deref(), request.issuer.as_deref()];
    let texts = [request.groups, request.roles, request.claims].map(|json| json.map(RawValue::get));
    for text in names.into_iter().chain(texts) {
        // Not the length of a text.
        let length = text.map_or(usize::MAX, str::len);
        key.extend(length.to_le_bytes());
        key.extend(text.unwrap_or_default().as_bytes());
    }
}

/// The caller that a line names by `user` or `claims`.
fn caller<'p>(
    request: &RequestLine<'_>,
    authorizer: &'p Authorizer,
) -> Result<LineCaller<'p>, InvalidRequest> {
    let explainer = Explainer::new(authorizer);
    let subject = match (&request.user, request.claims) {
        (Some(user), _) => {
            let (groups, roles) =
                (names(request.groups, "groups")?, names(request.roles, "roles")?);
            let issuer = request.issuer.as_deref();
            let named = NamedCaller { user, issuer, groups: &groups, roles: &roles };
            explainer
                .named_caller(&request.host, named)
                .map_err(|error| InvalidRequest(error.to_string()))?
        }
        (None, Some(claims)) => explainer.subject_of_claims(request.host.as_bytes(), claims.get()),
        (None, None) => return Ok(LineCaller::FromRequest),
    };
    Ok(match subject {
        Ok(subject) => {
            LineCaller::Assumed(authorizer.assumed_caller(request.host.as_bytes(), subject))
        }
        Err(error) => LineCaller::Invalid(error),
    })
}

/// The names in a list; none without the list.
fn names(json: Option<&RawValue>, member: &str) -> Result<Vec<String>, InvalidRequest> {
    let Some(json) = json else { return Ok(Vec::new()) };
    serde_json::from_str(json.get())
        .map_err(|error| InvalidRequest(format!("`{member}`: {}", json_error(&error))))
}
