//! Why a request to the search cluster is answered as it is.

mod needs;

use std::collections::BTreeSet;
use std::sync::Arc;

use authorizer::{Cluster, NEEDS_PER_CHUNK, Request, denied_for};
use identity::{Subject, UnixTime};
use search::config::RoleMapping;
use search::{Missing, Need, Privileges, Steps, Target, Verdict as ClusterVerdict};
use serde::Serialize;

use super::{ExplainedRole, Explanation, RoleSource};
use crate::{STEPS_PER_PAGE, is_false, is_zero, lossy};

/// How many steps it takes to make the set of roles of a caller with another role.
const STEPS_FOR_A_ROLE: usize = 300;

/// The most roles that are listed as permitting a denied request.
const MOST_ROLES: usize = 20;

/// The most needs, and names of each, that are looked up for what grants them.
const MOST_GRANTED: usize = 20;

/// What a request to a search cluster needs, and what the caller lacks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExplainedCluster {
    /// The operation, such as `indices.create`; `None` if it is not known what the request needs.
    pub operation: Option<&'static str>,
    /// What it needs.
    pub needs: Vec<ExplainedNeed>,
    /// The caller's backend roles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backend_roles: Vec<String>,
    /// If it is permitted: by which permissions; the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<ExplainedGrant>,
    /// What is not permitted, the first ones of each need.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingPrivilege>,
    /// If it is denied: the roles each of which would permit it, in addition to those that the
    /// caller has; the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permitting: Vec<PermittingRole>,
    /// Whether other roles may permit it, too, because there are too many to try each.
    #[serde(skip_serializing_if = "is_false")]
    pub roles_left_out: bool,
    /// If it is permitted on some of its indices only: these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permitted_in_part: Vec<String>,
    /// Permissions of the caller that show only some documents or fields of an index of the
    /// request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<ExplainedFilter>,
    /// How many names the inventory has; `None` without one.
    pub inventory: Option<u32>,
    /// Whether what the request needs depends on its body.
    pub depends_on_body: bool,
}

/// Actions on one target.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ExplainedNeed {
    /// The names of the actions.
    pub actions: Vec<&'static str>,
    /// The indices as the request names them; empty for the cluster.
    pub on: String,
    /// What the target is: `cluster`, `index`, `indices`, `new_index` or `new_alias`.
    pub target: &'static str,
    /// If that is known and not the same: the names that it stands for, such as the indices of an
    /// alias; the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stands_for: Vec<String>,
    /// How many more there are.
    #[serde(skip_serializing_if = "is_zero")]
    pub stands_for_more: usize,
}

/// A permission by which a request is permitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedGrant {
    /// The names of the actions.
    pub actions: Vec<&'static str>,
    /// The indices, aliases, data streams or patterns; empty for the cluster.
    pub names: Vec<String>,
    /// The role that has the permission.
    pub role: String,
    /// Its pattern, with its variables; `None` for the cluster.
    pub pattern: Option<String>,
    /// The alias or data stream that the pattern matches, if it does not match the names, which are
    /// indices of it.
    pub through: Option<String>,
}

/// An action that is not permitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingPrivilege {
    /// The name of the action.
    pub action: &'static str,
    /// The index, alias, data stream or pattern; empty for the cluster.
    pub name: String,
    /// Why.
    pub because: String,
    /// The roles that would grant it; the first ones.
    pub granted_by: Vec<String>,
}

/// A role that would permit a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PermittingRole {
    /// Its name.
    pub name: String,
    /// From whom it is mapped, in words; empty if from nobody.
    pub mapped_from: Vec<String>,
}

/// A permission that shows only some documents or fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedFilter {
    /// The index, alias, data stream or pattern.
    pub name: String,
    /// The role that has the permission.
    pub role: String,
    /// The query that documents must match, with its variables.
    pub query: Option<String>,
    /// The fields that may be seen, and with `~` those that may not.
    pub fields: Vec<String>,
    /// The masked fields.
    pub masked_fields: Vec<String>,
}

impl Explanation {
    /// Adds what a request to a search cluster needs, and what its caller has; no caller if the
    /// credentials are invalid.
    pub(super) fn add_cluster(
        &mut self,
        cluster: &Cluster,
        request: &Request<'_>,
        caller: Option<Option<&Subject>>,
        now: UnixTime,
    ) {
        self.host = Some(lossy(request.host));
        self.paths = vec![lossy(request.path)];
        self.decided_on = caller.map(|_| lossy(request.path));
        let caller = caller.flatten();
        let subject =
            caller.map(|subject| cluster.subject_at(cluster.subject(subject), request.client));
        let mut explained = ExplainedCluster::new(cluster, request, subject.as_ref(), now);
        if let (Some(caller), Some(subject)) = (caller, subject) {
            self.user = Some(caller.user.to_string());
            self.issuer = caller.issuer.as_ref().map(ToString::to_string);
            self.groups = caller.groups.iter().map(ToString::to_string).collect();
            self.roles = cluster_roles(cluster, &subject);
            explained.backend_roles = subject.backend_roles;
        }
        self.cluster = Some(Box::new(explained));
    }
}

