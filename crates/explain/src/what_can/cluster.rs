//! What a caller may do on a search cluster: the permissions of its roles.

use std::fmt;
use std::sync::Arc;

use identity::Subject;
use policy::canonical;
use policy::model::Rule;
use search::config::{IndexPattern, Role};
use serde::Serialize;

use super::WhatCan;
use crate::Explainer;
use crate::explanation;

/// A role of a search cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterRole {
    /// Its name.
    pub role: String,
    /// Actions, patterns of actions and action groups on the cluster.
    pub cluster_permissions: Vec<String>,
    /// What it allows on indices.
    pub index_permissions: Vec<ClusterPermission>,
}

/// What a role allows on some indices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterPermission {
    /// Patterns of names, with the caller's values, where these are known, in place of variables.
    pub index_patterns: Vec<String>,
    /// Actions, patterns of actions and action groups.
    pub allowed_actions: Vec<String>,
    /// Whether it shows only some documents or fields: rolegate then denies the request, or hands
    /// over what to hide.
    pub is_restricted: bool,
}

impl Explainer<'_> {
    /// What this caller may do on this host: by the roles of the search cluster if it is one of its
    /// hosts, otherwise by the rules for it. The roles in `roles` are those of the cluster, or of
    /// the policy.
    #[must_use]
    pub fn what_can_on(self, host: &[u8], subject: Option<&Subject>, roles: &[String]) -> WhatCan {
        let Some(cluster) = self.cluster_of(host) else {
            let mut buffer = Vec::new();
            let host = canonical::host(host, &mut buffer).unwrap_or(host);
            let is_for = |rule: &Rule| {
                rule.scopes.is_empty() || rule.scopes.iter().any(|scope| scope.matches(host))
            };
            return self.what_rules_allow(subject, is_for);
        };
        let Some(subject) = subject else {
            return WhatCan { anonymous: true, cluster: Some(Vec::new()), ..WhatCan::default() };
        };
        let mut asked = cluster.subject(subject);
        asked.roles.extend(roles.iter().cloned());
        let held = explanation::cluster_roles(cluster, &asked);
        let defined = &cluster.config().roles;
        let granted = held.iter().filter_map(|held| {
            let role = defined.get(held.name.as_str())?;
            Some(ClusterRole::new(&held.name, role, &asked))
        });
        let granted = granted.collect();
        let named = !subject.user.is_empty();
        WhatCan {
            user: named.then(|| subject.user.to_string()),
            issuer: subject.issuer.as_ref().map(ToString::to_string),
            groups: asked.backend_roles,
            roles: held,
            cluster: Some(granted),
            ..WhatCan::default()
        }
    }

    /// Whether the search cluster of this host has a role of this name; `None` if it is not a host
    /// of one.
    #[must_use]
    pub fn has_cluster_role(self, host: &[u8], role: &str) -> Option<bool> {
        let cluster = self.cluster_of(host)?;
        Some(cluster.config().roles.contains_key(role))
    }
}

impl ClusterRole {
    /// What a role allows a subject.
    pub(super) fn new(name: &str, role: &Role, subject: &search::Subject) -> Self {
        let texts = |list: &[Arc<str>]| list.iter().map(ToString::to_string).collect();
        let pattern = |pattern: &IndexPattern| match pattern {
            IndexPattern::Static(pattern) => pattern.text().to_owned(),
            IndexPattern::Template(template) => with_values(template.text(), subject),
        };
        let permissions = role.index_permissions.iter().map(|permission| ClusterPermission {
            index_patterns: permission.patterns.iter().map(pattern).collect(),
            allowed_actions: texts(&permission.allowed_actions),
            is_restricted: permission.document_query.is_some()
                || !permission.fields.is_empty()
                || !permission.masked_fields.is_empty(),
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

/// A pattern with those values of a subject that are known in place of its variables, for people.
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
            write!(
                f,
                "\nallows:  {} on the cluster (`{}`)",
                self.cluster_permissions.join(", "),
                self.role
            )?;
        }
        for permission in &self.index_permissions {
            let ClusterPermission { index_patterns, allowed_actions, is_restricted } = permission;
            let (actions, patterns) = (allowed_actions.join(", "), index_patterns.join(", "));
            let kind = if *is_restricted { "\nfilters: " } else { "\nallows:  " };
            write!(f, "{kind}{actions} on {patterns} (`{}`)", self.role)?;
            if *is_restricted {
                f.write_str(": only some documents or fields (see `document_security`)")?;
            }
        }
        Ok(())
    }
}
