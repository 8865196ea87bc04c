//! The claims of a token (RFC 7519, 4): when it is valid, for which audience, and its subject.

use std::sync::Arc;
use std::time::Duration;

use policy::model::{self, ClaimPath, ClaimValue, RequiredClaim, Separator, SourceId};
use serde_json::{Map, Number, Value};

use crate::cache::Window;
use crate::{CredentialsError, Subject, UnixTime, is_name, with_prefix};

/// When a token with these claims is valid.
///
/// # Errors
/// If `exp` is missing; `exp`, `nbf` or `iat` is not a number; `max_age` is set and `iat` is
/// missing; or the token is not valid now.
pub(super) fn window(
    claims: &Map<String, Value>,
    issuer: &model::Issuer,
    now: UnixTime,
) -> Result<Window, CredentialsError> {
    let skew = issuer.clock_skew;
    let expires =
        date(claims, "exp")?.ok_or(CredentialsError::MalformedClaims)?.saturating_add(skew);
    let issued = date(claims, "iat")?;
    let from = date(claims, "nbf")?.max(issued).unwrap_or_default().saturating_sub(skew);
    let too_old = match (issuer.max_age, issued) {
        (None, _) => UnixTime::MAX,
        (Some(age), Some(issued)) => issued.saturating_add(age).saturating_add(skew),
        (Some(_), None) => return Err(CredentialsError::MalformedClaims),
    };
    if now >= expires {
        return Err(CredentialsError::Expired);
    }
    if now >= too_old {
        return Err(CredentialsError::TooOld);
    }
    if now < from {
        return Err(CredentialsError::NotYetValid);
    }
    Ok(Window { from, until: expires.min(too_old) })
}

/// A `NumericDate` (RFC 7519, 2), if the claim is present.
pub(super) fn date(
    claims: &Map<String, Value>,
    name: &str,
) -> Result<Option<UnixTime>, CredentialsError> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) => Ok(Some(since_epoch(number))),
        Some(_) => Err(CredentialsError::MalformedClaims),
    }
}

/// A time before the epoch becomes the epoch. A time that is too late to represent becomes the last
/// time.
pub(super) fn since_epoch(number: &Number) -> UnixTime {
    match (number.as_u64(), number.as_f64()) {
        (Some(seconds), _) => Duration::from_secs(seconds),
        (None, Some(seconds)) if seconds > 0.0 => {
            Duration::try_from_secs_f64(seconds).unwrap_or(UnixTime::MAX)
        }
        _ => UnixTime::ZERO,
    }
}

/// Checks that `aud` has an accepted audience (RFC 7519, 4.1.3).
pub(super) fn check_audience(
    claims: &Map<String, Value>,
    accepted: &[Arc<str>],
) -> Result<(), CredentialsError> {
    let audiences = match claims.get("aud") {
        None => return Err(CredentialsError::WrongAudience),
        Some(Value::String(audience)) => vec![audience.as_str()],
        Some(Value::Array(list)) => texts(list)?,
        Some(_) => return Err(CredentialsError::MalformedClaims),
    };
    if accepted.iter().any(|accepted| audiences.contains(&&**accepted)) {
        Ok(())
    } else {
        Err(CredentialsError::WrongAudience)
    }
}

/// Checks that the claims have values that the policy accepts.
///
/// # Errors
/// If a claim is missing, or has another value.
pub fn check_required(
    claims: &Map<String, Value>,
    required: &[RequiredClaim],
) -> Result<(), CredentialsError> {
    match required.iter().all(|required| has_required(claims, required)) {
        true => Ok(()),
        false => Err(CredentialsError::WrongClaim),
    }
}

/// Whether the claim equals an accepted value, or is a list with an accepted value.
pub(super) fn has_required(claims: &Map<String, Value>, required: &RequiredClaim) -> bool {
    let is_accepted = |value| required.values.iter().any(|accepted| equals(value, accepted));
    match value_at(claims, &required.path) {
        Some(Value::Array(items)) => items.iter().any(is_accepted),
        Some(value) => is_accepted(value),
        None => false,
    }
}

fn equals(value: &Value, accepted: &ClaimValue) -> bool {
    match accepted {
        ClaimValue::Text(text) => value.as_str() == Some(text),
        ClaimValue::Integer(number) => value.as_i64() == Some(*number),
        ClaimValue::Boolean(boolean) => value.as_bool() == Some(*boolean),
    }
}

