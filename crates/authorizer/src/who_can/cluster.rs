//! Who may make a request to the search cluster: users by name, and what a token must have for the roles that permit it.

use std::collections::BTreeSet;
use std::sync::Arc;

use identity::{Subject, UnixTime};
use policy::model::{Basic, DocumentSecurity, Issuer, RolesFromToken};
use search::config::{RoleMapping, SecurityConfig};
use search::{HeldRole, Need, Pattern, Requirement};
use serde_json::Value;

use super::{Attribute, CallerSource, Callers, WhoCan};
use crate::Authorizer;
use crate::cluster::{Cluster, cluster_request};
use crate::notes;
use crate::reason::Reason;
use crate::request::{self, Request};

/// What is said where a request may be reduced.
const REDUCED: &str = "callers to whom it is permitted on some of its indices only are not listed: their requests may be \
                       reduced to these indices";

/// What is said where a role that hides documents or fields does not always stand in the way.
const HIDDEN: &str = "callers from whom a role hides documents or fields of an index are not listed, even if their requests \
                      are permitted";

impl Authorizer {
    pub(super) fn who_can_on_cluster(
        &self,
        cluster: &Cluster,
        request: &Request<'_>,
        now: UnixTime,
    ) -> WhoCan {
        let nobody = WhoCan {
            paths: vec![String::from_utf8_lossy(request.path).into_owned()],
            notes: notes::meant_method(request).into_iter().collect(),
            cluster: Some(Box::new(cluster.explain(request, None, now))),
            ..WhoCan::default()
        };
        if !request::is_token(request.method) {
            return nobody.because_of(Reason::InvalidMethod);
        }
        let mut needs = Vec::new();
        let read = cluster_request(&cluster.compiled, request, now)
            .and_then(|asked| search::read(&asked, &mut needs));
        if let Err(problem) = read {
            return nobody.because_of(Reason::Cluster(problem));
        }
        let mut who = WhoCan { callers: self.callers_on_cluster(cluster, &needs), ..nobody };
        if cluster.compiled.privileges.reduces(&needs) {
            who.notes.push(REDUCED.to_owned());
        }
        let section = self.loaded.policy.search.as_ref();
        if section.is_some_and(|section| {
            section.dfm_empty_overrides_all || section.document_security != DocumentSecurity::Deny
        }) {
            who.notes.push(HIDDEN.to_owned());
        }
        who
    }

    fn callers_on_cluster(&self, cluster: &Cluster, needs: &[Need<'_>]) -> Vec<Callers> {
        let config = &cluster.compiled.config;
        let mapped = config.mappings.iter().map(|mapping| &*mapping.role);
        let direct = config.users.iter().flat_map(|user| user.roles.iter().map(|role| &**role));
        let held: BTreeSet<&str> = mapped.chain(direct).collect();
        let requirement = cluster.compiled.privileges.requirement(needs, |role| held.contains(role));
        let identity = cluster.identity();
        let mut callers = Vec::new();
        if let Some(basic) = &identity.basic {
            callers.extend(self.users_on_cluster(cluster, basic, needs, &requirement));
            if !basic.verify {
                let unlisted = Source { user_prefix: &basic.user_prefix, group_prefix: None, issuer: None };
                let any = unlisted.callers(config, &requirement, CallerSource::Basic);
                let listed = basic.users.iter().map(|user| format!("{}{}", basic.user_prefix, user.name));
                let listed: Vec<String> = listed.collect();
                callers.extend(any.map(|any| Callers { except_users: listed, ..any }));
            }
        }
        for issuer in &identity.jwt {
            let source = CallerSource::Token { issuer: issuer.issuer.to_string() };
            callers.extend(Source::of(issuer).callers(config, &requirement, source));
        }
        callers
    }

    /// The users by their names, together where the same addresses are needed.
    fn users_on_cluster(
        &self,
        cluster: &Cluster,
        basic: &Basic,
        needs: &[Need<'_>],
        requirement: &Requirement,
    ) -> Vec<Callers> {
        let config = &cluster.compiled.config;
        let privileges = &cluster.compiled.privileges;
        let mut found: Vec<Callers> = Vec::new();
        for user in &basic.users {
            let name = format!("{}{}", basic.user_prefix, user.name);
            let groups = user.groups.iter().map(|group| format!("{}{group}", basic.group_prefix).into());
            let known = cluster.authenticator.basic_user(&name).cloned();
            let subject = known.unwrap_or_else(|| unlisted(&name, groups.collect()));
            let subject = self.cluster_caller(cluster, &subject).subject;
            let conditions = if subject.is_service {
                let permits = privileges.permits(&privileges.caller(&subject), needs)
                    || privileges.decide(&privileges.caller(&subject), needs).verdict
                        == search::Verdict::Permitted;
                permits.then(|| (Vec::new(), Vec::new()))
            } else {
                addresses_for(config, requirement, &subject)
            };
            let Some((needs, unless)) = conditions else { continue };
            match found.iter_mut().find(|callers| callers.needs == needs && callers.unless == unless) {
                Some(callers) => callers.users.get_or_insert_default().push(name),
                None => found.push(Callers {
                    source: CallerSource::Basic,
                    users: Some(vec![name]),
                    except_users: Vec::new(),
                    needs,
                    unless,
                }),
            }
        }
        found
    }
}

fn unlisted(name: &str, groups: Vec<Arc<str>>) -> Subject {
    Subject { user: name.into(), issuer: None, source: None, groups, roles: Vec::new(), claims: Value::Null }
}

/// Conditions: one of each of the first, none of the second.
type Conditions = (Vec<Vec<Attribute>>, Vec<Attribute>);

/// From which addresses a user may make a request; `None` if from none.
fn addresses_for(
    config: &SecurityConfig,
    requirement: &Requirement,
    subject: &search::Subject,
) -> Option<Conditions> {
    let roles: BTreeSet<Arc<str>> = config.role_sources(subject).into_keys().collect();
    let variables = subject.variables(&roles);
    let counts = |held: &&HeldRole| held.counts_for(&variables);
    let addresses = |held: &HeldRole| -> Vec<Attribute> {
        let of_role = config.mappings.iter().filter(|mapping| mapping.role == held.role);
        let hosts = of_role.flat_map(|mapping| &mapping.hosts);
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
            return None;
        }
        push_new(&mut needs, from);
    }
    let mut unless = Vec::new();
    for held in requirement.none.iter().filter(counts) {
        if roles.contains(&held.role) {
            return None;
        }
        addresses(held).into_iter().for_each(|address| push_new(&mut unless, address));
    }
    Some((needs, unless))
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// What is known of the callers of a source before they come.
struct Source<'s> {
    user_prefix: &'s str,
    /// That of groups; `None` if they have none.
    group_prefix: Option<&'s str>,
    /// Whose tokens name roles.
    issuer: Option<&'s Issuer>,
}

impl<'s> Source<'s> {
    fn of(issuer: &'s Issuer) -> Self {
        Self {
            user_prefix: &issuer.user_prefix,
            group_prefix: issuer.claims.groups.is_some().then_some(&*issuer.group_prefix),
            issuer: issuer.role_claim().is_some().then_some(issuer),
        }
    }

