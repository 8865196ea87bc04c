//! The roles of a search cluster with those whom they are mapped to, as a table for people shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use search::config::{IndexPattern, Role, SecurityConfig};

use super::ClusterRole;
use crate::Authorizer;
use crate::cluster::Cluster;

/// Which roles of a search cluster to list. What is empty does not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct AskedClusterRoles<'a> {
    /// Those of this user, whatever its address and its token.
    pub of_user: &'a str,
    /// Those whose names have this in them.
    pub name_has: &'a str,
    /// Those that have a pattern of indices that matches this name, or has it in it.
    pub on_index: &'a str,
}

/// Roles of a search cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterRoles {
    /// The first of them, by their names.
    pub roles: Vec<MappedRole>,
    /// How many there are.
    pub found: usize,
    /// What was probably meant, if the cluster does not know the user.
    pub notes: Vec<String>,
}

/// A role of a search cluster, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedRole {
    /// What it allows, with variables as they are written.
    pub role: ClusterRole,
    /// Who has it, in words; empty if nobody.
    pub mapped_from: Vec<String>,
    /// Whether it is mapped and not defined, so that it allows nothing.
    pub is_missing: bool,
}

impl Authorizer {
    /// The roles of the search cluster that its files define, and of the built-in ones those that somebody may have: at most so
    /// many. `None` if the policy has no search cluster.
    #[must_use]
    pub fn cluster_roles(&self, asked: AskedClusterRoles<'_>, most: usize) -> Option<ClusterRoles> {
        let cluster = self.cluster.as_ref()?;
        let config = &cluster.compiled.config;
        let (of_user, notes) = self.held_on_cluster(cluster, asked.of_user);
        let without_mapping = without_mapping(config);
        let mapped =
            config.mappings.iter().map(|mapping| &*mapping.role).chain(without_mapping.keys().copied());
        let mapped: BTreeSet<&str> = mapped.collect();
        let defined = config.roles.keys().map(|name| &**name).filter(|name| !search::is_builtin_role(name));
        let all: BTreeSet<&str> = defined.chain(mapped).collect();
        let nothing = Role::default();
        let (mut roles, mut found) = (Vec::new(), 0);
        for name in all {
            let role = config.roles.get(name);
            let is_of_user = of_user.as_ref().is_none_or(|held| held.contains(name));
            let is_asked_for = is_of_user && name.contains(asked.name_has);
            if !is_asked_for || !is_on(role.unwrap_or(&nothing), asked.on_index) {
                continue;
            }
            if found < most {
                roles.push(MappedRole {
                    role: cluster
                        .role(name, &search::Subject::default())
                        .unwrap_or_else(|| ClusterRole::nothing(name)),
                    mapped_from: mapped_from(cluster, name, without_mapping.get(name)),
                    is_missing: role.is_none(),
                });
            }
            found += 1;
        }
        Some(ClusterRoles { roles, found, notes })
    }

    /// The cluster's roles of a user, if one is asked for; and what was probably meant, if the cluster does not know the user.
    fn held_on_cluster(&self, cluster: &Cluster, user: &str) -> (Option<BTreeSet<Arc<str>>>, Vec<String>) {
        if user.is_empty() {
            return (None, Vec::new());
        }
        let no_more: [&str; 0] = [];
        match self.subject_named_on(Some(cluster), user, &no_more, &no_more) {
            Ok(subject) => {
                let subject = self.cluster_caller(cluster, &subject).subject;
                let roles = cluster.compiled.config.role_sources(&subject).into_keys().collect();
                (Some(roles), Vec::new())
            }
            Err(_) => (Some(BTreeSet::new()), vec![Self::unknown_user_of(cluster, user)]),
        }
    }
}

/// The users who have roles without a mapping, by role.
fn without_mapping(config: &SecurityConfig) -> BTreeMap<&str, Vec<&str>> {
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for user in &config.users {
        user.roles.iter().for_each(|role| users.entry(role).or_default().push(&user.name));
    }
    users
}

/// Who has a role, in words.
fn mapped_from(cluster: &Cluster, role: &str, without_mapping: Option<&Vec<&str>>) -> Vec<String> {
    let of_role = cluster.compiled.config.mappings.iter().filter(|mapping| *mapping.role == *role);
    if of_role.flat_map(|mapping| &mapping.users).any(search::Pattern::is_anything) {
        return vec!["everybody with valid credentials".to_owned()];
    }
    let users =
        without_mapping.into_iter().flatten().map(|user| format!("the user `{user}` (without a mapping)"));
    cluster.compiled.mapped_from(role).into_iter().chain(users).collect()
}

impl ClusterRole {
    fn nothing(name: &str) -> Self {
        Self { role: name.to_owned(), cluster_permissions: Vec::new(), index_permissions: Vec::new() }
    }
}

/// Whether a pattern of a role's indices matches this name, or has it in it. An empty name does not count.
fn is_on(role: &Role, name: &str) -> bool {
    let mut patterns = role.index_permissions.iter().flat_map(|permission| &permission.patterns);
    name.is_empty()
        || patterns.any(|pattern| match pattern {
            IndexPattern::Static(pattern) => pattern.matches(name) || pattern.text().contains(name),
            IndexPattern::Template(template) => template.text().contains(name),
        })
}