/// Like [`check_required`], but a missing claim is no error: the claims may be incomplete, such as
/// those of a test case.
pub(crate) fn check_partly_required(
    claims: &Map<String, Value>,
    required: &[RequiredClaim],
) -> Result<(), CredentialsError> {
    let is_present = |required: &&RequiredClaim| value_at(claims, &required.path).is_some();
    match required.iter().filter(is_present).all(|required| has_required(claims, required)) {
        true => Ok(()),
        false => Err(CredentialsError::WrongClaim),
    }
}

/// Checks the audience and the times of claims that may be incomplete, such as a test case's.
///
/// # Errors
/// If a token with these claims is not valid now, whatever its other claims are.
pub(crate) fn check_partial_claims(
    mut claims: Map<String, Value>,
    issuer: &model::Issuer,
    now: UnixTime,
) -> Result<(), CredentialsError> {
    if claims.contains_key("aud") {
        check_audience(&claims, &issuer.audiences)?;
    }
    claims.entry("exp").or_insert_with(|| u64::MAX.into());
    claims.entry("iat").or_insert_with(|| now.as_secs().into());
    window(&claims, issuer, now).map(drop)
}

/// The subject of these claims, with the prefixes of this issuer.
///
/// # Errors
/// If there is no user name, a claim from which the policy reads names has another type or an
/// invalid name, or the actor is malformed.
pub(crate) fn subject(
    claims: Map<String, Value>,
    issuer: &model::Issuer,
    source: SourceId,
) -> Result<Subject, CredentialsError> {
    let user = user(&claims, issuer).ok_or(CredentialsError::MalformedClaims)?;
    let separator = issuer.claims.separator;
    let groups =
        read_names(&claims, issuer.claims.groups.as_ref(), &issuer.group_prefix, separator)?;
    let mut roles = read_names(&claims, issuer.accepted_role_claim(), "", separator)?;
    roles.retain(|role| issuer.may_give(role));
    let actor = actor(&claims, issuer, source)?;
    Ok(Subject {
        user,
        issuer: Some(Arc::clone(&issuer.issuer)),
        source: Some(source),
        groups,
        roles,
        claims: Value::Object(claims),
        actor,
    })
}

/// The actor that the claim `act` names (RFC 8693, 4.1), if the policy reads it. An actor of
/// another issuer is refused: its name would be read as that of a user of this issuer.
fn actor(
    claims: &Map<String, Value>,
    issuer: &model::Issuer,
    source: SourceId,
) -> Result<Option<Arc<Subject>>, CredentialsError> {
    let (Some(path), Some(act)) = (&issuer.act, claims.get("act")) else { return Ok(None) };
    let act = act.as_object().ok_or(CredentialsError::MalformedActor)?;
    if act.get("iss").is_some_and(|iss| iss.as_str() != Some(&*issuer.issuer)) {
        return Err(CredentialsError::MalformedActor);
    }
    let name = value_at(act, path).and_then(Value::as_str).filter(|name| is_name(name));
    let name = name.ok_or(CredentialsError::MalformedActor)?;
    Ok(Some(Arc::new(Subject {
        user: with_prefix(&issuer.user_prefix, name),
        issuer: Some(Arc::clone(&issuer.issuer)),
        source: Some(source),
        groups: Vec::new(),
        roles: Vec::new(),
        claims: Value::Null,
        actor: None,
    })))
}

/// All roles in the token of a subject of this issuer, without the filter of `roles_from_token`.
/// Empty for a cached subject, which has no claims.
pub fn token_roles(subject: &Subject, issuer: &model::Issuer) -> Vec<Arc<str>> {
    let Some(claims) = subject.claims.as_object() else { return Vec::new() };
    read_names(claims, issuer.claims.roles.as_ref(), "", issuer.claims.separator)
        .unwrap_or_default()
}

/// The groups or roles in claims that were verified elsewhere. Each gets the prefix. As in a token,
/// the claim is a list, or a string with spaces between the names. The result is empty if there is
/// no path or no claim.
///
/// # Errors
/// If they are unknown: the claim, or a value on the path to it, has another type; the claim has to
/// be fetched from another place; or a name is invalid.
pub fn names(
    claims: &Map<String, Value>,
    path: Option<&ClaimPath>,
    prefix: &str,
) -> Result<Vec<Arc<str>>, CredentialsError> {
    read_names(claims, path, prefix, Separator::Spaces)
}

