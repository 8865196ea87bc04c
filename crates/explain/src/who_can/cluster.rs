//! Who may make a request to the search cluster: users by name, and the attributes that a token
//! must have for the roles that permit it.

use std::collections::{BTreeMap, BTreeSet};

use authorizer::{Cluster, Reason, Request};
use identity::UnixTime;
use policy::model::{DocumentSecurity, RolesFromToken};
use review::{CallerSource, Source};
use search::config::RoleMapping;
use search::explain::{self, HeldRole, Requirement};
use search::{Need, Pattern, Steps};

use super::{Attribute, Callers, Condition, WhoCan};
use crate::explanation::ExplainedCluster;
use crate::mappings::Mappings;
use crate::subjects::unverified_subject;
use crate::{Explainer, lossy, notes};

/// The note of an answer that leaves callers out.
const LEFT_OUT: &str = "not all who may are listed: the cluster has so many roles, indices, \
                        mappings or users that finding them takes too many steps";

/// The note where a request may be reduced.
const REDUCED: &str = "callers to whom it is permitted in part only are not listed: their requests \
                       may be reduced to those of its indices on which it is permitted, or to none";

/// The note where the items of a request may be separated.
const SEPARATED: &str = "callers to whom only some of its items are permitted are not listed: \
                         inside Envoy their requests are forwarded with these items \
                         (`bulk: per-item`)";

/// The note where a role that hides documents or fields does not always lead to a denial.
const HIDDEN: &str = "callers from whom a role hides documents or fields of an index are not \
                      listed, even if their requests are permitted";

impl Explainer<'_> {
    pub(super) fn who_can_on_cluster(
        self,
        cluster: &Cluster,
        request: &Request<'_>,
        now: UnixTime,
        steps: Steps,
    ) -> WhoCan {
        let mut answer = WhoCan {
            paths: vec![lossy(request.path)],
            notes: notes::meant_method(request).into_iter().collect(),
            cluster: Some(Box::new(ExplainedCluster::new(cluster, request, None, now))),
            ..WhoCan::default()
        };
        if !authorizer::is_method(request.method) {
            return answer.because_of(Reason::InvalidMethod);
        }
        let mut needs = Vec::new();
        let read = cluster
            .search_request(request, now)
            .and_then(|request| cluster.read(&request, &mut needs).map(|_| request));
        let request = match read {
            Ok(request) => request,
            Err(problem) => return answer.because_of(Reason::Cluster(problem)),
        };
        let mappings = Mappings::new(cluster.config());
        let mut finder = Finder {
            cluster,
            needs: &needs,
            mappings,
            steps,
            listed: BTreeMap::new(),
            unlisted: Vec::new(),
        };
        answer.left_out = finder.find(&request).is_none();
        answer.callers = finder.into_callers();
        let hides = self.policy().search.as_ref().is_some_and(|section| {
            section.dfm_empty_overrides_all || section.document_security != DocumentSecurity::Deny
        });
        let notes = [
            (answer.left_out, LEFT_OUT),
            (explain::may_be_reduced(cluster.privileges(), &needs), REDUCED),
            (cluster.separates_items(&request, &needs), SEPARATED),
            (hides, HIDDEN),
        ];
        let notes = notes.into_iter().filter(|(applies, _)| *applies);
        answer.notes.extend(notes.map(|(_, note)| note.to_owned()));
        answer
    }
}

/// Finds the callers who may make a request. Its methods return `None` if that takes too many
/// steps; then the callers found so far are listed.
struct Finder<'a> {
    cluster: &'a Cluster,
    needs: &'a [Need<'a>],
    mappings: Mappings<'a>,
    steps: Steps,
    /// The users of Basic whom the policy lists, by the condition that they must meet.
    listed: BTreeMap<Condition, Vec<String>>,
    /// Users of Basic whom the policy does not list, and callers with tokens.
    unlisted: Vec<Callers>,
}

