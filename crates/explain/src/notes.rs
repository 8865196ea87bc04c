//! Hints at likely mistakes: in a request that a person wrote, such as a copy of a rule, and in the
//! roles and groups of a token. They never show the value of a claim.

use std::sync::Arc;

use authorizer::Request;
use document::excerpts;
use identity::Subject;
use policy::Policy;
use policy::model::{ClaimPath, Identity, Issuer};
use serde_json::Value;

use crate::Explainer;

/// Hints, if the request looks like a mistake or like a rule: a lower-case method, or a path with a
/// placeholder.
pub(crate) fn notes(request: &Request<'_>) -> Vec<String> {
    let path = String::from_utf8_lossy(request.path);
    hint_at_method(request).into_iter().chain(hint_at_path(&path)).collect()
}

/// A note for a policy under which a request may have two callers: each answer is about one of
/// them.
pub(crate) fn note_on_actors(identity: &Identity) -> Option<String> {
    let text = if identity.combine_both.is_some() {
        "each answer is about one caller: a request needs a certificate and other credentials, and \
         both callers need a role that allows it"
    } else if identity.jwt.iter().any(|issuer| issuer.act.is_some()) {
        "each answer is about one caller: if a token names an actor in `act`, both need a role that \
         allows it"
    } else {
        return None;
    };
    Some(text.to_owned())
}

/// A hint at a common method that is in lower case.
pub(crate) fn hint_at_method(request: &Request<'_>) -> Option<String> {
    let method = String::from_utf8_lossy(request.method);
    let upper = method.to_ascii_uppercase();
    let common = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"];
    (upper != method && common.contains(&upper.as_str()))
        .then(|| format!("methods are in upper case: `{upper}` was probably meant, not `{method}`"))
}

/// A hint at a path with a host before it, or with the placeholder of a rule.
fn hint_at_path(path: &str) -> Option<String> {
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

impl Explainer<'_> {
    /// Notes on the roles and groups of a subject of the decision log. If its token gave it none,
    /// the note says how to find the reason: a log line has no claims. Otherwise the notes are on
    /// roles without effect. Empty for a search cluster, which maps backend roles itself.
    #[must_use]
    pub fn notes_on_logged_subject(self, host: &[u8], subject: &Subject) -> Vec<String> {
        let policy = self.policy();
        let Some(token) = Token::new(policy, subject).filter(|_| !self.is_of_cluster(host)) else {
            return Vec::new();
        };
        if !subject.roles.is_empty() || !subject.groups.is_empty() {
            let mut notes = token.ignored(&subject.roles);
            if token.all_undefined(&subject.roles) {
                notes.push(
                    "the line has no claims: `explain --bearer` says whether the token has roles \
                     of the policy in another claim"
                        .to_owned(),
                );
            }
            return notes;
        }
        let claims = &token.issuer.claims;
        let (lacks, clause) = match (token.issuer.accepted_role_claim(), &claims.groups) {
            (Some(_), Some(_)) => {
                ("no role and no group", "`claims.roles` and `claims.groups` name")
            }
            (Some(_), None) => ("no role", "`claims.roles` names"),
            (None, Some(_)) => ("no group", "`claims.groups` names"),
            (None, None) => return Vec::new(),
        };
        vec![format!(
            "the line has {lacks} of the token: `explain --bearer` says whether the token has what \
             {clause}"
        )]
    }
}

/// A token's roles and groups, and the policy that reads them.
#[derive(Clone, Copy)]
pub(crate) struct Token<'a> {
    policy: &'a Policy,
    issuer: &'a Issuer,
    /// The subject with the claims of its token. The claims are null if they are not known.
    subject: &'a Subject,
}

impl<'a> Token<'a> {
    /// `None` if the subject has no token of an issuer of the policy.
    pub(crate) fn new(policy: &'a Policy, subject: &'a Subject) -> Option<Self> {
        let mut issuers = policy.identity.jwt.iter();
        let issuer = issuers.find(|issuer| Some(&issuer.issuer) == subject.issuer.as_ref())?;
        Some(Self { policy, issuer, subject })
    }

    fn is_role(self, name: &str) -> bool {
        self.policy.role(name).is_some()
    }

    /// Whether there are roles, and the policy defines none of them.
    fn all_undefined(self, roles: &[Arc<str>]) -> bool {
        !roles.is_empty() && roles.iter().all(|role| !self.is_role(role))
    }

    /// Notes on roles in the token that have no effect, and on claims that the policy reads and the
    /// token lacks. Empty if the claims are not known.
    pub(crate) fn roles_without_effect(self) -> Vec<String> {
        let roles = identity::token_roles(self.subject, self.issuer);
        let mut notes = self.ignored(&roles);
        notes.extend(self.missing_claims());
        if self.all_undefined(&roles) {
            notes.extend(self.usual_claims().map(|claims| {
                format!("the token also has {claims}, which `claims` does not name")
            }));
        }
        notes
    }

