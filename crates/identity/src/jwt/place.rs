//! Finds a claim in a token.

use policy::model::ClaimPath;
use serde_json::{Map, Value};

/// Why a token does not say what a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The path leads through a value that cannot have what follows: one that is neither an object nor a list, or a list
    /// where the next name is no index. This many names of the path lead to that value.
    Mistyped(usize),
    /// The claim is not in the token: this claim says so.
    Elsewhere(&'static str),
}

/// The value at a path (RFC 6901, 4); `None` if a member or an item is missing.
///
/// # Errors
/// If the path leads through a value of another type.
pub(super) fn find<'a>(
    claims: &'a Map<String, Value>,
    path: &ClaimPath,
) -> Result<Option<&'a Value>, Unreadable> {
    let Some((first, rest)) = path.0.split_first() else { return Ok(None) };
    let Some(mut value) = claims.get(&**first) else { return Ok(None) };
    for (name, depth) in rest.iter().zip(1..) {
        let inner = match value {
            Value::Object(members) => members.get(&**name),
            Value::Array(items) => items.get(index(name).ok_or(Unreadable::Mistyped(depth))?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(Unreadable::Mistyped(depth));
            }
        };
        let Some(inner) = inner else { return Ok(None) };
        value = inner;
    }
    Ok(Some(value))
}

/// The value at a path, if there is one.
pub(super) fn at<'a>(claims: &'a Map<String, Value>, path: &ClaimPath) -> Option<&'a Value> {
    find(claims, path).ok().flatten()
}

/// The claim of roles or groups at a path; `None` only if the subject has none.
///
/// # Errors
/// If the token does not say which it has.
pub(super) fn find_names<'a>(
    claims: &'a Map<String, Value>,
    path: &ClaimPath,
) -> Result<Option<&'a Value>, Unreadable> {
    let found = find(claims, path)?;
    match elsewhere(claims, path) {
        Some(marker) if found.is_none() => Err(Unreadable::Elsewhere(marker)),
        Some(_) | None => Ok(found),
    }
}

/// The claim that says that the one at this path has to be fetched from another place.
///
/// `_claim_names` does so for aggregated and distributed claims (OpenID Connect Core 1.0, 5.6.2). Microsoft Entra sends
/// it for a user with more groups than fit in a token, and `hasgroups` where a token has to fit in a URL.
fn elsewhere(claims: &Map<String, Value>, path: &ClaimPath) -> Option<&'static str> {
    let first = &**path.0.first()?;
    let named = claims.get("_claim_names").and_then(Value::as_object);
    if named.is_some_and(|named| named.contains_key(first)) {
        return Some("_claim_names");
    }
    let is_false = |value: &Value| value.is_null() || value == false || value == "false";
    let has_groups = claims.get("hasgroups").is_some_and(|value| !is_false(value));
    (has_groups && first == "groups" && path.0.len() == 1).then_some("hasgroups")
}

/// The array index that a reference token (RFC 6901, 4) stands for: digits without a leading zero.
fn index(name: &str) -> Option<usize> {
    let canonical = name == "0" || name.starts_with(|first: char| ('1'..='9').contains(&first));
    if canonical { name.parse().ok() } else { None }
}
