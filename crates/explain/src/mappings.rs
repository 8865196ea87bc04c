//! The role mappings of a search cluster, by role.

use std::collections::{BTreeMap, BTreeSet};

use search::Pattern;
use search::config::{RoleMapping, SecurityConfig};

/// The role mappings and direct roles of a search cluster.
pub(crate) struct Mappings<'c> {
    by_role: BTreeMap<&'c str, Vec<&'c RoleMapping>>,
    /// The users who have a role without a mapping, by role.
    direct: BTreeMap<&'c str, Vec<&'c str>>,
    /// The number of patterns of all mappings.
    pub(crate) pattern_count: usize,
}

impl<'c> Mappings<'c> {
    pub(crate) fn new(config: &'c SecurityConfig) -> Self {
        let mut mappings =
            Self { by_role: BTreeMap::new(), direct: BTreeMap::new(), pattern_count: 0 };
        for mapping in &config.mappings {
            mappings.by_role.entry(&mapping.role).or_default().push(mapping);
            mappings.pattern_count += count_patterns(mapping);
        }
        for user in &config.users {
            for role in &user.roles {
                mappings.direct.entry(role).or_default().push(&user.name);
            }
        }
        mappings
    }

    /// The roles that somebody may have.
    pub(crate) fn roles(&self) -> BTreeSet<&'c str> {
        self.by_role.keys().chain(self.direct.keys()).copied().collect()
    }

    pub(crate) fn for_role(&self, role: &str) -> &[&'c RoleMapping] {
        self.by_role.get(role).map_or(&[], Vec::as_slice)
    }

    /// The users who have a role without a mapping.
    pub(crate) fn direct(&self, role: &str) -> &[&'c str] {
        self.direct.get(role).map_or(&[], Vec::as_slice)
    }

    /// How many patterns the mappings of a role have.
    pub(crate) fn size(&self, role: &str) -> usize {
        self.for_role(role).iter().map(|mapping| count_patterns(mapping)).sum()
    }

    /// The callers to whom a role is mapped, in words.
    pub(crate) fn describe(&self, role: &str) -> Vec<String> {
        self.for_role(role).iter().flat_map(|mapping| describe(mapping)).collect()
    }
}

fn count_patterns(mapping: &RoleMapping) -> usize {
    let RoleMapping { users, backend_roles, and_backend_roles, hosts, .. } = mapping;
    1 + users.len() + backend_roles.len() + and_backend_roles.len() + hosts.len()
}

fn describe(mapping: &RoleMapping) -> Vec<String> {
    let mut texts = Vec::new();
    for (kind, patterns) in [
        ("user", &mapping.users),
        ("backend role", &mapping.backend_roles),
        ("address", &mapping.hosts),
    ] {
        texts.extend(patterns.iter().map(|pattern| format!("the {kind} `{}`", pattern.text())));
    }
    if !mapping.and_backend_roles.is_empty() {
        let patterns: Vec<&str> = mapping.and_backend_roles.iter().map(Pattern::text).collect();
        texts.push(format!("all of the backend roles `{}`", patterns.join("`, `")));
    }
    texts
}
