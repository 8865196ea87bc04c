//! Who may make a request to the search cluster: users by name, and the attributes that a token
//! must have for the roles that permit it.

use std::collections::{BTreeMap, BTreeSet};

use authorizer::{Cluster, Reason, Request};
use identity::UnixTime;
use policy::model::{DocumentSecurity, RolesFromToken, SourceId};
use review::{CallerSource, Source};
use search::config::RoleMapping;
use search::explain::{self, HeldRole, Requirement};
use search::{Need, Pattern, Steps};

use super::{Attribute, Callers, Condition, WhoCan};
use crate::explanation::{ExplainedCluster, steps_to_decide};
use crate::mappings::Mappings;
use crate::subjects::unverified_subject;
use crate::{Explainer, lossy, notes, utc};

/// The note of an answer that leaves callers out.
const LEFT_OUT: &str = "the list of callers is incomplete: the cluster has too many roles, \
                        indices, mappings or users to find all of them";

/// The note if a request may be reduced.
const REDUCED: &str = "callers to whom only a part of the request is permitted are not listed: the \
                       request may be reduced to the permitted indices, or to none";

/// The note if Envoy may forward only the permitted items of a bulk request.
const SEPARATED: &str = "callers to whom only some of its items are permitted are not listed: \
                         inside Envoy their requests are forwarded with these items \
                         (`bulk: per-item`)";

/// The note if a request may be permitted although a role hides documents or fields.
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
            method: lossy(request.method),
            host: Some(lossy(request.host)),
            paths: vec![lossy(request.path)],
            notes: notes::hint_at_method(request).into_iter().collect(),
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
            time: self.time,
            mappings,
            steps,
            in_policy: BTreeMap::new(),
            not_in_policy: Vec::new(),
        };
        answer.left_out = finder.find(&request).is_none();
        answer.callers = finder.into_callers();
        let may_permit_with_hidden = self.policy().search.as_ref().is_some_and(|section| {
            section.dfm_empty_overrides_all || section.document_security != DocumentSecurity::Deny
        });
        let notes = [
            (answer.left_out, LEFT_OUT),
            (explain::may_be_reduced(cluster.privileges(), &needs), REDUCED),
            (cluster.separates_items(&request, &needs), SEPARATED),
            (may_permit_with_hidden, HIDDEN),
        ];
        let notes = notes.into_iter().filter(|(applies, _)| *applies);
        answer.notes.extend(notes.map(|(_, note)| note.to_owned()));
        answer
    }
}

/// Finds the callers who may make a request. Its methods return `None` if finding them takes too
/// many steps. The answer then has the callers that were found before.
struct Finder<'a> {
    cluster: &'a Cluster,
    needs: &'a [Need<'a>],
    /// The time of the request, if somebody named it.
    time: Option<UnixTime>,
    mappings: Mappings<'a>,
    steps: Steps,
    /// Users that the policy lists, by their source, the condition that they must meet, and when
    /// the last of their keys expires.
    in_policy: BTreeMap<(CallerSource, Condition, Option<UnixTime>), Vec<String>>,
    /// Users with Basic credentials that the policy does not list, and callers with tokens.
    not_in_policy: Vec<Callers>,
}

/// The roles that a request requires. Each list has alternatives: a caller must meet one of them.
/// [`Self::for_user`] says which list is for which caller.
struct Requirements<'a> {
    usual: Vec<Requirement>,
    /// The user name of the server of Dashboards, and the list for this user. `None` if the usual
    /// list is for everyone.
    dashboards: Option<(&'a str, Vec<Requirement>)>,
}

impl<'a> Requirements<'a> {
    fn new(finder: &mut Finder<'a>, request: &search::Request<'_>) -> Option<Self> {
        let usual = finder.requirements_of(request, false)?;
        let server = explain::dashboards_server(finder.cluster.privileges(), finder.needs);
        let dashboards = match server {
            Some(user) => Some((user, finder.requirements_of(request, true)?)),
            None => None,
        };
        Some(Self { dashboards: dashboards.filter(|(_, special)| *special != usual), usual })
    }