    /// Those callers of this source who meet a requirement; `None` if nobody can.
    fn callers(
        &self,
        config: &SecurityConfig,
        requirement: &Requirement,
        source: CallerSource,
    ) -> Option<Callers> {
        let mut unless = Vec::new();
        for held in &requirement.none {
            self.attributes(config, held).into_iter().for_each(|attribute| push_new(&mut unless, attribute));
        }
        if unless.contains(&Attribute::Anyone) {
            return None;
        }
        let mut needs: Vec<Vec<Attribute>> = Vec::new();
        for any in &requirement.all {
            let mut attributes = Vec::new();
            for attribute in any.iter().flat_map(|held| self.attributes(config, held)) {
                push_new(&mut attributes, attribute);
            }
            if attributes.contains(&Attribute::Anyone) {
                continue;
            }
            attributes.retain(|attribute| !unless.contains(attribute));
            if attributes.is_empty() {
                return None;
            }
            push_new(&mut needs, attributes);
        }
        // Who meets the narrower of two conditions meets the wider one.
        let is_wider = |wide: &[Attribute], narrow: &[Attribute]| {
            narrow.len() < wide.len() && narrow.iter().all(|attribute| wide.contains(attribute))
        };
        let all = needs.clone();
        needs.retain(|wide| !all.iter().any(|narrow| is_wider(wide, narrow)));
        Some(Callers { source, users: None, except_users: Vec::new(), needs, unless })
    }

    /// What gives a caller a role that counts.
    fn attributes(&self, config: &SecurityConfig, held: &HeldRole) -> Vec<Attribute> {
        let mappings = config.mappings.iter().filter(|mapping| mapping.role == held.role);
        let attributes = mappings.flat_map(|mapping| self.attributes_of(mapping));
        let Some(matching) = &held.matching else { return attributes.collect() };
        if matching.user().is_some_and(|user| !user.starts_with(self.user_prefix)) {
            return Vec::new();
        }
        let names: Vec<String> = matching.names().map(str::to_owned).collect();
        attributes
            .map(|attribute| Attribute::Where {
                attribute: Box::new(attribute),
                pattern: matching.template.text().to_owned(),
                names: names.clone(),
                user: matching.user().map(str::to_owned),
            })
            .collect()
    }

    fn attributes_of(&self, mapping: &RoleMapping) -> Vec<Attribute> {
        let mut attributes = Vec::new();
        for pattern in &mapping.users {
            if pattern.is_anything() {
                attributes.push(Attribute::Anyone);
            } else if pattern.may_overlap(&format!("{}*", self.user_prefix)) {
                attributes.push(Attribute::Name(pattern.text().to_owned()));
            }
        }
        let possible = |pattern: &&Pattern| self.may_have(pattern);
        let backend_roles = mapping.backend_roles.iter().filter(possible);
        attributes.extend(backend_roles.map(|pattern| Attribute::BackendRole(pattern.text().to_owned())));
        if !mapping.and_backend_roles.is_empty()
            && mapping.and_backend_roles.iter().all(|one| self.may_have(one))
        {
            let texts = mapping.and_backend_roles.iter().map(|pattern| pattern.text().to_owned());
            attributes.push(Attribute::BackendRoles(texts.collect()));
        }
        attributes.extend(mapping.hosts.iter().map(|host| Attribute::Address(host.text().to_owned())));
        attributes
    }

    /// Whether a caller can have a backend role that matches.
    fn may_have(&self, pattern: &Pattern) -> bool {
        let is_group = self.group_prefix.is_some_and(|prefix| pattern.may_overlap(&format!("{prefix}*")));
        let is_role = self.issuer.is_some_and(|issuer| match &issuer.roles_from_token {
            RolesFromToken::All => true,
            RolesFromToken::Only(listed) => listed.iter().any(|role| pattern.matches(&role.name)),
        });
        is_role || is_group
    }
}
