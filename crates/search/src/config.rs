//! The security configuration of a search cluster: the files of OpenSearch's security plugin.

mod read;
mod role_files;
mod template;
mod users;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use document::{Files, Place, PolicyFile, Problem, Secret, Severity};

use crate::groups::ActionGroups;
use crate::pattern::Pattern;
use crate::settings::EvaluationSettings;
pub use crate::settings::{Dashboards, EvaluationType};
pub use role_files::is_builtin_role;
pub use template::{Template, Variables};

/// A security configuration, with the built-in roles and action groups.
#[derive(Debug, Default)]
pub struct SecurityConfig {
    /// Roles by name.
    pub roles: BTreeMap<Arc<str>, Role>,
    /// The subjects of each role.
    pub mappings: Vec<RoleMapping>,
    /// Users with passwords.
    pub users: Vec<InternalUser>,
    /// Action groups.
    pub action_groups: ActionGroups,
    /// The names of tenants.
    pub tenants: Vec<Arc<str>>,
    /// The settings of `config.yml`.
    pub settings: EvaluationSettings,
}

/// A role.
#[derive(Clone, Debug, Default)]
pub struct Role {
    /// Actions, patterns of actions and action groups, on the cluster.
    pub cluster_permissions: Vec<Arc<str>>,
    /// Permissions on indices.
    pub index_permissions: Vec<IndexPermission>,
    /// Permissions in tenants of OpenSearch Dashboards.
    pub tenant_permissions: Vec<TenantPermission>,
}

/// A permission of a role in some tenants.
#[derive(Clone, Debug, Default)]
pub struct TenantPermission {
    /// Patterns of names of tenants.
    pub patterns: Vec<Arc<str>>,
    /// Actions and action groups.
    pub allowed_actions: Vec<Arc<str>>,
}

/// A permission of a role on some indices.
#[derive(Clone, Debug, Default)]
pub struct IndexPermission {
    /// Patterns of names of indices, aliases and data streams.
    pub patterns: Vec<IndexPattern>,
    /// Actions, patterns of actions and action groups.
    pub allowed_actions: Vec<Arc<str>>,
    /// A query that documents must match (document level security).
    pub document_query: Option<Template>,
    /// Visible fields, or hidden fields with `~` (field level security).
    pub fields: Vec<Arc<str>>,
    /// Fields whose values are masked, each with the method if it is given.
    pub masked_fields: Vec<Arc<str>>,
}

/// A pattern of index names.
#[derive(Clone, Debug)]
pub enum IndexPattern {
    /// The same for every subject.
    Static(Pattern),
    /// With values of the subject.
    Template(Template),
}

/// The subjects of a role: each subject that matches any of the patterns.
#[derive(Debug, Default)]
pub struct RoleMapping {
    /// The role.
    pub role: Arc<str>,
    /// Patterns of user names.
    pub users: Vec<Pattern>,
    /// Patterns of backend roles.
    pub backend_roles: Vec<Pattern>,
    /// Patterns of backend roles. Each must match some backend role; nobody matches an empty list.
    pub and_backend_roles: Vec<Pattern>,
    /// Patterns of the caller's address.
    pub hosts: Vec<Pattern>,
}

/// A user of `internal_users.yml`.
#[derive(Debug)]
pub struct InternalUser {
    /// The user's name.
    pub name: Arc<str>,
    /// The hash of the password; without it nobody can sign in as this user.
    pub hash: Option<Secret>,
    /// Backend roles.
    pub backend_roles: Vec<Arc<str>>,
    /// Attributes: the variables `attr.internal.NAME`.
    pub attributes: BTreeMap<Arc<str>, Arc<str>>,
    /// Roles that the user has without a mapping (`opendistro_security_roles`).
    pub roles: Vec<Arc<str>>,
    /// Whether it is a service account, which may do nothing on the cluster and on regular indices.
    pub is_service: bool,
    /// Where it is configured.
    pub at: Place,
}

/// A security configuration that was read.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: SecurityConfig,
    /// Warnings, which do not prevent its use.
    pub warnings: Vec<Problem>,
    /// Every file that was read.
    pub sources: Vec<PolicyFile>,
}

impl SecurityConfig {
    /// Reads the files in a folder. Each but `roles.yml` may be missing.
    ///
    /// # Errors
    /// All errors in all files, with the warnings found while reading them, sorted by place. Some
    /// warnings are left out: those about passwords and about unused roles.
    pub fn load(files: &dyn Files, folder: &Path) -> Result<Loaded, Vec<Problem>> {
        let names = files.list(folder).map_err(|error| {
            let message = format!("the folder cannot be read: {error}");
            vec![Problem::error(Place::start_of(folder), message)]
        })?;
        let mut loader = Loader { files, folder, names, problems: Vec::new(), sources: Vec::new() };
        let mut config = Self::default();
        config.settings.evaluation = EvaluationType::Legacy;
        let facts = role_files::load(&mut loader, &mut config);
        let warnings = users::load(&mut loader, &mut config, facts.has_all_roles);
        let Loader { mut problems, sources, .. } = loader;
        problems.sort_by(|left, right| left.at.cmp(&right.at));
        if problems.iter().any(|problem| problem.severity == Severity::Error) {
            return Err(problems);
        }
        problems.extend(warnings);
        role_files::warn_of_unused_roles(facts, folder, &config, &mut problems);
        problems.sort_by(|left, right| left.at.cmp(&right.at));
        Ok(Loaded { config, warnings: problems, sources })
    }
}

impl RoleMapping {
    /// Whether the mapping gives the role to nobody.
    fn is_empty(&self) -> bool {
        let Self { role: _, users, backend_roles, and_backend_roles, hosts } = self;
        [users, backend_roles, and_backend_roles, hosts].iter().all(|patterns| patterns.is_empty())
    }
}

/// Reads the files of a folder.
struct Loader<'f> {
    files: &'f dyn Files,
    folder: &'f Path,
    names: Vec<String>,
    problems: Vec<Problem>,
    sources: Vec<PolicyFile>,
}

impl Loader<'_> {
    /// The path and the bytes of a file, if it exists.
    fn file(&mut self, name: &str) -> Option<(PathBuf, Arc<[u8]>)> {
        if !self.names.iter().any(|listed| listed == name) {
            return None;
        }
        let path = self.folder.join(name);
        match self.files.read(&path) {
            Ok(bytes) => {
                let bytes: Arc<[u8]> = bytes.into();
                self.sources.push(PolicyFile { path: path.clone(), bytes: bytes.clone() });
                Some((path, bytes))
            }
            Err(error) => {
                let message = format!("the file cannot be read: {error}");
                self.problems.push(Problem::error(Place::start_of(&path), message));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
