//! Why a request to the search cluster is answered as it is.

use std::collections::HashSet;

use authorizer::{Cluster, NEEDS_PER_CHUNK, Request, denial_answer};
use identity::{Subject, UnixTime};
use search::explain::{self, Restriction};
use search::{Action, Answer, Missing, Need, Privileges, Reason, Steps, Target, Verdict};
use serde::Serialize;

use super::{ExplainedCaller, ExplainedRole, Explanation, RoleSource};
use crate::mappings::Mappings;
use crate::{STEPS_PER_PAGE, is_false, is_zero, lossy, texts};

/// The steps that it takes to add a role to the roles of a caller.
const STEPS_PER_ROLE: usize = 300;

/// The maximum number of roles that are listed as permitting a denied request.
const MAX_ROLES: usize = 20;

/// The maximum number of needs whose permissions are looked up, and of names of each need.
const MAX_GRANTED: usize = 20;

/// The maximum number of permissions that are listed as permitting a request.
const MAX_LISTED_GRANTS: usize = 20;

/// The maximum number of names that a pattern or an alias is said to stand for.
const MAX_NAMES: usize = 5;

/// The needs of a request to a search cluster, and the privileges that the caller lacks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExplainedCluster {
    /// The operation, such as `indices.create`; `None` if it is unknown.
    pub operation: Option<&'static str>,
    /// Its needs.
    pub needs: Vec<ExplainedNeed>,
    /// The caller's backend roles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backend_roles: Vec<String>,
    /// If it is permitted: the first permissions that permit it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<ExplainedGrant>,
    /// The missing privileges: the first of each need.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingPrivilege>,
    /// If it is denied: the first few roles, each of which would permit the denied needs. The
    /// authorizer decides about at most [`NEEDS_PER_CHUNK`] needs together. A request with more
    /// needs is rare; the roles then permit only the first of its chunks that is denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permitting: Vec<PermittingRole>,
    /// Whether some roles were not tried because there are too many. They may permit it, too.
    #[serde(skip_serializing_if = "is_false")]
    pub roles_left_out: bool,
    /// The indices on which it is permitted, if not on all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permitted_in_part: Vec<String>,
    /// Permissions of the caller that show only some documents or fields of an index of the
    /// request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<ExplainedFilter>,
    /// How many names the inventory has: the list of the cluster's indices, aliases and data
    /// streams. `None` without an inventory.
    pub inventory: Option<u32>,
    /// Whether the needs of the request depend on its body.
    pub depends_on_body: bool,
}

/// Actions on one target.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ExplainedNeed {
    /// The names of the actions.
    pub actions: Vec<&'static str>,
    /// The indices as the request names them; empty for the cluster.
    pub on: String,
    /// The kind of the target: `cluster`, `index`, `indices`, `new_index` or `new_alias`.
    pub target: &'static str,
    /// The first names that `on` stands for, such as the indices of an alias. Empty if `on` already
    /// lists all these names, or if they are not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stands_for: Vec<String>,
    /// The number of further names.
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
    /// The alias or data stream that the pattern matches, if it does not match the names
    /// themselves.
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
    /// The first roles that would grant it.
    pub granted_by: Vec<String>,
}

/// A role that would permit a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PermittingRole {
    /// Its name.
    pub name: String,
    /// The callers to whom it is mapped, in words.
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
    /// Visible fields, or hidden fields with `~`.
    pub fields: Vec<String>,
    /// The masked fields.
    pub masked_fields: Vec<String>,
}

impl Explanation {
    /// Adds what is explained about a request to a search cluster: its needs and its caller.
    /// `caller` is `None` if the credentials are invalid, and `Some(None)` if it is anonymous.
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
            let roles = cluster_roles(cluster, &subject);
            self.caller = ExplainedCaller::new(caller).with_roles(roles);
            explained.backend_roles = subject.backend_roles;
        }
        self.cluster = Some(Box::new(explained));
    }
}

/// The roles that a subject has in the cluster, and why it has each.
pub(crate) fn cluster_roles(cluster: &Cluster, subject: &search::Subject) -> Vec<ExplainedRole> {
    let config = cluster.config();
    let roles = explain::role_sources(config, subject).into_iter();
    let roles = roles.map(|(name, sources)| ExplainedRole {
        when: None,
        is_missing: !config.roles.contains_key(&name),
        name: name.to_string(),
        from: sources.into_iter().map(RoleSource::OfCluster).collect(),
    });
    roles.collect()
}

