//! Hints at likely mistakes: in a request that a person wrote, such as one copied from a rule, and about the roles in a
//! token.

use std::sync::Arc;

use identity::{Subject, excerpts};
use policy::Policy;

use crate::request::Request;

/// What was probably meant, where the request looks like a mistake or like a rule: a lower-case method, or a path with a
/// placeholder.
pub(crate) fn notes(request: &Request<'_>) -> Vec<String> {
    let path = String::from_utf8_lossy(request.path);
    meant_method(request).into_iter().chain(meant_path(&path)).collect()
}

/// A method that is a common one in lower case.
pub(crate) fn meant_method(request: &Request<'_>) -> Option<String> {
    let method = String::from_utf8_lossy(request.method);
    let upper = method.to_ascii_uppercase();
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"];
    (upper != method && known.contains(&upper.as_str()))
        .then(|| format!("methods are in upper case: `{upper}` was probably meant, not `{method}`"))
}

/// The roles that the subject's token names and that have no effect, and why. Nothing, if the subject has no claims.
pub(crate) fn roles_without_effect(policy: &Policy, subject: &Subject) -> Vec<String> {
    let issuer = subject.issuer.as_ref();
    let issuer = policy.identity.jwt.iter().find(|known| Some(&known.issuer) == issuer);
    let Some(issuer) = issuer else { return Vec::new() };
    let named = identity::named_roles(subject, issuer);
    let (defined, undefined): (Vec<_>, Vec<_>) = named.iter().partition(|role| policy.role(role).is_some());
    let unlisted: Vec<_> = defined.into_iter().filter(|role| !issuer.may_give(role)).collect();
    let of = |roles: &[&Arc<str>]| excerpts(roles.iter().map(|role| &***role));
    let mut notes = Vec::new();
    if !unlisted.is_empty() {
        let roles = of(&unlisted);
        notes.push(format!(
            "ignored: {roles} in the token, because `roles_from_token` of `{}` does not list it",
            issuer.issuer
        ));
    }
    if !undefined.is_empty() {
        notes.push(format!(
            "ignored: {} in the token, because the policy defines no such role",
            of(&undefined)
        ));
    }
    notes
}

/// A path with a host before it, or with what is a placeholder in a rule.
fn meant_path(path: &str) -> Option<String> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if path.is_empty() || path == "*" {
        return None;
    }
    if !path.starts_with('/') {
        let first = path.split('/').next().unwrap_or_default();
        let scheme = if first.contains('.') { "https://" } else { "/" };
        return Some(format!("a path starts with `/`: did you mean `{scheme}{path}`?"));
    }
    let placeholder = path
        .split('/')
        .find(|segment| segment.contains('*') || segment.starts_with('{') && segment.ends_with('}'))?;
    Some(format!("`{placeholder}` in the path is literal text: name the path of one request"))
}
