//! From a question to a caller and an HTTP request.

use std::sync::Arc;

use authorizer::{Authorizer, Backend};
use explain::{Explainer, unverified_subject};
use identity::{CredentialsError, Subject};
use policy::model::{AuthZen, ClaimPath, Issuer, RolesFromToken, SourceId, SubjectType};
use serde_json::{Map, Value};

use crate::message::{Entity, Evaluation};

/// The caller and the request that a question is about.
pub(crate) struct Mapped {
    /// The caller; an error denies.
    pub(crate) subject: Result<Subject, CredentialsError>,
    pub(crate) method: String,
    pub(crate) host: String,
    /// Empty for a resource without a path, which no rule allows.
    pub(crate) path: String,
}

impl Mapped {
    pub(crate) fn new(question: &Evaluation, authorizer: &Authorizer) -> Self {
        let unknown = Self {
            subject: Err(CredentialsError::UnknownIssuer),
            method: String::new(),
            host: String::new(),
            path: String::new(),
        };
        // A reload may have removed the section.
        let Some(authzen) = &authorizer.loaded().policy.authzen else { return unknown };
        let method = authzen.method(&question.action);
        let target = target(&question.resource, authzen);
        // The path of another resource is empty, which is not a path: nothing allows it.
        let Some((host, path)) = target else { return Self { method, ..unknown } };
        let subject = match authorizer.backend(host.as_bytes()) {
            Backend::Rules(_) => caller(&question.subject, authzen, &host, authorizer),
            // Its roles decide about bodies, too, which a question does not have.
            Backend::Cluster(_) => Err(CredentialsError::UnsupportedScheme),
        };
        Self { subject, method, host, path }
    }
}

/// The host and the path of a resource; `None` if its type is unknown, or a segment cannot hold its
/// `id`.
fn target(resource: &Entity, authzen: &AuthZen) -> Option<(String, String)> {
    let known = authzen.resource(&resource.kind)?;
    let host = known.host.as_deref().unwrap_or_default().to_owned();
    Some((host, known.path.with_id(&resource.id)?))
}

/// The caller that a subject is. Its properties are its claims.
fn caller(
    subject: &Entity,
    authzen: &AuthZen,
    host: &str,
    authorizer: &Authorizer,
) -> Result<Subject, CredentialsError> {
    let known = authzen.subject(&subject.kind).ok_or(CredentialsError::UnknownIssuer)?;
    let id = &*subject.id;
    if !is_name(id) {
        return Err(CredentialsError::MalformedClaims);
    }
    let mut groups = names(&subject.properties, known.groups.as_ref())?;
    let mut roles = names(&subject.properties, known.roles.as_ref())?;
    let issuers = &authorizer.loaded().policy.identity.jwt;
    let mut caller = match issuer_of(known, issuers)? {
        Some((index, issuer)) => {
            let user = format!("{}{id}", issuer.user_prefix);
            groups.iter_mut().for_each(|group| group.insert_str(0, &issuer.group_prefix));
            let source = Some(SourceId::from_issuer(index));
            unverified_subject::<String>(&user, source, &groups, &[])
        }
        None => Explainer::new(authorizer).subject_named(host.as_bytes(), id, &groups, &[])?,
    };
    let source = caller.source;
    let mut numbered = issuers.iter().enumerate();
    let issuer = numbered.find(|(index, _)| source == Some(SourceId::from_issuer(*index)));
    roles.retain(|role| issuer.is_none_or(|(_, issuer)| may_give(issuer, role)));
    // Whichever way the issuer was found: a `deny` may be for its callers.
    caller.issuer = issuer.map(|(_, issuer)| Arc::clone(&issuer.issuer));
    caller.roles.extend(roles.into_iter().map(Arc::from));
    caller.claims = Value::Object(subject.properties.clone());
    Ok(caller)
}

/// The issuer of a type, and its index; `None` if the type has none.
fn issuer_of<'p>(
    known: &SubjectType,
    issuers: &'p [Issuer],
) -> Result<Option<(usize, &'p Issuer)>, CredentialsError> {
    let Some(name) = &known.issuer else { return Ok(None) };
    let mut numbered = issuers.iter().enumerate();
    let found = numbered.find(|(_, issuer)| issuer.issuer == *name);
    found.map(Some).ok_or(CredentialsError::UnknownIssuer)
}

/// Whether a user of this issuer may have a role that only its claims name.
fn may_give(issuer: &Issuer, role: &str) -> bool {
    match &issuer.roles_from_token {
        RolesFromToken::All => true,
        RolesFromToken::Only(listed) => listed.iter().any(|listed| *listed.name == *role),
    }
}

/// The names at a place in the properties, as in a token: a list of strings, or a string of names
/// with spaces between them.
fn names(
    properties: &Map<String, Value>,
    path: Option<&ClaimPath>,
) -> Result<Vec<String>, CredentialsError> {
    let Some((first, inner)) = path.and_then(|path| path.0.split_first()) else {
        return Ok(Vec::new());
    };
    let outer = properties.get(&**first);
    let value =
        outer.and_then(|outer| inner.iter().try_fold(outer, |value, name| value.get(&**name)));
    let names: Vec<&str> = match value {
        None => Vec::new(),
        Some(Value::String(names)) => names.split(' ').filter(|name| !name.is_empty()).collect(),
        Some(Value::Array(items)) => {
            let names: Option<_> = items.iter().map(Value::as_str).collect();
            names.ok_or(CredentialsError::MalformedClaims)?
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            return Err(CredentialsError::MalformedClaims);
        }
    };
    if names.iter().any(|name| !is_name(name)) {
        return Err(CredentialsError::MalformedClaims);
    }
    Ok(names.into_iter().map(str::to_owned).collect())
}

/// Whether a text can be the name of a user, a group or a role, which goes into log lines.
fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(char::is_control)
}
