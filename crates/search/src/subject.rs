//! The subject of a request, and its roles.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use crate::config::{EvaluationType, RoleMapping, SecurityConfig, Variables};
use crate::pattern::Pattern;

/// An authenticated caller.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The user's name.
    pub name: String,
    /// Backend roles: groups of the source that authenticated the caller.
    pub backend_roles: Vec<String>,
    /// Roles that the caller has without a mapping (`opendistro_security_roles`).
    pub roles: Vec<String>,
    /// Attributes, by full name, such as `attr.jwt.department`.
    pub attributes: Vec<(String, String)>,
    /// The address that the request came from.
    pub address: Option<IpAddr>,
    /// Whether it is a service account.
    pub is_service: bool,
}

impl SecurityConfig {
    /// The roles of a subject, mapped or direct. Some may not exist.
    #[must_use]
    pub fn roles_of(&self, subject: &Subject) -> BTreeSet<Arc<str>> {
        let address = subject.address.map(|address| address.to_string());
        let mapped =
            self.mappings.iter().filter(|mapping| mapping.applies(subject, address.as_deref()));
        let direct = subject.roles.iter().map(|role| role.as_str().into());
        direct.chain(mapped.map(|mapping| mapping.role.clone())).collect()
    }
}

impl RoleMapping {
    fn applies(&self, subject: &Subject, address: Option<&str>) -> bool {
        any_matches(&self.users, &subject.name)
            || subject.backend_roles.iter().any(|role| any_matches(&self.backend_roles, role))
            || self.has_all_backend_roles(subject)
            || address.is_some_and(|address| any_matches(&self.hosts, address))
    }

    /// Whether the mapping has `and_backend_roles`, and each of them matches a backend role.
    pub(crate) fn has_all_backend_roles(&self, subject: &Subject) -> bool {
        !self.and_backend_roles.is_empty()
            && self
                .and_backend_roles
                .iter()
                .all(|pattern| subject.backend_roles.iter().any(|role| pattern.matches(role)))
    }
}

fn any_matches(patterns: &[Pattern], text: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(text))
}

impl Subject {
    /// The variables of patterns and queries; `roles` are the subject's.
    #[must_use]
    pub fn variables(&self, roles: &BTreeSet<Arc<str>>, evaluation: EvaluationType) -> Variables {
        // All versions with `v4` support defaults. Only some versions without it do.
        let mut variables = Variables::default().with_defaults(evaluation == EvaluationType::V4);
        for (name, value) in &self.attributes {
            variables.set(name, value);
        }
        variables.set("user.name", &self.name);
        variables.set_list("user.roles", self.backend_roles.iter().map(String::as_str));
        variables.set_list("user.securityRoles", roles.iter().map(|role| &**role));
        variables
    }
}

#[cfg(test)]
mod tests;
