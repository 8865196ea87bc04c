//! The roles of a search cluster with those whom they are mapped to, as a table for people shows
//! them.

use std::collections::BTreeSet;
use std::sync::Arc;

use authorizer::{Backend, Cluster};
use search::Steps;
use search::config::{IndexPattern, IndexPermission, Role};

use super::ClusterRole;
use crate::mappings::Mappings;
use crate::subjects::{subject_named, unknown_user};
use crate::{Explainer, STEPS_PER_PAGE, explanation};

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
    /// How many there are; how many were found, if [some are left out](Self::left_out).
    pub found: usize,
    /// Whether roles are left out, because finding all of them takes too many steps.
    pub left_out: bool,
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

impl Explainer<'_> {
    /// The roles of the search cluster that its files define, and of the built-in ones those that
    /// somebody may have: at most so many. `None` if the policy has no search cluster.
    #[must_use]
    pub fn cluster_roles(self, asked: AskedClusterRoles<'_>, most: usize) -> Option<ClusterRoles> {
        self.cluster_roles_within(asked, most, Steps::new(STEPS_PER_PAGE))
    }

    fn cluster_roles_within(
        self,
        asked: AskedClusterRoles<'_>,
        most: usize,
        mut steps: Steps,
    ) -> Option<ClusterRoles> {
        let cluster = self.authorizer.cluster()?;
        let config = cluster.config();
        let (of_user, notes) = self.held_on_cluster(cluster, asked.of_user);
        let mappings = Mappings::new(config);
        let mapped = mappings.by_role.keys().chain(mappings.direct.keys()).copied();
        let defined =
            config.roles.keys().map(|name| &**name).filter(|name| !search::is_builtin_role(name));
        let all: BTreeSet<&str> = defined.chain(mapped).collect();
        let asks = |name: &str| {
            of_user.as_ref().is_none_or(|held| held.contains(name)) && name.contains(asked.name_has)
        };
        let mut listed = ClusterRoles { notes, ..ClusterRoles::default() };
        for name in all.into_iter().filter(|name| asks(name)) {
            if listed.add(cluster, name, asked.on_index, (&mappings, most), &mut steps).is_none() {
                listed.left_out = true;
                break;
            }
        }
        Some(listed)
    }

    /// The cluster's roles of a user, if one is asked for; and what was probably meant, if the
    /// cluster does not know the user.
    fn held_on_cluster(
        self,
        cluster: &Cluster,
        user: &str,
    ) -> (Option<BTreeSet<Arc<str>>>, Vec<String>) {
        if user.is_empty() {
            return (None, Vec::new());
        }
        let no_more: [&str; 0] = [];
        match subject_named(Backend::Cluster(cluster), user, &no_more, &no_more) {
            Ok(subject) => {
                let subject = cluster.subject(&subject);
                let roles = cluster.config().roles_of(&subject);
                (Some(roles), Vec::new())
            }
            Err(_) => (Some(BTreeSet::new()), vec![unknown_user(cluster, user)]),
        }
    }
}

impl ClusterRoles {
    /// Adds a role, if it is on an index that is asked for. `None` if that takes too many steps.
    fn add(
        &mut self,
        cluster: &Cluster,
        name: &str,
        on_index: &str,
        (mappings, most): (&Mappings<'_>, usize),
        steps: &mut Steps,
    ) -> Option<()> {
        let nothing = Role::default();
        let defined = cluster.config().roles.get(name);
        let role = defined.unwrap_or(&nothing);
        let patterns = role.index_permissions.iter().map(|permission| permission.patterns.len());
        steps.take(if on_index.is_empty() { 1 } else { 1 + patterns.sum::<usize>() })?;
        if !is_on(role, on_index) {
            return Some(());
        }
        if self.found < most {
            steps.take(size(role) + mappings.size(name) + mappings.direct(name).len())?;
            self.roles.push(MappedRole {
                role: ClusterRole::new(name, role, &search::Subject::default()),
                mapped_from: in_words(mappings, name),
                is_missing: defined.is_none(),
            });
        }
        self.found += 1;
        Some(())
    }
}

/// Who has a role, in words.
fn in_words(mappings: &Mappings<'_>, role: &str) -> Vec<String> {
    let of_role = mappings.for_role(role);
    if of_role.iter().flat_map(|mapping| &mapping.users).any(search::Pattern::is_anything) {
        return vec!["everybody with valid credentials".to_owned()];
    }
    let users = mappings.direct(role).iter();
    let users = users.map(|user| format!("the user `{user}` (without a mapping)"));
    of_role.iter().flat_map(|mapping| explanation::mapped_from(mapping)).chain(users).collect()
}

/// How many patterns and actions a role has.
fn size(role: &Role) -> usize {
    let of = |permission: &IndexPermission| {
        1 + permission.patterns.len() + permission.allowed_actions.len()
    };
    1 + role.cluster_permissions.len() + role.index_permissions.iter().map(of).sum::<usize>()
}

/// Whether a pattern of a role's indices matches this name, or has it in it. An empty name does not
/// count.
fn is_on(role: &Role, name: &str) -> bool {
    let mut patterns = role.index_permissions.iter().flat_map(|permission| &permission.patterns);
    name.is_empty()
        || patterns.any(|pattern| match pattern {
            IndexPattern::Static(pattern) => pattern.matches(name) || pattern.text().contains(name),
            IndexPattern::Template(template) => template.text().contains(name),
        })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use authorizer::Authorizer;
    use document::MapFiles;
    use identity::FetchedKeys;

    use super::*;

    #[test]
    fn what_takes_too_many_steps_is_left_out() {
        let mut roles = "_meta: { type: roles, config_version: 2 }\n".to_owned();
        for role in 0..100 {
            let patterns: Vec<String> =
                (0..100).map(|number| format!("p{role}-{number}-*")).collect();
            let patterns = patterns.join(", ");
            writeln!(roles, "r{role}: {{ index_permissions: [{{ index_patterns: [{patterns}], allowed_actions: [read] }}] }}")
                .unwrap();
        }
        let files = MapFiles::new("policy.yaml", "version: 1\nsearch: { folder: os }\n")
            .and("os/roles.yml", roles);
        let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
        let authorizer =
            Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0;
        let of = |on_index, most| {
            let asked = AskedClusterRoles { on_index, ..AskedClusterRoles::default() };
            let found = Explainer::new(&authorizer)
                .cluster_roles_within(asked, most, Steps::new(5_000))
                .unwrap();
            (found.roles.len(), found.found, found.left_out)
        };
        assert_eq!(of("", 10), (10, 100, false));
        assert_eq!(of("p99-1-a", 10), (0, 0, true));
        let (listed, found, left_out) = of("", 100);
        assert!(left_out && listed == found && (40..50).contains(&listed), "{listed}");
        let whole =
            Explainer::new(&authorizer).cluster_roles(AskedClusterRoles::default(), 100).unwrap();
        assert_eq!((whole.roles.len(), whole.left_out), (100, false));
    }
}