/// The cluster's roles of a subject, with why it has them.
pub(crate) fn cluster_roles(cluster: &Cluster, subject: &search::Subject) -> Vec<ExplainedRole> {
    let config = cluster.config();
    let sources = search::explain::role_sources(config, subject).into_iter();
    let role = |(name, from): (Arc<str>, Vec<search::explain::RoleSource>)| ExplainedRole {
        is_missing: !config.roles.contains_key(&name),
        name: name.to_string(),
        from: from.into_iter().map(RoleSource::OfCluster).collect(),
    };
    sources.map(role).collect()
}

impl ExplainedCluster {
    /// What a request needs, and what of it a caller lacks.
    pub(crate) fn new(
        cluster: &Cluster,
        request: &Request<'_>,
        caller: Option<&search::Subject>,
        now: UnixTime,
    ) -> Self {
        let privileges = cluster.privileges();
        let mut explained = Self {
            inventory: privileges.inventory().map(search::Inventory::len),
            ..Self::default()
        };
        let Ok(search_request) = cluster.search_request(request, now) else { return explained };
        explained.depends_on_body = search::depends_on_body(&search_request);
        let mut needs = Vec::new();
        explained.operation = cluster.read(&search_request, &mut needs).ok();
        explained.needs = needs::explained_needs(privileges, &needs);
        if let Some(caller) = caller.filter(|_| explained.operation.is_some()) {
            explained.add_answer(
                cluster,
                (&search_request, &needs),
                caller,
                &mut Steps::new(STEPS_PER_PAGE),
            );
        }
        explained
    }

    fn add_answer(
        &mut self,
        cluster: &Cluster,
        (search_request, needs): (&search::Request<'_>, &[Need<'_>]),
        subject: &search::Subject,
        steps: &mut Steps,
    ) {
        let privileges = cluster.privileges();
        let caller = privileges.uncached_caller(subject);
        // What is missing is worked out for the first needs that are not permitted, as for the
        // answer to the request.
        let mut first = None;
        for some in needs.chunks(NEEDS_PER_CHUNK) {
            let answer = privileges.decide(&caller, some);
            let is_denied = answer.verdict != ClusterVerdict::Permitted;
            // What is hidden by a role is explained where all is permitted.
            if is_denied || (first.is_none() && answer != PERMITTED) {
                first = Some((some, answer));
            }
            if is_denied {
                break;
            }
        }
        let first = match first {
            Some((some, answer)) if answer.verdict != ClusterVerdict::Permitted => {
                Some((some, answer))
            }
            first => {
                let missing = privileges.shown_by_patterns(&caller, needs);
                let is_forwarded =
                    || privileges.forwarded(&caller, search_request, needs).is_some();
                let denied = missing.filter(|_| !is_forwarded()).map(denied_for);
                denied.map(|answer| (needs, answer)).or(first)
            }
        };
        if first.as_ref().is_none_or(|(_, answer)| answer.verdict == ClusterVerdict::Permitted) {
            self.granted = grants(privileges, &caller, needs);
        }
        let Some((needs, answer)) = first else { return };
        let missing = |Missing { action, name, reason }: &Missing| MissingPrivilege {
            action: action.name(),
            name: name.clone(),
            because: reason.to_string(),
            granted_by: Vec::new(),
        };
        self.missing = answer.missing.iter().map(missing).collect();
        if let ClusterVerdict::PermittedInPart(parts) = &answer.verdict {
            self.permitted_in_part = parts.iter().flat_map(|part| part.names.clone()).collect();
        }
        let mut restricted: Vec<&str> = answer.filters.iter().map(|filter| &*filter.name).collect();
        restricted.extend(
            answer.missing.iter().filter(|cell| is_filter(cell.reason)).map(|cell| &*cell.name),
        );
        restricted.dedup();
        for name in restricted {
            let filters = search::explain::restrictions(privileges, &caller, name).into_iter();
            self.filters.extend(filters.map(|restriction| explained_filter(name, restriction)));
        }
        if answer.verdict != ClusterVerdict::Permitted {
            let (mut roles, left_out) = with_each_role(privileges, subject, needs, steps);
            self.roles_left_out = left_out;
            roles.sort_by_key(|(role, _)| search::is_builtin_role(role));
            for (missing, cell) in self.missing.iter_mut().zip(&answer.missing) {
                let granting =
                    roles.iter().filter(|(_, with)| !with.missing.contains(cell)).take(MOST_ROLES);
                missing.granted_by = granting.map(|(role, _)| role.to_string()).collect();
            }
            let permitting =
                roles.iter().filter(|(_, with)| with.verdict == ClusterVerdict::Permitted);
            self.permitting = permitting
                .take(MOST_ROLES)
                .map(|(role, _)| PermittingRole {
                    name: role.to_string(),
                    mapped_from: mapped_from_all(cluster, role),
                })
                .collect();
        }
    }
}