impl ExplainedCluster {
    /// The needs of a request, and the privileges that a caller lacks.
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
        let Ok(request) = cluster.search_request(request, now) else { return explained };
        explained.depends_on_body = search::depends_on_body(&request);
        let mut needs = Vec::new();
        explained.operation = cluster.read(&request, &mut needs).ok();
        explained.needs = explain_needs(privileges, &needs);
        if let Some(caller) = caller.filter(|_| explained.operation.is_some()) {
            explained.add_answer(cluster, &request, &needs, caller);
        }
        explained
    }

    fn add_answer(
        &mut self,
        cluster: &Cluster,
        request: &search::Request<'_>,
        needs: &[Need<'_>],
        subject: &search::Subject,
    ) {
        let privileges = cluster.privileges();
        let caller = privileges.uncached_caller(subject);
        let problem = first_problem(privileges, &caller, request, needs);
        if problem.as_ref().is_none_or(|(_, answer)| answer.verdict == Verdict::Permitted) {
            self.granted = grants(privileges, &caller, needs);
        }
        let Some((chunk, answer)) = problem else { return };
        let missing = answer.missing.iter();
        let missing = missing.map(|Missing { action, name, reason }| MissingPrivilege {
            action: action.name(),
            name: name.clone(),
            because: reason.to_string(),
            granted_by: Vec::new(),
        });
        self.missing = missing.collect();
        if let Verdict::PermittedInPart(parts) = &answer.verdict {
            self.permitted_in_part = parts.iter().flat_map(|part| part.names.clone()).collect();
        }
        let filtered = answer.filters.iter().map(|filter| &*filter.name);
        let missing = answer.missing.iter().filter(|missing| is_about_filter(missing.reason));
        let restricted = filtered.chain(missing.map(|missing| &*missing.name));
        let mut seen = HashSet::new();
        for name in restricted.filter(|name| seen.insert(*name)) {
            let restrictions = explain::restrictions(privileges, &caller, name).into_iter();
            self.filters.extend(restrictions.map(|Restriction { role, permission }| {
                ExplainedFilter {
                    name: name.to_owned(),
                    role: role.to_string(),
                    query: permission.document_query.as_ref().map(|query| query.text().to_owned()),
                    fields: texts(&permission.fields),
                    masked_fields: texts(&permission.masked_fields),
                }
            }));
        }
        if answer.verdict != Verdict::Permitted {
            self.add_permitting_roles(cluster, subject, chunk, &answer);
        }
    }

    /// Adds the roles that would permit a denied request, and for each missing privilege the roles
    /// that would grant it. Built-in roles come last.
    fn add_permitting_roles(
        &mut self,
        cluster: &Cluster,
        subject: &search::Subject,
        needs: &[Need<'_>],
        answer: &Answer,
    ) {
        let privileges = cluster.privileges();
        let steps_per_role = STEPS_PER_ROLE + steps_to_decide(privileges, needs);
        // A command tries no more roles than a page of the console does.
        let mut steps = Steps::new(STEPS_PER_PAGE);
        let mut answers_with_role = explain::with_each_role(privileges, subject, needs).peekable();
        let mut roles = Vec::new();
        while answers_with_role.peek().is_some() && steps.take(steps_per_role).is_some() {
            roles.extend(answers_with_role.next());
        }
        self.roles_left_out = answers_with_role.peek().is_some();
        roles.sort_by_key(|(role, _)| search::is_builtin_role(role));
        for (privilege, missing) in self.missing.iter_mut().zip(&answer.missing) {
            let granting = roles.iter().filter(|(_, answer)| !answer.missing.contains(missing));
            privilege.granted_by =
                granting.take(MAX_ROLES).map(|(role, _)| role.to_string()).collect();
        }
        let mappings = Mappings::new(cluster.config());
        let permitting = roles.iter().filter(|(_, answer)| answer.verdict == Verdict::Permitted);
        let permitting = permitting.take(MAX_ROLES).map(|(role, _)| PermittingRole {
            name: role.to_string(),
            mapped_from: mappings.describe(role),
        });
        self.permitting = permitting.collect();
    }
}

/// The steps for deciding about needs: each need compares bitmaps of names, 64 names at once.
pub(crate) fn steps_to_decide(privileges: &Privileges, needs: &[Need<'_>]) -> usize {
    let names = privileges.inventory().map_or(0, search::Inventory::len) as usize;
    needs.len().saturating_mul(1 + names / 64)
}

/// The needs to explain, with the answer to them. The first of these that applies:
/// * the first chunk of needs that is denied, as in the authorizer;
/// * all needs, if they are denied because of the request's patterns, such as `logs-*`: a pattern
///   that cannot be replaced by names may match a newer index, of which a role hides something;
/// * the first chunk of needs for which a role hides something;
/// * `None`: everything is permitted, and nothing is hidden.
fn first_problem<'n>(
    privileges: &Privileges,
    caller: &search::Caller,
    request: &search::Request<'_>,
    needs: &'n [Need<'n>],
) -> Option<(&'n [Need<'n>], Answer)> {
    let mut filtered = None;
    for chunk in needs.chunks(NEEDS_PER_CHUNK) {
        let answer = privileges.decide(caller, chunk);
        if answer.verdict != Verdict::Permitted {
            return Some((chunk, answer));
        }
        if filtered.is_none() && !(answer.missing.is_empty() && answer.filters.is_empty()) {
            filtered = Some((chunk, answer));
        }
    }
    // Patterns are no problem if the request can be forwarded with names in their place.
    match privileges.missing_if_patterns_stay(caller, needs) {
        Some(missing) if privileges.with_names_for_patterns(caller, request, needs).is_none() => {
            Some((needs, denial_answer(missing)))
        }
        Some(_) | None => filtered,
    }
}

