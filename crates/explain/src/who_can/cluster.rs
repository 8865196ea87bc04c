//! Who may make a request to the search cluster: users by name, and what a token must have for the
//! roles that permit it.

use std::collections::BTreeSet;
use std::sync::Arc;

use authorizer::{Cluster, Reason, Request};
use identity::{Subject, UnixTime};
use policy::model::{Basic, DocumentSecurity, Issuer, RolesFromToken};
use search::config::RoleMapping;
use search::explain::{self, HeldRole, Requirement};
use search::{Need, Pattern, Privileges, Steps};
use serde_json::Value;

use super::{Attribute, CallerSource, Callers, WhoCan};
use crate::explanation::ExplainedCluster;
use crate::mappings::Mappings;
use crate::{Explainer, notes};

/// What is said where callers are left out.
const LEFT_OUT: &str = "not all who may are listed: the cluster has so many roles, indices, mappings or users that finding \
                        them takes too many steps";

/// What is said where a request may be reduced.
const REDUCED: &str = "callers to whom it is permitted in part only are not listed: their requests may be reduced to those of \
                       its indices on which it is permitted, or to none";

/// What is said where the items of a request may be separated.
const SEPARATED: &str = "callers to whom only some of its items are permitted are not listed: inside Envoy their requests are \
                         forwarded with these items (`bulk: per-item`)";

/// What is said where a role that hides documents or fields does not always stand in the way.
const HIDDEN: &str = "callers from whom a role hides documents or fields of an index are not listed, even if their requests \
                      are permitted";

