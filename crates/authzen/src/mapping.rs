//! From a question to a caller and an HTTP request.

use std::borrow::Cow;
use std::sync::Arc;

use authorizer::{Authorizer, Backend};
use explain::{Explainer, unverified_subject};
use identity::{CredentialsError, Subject, is_name, with_prefix};
use policy::model::{AuthZen, Issuer, SourceId};
use serde_json::{Map, Value};

use crate::message::{Entity, Evaluation};

/// The request that a question is about.
#[derive(Default)]
pub(crate) struct Target {
    pub(crate) method: String,
    pub(crate) host: String,
    /// Empty for a resource without a path, which no rule allows.
    pub(crate) path: String,
}

impl Target {
    /// The target of a question. Its path is empty if the type of the resource is unknown, or a
    /// segment cannot hold its `id`.
    pub(crate) fn new(question: &Evaluation, authzen: &AuthZen) -> Self {
        let method = authzen.method(&question.action.name);
        let kind = authzen.resource(&question.resource.kind);
        let place = kind.and_then(|kind| {
            let host = kind.host.as_deref().unwrap_or_default();
            Some((host.to_owned(), kind.path.with_id(&question.resource.id)?))
        });
        let (host, path) = place.unwrap_or_default();
        Self { method, host, path }
    }
}

/// The properties of an entity: all in the question, and from the file `entities` those that the
/// question lacks. The question wins: the client is authenticated, and may know more than the file.
pub(crate) fn completed<'e>(
    asked: &'e Map<String, Value>,
    stored: Option<&'e Map<String, Value>>,
) -> Cow<'e, Map<String, Value>> {
    match stored {
        None => Cow::Borrowed(asked),
        Some(stored) if asked.is_empty() => Cow::Borrowed(stored),
        Some(stored) => {
            let mut properties = stored.clone();
            properties.extend(asked.iter().map(|(name, value)| (name.clone(), value.clone())));
            Cow::Owned(properties)
        }
    }
}

/// The user that a subject claims to be, with the prefix of its issuer; `None` if nobody can be.
pub(crate) fn claimed_user(
    subject: &Entity,
    authzen: &AuthZen,
    authorizer: &Authorizer,
) -> Option<Arc<str>> {
    let issuers = &authorizer.loaded().policy.identity.jwt;
    let prefix: &str = match &authzen.subject(&subject.kind)?.issuer {
        Some(name) => &issuer_named(name, issuers).ok()?.1.user_prefix,
        None => "",
    };
    is_name(&subject.id).then(|| with_prefix(prefix, &subject.id))
}

/// The caller that a subject stands for in requests to a host. The properties of the subject become
/// the claims of the caller.
///
/// # Errors
/// If no caller can have these names and properties. The question is then decided as if the caller
/// had invalid credentials, not as if the caller were anonymous.
pub(crate) fn caller(
    subject: &Entity,
    host: &[u8],
    authzen: &AuthZen,
    authorizer: &Authorizer,
) -> Result<Subject, CredentialsError> {
    let kind = authzen.subject(&subject.kind).ok_or(CredentialsError::UnknownIssuer)?;
    match authorizer.backend(host) {
        Backend::Rules(_) => {}
        // The roles of a search cluster also decide about bodies, and a question has no body.
        Backend::Cluster(_) => return Err(CredentialsError::UnsupportedScheme),
    }
    if !is_name(&subject.id) {
        return Err(CredentialsError::MalformedClaims);
    }
    let issuers = &authorizer.loaded().policy.identity.jwt;
    let issuer = match &kind.issuer {
        Some(name) => Some(issuer_named(name, issuers)?),
        None => None,
    };
    let group_prefix = issuer.map_or("", |(_, issuer)| &issuer.group_prefix);
    let stored = authzen.entities.subjects.properties(&subject.kind, &subject.id);
    let properties = completed(&subject.properties, stored);
    let groups = identity::names(&properties, kind.groups.as_ref(), group_prefix)?;
    let mut caller = match issuer {
        Some((source, issuer)) => {
            let user = with_prefix(&issuer.user_prefix, &subject.id);
            unverified_subject::<Arc<str>>(&user, Some(source), &groups, &[])
        }
        None => Explainer::new(authorizer).subject_named(host, &subject.id, &groups, &[])?,
    };
    caller.roles.extend(identity::names(&properties, kind.roles.as_ref(), "")?);
    if let Some((_, issuer)) = numbered(issuers).find(|(source, _)| caller.source == Some(*source))
    {
        identity::check_required(&properties, &issuer.require)?;
        caller.roles.retain(|role| issuer.may_give(role));
        caller.issuer = Some(Arc::clone(&issuer.issuer));
    }
    caller.claims = Value::Object(properties.into_owned());
    Ok(caller)
}

fn issuer_named<'p>(
    name: &str,
    issuers: &'p [Issuer],
) -> Result<(SourceId, &'p Issuer), CredentialsError> {
    numbered(issuers)
        .find(|(_, issuer)| *issuer.issuer == *name)
        .ok_or(CredentialsError::UnknownIssuer)
}

fn numbered(issuers: &[Issuer]) -> impl Iterator<Item = (SourceId, &Issuer)> {
    issuers.iter().enumerate().map(|(index, issuer)| (SourceId::from_issuer(index), issuer))
}
