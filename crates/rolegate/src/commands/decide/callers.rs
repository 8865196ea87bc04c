//! Callers as lines name them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use authorizer::{AssumedCaller, Authorizer, Request};
use explain::{Explainer, NamedCaller};
use identity::Certificate;
use serde_json::value::RawValue;

use super::request_line::{InvalidRequest, RequestLine, json_error};

/// Callers that are kept: a batch has the same callers again and again, and to resolve their roles
/// and headers takes longer than a decision.
const MAX_CALLERS: usize = 4_096;
/// Maximum size of the text that identifies a caller that is kept, in bytes.
const MAX_KEY: usize = 4 << 10;

/// The callers of the last lines.
pub(super) struct Callers<'p> {
    pub(super) authorizer: &'p Authorizer,
    kept: HashMap<Box<[u8]>, AssumedCaller<'p>>,
    /// The last caller whose key is too long for it to be kept.
    last: Option<AssumedCaller<'p>>,
    key: Vec<u8>,
}

impl<'p> Callers<'p> {
    pub(super) fn new(authorizer: &'p Authorizer) -> Self {
        Self { authorizer, kept: HashMap::new(), last: None, key: Vec::new() }
    }

    /// The caller that a line names by `user` or `claims`; `None` if it names none, so that the
    /// credentials in the request say who it is.
    pub(super) fn get(
        &mut self,
        request: &RequestLine<'_>,
    ) -> Result<Option<&AssumedCaller<'p>>, InvalidRequest> {
        if request.user.is_none() && request.claims.is_none() {
            return Ok(None);
        }
        let Self { authorizer, kept, last, key } = self;
        write_key(request, authorizer, key);
        if key.len() > MAX_KEY {
            return Ok(Some(last.insert(caller(request, authorizer)?)));
        }
        if kept.len() >= MAX_CALLERS && !kept.contains_key(&**key) {
            kept.clear();
        }
        Ok(Some(match kept.entry(key.as_slice().into()) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(place) => place.insert(caller(request, authorizer)?),
        }))
    }
}

/// The key of a caller: texts, each after its length, so that different callers have
/// different keys.
fn write_key(request: &RequestLine<'_>, authorizer: &Authorizer, key: &mut Vec<u8>) {
    key.clear();
    // The same name may be another caller on the hosts of a search cluster.
    let has_cluster = authorizer.cluster().is_some();
    let is_of_cluster =
        has_cluster && Explainer::new(authorizer).is_of_cluster(request.host.as_bytes());
    key.push(u8::from(is_of_cluster));
    let names = [request.user.as_deref(), request.issuer.as_deref()];
    let texts = [request.groups, request.roles, request.claims].map(|json| json.map(RawValue::get));
    // The certificate names the actor, where the policy requires an actor.
    let names_of_certificate = request.certificate.iter().flatten().map(|name| Some(&**name));
    for text in names.into_iter().chain(texts).chain(names_of_certificate) {
        // A missing text has a length that no text has.
        let length = text.map_or(usize::MAX, str::len);
        key.extend(length.to_le_bytes());
        key.extend(text.unwrap_or_default().as_bytes());
    }
}

fn caller<'p>(
    request: &RequestLine<'_>,
    authorizer: &'p Authorizer,
) -> Result<AssumedCaller<'p>, InvalidRequest> {
    let explainer = Explainer::new(authorizer);
    let host = request.host.as_bytes();
    let subject = match request.claims {
        Some(claims) => explainer.subject_of_claims(host, claims.get()),
        None => {
            let (groups, roles) =
                (names(request.groups, "groups")?, names(request.roles, "roles")?);
            let named = NamedCaller {
                user: request.user.as_deref().unwrap_or_default(),
                issuer: request.issuer.as_deref(),
                groups: &groups,
                roles: &roles,
            };
            explainer
                .named_caller(&request.host, named)
                .map_err(|error| InvalidRequest(error.to_string()))?
        }
    };
    let certificate = request.certificate.as_deref().map(Certificate::Named);
    let certificate_request = Request { host, certificate, ..Request::default() };
    let subject = subject.map(|subject| explainer.with_actor(&certificate_request, subject));
    Ok(authorizer.assumed_caller(host, subject))
}

/// The names in a list; none without the list.
fn names(json: Option<&RawValue>, member: &str) -> Result<Vec<String>, InvalidRequest> {
    let Some(json) = json else { return Ok(Vec::new()) };
    serde_json::from_str(json.get())
        .map_err(|error| InvalidRequest(format!("`{member}`: {}", json_error(&error))))
}