/// The roles that a request requires, as alternatives.
struct Requirements<'a> {
    usual: Vec<Requirement>,
    /// The user that Dashboards itself has, with its alternatives if they are others.
    dashboards: Option<(&'a str, Vec<Requirement>)>,
}

impl<'a> Requirements<'a> {
    fn new(finder: &mut Finder<'a>, request: &search::Request<'_>) -> Option<Self> {
        let Finder { cluster, needs, mappings, steps, .. } = finder;
        let privileges = cluster.privileges();
        let mapped = mappings.roles();
        let mut required = |is_dashboards| {
            let needs = (*needs, is_dashboards);
            let can_be_held = |role: &str| mapped.contains(role);
            explain::requirement_for(privileges, request, needs, can_be_held, steps)
        };
        let usual = required(false)?;
        let dashboards = match explain::dashboards_server(privileges, needs) {
            Some(user) => Some((user, required(true)?)).filter(|(_, special)| *special != usual),
            None => None,
        };
        Some(Self {
            usual: usual.alternatives(),
            dashboards: dashboards.map(|(user, special)| (user, special.alternatives())),
        })
    }

    fn for_user(&self, name: &str) -> &[Requirement] {
        match &self.dashboards {
            Some((user, special)) if *user == name => special,
            Some(_) | None => &self.usual,
        }
    }

    /// The maximum number of steps to find out whether a caller meets them.
    fn size(&self) -> usize {
        let special = self.dashboards.iter().flat_map(|(_, special)| special);
        self.usual.iter().chain(special).map(Requirement::size).sum()
    }
}

impl<'a> Finder<'a> {
    fn find(&mut self, request: &search::Request<'_>) -> Option<()> {
        let requirements = Requirements::new(self, request)?;
        for source in Source::all(self.cluster.identity()) {
            self.find_listed(&source, &requirements)?;
            if source.is_open {
                self.find_unlisted(&source, &requirements)?;
            }
        }
        Some(())
    }

    fn into_callers(self) -> Vec<Callers> {
        let listed = self.listed.into_iter().map(|(condition, users)| Callers {
            users: Some(users),
            ..Callers::new(CallerSource::Basic, condition)
        });
        listed.chain(self.unlisted).collect()
    }

    /// Finds the users whom the policy lists, and the addresses from which they may make the
    /// request.
    fn find_listed(&mut self, source: &Source<'_>, requirements: &Requirements<'_>) -> Option<()> {
        let cluster = self.cluster;
        let steps_per_group = 1 + self.mappings.pattern_count + requirements.size();
        for (name, groups) in &source.listed {
            self.steps.take(steps_per_group.saturating_mul(1 + groups.len()))?;
            let name = format!("{}{name}", source.user_prefix);
            let subject = cluster
                .authenticator()
                .basic_user(&name)
                .cloned()
                .unwrap_or_else(|| unverified_subject(&name, Some(source.id), groups, &[]));
            let subject = cluster.subject(&subject);
            let mut conditions = BTreeSet::new();
            if subject.is_service {
                if self.permits_service(&subject)? {
                    conditions.insert(Condition::default());
                }
            } else {
                for requirement in requirements.for_user(&name) {
                    conditions.extend(self.addresses_for(requirement, &subject)?);
                }
            }
            // A user who may make the request from anywhere is not listed with addresses, too.
            if conditions.contains(&Condition::default()) {
                conditions = BTreeSet::from([Condition::default()]);
            }
            for condition in conditions {
                self.listed.entry(condition).or_default().push(name.clone());
            }
        }
        Some(())
    }

    fn permits_service(&mut self, subject: &search::Subject) -> Option<bool> {
        let privileges = self.cluster.privileges();
        let names = privileges.inventory().map_or(0, search::Inventory::len) as usize;
        self.steps.take(self.needs.len().saturating_mul(1 + names / 64))?;
        let answer = privileges.decide(&privileges.uncached_caller(subject), self.needs);
        Some(answer.verdict == search::Verdict::Permitted)
    }