impl Explainer<'_> {
    pub(super) fn who_can_on_cluster(
        self,
        cluster: &Cluster,
        request: &Request<'_>,
        now: UnixTime,
        mut steps: Steps,
    ) -> WhoCan {
        let nobody = WhoCan {
            paths: vec![String::from_utf8_lossy(request.path).into_owned()],
            notes: notes::meant_method(request).into_iter().collect(),
            cluster: Some(Box::new(ExplainedCluster::new(cluster, request, None, now))),
            ..WhoCan::default()
        };
        if !authorizer::is_method(request.method) {
            return nobody.because_of(Reason::InvalidMethod);
        }
        let mut needs = Vec::new();
        let read = cluster
            .search_request(request, now)
            .and_then(|asked| cluster.read(&asked, &mut needs).map(|_| asked));
        let asked = match read {
            Ok(asked) => asked,
            Err(problem) => return nobody.because_of(Reason::Cluster(problem)),
        };
        let mut callers = Vec::new();
        let is_whole =
            self.callers_on_cluster(cluster, (&asked, &needs), &mut callers, &mut steps).is_some();
        let mut who = WhoCan { callers, left_out: !is_whole, ..nobody };
        if !is_whole {
            who.notes.push(LEFT_OUT.to_owned());
        }
        if explain::may_be_reduced(cluster.privileges(), &needs) {
            who.notes.push(REDUCED.to_owned());
        }
        if cluster.separates_items(&asked, &needs) {
            who.notes.push(SEPARATED.to_owned());
        }
        let section = self.policy().search.as_ref();
        if section.is_some_and(|section| {
            section.dfm_empty_overrides_all || section.document_security != DocumentSecurity::Deny
        }) {
            who.notes.push(HIDDEN.to_owned());
        }
        who
    }

    /// Finds callers. `None` if finding all takes too many steps.
    fn callers_on_cluster(
        self,
        cluster: &Cluster,
        (request, needs): (&search::Request<'_>, &[Need<'_>]),
        callers: &mut Vec<Callers>,
        steps: &mut Steps,
    ) -> Option<()> {
        let config = cluster.config();
        let mapped = Mappings::new(config);
        let can_be_held =
            |role: &str| mapped.by_role.contains_key(role) || mapped.direct.contains_key(role);
        let requirements =
            Requirements::new(cluster.privileges(), (request, needs), can_be_held, steps)?;
        let identity = cluster.identity();
        if let Some(basic) = &identity.basic {
            self.users_on_cluster(
                cluster,
                (basic, needs),
                (&mapped, &requirements),
                callers,
                steps,
            )?;
            if !basic.verify {
                let unlisted = Source::from_unlisted_basic(basic);
                let listed =
                    basic.users.iter().map(|user| format!("{}{}", basic.user_prefix, user.name));
                let listed: Vec<String> = listed.collect();
                let any = unlisted
                    .all_callers(&mapped, &requirements, &CallerSource::Basic, steps)?
                    .into_iter();
                // What is required of a listed user is known.
                let any =
                    any.filter(|any| !any.users.iter().flatten().any(|user| listed.contains(user)));
                callers.extend(any.map(|any| {
                    let except_users =
                        if any.users.is_none() { listed.clone() } else { Vec::new() };
                    Callers { except_users, ..any }
                }));
            }
        }
        for issuer in &identity.jwt {
            let source = CallerSource::Token { issuer: issuer.issuer.to_string() };
            callers.extend(Source::from_issuer(issuer).all_callers(
                &mapped,
                &requirements,
                &source,
                steps,
            )?);
        }
        Some(())
    }

    /// Adds the users by their names, together where the same addresses are needed. `None` if that
    /// takes too many steps: then the first ones are added.
    fn users_on_cluster(
        self,
        cluster: &Cluster,
        (basic, needs): (&Basic, &[Need<'_>]),
        (mapped, requirements): (&Mappings<'_>, &Requirements<'_>),
        found: &mut Vec<Callers>,
        steps: &mut Steps,
    ) -> Option<()> {
        let privileges = cluster.privileges();
        let for_each = 1 + mapped.patterns + requirements.size();
        for user in &basic.users {
            steps.take(for_each.saturating_mul(1 + user.groups.len()) + found.len())?;
            let name = format!("{}{}", basic.user_prefix, user.name);
            let groups =
                user.groups.iter().map(|group| format!("{}{group}", basic.group_prefix).into());
            let known = cluster.authenticator().basic_user(&name).cloned();
            let subject = known.unwrap_or_else(|| unlisted(&name, groups.collect()));
            let subject = cluster.subject(&subject);
            let conditions = if subject.is_service {
                let caller = privileges.uncached_caller(&subject);
                let names = privileges.inventory().map_or(0, search::Inventory::len) as usize;
                steps.take(needs.len().saturating_mul(1 + names / 64))?;
                let permits =
                    privileges.decide(&caller, needs).verdict == search::Verdict::Permitted;
                permits.then(|| (Vec::new(), Vec::new())).into_iter().collect()
            } else {
                let mut all: Vec<Conditions> = Vec::new();
                for requirement in requirements.for_user(&name) {
                    let more = addresses_for(privileges, mapped, requirement, &subject, steps)?;
                    all.extend(more.filter(|more| !all.contains(more)));
                }
                // Who may do it from anywhere is not listed with addresses, too.
                match all.iter().any(|(needs, unless)| needs.is_empty() && unless.is_empty()) {
                    true => vec![(Vec::new(), Vec::new())],
                    false => all,
                }
            };
            for (needs, unless) in conditions {
                match found
                    .iter_mut()
                    .find(|callers| callers.needs == needs && callers.unless == unless)
                {
                    Some(callers) => callers.users.get_or_insert_default().push(name.clone()),
                    None => found.push(Callers {
                        source: CallerSource::Basic,
                        users: Some(vec![name.clone()]),
                        except_users: Vec::new(),
                        needs,
                        unless,
                    }),
                }
            }
        }
        Some(())
    }
}

/// The roles that a request requires.
struct Requirements<'p> {
    usual: Vec<Requirement>,
    /// The user that Dashboards itself is, with those that it needs, if these are others.
    server: Option<(&'p str, Vec<Requirement>)>,
}

impl<'p> Requirements<'p> {
    /// `None` if finding them takes too many steps.
    fn new(
        privileges: &'p Privileges,
        (request, needs): (&search::Request<'_>, &[Need<'_>]),
        can_be_held: impl Fn(&str) -> bool,
        steps: &mut Steps,
    ) -> Option<Self> {
        let usual =
            explain::requirement_for(privileges, request, (needs, false), &can_be_held, steps)?;
        let server = match explain::dashboards_server(privileges, needs) {
            Some(name) => {
                let own = explain::requirement_for(
                    privileges,
                    request,
                    (needs, true),
                    &can_be_held,
                    steps,
                )?;
                (own != usual).then(|| (name, own.alternatives()))
            }
            None => None,
        };
        Some(Self { usual: usual.alternatives(), server })
    }

    /// Those of a user.
    fn for_user(&self, name: &str) -> &[Requirement] {
        match &self.server {
            Some((server, own)) if *server == name => own,
            Some(_) | None => &self.usual,
        }
    }

    /// How many steps it takes at most to find out whether a caller meets one.
    fn size(&self) -> usize {
        let own = self.server.iter().flat_map(|(_, own)| own);
        self.usual.iter().chain(own).map(Requirement::size).sum()
    }
}

fn unlisted(name: &str, groups: Vec<Arc<str>>) -> Subject {
    Subject {
        user: name.into(),
        issuer: None,
        source: None,
        groups,
        roles: Vec::new(),
        claims: Value::Null,
    }
}

/// Conditions: one of each of the first, none of the second.
type Conditions = (Vec<Vec<Attribute>>, Vec<Attribute>);

