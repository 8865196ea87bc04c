//! The roles of a search cluster, each with the callers whom it is mapped to, for a table.

use authorizer::Backend;
use search::Pattern;
use search::config::{IndexPattern, Role};

use super::ClusterRole;
use crate::Explainer;
use crate::mappings::Mappings;
use crate::names::unknown_cluster_user;
use crate::subjects::subject_named;

/// Selects roles of a search cluster. Empty fields select all.
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
    /// The first roles, by name.
    pub roles: Vec<MappedRole>,
    /// The number of all selected roles.
    pub count: usize,
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
    /// Whether the role is mapped but not defined, so that it allows nothing.
    pub is_missing: bool,
}

impl Explainer<'_> {
    /// The roles of the search cluster that its files define, and the built-in roles that somebody
    /// may have: at most `max`. `None` if the policy has no search cluster.
    #[must_use]
    pub fn cluster_roles(self, query: ClusterRoleQuery<'_>, max: usize) -> Option<ClusterRoles> {
        let cluster = self.authorizer.cluster()?;
        let definitions = &cluster.config().roles;
        let mappings = Mappings::new(cluster.config());
        let mut notes = Vec::new();
        let mut names = mappings.roles();
        let defined = definitions.keys().map(|name| &**name);
        names.extend(defined.filter(|name| !search::is_builtin_role(name)));
        names.retain(|name| {
            name.contains(query.name_has)
                && (query.on_index.is_empty()
                    || definitions.get(*name).is_some_and(|role| is_on(role, query.on_index)))
        });
        if !query.of_user.is_empty() {
            match subject_named::<&str>(Backend::Cluster(cluster), query.of_user, &[], &[]) {
                Ok(subject) => {
                    let roles = cluster.config().roles_of(&cluster.subject(&subject));
                    names.retain(|name| roles.contains(*name));
                }
                Err(_) => {
                    names.clear();
                    notes.push(unknown_cluster_user(cluster, query.of_user));
                }
            }
        }
        let undefined = Role::default();
        let roles = names.iter().take(max).map(|name| {
            let definition = definitions.get(*name);
            let role = definition.unwrap_or(&undefined);
            MappedRole {
                role: ClusterRole::new(name, role, &search::Subject::default()),
                mapped_from: describe_holders(&mappings, name),
                is_missing: definition.is_none(),
            }
        });
        Some(ClusterRoles { roles: roles.collect(), count: names.len(), notes })
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

/// Whether a pattern of a role's indices matches this name, or has it in its text.
fn is_on(role: &Role, name: &str) -> bool {
    let mut patterns = role.index_permissions.iter().flat_map(|permission| &permission.patterns);
    patterns.any(|pattern| match pattern {
        IndexPattern::Static(pattern) => pattern.matches(name) || pattern.text().contains(name),
        IndexPattern::Template(template) => template.text().contains(name),
    })
}
