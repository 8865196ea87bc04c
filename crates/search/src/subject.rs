//! Who asks, and which roles that gives.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;

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

/// Where roles come from (`plugins.security.roles_mapping_resolution`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// From the role mappings.
    #[default]
    MappingOnly,
    /// Each backend role is the role of that name.
    BackendRolesOnly,
    /// Both.
    Both,
}

/// Why a subject has a role. Patterns are as configured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleSource {
    /// The user has it without a mapping (`opendistro_security_roles`).
    Direct,
    /// A mapping has this pattern of user names.
    MappedFromUser(String),
    /// A mapping has a pattern that matches a backend role.
    MappedFromBackendRole {
        /// The pattern.
        pattern: String,
        /// The backend role.
        backend_role: String,
    },
    /// A mapping has these patterns, and each matches a backend role (`and_backend_roles`).
    MappedFromBackendRoles(Vec<String>),
    /// A mapping has this pattern of addresses.
    MappedFromHost(String),
}

impl SecurityConfig {
    /// The roles of a subject by the role mappings and without them, each with every reason why the subject has it.
    #[must_use]
    pub fn role_sources(&self, subject: &Subject) -> BTreeMap<Arc<str>, Vec<RoleSource>> {
        let mut sources: BTreeMap<Arc<str>, Vec<RoleSource>> = BTreeMap::new();
        for role in &subject.roles {
            sources.entry(role.as_str().into()).or_default().push(RoleSource::Direct);
        }
        for mapping in &self.mappings {
            let of_mapping = mapping.sources(subject);
            if !of_mapping.is_empty() {
                sources.entry(mapping.role.clone()).or_default().extend(of_mapping);
            }
        }
        sources
    }

    /// The roles of a subject, among them such that do not exist.
    #[must_use]
    pub fn roles_of(&self, subject: &Subject, resolution: Resolution) -> BTreeSet<Arc<str>> {
        let mut roles: BTreeSet<Arc<str>> = subject.roles.iter().map(|role| role.as_str().into()).collect();
        if resolution != Resolution::MappingOnly {
            roles.extend(subject.backend_roles.iter().map(|role| role.as_str().into()));
        }
        if resolution != Resolution::BackendRolesOnly {
            let address = subject.address.map(|address| address.to_string());
            let granted = self.mappings.iter().filter(|mapping| mapping.applies(subject, address.as_deref()));
            roles.extend(granted.map(|mapping| mapping.role.clone()));
        }
        roles
    }
}

impl RoleMapping {
    fn sources(&self, subject: &Subject) -> Vec<RoleSource> {
        let matching = |patterns: &[Pattern], text: &str| -> Vec<String> {
            let matching = patterns.iter().filter(|pattern| pattern.matches(text));
            matching.map(|pattern| pattern.text().to_owned()).collect()
        };
        let mut sources: Vec<_> =
            matching(&self.users, &subject.name).into_iter().map(RoleSource::MappedFromUser).collect();
        for backend_role in &subject.backend_roles {
            let patterns = matching(&self.backend_roles, backend_role).into_iter();
            sources.extend(patterns.map(|pattern| RoleSource::MappedFromBackendRole {
                pattern,
                backend_role: backend_role.clone(),
            }));
        }
        let has = |pattern: &Pattern| subject.backend_roles.iter().any(|role| pattern.matches(role));
        if !self.and_backend_roles.is_empty() && self.and_backend_roles.iter().all(has) {
            let patterns = self.and_backend_roles.iter().map(|pattern| pattern.text().to_owned());
            sources.push(RoleSource::MappedFromBackendRoles(patterns.collect()));
        }
        let address = subject.address.map(|address| address.to_string());
        let hosts = address.map(|address| matching(&self.hosts, &address)).unwrap_or_default();
        sources.extend(hosts.into_iter().map(RoleSource::MappedFromHost));
        sources
    }

    fn applies(&self, subject: &Subject, address: Option<&str>) -> bool {
        let any = |patterns: &[Pattern], text: &str| patterns.iter().any(|pattern| pattern.matches(text));
        let has = |pattern: &Pattern| subject.backend_roles.iter().any(|role| pattern.matches(role));
        any(&self.users, &subject.name)
            || self.backend_roles.iter().any(has)
            || (!self.and_backend_roles.is_empty() && self.and_backend_roles.iter().all(has))
            || address.is_some_and(|address| any(&self.hosts, address))
    }
}

impl fmt::Display for RoleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str("a role of the user in `internal_users.yml`"),
            Self::MappedFromUser(pattern) => write!(f, "mapped from the user `{pattern}`"),
            Self::MappedFromBackendRole { pattern, backend_role } if pattern == backend_role => {
                write!(f, "mapped from the backend role `{pattern}`")
            }
            Self::MappedFromBackendRole { pattern, backend_role } => {
                write!(f, "mapped from the backend role `{pattern}`, which matches `{backend_role}`")
            }
            Self::MappedFromBackendRoles(patterns) => {
                write!(f, "mapped from all of the backend roles `{}`", patterns.join("`, `"))
            }
            Self::MappedFromHost(pattern) => write!(f, "mapped from the address `{pattern}`"),
        }
    }
}

impl Subject {
    /// The variables of patterns and queries; `roles` are those that the subject has.
    #[must_use]
    pub fn variables(&self, roles: &BTreeSet<Arc<str>>, evaluation: EvaluationType) -> Variables {
        // All versions that have `v4` know defaults; of the others, only some do.
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