/// From which addresses a user may make a request; nothing if from none. `None` if finding out
/// takes too many steps.
fn addresses_for(
    privileges: &Privileges,
    mapped: &Mappings<'_>,
    requirement: &Requirement,
    subject: &search::Subject,
    steps: &mut Steps,
) -> Option<Option<Conditions>> {
    let roles = privileges.config().roles_of(subject);
    let variables = subject.variables(&roles, privileges.evaluation());
    let counts = |held: &&HeldRole| held.counts_for(&variables);
    let addresses = |held: &HeldRole| -> Vec<Attribute> {
        let hosts = mapped.for_role(&held.role).iter().flat_map(|mapping| &mapping.hosts);
        hosts.map(|pattern| Attribute::Address(pattern.text().to_owned())).collect()
    };
    let mut needs = Vec::new();
    for any in &requirement.all {
        let mut counting = any.iter().filter(counts);
        if counting.clone().any(|held| roles.contains(&held.role)) {
            continue;
        }
        let from: Vec<Attribute> = counting.by_ref().flat_map(addresses).collect();
        if from.is_empty() {
            return Some(None);
        }
        push_new(&mut needs, from, steps)?;
    }
    let mut unless = Vec::new();
    for held in requirement.none.iter().filter(counts) {
        if roles.contains(&held.role) {
            return Some(None);
        }
        for address in addresses(held) {
            push_new(&mut unless, address, steps)?;
        }
    }
    Some(Some((needs, unless)))
}

/// Adds what a list does not have. `None` if looking for it takes too many steps.
fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T, steps: &mut Steps) -> Option<()> {
    steps.take(1 + list.len())?;
    if !list.contains(&item) {
        list.push(item);
    }
    Some(())
}

/// The first of each that are the same.
fn distinct<T: Ord + Clone>(mut list: Vec<T>) -> Vec<T> {
    let mut seen = BTreeSet::new();
    list.retain(|item| seen.insert(item.clone()));
    list
}

/// Without the conditions that are wider than another one: who meets the narrower meets the wider.
/// `None` if finding them takes too many steps.
fn narrowest(needs: Vec<Vec<Attribute>>, steps: &mut Steps) -> Option<Vec<Vec<Attribute>>> {
    for wide in &needs {
        // Each attribute of a shorter list is looked for.
        let shorter = needs.iter().map(Vec::len).filter(|length| *length < wide.len());
        steps.take(needs.len() + shorter.sum::<usize>().saturating_mul(wide.len()))?;
    }
    let is_wider = |wide: &[Attribute], narrow: &[Attribute]| {
        narrow.len() < wide.len() && narrow.iter().all(|attribute| wide.contains(attribute))
    };
    let mut narrowest = needs.clone();
    narrowest.retain(|wide| !needs.iter().any(|narrow| is_wider(wide, narrow)));
    Some(narrowest)
}

/// What is known of the callers of a source before they come.
#[derive(Clone, Copy)]
struct Source<'s> {
    user_prefix: &'s str,
    /// The name of the only user in question.
    user: Option<&'s str>,
    /// Whether a name of its own may have a colon: one of Basic may not (RFC 7617, 2).
    allows_colons: bool,
    /// That of groups; `None` if they have none.
    group_prefix: Option<&'s str>,
    /// Whose tokens name roles.
    issuer: Option<&'s Issuer>,
}

impl<'s> Source<'s> {
    fn from_issuer(issuer: &'s Issuer) -> Self {
        Self {
            user_prefix: &issuer.user_prefix,
            user: None,
            allows_colons: true,
            group_prefix: issuer.claims.groups.is_some().then_some(&*issuer.group_prefix),
            issuer: issuer.role_claim().is_some().then_some(issuer),
        }
    }

    /// Users of Basic whose passwords are not verified, and whom the policy may not list.
    fn from_unlisted_basic(basic: &'s Basic) -> Self {
        let user_prefix = &basic.user_prefix;
        Self { user_prefix, user: None, allows_colons: false, group_prefix: None, issuer: None }
    }

    /// The same, of which only this user is in question; `None` if it can have no such user.
    fn only(self, user: &'s str) -> Option<Self> {
        let own = user
            .strip_prefix(self.user_prefix)
            .filter(|own| self.allows_colons || !own.contains(':'))?;
        (!own.is_empty() && !own.contains(char::is_control))
            .then_some(Self { user: Some(user), ..self })
    }

    /// Those callers of this source who meet what is required of them. `None` if finding out takes
    /// too many steps.
    fn all_callers(
        &self,
        mapped: &Mappings<'_>,
        requirements: &Requirements<'_>,
        source: &CallerSource,
        steps: &mut Steps,
    ) -> Option<Vec<Callers>> {
        let mut all = Vec::new();
        for requirement in &requirements.usual {
            all.extend(self.callers(mapped, requirement, source, steps)?);
        }
        let server = requirements.server.as_ref();
        if let Some((only, own)) = server.and_then(|(server, own)| Some((self.only(server)?, own)))
        {
            for requirement in own {
                let more = only.callers(mapped, requirement, source, steps)?;
                steps.take(all.len())?;
                // What is said of every user is not said again of this one.
                let is_said = |more: &Callers| {
                    all.iter().any(|said: &Callers| {
                        said.needs == more.needs && said.unless == more.unless
                    })
                };
                all.extend(more.filter(|more| !is_said(more)));
            }
        }
        Some(all)
    }