/// The names in a claim: a list of strings, or a string with `separator` between names. Empty if
/// the subject has no such claim.
///
/// A claim of another type, or a claim that has to be fetched from another place, is an error and
/// not an empty list: a `deny` rule may apply to the groups that would be lost.
fn read_names(
    claims: &Map<String, Value>,
    path: Option<&ClaimPath>,
    prefix: &str,
    separator: Separator,
) -> Result<Vec<Arc<str>>, CredentialsError> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let names = match find_names(claims, path).map_err(|_| CredentialsError::MalformedClaims)? {
        None => Vec::new(),
        Some(Value::String(text)) => {
            let names: Vec<&str> = match separator {
                Separator::Spaces => text.split(' ').collect(),
                Separator::Commas => {
                    text.split(',').map(|name| name.trim_matches(|c| c <= ' ')).collect()
                }
            };
            names.into_iter().filter(|name| !name.is_empty()).collect()
        }
        Some(Value::Array(list)) => texts(list)?,
        Some(_) => return Err(CredentialsError::MalformedClaims),
    };
    if names.iter().all(|name| is_name(name)) {
        Ok(names.into_iter().map(|name| with_prefix(prefix, name)).collect())
    } else {
        Err(CredentialsError::MalformedClaims)
    }
}

fn texts(list: &[Value]) -> Result<Vec<&str>, CredentialsError> {
    list.iter().map(|item| item.as_str().ok_or(CredentialsError::MalformedClaims)).collect()
}

/// The user name in the claims of a token, with the issuer's prefix, if the claim is a valid name.
pub(crate) fn user(claims: &Map<String, Value>, issuer: &model::Issuer) -> Option<Arc<str>> {
    let user = value_at(claims, &issuer.claims.user)?.as_str()?;
    is_name(user).then(|| with_prefix(&issuer.user_prefix, user))
}

/// The claim of a subject at a path.
#[must_use]
pub fn claim<'a>(subject: &'a Subject, path: &ClaimPath) -> Option<&'a Value> {
    value_at(subject.claims.as_object()?, path)
}

/// Why the value of a claim is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The path leads through a value that is neither an object nor a list, or through a list
    /// although the next name is not an index. The number is how many names of the path lead to
    /// that value.
    Mistyped(usize),
    /// The claim has to be fetched from another place. The string is the name of the claim that
    /// says so: `_claim_names` or `hasgroups`.
    Elsewhere(&'static str),
}

/// The value at a path (RFC 6901, 4); `None` if a member or an item is missing.
///
/// # Errors
/// If the path leads through a value of another type.
fn find<'a>(
    claims: &'a Map<String, Value>,
    path: &ClaimPath,
) -> Result<Option<&'a Value>, Unreadable> {
    let Some((claim, names)) = path.0.split_first() else { return Ok(None) };
    let Some(mut value) = claims.get(&**claim) else { return Ok(None) };
    for (name, depth) in names.iter().zip(1..) {
        let inner = match value {
            Value::Object(members) => members.get(&**name),
            Value::Array(items) => items.get(parse_index(name).ok_or(Unreadable::Mistyped(depth))?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(Unreadable::Mistyped(depth));
            }
        };
        let Some(inner) = inner else { return Ok(None) };
        value = inner;
    }
    Ok(Some(value))
}

/// The value at a path, if it can be read.
pub(super) fn value_at<'a>(claims: &'a Map<String, Value>, path: &ClaimPath) -> Option<&'a Value> {
    find(claims, path).ok().flatten()
}

/// The claim of roles or groups at a path; `None` only if the subject has no roles or groups.
///
/// # Errors
/// If they are unknown.
pub(super) fn find_names<'a>(
    claims: &'a Map<String, Value>,
    path: &ClaimPath,
) -> Result<Option<&'a Value>, Unreadable> {
    if let Some(claim) = find(claims, path)? {
        return Ok(Some(claim));
    }
    find_reference(claims, path).map_or(Ok(None), |claim| Err(Unreadable::Elsewhere(claim)))
}

/// The claim that refers to another place from which the claim at this path has to be fetched.
///
/// `_claim_names` does so for aggregated and distributed claims (OpenID Connect Core 1.0, 5.6.2).
/// Microsoft Entra sends it for a user with more groups than fit in a token, and `hasgroups` where
/// a token has to fit in a URL.
fn find_reference(claims: &Map<String, Value>, path: &ClaimPath) -> Option<&'static str> {
    let name = &**path.0.first()?;
    let claim_names = claims.get("_claim_names").and_then(Value::as_object);
    if claim_names.is_some_and(|names| names.contains_key(name)) {
        return Some("_claim_names");
    }
    let has_groups = claims
        .get("hasgroups")
        .is_some_and(|value| !value.is_null() && value != false && value != "false");
    (has_groups && name == "groups" && path.0.len() == 1).then_some("hasgroups")
}

/// Parses an array index in a path (RFC 6901, 4): digits without a leading zero.
fn parse_index(name: &str) -> Option<usize> {
    let is_canonical = name == "0" || name.starts_with(|digit| matches!(digit, '1'..='9'));
    if is_canonical { name.parse().ok() } else { None }
}