    /// The condition on the addresses of a user who meets a requirement; empty if the user cannot.
    fn addresses_for(
        &mut self,
        requirement: &Requirement,
        subject: &search::Subject,
    ) -> Option<Option<Condition>> {
        let privileges = self.cluster.privileges();
        let roles = privileges.config().roles_of(subject);
        let variables = subject.variables(&roles, privileges.evaluation());
        let mut needs = Vec::new();
        for alternatives in &requirement.all {
            let counting: Vec<&HeldRole> =
                alternatives.iter().filter(|role| role.counts_for(&variables)).collect();
            if counting.iter().any(|role| roles.contains(&role.role)) {
                continue;
            }
            let addresses: BTreeSet<Attribute> =
                counting.iter().flat_map(|role| self.addresses(role)).collect();
            if addresses.is_empty() {
                return Some(None);
            }
            self.add_need(&mut needs, addresses)?;
        }
        let mut unless = BTreeSet::new();
        for role in requirement.none.iter().filter(|role| role.counts_for(&variables)) {
            if roles.contains(&role.role) {
                return Some(None);
            }
            unless.extend(self.addresses(role));
        }
        self.condition(&needs, unless).map(Some)
    }

    /// The addresses of clients that have a role.
    fn addresses(&self, role: &HeldRole) -> impl Iterator<Item = Attribute> {
        let patterns = self.mappings.for_role(&role.role).iter().flat_map(|mapping| &mapping.hosts);
        patterns.map(|pattern| Attribute::Address(pattern.text().to_owned()))
    }

    fn add_need(
        &mut self,
        needs: &mut Vec<BTreeSet<Attribute>>,
        attributes: BTreeSet<Attribute>,
    ) -> Option<()> {
        self.steps.take(1 + needs.len())?;
        if !needs.contains(&attributes) {
            needs.push(attributes);
        }
        Some(())
    }

    fn condition(
        &mut self,
        needs: &[BTreeSet<Attribute>],
        unless: BTreeSet<Attribute>,
    ) -> Option<Condition> {
        let size = needs.len() + needs.iter().map(BTreeSet::len).sum::<usize>();
        self.steps.take(needs.len().saturating_mul(size))?;
        Some(Condition::new(needs, unless))
    }

    /// Finds the callers of a source whom the policy does not list.
    fn find_unlisted(
        &mut self,
        source: &Source<'_>,
        requirements: &Requirements<'_>,
    ) -> Option<()> {
        let mut callers: Vec<Callers> = Vec::new();
        let any_user = UnlistedCaller { source, user: None };
        for requirement in &requirements.usual {
            callers.extend(self.callers_meeting(requirement, any_user)?);
        }
        if let Some((user, alternatives)) = &requirements.dashboards
            && let Some(name) = user.strip_prefix(source.user_prefix)
            && source.may_have_unlisted(name)
            && !source.listed.contains_key(name)
        {
            let dashboards = UnlistedCaller { source, user: Some(user) };
            for requirement in alternatives {
                let special = self.callers_meeting(requirement, dashboards)?;
                self.steps.take(callers.len())?;
                // A condition for every user is not repeated for this user.
                let special = special.filter(|special| {
                    callers.iter().all(|callers| callers.condition != special.condition)
                });
                callers.extend(special);
            }
        }
        let listed = source.listed.keys().map(|name| format!("{}{name}", source.user_prefix));
        let listed: Vec<String> = listed.collect();
        for callers in callers.iter_mut().filter(|callers| callers.users.is_none()) {
            callers.except_users.clone_from(&listed);
        }
        self.unlisted.extend(callers);
        Some(())
    }

