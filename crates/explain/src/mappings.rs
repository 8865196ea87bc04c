//! The role mappings of a search cluster, by role.

use std::collections::BTreeMap;

use search::config::{RoleMapping, SecurityConfig};

/// Who has the roles.
pub(crate) struct Mappings<'c> {
    pub(crate) by_role: BTreeMap<&'c str, Vec<&'c RoleMapping>>,
    /// Users who have roles without a mapping, by role.
    pub(crate) direct: BTreeMap<&'c str, Vec<&'c str>>,
    /// How many patterns all mappings have.
    pub(crate) patterns: usize,
}

impl<'c> Mappings<'c> {
    pub(crate) fn new(config: &'c SecurityConfig) -> Self {
        let mut mappings = Self { by_role: BTreeMap::new(), direct: BTreeMap::new(), patterns: 0 };
        for mapping in &config.mappings {
            mappings.by_role.entry(&mapping.role).or_default().push(mapping);
            mappings.patterns += size(mapping);
        }
        for user in &config.users {
            for role in &user.roles {
                mappings.direct.entry(role).or_default().push(&user.name);
            }
        }
        mappings
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
        self.for_role(role).iter().map(|mapping| size(mapping)).sum()
    }
}

fn size(mapping: &RoleMapping) -> usize {
    let RoleMapping { users, backend_roles, and_backend_roles, hosts, .. } = mapping;
    1 + users.len() + backend_roles.len() + and_backend_roles.len() + hosts.len()
}
