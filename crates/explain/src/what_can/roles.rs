//! The roles of a search cluster, each with the callers whom it is mapped to, for a table.

use std::collections::BTreeSet;

use authorizer::{Backend, Cluster};
use search::config::{IndexPattern, Role};
use search::{Pattern, Steps};

use super::ClusterRole;
use crate::mappings::Mappings;
use crate::names::unknown_cluster_user;
use crate::subjects::subject_named;
use crate::{Explainer, STEPS_PER_PAGE};

/// Which roles of a search cluster to list. An empty field does not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterRoleQuery<'a> {
    /// Only the roles of this user, whatever its address and its token.
    pub of_user: &'a str,
    /// Only the roles with this text in their names.
    pub name_has: &'a str,
    /// Only the roles with a pattern of indices that matches this name, or has it in its text.
    pub on_index: &'a str,
}

/// Roles of a search cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterRoles {
    /// The first of them, by name.
    pub roles: Vec<MappedRole>,
    /// How many there are; how many were counted, if [some are left out](Self::left_out).
    pub count: usize,
    /// Whether roles are left out, because to find all of them takes too many steps.
    pub left_out: bool,
    /// A hint, if the cluster does not know the user.
    pub notes: Vec<String>,
}

/// A role of a search cluster, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedRole {
    /// The role, with variables as they are written.
    pub role: ClusterRole,
    /// Who has it, in words; empty if nobody.
    pub mapped_from: Vec<String>,
    /// Whether it is mapped and not defined, so that it allows nothing.
    pub is_missing: bool,
}

impl Explainer<'_> {
    /// The roles of the search cluster that its files define, and the built-in roles that somebody
    /// may have: at most `max`. `None` if the policy has no search cluster.
    #[must_use]
    pub fn cluster_roles(self, query: ClusterRoleQuery<'_>, max: usize) -> Option<ClusterRoles> {
        self.cluster_roles_within(query, max, Steps::new(STEPS_PER_PAGE))
    }

    fn cluster_roles_within(
        self,
        query: ClusterRoleQuery<'_>,
        max: usize,
        mut steps: Steps,
    ) -> Option<ClusterRoles> {
        let cluster = self.authorizer.cluster()?;
        let mappings = Mappings::new(cluster.config());
        let mut listed = ClusterRoles::default();
        let mut names = mappings.roles();
        let defined = cluster.config().roles.keys().map(|name| &**name);
        names.extend(defined.filter(|name| !search::is_builtin_role(name)));
        names.retain(|name| name.contains(query.name_has));
        if !query.of_user.is_empty() {
            match subject_named::<&str>(Backend::Cluster(cluster), query.of_user, &[], &[]) {
                Ok(subject) => {
                    let roles = cluster.config().roles_of(&cluster.subject(&subject));
                    names.retain(|name| roles.contains(*name));
                }
                Err(_) => {
                    names = BTreeSet::new();
                    listed.notes.push(unknown_cluster_user(cluster, query.of_user));
                }
            }
        }
        for name in names {
            if listed.add(cluster, name, query.on_index, (&mappings, max), &mut steps).is_none() {
                listed.left_out = true;
                break;
            }
        }
        Some(listed)
    }
}

impl ClusterRoles {
    /// Adds a role, if it is on this index. `None` if that takes too many steps.
    fn add(
        &mut self,
        cluster: &Cluster,
        name: &str,
        on_index: &str,
        (mappings, max): (&Mappings<'_>, usize),
        steps: &mut Steps,
    ) -> Option<()> {
        let undefined = Role::default();
        let definition = cluster.config().roles.get(name);
        let role = definition.unwrap_or(&undefined);
        if on_index.is_empty() {
            steps.take(1)?;
        } else {
            let permissions = role.index_permissions.iter();
            steps
                .take(1 + permissions.map(|permission| permission.patterns.len()).sum::<usize>())?;
            if !is_on(role, on_index) {
                return Some(());
            }
        }
        if self.count < max {
            steps.take(size(role) + mappings.size(name) + mappings.direct(name).len())?;
            self.roles.push(MappedRole {
                role: ClusterRole::new(name, role, &search::Subject::default()),
                mapped_from: describe_holders(mappings, name),
                is_missing: definition.is_none(),
            });
        }
        self.count += 1;
        Some(())
    }
}

/// Who has a role, in words.
fn describe_holders(mappings: &Mappings<'_>, role: &str) -> Vec<String> {
    let mut users = mappings.for_role(role).iter().flat_map(|mapping| &mapping.users);
    if users.any(Pattern::is_anything) {
        return vec!["everybody with valid credentials".to_owned()];
    }
    let mut holders = mappings.describe(role);
    let direct = mappings.direct(role).iter();
    holders.extend(direct.map(|user| format!("the user `{user}` (without a mapping)")));
    holders
}

/// How many patterns and actions a role has.
fn size(role: &Role) -> usize {
    let permissions = role.index_permissions.iter();
    let sizes = permissions
        .map(|permission| 1 + permission.patterns.len() + permission.allowed_actions.len());
    1 + role.cluster_permissions.len() + sizes.sum::<usize>()
}

/// Whether a pattern of a role's indices matches this name, or has it in its text.
fn is_on(role: &Role, name: &str) -> bool {
    let mut patterns = role.index_permissions.iter().flat_map(|permission| &permission.patterns);
    patterns.any(|pattern| match pattern {
        IndexPattern::Static(pattern) => pattern.matches(name) || pattern.text().contains(name),
        IndexPattern::Template(template) => template.text().contains(name),
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;
    use std::sync::Arc;

    use authorizer::Authorizer;
    use document::MapFiles;
    use identity::FetchedKeys;

    use super::*;

    #[test]
    fn roles_that_take_too_many_steps_are_left_out() {
        let mut roles = "_meta: { type: roles, config_version: 2 }\n".to_owned();
        for role in 0..100 {
            let patterns: Vec<String> =
                (0..100).map(|number| format!("p{role}-{number}-*")).collect();
            let patterns = patterns.join(", ");
            writeln!(roles, "r{role}: {{ index_permissions: [{{ index_patterns: [{patterns}], allowed_actions: [read] }}] }}")
                .unwrap();
        }
        let files = MapFiles::of("policy.yaml", "version: 1\nsearch: { folder: os }\n")
            .and("os/roles.yml", roles);
        let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
        let authorizer =
            Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0;
        let of = |on_index, max| {
            let query = ClusterRoleQuery { on_index, ..ClusterRoleQuery::default() };
            let roles = Explainer::new(&authorizer)
                .cluster_roles_within(query, max, Steps::new(5_000))
                .unwrap();
            (roles.roles.len(), roles.count, roles.left_out)
        };
        assert_eq!(of("", 10), (10, 100, false));
        assert_eq!(of("p99-1-a", 10), (0, 0, true));
        let (listed, found, left_out) = of("", 100);
        assert!(left_out && listed == found && (40..50).contains(&listed), "{listed}");
        let whole =
            Explainer::new(&authorizer).cluster_roles(ClusterRoleQuery::default(), 100).unwrap();
        assert_eq!((whole.roles.len(), whole.left_out), (100, false));
    }
}
