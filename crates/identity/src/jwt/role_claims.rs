//! Where the roles and groups of a token are that the claims in the policy do not find, for people.
//! Never the value of a claim.

use policy::model::{self, ClaimPath};
use serde_json::{Map, Value};

use super::claims::at;
use super::detail::{shown, wrong_names};
use crate::{Subject, excerpts};

/// Why the claims of a subject give it no role or no group: a claim that the policy names is
/// missing or empty. Nothing for a cached subject, which has no claims.
pub fn notes_on_claims(
    subject: &Subject,
    issuer: &model::Issuer,
    is_role: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let Some(claims) = subject.claims.as_object() else { return Vec::new() };
    let (roles, groups) = (issuer.claims.roles.as_ref(), issuer.claims.groups.as_ref());
    if roles.or(groups).is_none() {
        let Some(usual) = usual(claims, issuer, is_role) else { return Vec::new() };
        return vec![format!(
            "the policy reads no roles or groups from tokens of `{}`: `claims.roles` and \
             `claims.groups` are not set; the token has {usual}",
            issuer.issuer
        )];
    }
    let named = [("roles", issuer.role_claim()), ("groups", groups)];
    named.into_iter().filter_map(|(key, path)| note(claims, issuer, key, path?, is_role)).collect()
}

fn note(
    claims: &Map<String, Value>,
    issuer: &model::Issuer,
    key: &str,
    path: &ClaimPath,
    is_role: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let name = shown(path);
    match at(claims, path) {
        None => {
            let usual = usual(claims, issuer, is_role);
            let usual = usual.map(|usual| format!("; it has {usual}")).unwrap_or_default();
            Some(format!("the token has no claim {name}, which `claims.{key}` names{usual}"))
        }
        Some(value) if is_empty(value) => {
            Some(format!("the claim {name} of the token, which `claims.{key}` names, is empty"))
        }
        Some(_) => None,
    }
}

/// Where a subject, of whose roles the policy defines none, may have others; nothing for a cached
/// subject, which has no claims.
#[must_use]
pub fn names_elsewhere(
    subject: &Subject,
    issuer: &model::Issuer,
    is_role: &dyn Fn(&str) -> bool,
) -> Option<String> {
    usual(subject.claims.as_object()?, issuer, is_role)
        .map(|usual| format!("the token also has {usual}, which `claims` does not name"))
}

/// If a claim that the policy reads roles or groups from has another type or is not in the token:
/// where the token probably has them.
pub(crate) fn elsewhere(claims: &Map<String, Value>, issuer: &model::Issuer) -> Option<String> {
    wrong_names(claims, issuer)?;
    usual(claims, issuer, &|_| false).map(|usual| format!("the token has {usual}"))
}

/// The claims in which identity providers usually put roles or groups and in which this token has
/// names, but for those that the policy names: Keycloak's, then those that many use. Those with a
/// role of the policy, if there are any.
fn usual(
    claims: &Map<String, Value>,
    issuer: &model::Issuer,
    is_role: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let clients = claims.get("resource_access").and_then(Value::as_object).into_iter().flatten();
    let clients = clients.map(|(client, value)| {
        // RFC 6901, 3.
        let client = client.replace('~', "~0").replace('/', "~1");
        (format!("/resource_access/{client}/roles"), value.get("roles"))
    });
    let realm = claims.get("realm_access").and_then(|realm| realm.get("roles"));
    let own =
        ["groups", "roles", "scope", "permissions"].map(|name| (name.to_owned(), claims.get(name)));
    let named = [&issuer.claims.roles, &issuer.claims.groups].map(|path| path.as_ref().map(shown));
    let claims = [("/realm_access/roles".to_owned(), realm)].into_iter().chain(clients).chain(own);
    let claims = claims.filter(|(name, value)| {
        value.is_some_and(has_names) && !named.contains(&Some(format!("`{name}`")))
    });
    let (with_role, others): (Vec<_>, Vec<_>) =
        claims.partition(|(_, value)| value.is_some_and(|value| names(value).any(is_role)));
    let listed = if with_role.is_empty() { &others } else { &with_role };
    let list = excerpts(listed.iter().map(|(name, _)| name.as_str()));
    match (with_role.is_empty(), others.is_empty()) {
        (true, true) => None,
        (true, false) => Some(list),
        (false, _) => Some(format!("roles of the policy in {list}")),
    }
}

/// The names in a claim.
fn names(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    list.chain(value.as_str().into_iter().flat_map(|text| text.split([' ', ','])))
}

fn has_names(value: &Value) -> bool {
    !is_empty(value)
        && (value.is_string()
            || value.as_array().is_some_and(|list| list.iter().all(Value::is_string)))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim_matches([' ', ',']).is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}