/// The answers with each other role in addition, and whether roles are left out because that takes
/// too many steps.
fn with_each_role<'p>(
    privileges: &'p Privileges,
    subject: &search::Subject,
    needs: &[Need<'_>],
    steps: &mut Steps,
) -> (Vec<(&'p Arc<str>, search::Answer)>, bool) {
    let names = privileges.inventory().map_or(0, search::Inventory::len) as usize;
    let for_each = STEPS_FOR_A_ROLE + needs.len().saturating_mul(1 + names / 64);
    let (mut answers, mut left) =
        (Vec::new(), search::explain::with_each_role(privileges, subject, needs));
    while steps.take(for_each).is_some() {
        match left.next() {
            Some(answer) => answers.push(answer),
            None => return (answers, false),
        }
    }
    (answers, left.next().is_some())
}

/// By which permissions the needs of a request are permitted.
fn grants(
    privileges: &Privileges,
    caller: &search::Caller,
    needs: &[Need<'_>],
) -> Vec<ExplainedGrant> {
    let mut grants: Vec<ExplainedGrant> = Vec::new();
    let mut add = |action: search::Action, name: Option<&str>| {
        let Some(granting) = search::explain::granting_permission(privileges, caller, action, name)
        else {
            return;
        };
        let new = ExplainedGrant {
            actions: vec![action.name()],
            names: name.iter().map(ToString::to_string).collect(),
            role: granting.role.to_owned(),
            pattern: granting.pattern.map(str::to_owned),
            through: granting.through.map(str::to_owned),
        };
        let has_room = grants.len() < MOST_ROLES;
        match grants.iter_mut().find(|grant| grant.is_beside(&new) && grant.actions == new.actions)
        {
            Some(grant) => new.names.into_iter().for_each(|name| {
                if !grant.names.contains(&name) {
                    grant.names.push(name);
                }
            }),
            None if has_room => grants.push(new),
            None => {}
        }
    };
    for need in
        needs.iter().filter(|need| search::explain::counts(privileges, need)).take(MOST_GRANTED)
    {
        for action in need.actions {
            if need.target == Target::Cluster {
                add(*action, None);
            }
            for name in
                search::explain::names_of(privileges, &need.target).into_iter().take(MOST_GRANTED)
            {
                add(*action, Some(name));
            }
        }
    }
    // Actions on the same names are one line.
    let mut merged: Vec<ExplainedGrant> = Vec::new();
    for grant in grants {
        match merged.iter_mut().find(|other| other.is_beside(&grant) && other.names == grant.names)
        {
            Some(other) => other.actions.extend(grant.actions),
            None => merged.push(grant),
        }
    }
    merged
}

/// Who has a role by its mapping, in words.
fn mapped_from_all(cluster: &Cluster, role: &str) -> Vec<String> {
    let of_role = cluster.config().mappings.iter().filter(|mapping| *mapping.role == *role);
    of_role.flat_map(mapped_from).collect()
}

/// From whom a role is mapped, in words.
pub(crate) fn mapped_from(mapping: &RoleMapping) -> Vec<String> {
    let mut texts = Vec::new();
    let mut add = |what: &str, patterns: &[search::Pattern]| {
        texts.extend(patterns.iter().map(|pattern| format!("the {what} `{}`", pattern.text())));
    };
    add("user", &mapping.users);
    add("backend role", &mapping.backend_roles);
    add("address", &mapping.hosts);
    let all: Vec<&str> = mapping.and_backend_roles.iter().map(search::Pattern::text).collect();
    texts.extend(
        (!all.is_empty()).then(|| format!("all of the backend roles `{}`", all.join("`, `"))),
    );
    texts
}

impl ExplainedGrant {
    /// Whether this and another are of the same permission.
    fn is_beside(&self, other: &Self) -> bool {
        self.role == other.role && self.pattern == other.pattern && self.through == other.through
    }
}

/// The answer to what is permitted as it is.
const PERMITTED: search::Answer = search::Answer {
    verdict: ClusterVerdict::Permitted,
    missing: BTreeSet::new(),
    filters: BTreeSet::new(),
};

const fn is_filter(reason: search::Reason) -> bool {
    match reason {
        search::Reason::NeedsFilter
        | search::Reason::CannotFilter
        | search::Reason::UncertainFilter
        | search::Reason::MissingVariable
        | search::Reason::HiddenTerms => true,
        search::Reason::NotGranted
        | search::Reason::SystemIndex
        | search::Reason::SecurityIndex
        | search::Reason::ServiceAccount
        | search::Reason::TenantNotGranted
        | search::Reason::AllIndices
        | search::Reason::OtherTenant => false,
    }
}

fn explained_filter(name: &str, restriction: search::explain::Restriction<'_>) -> ExplainedFilter {
    let texts = |list: &[Arc<str>]| list.iter().map(ToString::to_string).collect();
    let permission = restriction.permission;
    ExplainedFilter {
        name: name.to_owned(),
        role: restriction.role.to_string(),
        query: permission.document_query.as_ref().map(|query| query.text().to_owned()),
        fields: texts(&permission.fields),
        masked_fields: texts(&permission.masked_fields),
    }
}