    /// The callers of a source who meet a requirement; empty if nobody can.
    fn callers_meeting(
        &mut self,
        requirement: &Requirement,
        caller: UnlistedCaller<'_>,
    ) -> Option<Option<Callers>> {
        let mut unless = BTreeSet::new();
        for role in &requirement.none {
            unless.extend(self.attributes(role, caller)?);
        }
        if unless.contains(&Attribute::Anyone) {
            return Some(None);
        }
        let mut needs = Vec::new();
        for alternatives in &requirement.all {
            let mut attributes = BTreeSet::new();
            for role in alternatives {
                attributes.extend(self.attributes(role, caller)?);
            }
            if attributes.contains(&Attribute::Anyone) {
                continue;
            }
            attributes.retain(|attribute| !unless.contains(attribute));
            if attributes.is_empty() {
                return Some(None);
            }
            self.add_need(&mut needs, attributes)?;
        }
        let condition = self.condition(&needs, unless)?;
        let users = caller.user.map(|user| vec![user.to_owned()]);
        Some(Some(Callers { users, ..Callers::new(caller.source.kind.clone(), condition) }))
    }

    /// The attributes each of which gives a caller a role that counts.
    fn attributes(
        &mut self,
        role: &HeldRole,
        caller: UnlistedCaller<'_>,
    ) -> Option<Vec<Attribute>> {
        self.steps.take(self.mappings.size(&role.role).saturating_mul(role.size()))?;
        let mappings = self.mappings.for_role(&role.role);
        let attributes = mappings.iter().flat_map(|mapping| caller.attributes(mapping));
        let Some(matching) = &role.matching else { return Some(attributes.collect()) };
        match (matching.user(), caller.user) {
            (Some(user), Some(only)) if user == only => return Some(attributes.collect()),
            (Some(_), Some(_)) => return Some(Vec::new()),
            (Some(user), None) if !user.starts_with(caller.source.user_prefix) => {
                return Some(Vec::new());
            }
            (Some(_) | None, _) => {}
        }
        let attributes = attributes.map(|attribute| Attribute::Where {
            attribute: Box::new(attribute),
            pattern: matching.template.text().to_owned(),
            names: matching.names().map(str::to_owned).collect(),
            user: matching.user().map(str::to_owned),
        });
        Some(attributes.collect())
    }
}

/// The callers of a source whom the policy does not list.
#[derive(Clone, Copy)]
struct UnlistedCaller<'s> {
    source: &'s Source<'s>,
    /// The only user who counts, if not all do.
    user: Option<&'s str>,
}

impl UnlistedCaller<'_> {
    /// The attributes each of which gives a caller the role of a mapping.
    fn attributes(&self, mapping: &RoleMapping) -> Vec<Attribute> {
        let mut attributes = Vec::new();
        for pattern in &mapping.users {
            let matches_all = match self.user {
                Some(user) => pattern.matches(user),
                None => pattern.is_anything(),
            };
            if matches_all {
                attributes.push(Attribute::Anyone);
            } else if self.user.is_none() && may_overlap(pattern, self.source.user_prefix) {
                attributes.push(Attribute::Name(pattern.text().to_owned()));
            }
        }
        let possible = mapping.backend_roles.iter().filter(|pattern| self.may_have(pattern));
        attributes
            .extend(possible.map(|pattern| Attribute::BackendRole(pattern.text().to_owned())));
        let joint = &mapping.and_backend_roles;
        if !joint.is_empty() && joint.iter().all(|pattern| self.may_have(pattern)) {
            let texts = joint.iter().map(|pattern| pattern.text().to_owned());
            attributes.push(Attribute::BackendRoles(texts.collect()));
        }
        let addresses = mapping.hosts.iter().map(|host| Attribute::Address(host.text().to_owned()));
        attributes.extend(addresses);
        attributes
    }

    /// Whether a caller can have a backend role that matches.
    fn may_have(&self, pattern: &Pattern) -> bool {
        let issuer = self.source.issuer.filter(|issuer| issuer.role_claim().is_some());
        let is_role = issuer.is_some_and(|issuer| match &issuer.roles_from_token {
            RolesFromToken::All => true,
            RolesFromToken::Only(listed) => listed.iter().any(|role| pattern.matches(&role.name)),
        });
        is_role || self.source.group_prefix().is_some_and(|prefix| may_overlap(pattern, prefix))
    }
}

/// Whether a pattern may match a name with this prefix.
fn may_overlap(pattern: &Pattern, prefix: &str) -> bool {
    pattern.may_overlap(&format!("{prefix}*"))
}
