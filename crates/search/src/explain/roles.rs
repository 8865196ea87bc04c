//! Why a subject has a role.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::config::{RoleMapping, SecurityConfig};
use crate::pattern::Pattern;
use crate::subject::Subject;

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

/// The roles of a subject, mapped or direct, each with every reason for it.
#[must_use]
pub fn role_sources(
    config: &SecurityConfig,
    subject: &Subject,
) -> BTreeMap<Arc<str>, Vec<RoleSource>> {
    let mut sources: BTreeMap<Arc<str>, Vec<RoleSource>> = BTreeMap::new();
    for role in &subject.roles {
        sources.entry(role.as_str().into()).or_default().push(RoleSource::Direct);
    }
    for mapping in &config.mappings {
        let reasons = sources_of_mapping(mapping, subject);
        if !reasons.is_empty() {
            sources.entry(mapping.role.clone()).or_default().extend(reasons);
        }
    }
    sources
}

fn sources_of_mapping(mapping: &RoleMapping, subject: &Subject) -> Vec<RoleSource> {
    let users = matching(&mapping.users, &subject.name);
    let mut sources: Vec<_> = users.map(RoleSource::MappedFromUser).collect();
    for backend_role in &subject.backend_roles {
        sources.extend(matching(&mapping.backend_roles, backend_role).map(|pattern| {
            RoleSource::MappedFromBackendRole { pattern, backend_role: backend_role.clone() }
        }));
    }
    if mapping.has_all_backend_roles(subject) {
        let patterns = mapping.and_backend_roles.iter().map(|pattern| pattern.text().to_owned());
        sources.push(RoleSource::MappedFromBackendRoles(patterns.collect()));
    }
    if let Some(address) = subject.address {
        let address = address.to_string();
        sources.extend(matching(&mapping.hosts, &address).map(RoleSource::MappedFromHost));
    }
    sources
}

/// The texts of the patterns that match.
fn matching(patterns: &[Pattern], text: &str) -> impl Iterator<Item = String> {
    patterns
        .iter()
        .filter(move |pattern| pattern.matches(text))
        .map(|pattern| pattern.text().to_owned())
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
                write!(
                    f,
                    "mapped from the backend role `{pattern}`, which matches `{backend_role}`"
                )
            }
            Self::MappedFromBackendRoles(patterns) => {
                write!(f, "mapped from all of the backend roles `{}`", patterns.join("`, `"))
            }
            Self::MappedFromHost(pattern) => write!(f, "mapped from the address `{pattern}`"),
        }
    }
}
