//! The caller as the cluster sees it.

use identity::Subject;
use serde_json::Value;

use super::Compiled;
use crate::answer;

/// An authenticated subject as the cluster sees it: its groups and the roles of its token are backend roles. A user of
/// `internal_users.yml` also has the attributes and roles of that file; the claims of a token are attributes.
pub(super) fn of(subject: &Subject, compiled: &Compiled) -> search::Subject {
    let mut backend_roles: Vec<String> = Vec::new();
    for name in subject.groups.iter().chain(&subject.roles) {
        if !backend_roles.iter().any(|known| **known == **name) {
            backend_roles.push(name.to_string());
        }
    }
    let mut asked =
        search::Subject { name: subject.user.to_string(), backend_roles, ..search::Subject::default() };
    if subject.issuer.is_some() {
        let claims = subject.claims.as_object().into_iter().flatten();
        // Lists and objects are no attributes: a pattern with one matches nothing.
        let attribute =
            |(name, claim): (&String, &Value)| Some((format!("attr.jwt.{name}"), answer::claim_text(claim)?));
        asked.attributes = claims.filter_map(attribute).collect();
    } else if let Some(user) = compiled.user(&subject.user) {
        let attribute = |(name, value): (&_, &_)| (format!("attr.internal.{name}"), format!("{value}"));
        asked.attributes = user.attributes.iter().map(attribute).collect();
        asked.roles = user.roles.iter().map(ToString::to_string).collect();
        asked.is_service = user.is_service;
    }
    asked
}