    fn for_user(&self, name: &str) -> &[Requirement] {
        match &self.dashboards {
            Some((user, special)) if *user == name => special,
            Some(_) | None => &self.usual,
        }
    }

    /// The maximum number of steps to find out whether a caller meets any of the requirements.
    fn size(&self) -> usize {
        let special = self.dashboards.iter().flat_map(|(_, special)| special);
        self.usual.iter().chain(special).map(Requirement::size).sum()
    }
}

impl<'a> Finder<'a> {
    fn find(&mut self, request: &search::Request<'_>) -> Option<()> {
        let requirements = Requirements::new(self, request)?;
        for source in Source::all(self.cluster.identity()) {
            let source = source.at(self.time);
            self.find_users_in_policy(&source, &requirements)?;
            // An open source also accepts users whom the policy does not list.
            if source.is_open {
                self.find_callers_not_in_policy(&source, &requirements)?;
            }
        }
        Some(())
    }

    /// The requirements for the server of Dashboards, or for other callers.
    fn requirements_of(
        &mut self,
        request: &search::Request<'_>,
        is_dashboards: bool,
    ) -> Option<Vec<Requirement>> {
        let mapped = self.mappings.roles();
        let requirement = explain::requirement_for(
            self.cluster.privileges(),
            request,
            (self.needs, is_dashboards),
            |role| mapped.contains(role),
            &mut self.steps,
        );
        Some(requirement?.alternatives())
    }

    fn into_callers(self) -> Vec<Callers> {
        let listed =
            self.in_policy.into_iter().map(|((source, condition, expiry), users)| Callers {
                users: Some(users),
                until: expiry.map(utc),
                ..Callers::new(source, condition)
            });
        listed.chain(self.not_in_policy).collect()
    }

    /// Finds the users whom the policy lists, and the addresses from which they may make the
    /// request.
    fn find_users_in_policy(
        &mut self,
        source: &Source<'_>,
        requirements: &Requirements<'_>,
    ) -> Option<()> {
        let cluster = self.cluster;
        let steps_per_group = 1 + self.mappings.pattern_count + requirements.size();
        for (name, groups) in &source.listed {
            self.steps.take(steps_per_group.saturating_mul(1 + groups.len()))?;
            let name = format!("{}{name}", source.user_prefix);
            let subject = cluster
                .authenticator()
                .basic_user(&name)
                .filter(|_| source.id == SourceId::BASIC)
                .cloned()
                .unwrap_or_else(|| unverified_subject(&name, Some(source.id), groups, &[]));
            let subject = cluster.subject(&subject);
            let mut conditions = BTreeSet::new();
            // A service account may use system indices only. The requirements do not say so, so
            // the request of a service account is decided instead.
            if subject.is_service {
                if self.permits_service(&subject)? {
                    conditions.insert(Condition::always());
                }
            } else {
                for requirement in requirements.for_user(&name) {
                    conditions.extend(self.addresses_for(requirement, &subject)?);
                }
            }
            // The addresses do not matter for a user who may make the request from anywhere.
            if conditions.contains(&Condition::always()) {
                conditions = BTreeSet::from([Condition::always()]);
            }
            for condition in conditions {
                let key = (source.kind.clone(), condition, source.expiry(&name));
                self.in_policy.entry(key).or_default().push(name.clone());
            }
        }
        Some(())
    }

    fn permits_service(&mut self, subject: &search::Subject) -> Option<bool> {
        let privileges = self.cluster.privileges();
        self.steps.take(steps_to_decide(privileges, self.needs))?;
        let answer = privileges.decide(&privileges.uncached_caller(subject), self.needs);
        Some(answer.verdict == search::Verdict::Permitted)
    }

