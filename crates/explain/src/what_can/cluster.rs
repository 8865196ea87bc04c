//! What a caller may do on a search cluster: the permissions of its roles.

use std::fmt;

use authorizer::Cluster;
use identity::Subject;
use search::config::{IndexPattern, Role};
use serde::Serialize;

use super::WhatCan;
use crate::explanation::{ExplainedCaller, cluster_roles};
use crate::{Explainer, texts};

/// A role of a search cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterRole {
    /// Its name.
    pub role: String,
    /// Actions, patterns of actions and action groups on the cluster.
    pub cluster_permissions: Vec<String>,
    /// Its permissions on indices.
    pub index_permissions: Vec<ClusterPermission>,
}

/// A permission of a role on some indices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterPermission {
    /// Patterns of names, with the caller's values in place of variables, where they are known.
    pub index_patterns: Vec<String>,
    /// Actions, patterns of actions and action groups.
    pub allowed_actions: Vec<String>,
    /// Whether it shows only some documents or fields: rolegate then denies the request, or sends
    /// the filter to the cluster.
    pub is_restricted: bool,
}

impl WhatCan {
    pub(super) fn on_cluster(
        cluster: &Cluster,
        subject: Option<&Subject>,
        more_roles: &[String],
    ) -> Self {
        let Some(caller) = subject else {
            return Self { anonymous: true, cluster: Some(Vec::new()), ..Self::default() };
        };
        let mut subject = cluster.subject(caller);
        subject.roles.extend_from_slice(more_roles);
        let roles = cluster_roles(cluster, &subject);
        let defined = roles.iter().filter_map(|role| {
            let definition = cluster.config().roles.get(role.name.as_str())?;
            Some(ClusterRole::new(&role.name, definition, &subject))
        });
        let defined = defined.collect();
        let caller = ExplainedCaller {
            groups: subject.backend_roles,
            ..ExplainedCaller::new(caller).with_roles(roles)
        };
        Self { caller, cluster: Some(defined), ..Self::default() }
    }
}

impl Explainer<'_> {
    /// Whether the search cluster of this host has a role of this name; `None` if it is not a host
    /// of a search cluster.
    #[must_use]
    pub fn has_cluster_role(self, host: &[u8], role: &str) -> Option<bool> {
        Some(self.cluster_of(host)?.config().roles.contains_key(role))
    }
}

impl ClusterRole {
    /// A role with the values of a subject.
    pub(super) fn new(name: &str, role: &Role, subject: &search::Subject) -> Self {
        let permissions = role.index_permissions.iter().map(|permission| {
            let patterns = permission.patterns.iter().map(|pattern| match pattern {
                IndexPattern::Static(pattern) => pattern.text().to_owned(),
                IndexPattern::Template(template) => with_values(template.text(), subject),
            });
            ClusterPermission {
                index_patterns: patterns.collect(),
                allowed_actions: texts(&permission.allowed_actions),
                is_restricted: permission.document_query.is_some()
                    || !permission.fields.is_empty()
                    || !permission.masked_fields.is_empty(),
            }
        });
        Self {
            role: name.to_owned(),
            cluster_permissions: texts(&role.cluster_permissions),
            index_permissions: permissions.collect(),
        }
    }

    pub(super) fn allows_something(&self) -> bool {
        !self.cluster_permissions.is_empty()
            || self.index_permissions.iter().any(|permission| {
                !permission.index_patterns.is_empty() && !permission.allowed_actions.is_empty()
            })
    }
}

/// A pattern with the known values of a subject in place of its variables, for people.
fn with_values(pattern: &str, subject: &search::Subject) -> String {
    let mut text = pattern.to_owned();
    if !subject.name.is_empty() {
        for variable in ["${user.name}", "${user_name}"] {
            text = text.replace(variable, &subject.name);
        }
    }
    for (name, value) in &subject.attributes {
        text = text.replace(&format!("${{{name}}}"), value);
    }
    text
}

impl fmt::Display for ClusterRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.cluster_permissions.is_empty() {
            let actions = self.cluster_permissions.join(", ");
            write!(f, "\nallows:  {actions} on the cluster (`{}`)", self.role)?;
        }
        for ClusterPermission { index_patterns, allowed_actions, is_restricted } in
            &self.index_permissions
        {
            let (actions, patterns) = (allowed_actions.join(", "), index_patterns.join(", "));
            let (label, note) = match is_restricted {
                true => ("filters: ", ": only some documents or fields (see `document_security`)"),
                false => ("allows:  ", ""),
            };
            write!(f, "\n{label}{actions} on {patterns} (`{}`){note}", self.role)?;
        }
        Ok(())
    }
}
