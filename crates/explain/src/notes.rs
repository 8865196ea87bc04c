//! Hints at likely mistakes: in a request that a person wrote, such as one copied from a rule, and
//! about the roles in a token.

use std::sync::Arc;

use authorizer::Request;
use identity::{Subject, excerpts};
use policy::Policy;
use policy::model::Issuer;

use crate::Explainer;

/// What was probably meant, where the request looks like a mistake or like a rule: a lower-case
/// method, or a path with a placeholder.
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

/// The roles that the subject's token names and that have no effect, and the claims of the policy
/// that it does not have. Nothing, if the subject has no claims.
pub(crate) fn roles_without_effect(policy: &Policy, subject: &Subject) -> Vec<String> {
    let Some(issuer) = issuer(policy, subject) else { return Vec::new() };
    let named = identity::named_roles(subject, issuer);
    let mut notes = ignored(policy, issuer, &named);
    let is_role = |name: &str| policy.role(name).is_some();
    notes.extend(identity::notes_on_claims(subject, issuer, &is_role));
    if !named.is_empty() && named.iter().all(|role| policy.role(role).is_none()) {
        notes.extend(identity::names_elsewhere(subject, issuer, &is_role));
    }
    notes
}

/// The claims of the policy that the subject's token does not have.
pub(crate) fn missing_claims(policy: &Policy, subject: &Subject) -> Vec<String> {
    let is_role = |name: &str| policy.role(name).is_some();
    issuer(policy, subject)
        .map(|issuer| identity::notes_on_claims(subject, issuer, &is_role))
        .unwrap_or_default()
}

impl Explainer<'_> {
    /// Why the roles and groups of a token give its subject none, as far as a line of the decision
    /// log says it, which has no claims. Nothing on the hosts of a search cluster, which maps them.
    #[must_use]
    pub fn notes_on_logged(self, host: &[u8], subject: &Subject) -> Vec<String> {
        let policy = self.policy();
        let issuer = issuer(policy, subject).filter(|_| !self.is_of_cluster(host));
        let Some(issuer) = issuer else { return Vec::new() };
        if !subject.roles.is_empty() || !subject.groups.is_empty() {
            let mut notes = ignored(policy, issuer, &subject.roles);
            if !subject.roles.is_empty()
                && subject.roles.iter().all(|role| policy.role(role).is_none())
            {
                notes.push(
                    "the line has no claims: `explain --bearer` says whether the token has roles of the policy in another claim"
                        .to_owned(),
                );
            }
            return notes;
        }
        let (what, claims) = match (issuer.role_claim(), &issuer.claims.groups) {
            (Some(_), Some(_)) => {
                ("no role and no group", "`claims.roles` and `claims.groups` name")
            }
            (Some(_), None) => ("no role", "`claims.roles` names"),
            (None, Some(_)) => ("no group", "`claims.groups` names"),
            (None, None) => return Vec::new(),
        };
        let ask = "`explain --bearer` says whether the token has what";
        vec![format!("the line has {what} of the token: {ask} {claims}")]
    }
}

fn issuer<'a>(policy: &'a Policy, subject: &Subject) -> Option<&'a Issuer> {
    policy.identity.jwt.iter().find(|known| Some(&known.issuer) == subject.issuer.as_ref())
}

/// The roles in a token that have no effect, and why.
fn ignored(policy: &Policy, issuer: &Issuer, named: &[Arc<str>]) -> Vec<String> {
    let (defined, undefined): (Vec<_>, Vec<_>) =
        named.iter().partition(|role| policy.role(role).is_some());
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
    let placeholder = path.split('/').find(|segment| {
        segment.contains('*') || segment.starts_with('{') && segment.ends_with('}')
    })?;
    Some(format!("`{placeholder}` in the path is literal text: name the path of one request"))
}