    /// The condition for the client's address under which a user meets a requirement: a single
    /// condition, or none if the user cannot meet it from any address.
    fn addresses_for(
        &mut self,
        requirement: &Requirement,
        subject: &search::Subject,
    ) -> Option<Vec<Condition>> {
        let privileges = self.cluster.privileges();
        let roles = privileges.config().roles_of(subject);
        let variables = subject.variables(&roles, privileges.evaluation());
        let mut required_attributes = Vec::new();
        for any_of in &requirement.required {
            let applicable: Vec<&HeldRole> =
                any_of.iter().filter(|role| role.applies_to(&variables)).collect();
            if applicable.iter().any(|role| roles.contains(&role.role)) {
                continue;
            }
            let addresses: BTreeSet<Attribute> =
                applicable.iter().flat_map(|role| self.addresses(role)).collect();
            if addresses.is_empty() {
                return Some(Vec::new());
            }
            self.require_any(&mut required_attributes, addresses)?;
        }
        let mut unless = BTreeSet::new();
        for role in requirement.forbidden.iter().filter(|role| role.applies_to(&variables)) {
            if roles.contains(&role.role) {
                return Some(Vec::new());
            }
            unless.extend(self.addresses(role));
        }
        Some(vec![self.condition(&required_attributes, unless)?])
    }

    /// The addresses of clients that have a role.
    fn addresses(&self, role: &HeldRole) -> impl Iterator<Item = Attribute> {
        let patterns = self.mappings.for_role(&role.role).iter().flat_map(|mapping| &mapping.hosts);
        patterns.map(|pattern| Attribute::Address(pattern.text().to_owned()))
    }

    /// Adds a set of attributes, of which a caller must have at least one.
    fn require_any(
        &mut self,
        required_attributes: &mut Vec<BTreeSet<Attribute>>,
        attributes: BTreeSet<Attribute>,
    ) -> Option<()> {
        self.steps.take(1 + required_attributes.len())?;
        if !required_attributes.contains(&attributes) {
            required_attributes.push(attributes);
        }
        Some(())
    }

    /// The condition for callers with an attribute of each required set, and with none of `unless`.
    fn condition(
        &mut self,
        required_attributes: &[BTreeSet<Attribute>],
        unless: BTreeSet<Attribute>,
    ) -> Option<Condition> {
        let size = required_attributes.len()
            + required_attributes.iter().map(BTreeSet::len).sum::<usize>();
        self.steps.take(required_attributes.len().saturating_mul(size))?;
        Some(Condition::new(required_attributes, unless))
    }