/// The needs of a request, as they are shown. Needs that the configured evaluation type does not
/// check are left out. Equal needs are shown once.
fn explain_needs(privileges: &Privileges, needs: &[Need<'_>]) -> Vec<ExplainedNeed> {
    let mut explained = Vec::new();
    // A request may have 50,000 needs, and thousands of them may be equal, with the same list of
    // indices. The names of this list are looked up only once.
    let (mut distinct_needs, mut distinct_texts) = (HashSet::new(), HashSet::new());
    for need in needs {
        if !explain::is_checked(privileges, need)
            || !distinct_needs.insert((need.actions, &need.target))
        {
            continue;
        }
        let on = need.target.text();
        let mut stands_for = explain::names_of(privileges, &need.target);
        let parts: HashSet<&str> = on.split(',').collect();
        if stands_for.iter().all(|name| parts.contains(name)) {
            stands_for.clear();
        }
        let creates_index =
            need.actions.iter().all(|action| action.name() == "indices:admin/create");
        let explained_need = ExplainedNeed {
            actions: need.actions.iter().map(|action| action.name()).collect(),
            on: on.to_owned(),
            target: match need.target {
                Target::Cluster => "cluster",
                Target::Name(_) => "index",
                // An index that the request creates besides its main target, such as the new index
                // of a rollover. Its name may exist already, so this is no `new_index`.
                Target::AliasOrNewIndex(_) if creates_index => "index",
                Target::Indices(_) | Target::Fixed(_) => "indices",
                Target::CreatedIfMissing(_) => "new_index",
                Target::AliasOrNewIndex(_) => "new_alias",
            },
            stands_for: stands_for.iter().take(MAX_NAMES).map(ToString::to_string).collect(),
            stands_for_more: stands_for.len().saturating_sub(MAX_NAMES),
        };
        // Different targets may be shown as the same text.
        if distinct_texts.insert(explained_need.clone()) {
            explained.push(explained_need);
        }
    }
    explained
}

/// The first permissions that permit the needs of a request.
fn grants(
    privileges: &Privileges,
    caller: &search::Caller,
    needs: &[Need<'_>],
) -> Vec<ExplainedGrant> {
    let mut grants: Vec<ExplainedGrant> = Vec::new();
    let checked = needs.iter().filter(|need| explain::is_checked(privileges, need));
    for need in checked.take(MAX_GRANTED) {
        let mut names: Vec<Option<&str>> = Vec::new();
        names.extend((need.target == Target::Cluster).then_some(None));
        let indices = explain::names_of(privileges, &need.target).into_iter();
        names.extend(indices.take(MAX_GRANTED).map(Some));
        for action in need.actions {
            for name in &names {
                let grant = ExplainedGrant::new(privileges, caller, *action, *name);
                let Some(grant) = grant else { continue };
                let has_room = grants.len() < MAX_LISTED_GRANTS;
                let same = grants.iter_mut().find(|previous| {
                    previous.is_same_permission(&grant) && previous.actions == grant.actions
                });
                match same {
                    Some(same) if grant.names.iter().all(|name| same.names.contains(name)) => {}
                    Some(same) => same.names.extend(grant.names),
                    None if has_room => grants.push(grant),
                    None => {}
                }
            }
        }
    }
    // Actions on the same names are shown in one line.
    let mut merged: Vec<ExplainedGrant> = Vec::new();
    for grant in grants {
        let same = merged
            .iter_mut()
            .find(|previous| previous.is_same_permission(&grant) && previous.names == grant.names);
        match same {
            Some(same) => same.actions.extend(grant.actions),
            None => merged.push(grant),
        }
    }
    merged
}

impl ExplainedGrant {
    /// The permission for an action on this name, or on the cluster.
    fn new(
        privileges: &Privileges,
        caller: &search::Caller,
        action: Action,
        name: Option<&str>,
    ) -> Option<Self> {
        let permission = explain::granting_permission(privileges, caller, action, name)?;
        Some(Self {
            actions: vec![action.name()],
            names: name.iter().map(ToString::to_string).collect(),
            role: permission.role.to_owned(),
            pattern: permission.pattern.map(str::to_owned),
            through: permission.through.map(str::to_owned),
        })
    }

    fn is_same_permission(&self, other: &Self) -> bool {
        self.role == other.role && self.pattern == other.pattern && self.through == other.through
    }
}

const fn is_about_filter(reason: Reason) -> bool {
    match reason {
        Reason::NeedsFilter
        | Reason::CannotFilter
        | Reason::UncertainFilter
        | Reason::MissingVariable
        | Reason::HiddenTerms => true,
        Reason::NotGranted
        | Reason::SystemIndex
        | Reason::SecurityIndex
        | Reason::ServiceAccount
        | Reason::TenantNotGranted
        | Reason::AllIndices
        | Reason::OtherTenant => false,
    }
}