    /// Notes on the roles of a token that have no effect, with the reason.
    fn ignored(self, roles: &[Arc<str>]) -> Vec<String> {
        let (defined, undefined): (Vec<&str>, Vec<&str>) =
            roles.iter().map(|role| &**role).partition(|role| self.is_role(role));
        let not_given = defined.into_iter().filter(|role| !self.issuer.may_give(role));
        let not_given: Vec<&str> = not_given.collect();
        let mut notes = Vec::new();
        if !not_given.is_empty() {
            let roles = excerpts(not_given);
            notes.push(format!(
                "ignored: {roles} in the token, because `roles_from_token` of `{}` does not list \
                 it",
                self.issuer.issuer
            ));
        }
        if !undefined.is_empty() {
            let roles = excerpts(undefined);
            notes.push(format!(
                "ignored: {roles} in the token, because the policy defines no such role"
            ));
        }
        notes
    }

    /// Notes on claims from which the policy reads roles or groups, and that are missing or empty.
    /// Empty if the claims of the token are not known.
    pub(crate) fn missing_claims(self) -> Vec<String> {
        if !self.subject.claims.is_object() {
            return Vec::new();
        }
        let claims = &self.issuer.claims;
        if claims.roles.is_none() && claims.groups.is_none() {
            let usual = self.usual_claims().map(|usual| {
                format!(
                    "the policy reads no roles or groups from tokens of `{}`: `claims.roles` and \
                     `claims.groups` are not set; the token has {usual}",
                    self.issuer.issuer
                )
            });
            return usual.into_iter().collect();
        }
        let read =
            [("roles", self.issuer.accepted_role_claim()), ("groups", claims.groups.as_ref())];
        read.into_iter().filter_map(|(key, path)| self.missing_claim(key, path?)).collect()
    }

    fn missing_claim(self, key: &str, path: &ClaimPath) -> Option<String> {
        match identity::claim(self.subject, path) {
            None => {
                let usual = self.usual_claims().map(|usual| format!("; it has {usual}"));
                let usual = usual.unwrap_or_default();
                Some(format!("the token has no claim `{path}`, which `claims.{key}` names{usual}"))
            }
            Some(value) if is_empty(value) => Some(format!(
                "the claim `{path}` of the token, which `claims.{key}` names, is empty"
            )),
            Some(_) => None,
        }
    }

    /// The claims in which the token probably has roles or groups, if a claim from which the policy
    /// reads them is malformed.
    pub(crate) fn hint_at_malformed_claims(self) -> Option<String> {
        identity::describe_malformed_names(self.subject.claims.as_object()?, self.issuer)?;
        self.usual_claims().map(|claims| format!("the token has {claims}"))
    }

    /// The claims of this token in which identity providers usually put roles or groups, and that
    /// the policy does not read: first Keycloak's claims, then common claims. If some of them have
    /// a role of the policy, only these.
    fn usual_claims(self) -> Option<String> {
        let claims = self.subject.claims.as_object()?;
        let realm = ClaimPath(vec!["realm_access".into(), "roles".into()]);
        let clients = claims.get("resource_access").and_then(Value::as_object);
        let clients = clients.into_iter().flat_map(|clients| clients.keys());
        let clients = clients.map(|client| {
            ClaimPath(vec!["resource_access".into(), client.as_str().into(), "roles".into()])
        });
        let common = ["groups", "roles", "scope", "permissions"];
        let common = common.map(|name| ClaimPath(vec![name.into()]));
        let read = [&self.issuer.claims.roles, &self.issuer.claims.groups];
        let (mut with_role, mut without) = (Vec::new(), Vec::new());
        for path in [realm].into_iter().chain(clients).chain(common) {
            let Some(value) = identity::claim(self.subject, &path) else { continue };
            if !has_names(value) || read.contains(&&Some(path.clone())) {
                continue;
            }
            let has_role = names(value).any(|name| self.is_role(name));
            let paths = if has_role { &mut with_role } else { &mut without };
            paths.push(path.to_string());
        }
        let paths = if with_role.is_empty() { &without } else { &with_role };
        let paths = excerpts(paths.iter().map(String::as_str));
        match (with_role.is_empty(), without.is_empty()) {
            (true, true) => None,
            (true, false) => Some(paths),
            (false, _) => Some(format!("roles of the policy in {paths}")),
        }
    }
}

/// The names in a claim.
fn names(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    list.chain(value.as_str().into_iter().flat_map(|text| text.split([' ', ','])))
}

fn has_names(value: &Value) -> bool {
    let is_list = value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    !is_empty(value) && (value.is_string() || is_list)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim_matches([' ', ',']).is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}