    /// Finds the callers of a source whom the policy does not list.
    fn find_callers_not_in_policy(
        &mut self,
        source: &Source<'_>,
        requirements: &Requirements<'_>,
    ) -> Option<()> {
        let mut callers: Vec<Callers> = Vec::new();
        let any_user = UnlistedCallers { source, only_user: None };
        for requirement in &requirements.usual {
            callers.extend(self.callers_meeting(requirement, any_user)?);
        }
        if let Some((user, alternatives)) = &requirements.dashboards
            && let Some(name) = user.strip_prefix(source.user_prefix)
            && source.may_have_unlisted(name)
            && !source.listed.contains_key(name)
        {
            let dashboards = UnlistedCallers { source, only_user: Some(user) };
            for requirement in alternatives {
                let mut special = self.callers_meeting(requirement, dashboards)?;
                self.steps.take(callers.len())?;
                // A condition for every user is not repeated for this user.
                special.retain(|special| {
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
        self.not_in_policy.extend(callers);
        Some(())
    }

    /// The callers of a source who meet a requirement; empty if nobody can.
    fn callers_meeting(
        &mut self,
        requirement: &Requirement,
        callers: UnlistedCallers<'_>,
    ) -> Option<Vec<Callers>> {
        let mut unless = BTreeSet::new();
        for role in &requirement.forbidden {
            unless.extend(self.attributes(role, callers)?);
        }
        if unless.contains(&Attribute::Anyone) {
            return Some(Vec::new());
        }
        let mut required_attributes = Vec::new();
        for any_of in &requirement.required {
            let mut attributes = BTreeSet::new();
            for role in any_of {
                attributes.extend(self.attributes(role, callers)?);
            }
            if attributes.contains(&Attribute::Anyone) {
                continue;
            }
            attributes.retain(|attribute| !unless.contains(attribute));
            if attributes.is_empty() {
                return Some(Vec::new());
            }
            self.require_any(&mut required_attributes, attributes)?;
        }
        let condition = self.condition(&required_attributes, unless)?;
        let users = callers.only_user.map(|user| vec![user.to_owned()]);
        Some(vec![Callers { users, ..Callers::new(callers.source.kind.clone(), condition) }])
    }

    /// The attributes with which a caller has this role, and the role applies to the caller. Each
    /// of them is enough.
    fn attributes(
        &mut self,
        role: &HeldRole,
        callers: UnlistedCallers<'_>,
    ) -> Option<Vec<Attribute>> {
        self.steps.take(self.mappings.size(&role.role).saturating_mul(role.size()))?;
        let mappings = self.mappings.for_role(&role.role);
        let attributes = mappings.iter().flat_map(|mapping| callers.attributes(mapping));
        // A role whose pattern has variables, such as `${user.name}`, applies only to callers for
        // whom the pattern matches. It may be known that it matches for a single user name only:
        // `template_match.user()`.
        let Some(template_match) = &role.template_match else { return Some(attributes.collect()) };
        match (template_match.user(), callers.only_user) {
            (Some(user), Some(only)) if user == only => return Some(attributes.collect()),
            (Some(_), Some(_)) => return Some(Vec::new()),
            (Some(user), None) if !user.starts_with(callers.source.user_prefix) => {
                return Some(Vec::new());
            }
            (Some(_) | None, _) => {}
        }
        let attributes = attributes.map(|attribute| Attribute::Where {
            attribute: Box::new(attribute),
            pattern: template_match.template.text().to_owned(),
            names: template_match.names().map(str::to_owned).collect(),
            user: template_match.user().map(str::to_owned),
        });
        Some(attributes.collect())
    }
}

/// The callers of a source whom the policy does not list.
#[derive(Clone, Copy)]
struct UnlistedCallers<'s> {
    source: &'s Source<'s>,
    /// The name of the callers, if only those with a single name are meant.
    only_user: Option<&'s str>,
}

impl UnlistedCallers<'_> {
    /// The attributes with which a caller has the role of a mapping. Each of them is enough.
    fn attributes(&self, mapping: &RoleMapping) -> Vec<Attribute> {
        let mut attributes = Vec::new();
        for pattern in &mapping.users {
            let matches_all = match self.only_user {
                Some(user) => pattern.matches(user),
                None => pattern.is_anything(),
            };
            if matches_all {
                attributes.push(Attribute::Anyone);
            } else if self.only_user.is_none() && may_overlap(pattern, self.source.user_prefix) {
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

    /// Whether a caller of the source can have a backend role that the pattern matches.
    fn may_have(&self, pattern: &Pattern) -> bool {
        let issuer = self.source.issuer.filter(|issuer| issuer.accepted_role_claim().is_some());
        let from_token = issuer.is_some_and(|issuer| match &issuer.roles_from_token {
            RolesFromToken::All => true,
            RolesFromToken::Only(listed) => listed.iter().any(|role| pattern.matches(&role.name)),
        });
        from_token || self.source.group_prefix().is_some_and(|prefix| may_overlap(pattern, prefix))
    }
}

/// Whether a pattern may match a name with this prefix.
fn may_overlap(pattern: &Pattern, prefix: &str) -> bool {
    pattern.may_overlap(&format!("{prefix}*"))
}