    /// Those callers of this source who meet a requirement; nothing if nobody can. `None` if
    /// finding out takes too many steps.
    fn callers(
        &self,
        mapped: &Mappings<'_>,
        requirement: &Requirement,
        source: &CallerSource,
        steps: &mut Steps,
    ) -> Option<Option<Callers>> {
        let mut unless = Vec::new();
        for held in &requirement.none {
            unless.extend(self.attributes(mapped, held, steps)?);
        }
        let unless = distinct(unless);
        let refused: BTreeSet<&Attribute> = unless.iter().collect();
        if unless.contains(&Attribute::Anyone) {
            return Some(None);
        }
        let mut needs: Vec<Vec<Attribute>> = Vec::new();
        for any in &requirement.all {
            let mut attributes = Vec::new();
            for held in any {
                attributes.extend(self.attributes(mapped, held, steps)?);
            }
            if attributes.contains(&Attribute::Anyone) {
                continue;
            }
            attributes.retain(|attribute| !refused.contains(attribute));
            if attributes.is_empty() {
                return Some(None);
            }
            needs.push(distinct(attributes));
        }
        let needs = narrowest(distinct(needs), steps)?;
        let users = self.user.map(|user| vec![user.to_owned()]);
        Some(Some(Callers {
            source: source.clone(),
            users,
            except_users: Vec::new(),
            needs,
            unless,
        }))
    }

    /// What gives a caller a role that counts.
    fn attributes(
        &self,
        mapped: &Mappings<'_>,
        held: &HeldRole,
        steps: &mut Steps,
    ) -> Option<Vec<Attribute>> {
        let mappings = mapped.for_role(&held.role);
        steps.take(mapped.size(&held.role).saturating_mul(held.size()))?;
        let attributes = mappings.iter().flat_map(|mapping| self.attributes_of(mapping));
        let Some(matching) = &held.matching else { return Some(attributes.collect()) };
        match (matching.user(), self.user) {
            (Some(user), Some(only)) if user == only => return Some(attributes.collect()),
            (Some(_), Some(_)) => return Some(Vec::new()),
            (Some(user), None) if !user.starts_with(self.user_prefix) => return Some(Vec::new()),
            (Some(_) | None, _) => {}
        }
        let names: Vec<String> = matching.names().map(str::to_owned).collect();
        let attributes = attributes.map(|attribute| Attribute::Where {
            attribute: Box::new(attribute),
            pattern: matching.template.text().to_owned(),
            names: names.clone(),
            user: matching.user().map(str::to_owned),
        });
        Some(attributes.collect())
    }

    fn attributes_of(&self, mapping: &RoleMapping) -> Vec<Attribute> {
        let mut attributes = Vec::new();
        for pattern in &mapping.users {
            if self.user.map_or_else(|| pattern.is_anything(), |user| pattern.matches(user)) {
                attributes.push(Attribute::Anyone);
            } else if self.user.is_none() && pattern.may_overlap(&format!("{}*", self.user_prefix))
            {
                attributes.push(Attribute::Name(pattern.text().to_owned()));
            }
        }
        let possible = |pattern: &&Pattern| self.may_have(pattern);
        let backend_roles = mapping.backend_roles.iter().filter(possible);
        attributes
            .extend(backend_roles.map(|pattern| Attribute::BackendRole(pattern.text().to_owned())));
        if !mapping.and_backend_roles.is_empty()
            && mapping.and_backend_roles.iter().all(|one| self.may_have(one))
        {
            let texts = mapping.and_backend_roles.iter().map(|pattern| pattern.text().to_owned());
            attributes.push(Attribute::BackendRoles(texts.collect()));
        }
        attributes
            .extend(mapping.hosts.iter().map(|host| Attribute::Address(host.text().to_owned())));
        attributes
    }

    /// Whether a caller can have a backend role that matches.
    fn may_have(&self, pattern: &Pattern) -> bool {
        let is_group =
            self.group_prefix.is_some_and(|prefix| pattern.may_overlap(&format!("{prefix}*")));
        let is_role = self.issuer.is_some_and(|issuer| match &issuer.roles_from_token {
            RolesFromToken::All => true,
            RolesFromToken::Only(listed) => listed.iter().any(|role| pattern.matches(&role.name)),
        });
        is_role || is_group
    }
}
