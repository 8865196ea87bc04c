//! The rules that match a request, and what each role means for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use policy::Policy;
use policy::canonical::decoded;
use policy::ids::IdVec;
use policy::model::{Effect, Role, RoleId, Rule, SourceId};
use policy::pattern::PatternSubject;

use super::{MatchingRule, lossy};
use crate::matched::{explained_rule, matching};
use crate::request::ParsedRequest;

/// The rules that match a request, whoever makes it.
pub(super) struct Matches<'a> {
    policy: &'a Policy,
    /// How many interpretations of the path must be allowed.
    pub(super) paths: usize,
    /// The roles that a role has: itself, and those that it extends, directly or not.
    held: IdVec<RoleId, BTreeSet<RoleId>>,
    /// The rules that match for everyone.
    for_everyone: Matched<'a>,
    /// For each user whose name, or name without its prefix, is a segment of the path: the rules that match for this user.
    for_user: BTreeMap<(SourceId, String), Matched<'a>>,
}

/// The rules that match for a user, and what each role means by them.
struct Matched<'a> {
    rules: Vec<Match<'a>>,
    effects: IdVec<RoleId, Effects>,
}

/// What roles mean for a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// The interpretations of the path on which a rule allows the request.
    pub(super) allowed_on: BTreeSet<usize>,
    /// Whether a rule denies it.
    pub(super) denied: bool,
}

/// A rule that matches an interpretation of the path.
struct Match<'a> {
    /// The place of the interpretation among those that must be allowed; `None` if only `deny` rules count on it.
    place: Option<usize>,
    path: &'a [u8],
    id: RoleId,
    role: &'a Role,
    rule: &'a Rule,
    effect: Effect,
}

impl<'a> Matches<'a> {
    pub(super) fn of(policy: &'a Policy, request: &ParsedRequest<'a>) -> Self {
        let mut held = IdVec::new();
        policy.roles.ids().for_each(|id| _ = held.push(with_extended(policy, id)));
        let ids = policy.roles.entries().map(|(id, role)| (&*role.name, id)).collect();
        let matched = |subject: Option<PatternSubject<'_>>| {
            let rules = rules(policy, request, &ids, subject);
            Matched { effects: effects(&rules, &held), rules }
        };
        let for_everyone = matched(None);
        let for_user = users(policy, request).into_iter().map(|((source, user), prefix)| {
            let matched =
                matched(Some(PatternSubject { user: user.as_bytes(), prefix, source: Some(source) }));
            ((source, user), matched)
        });
        let for_user = for_user.collect();
        Self { policy, paths: request.paths.all().count(), for_everyone, for_user, held }
    }

    /// The user names of this source for which other rules may match than for everyone.
    pub(super) fn users(&self, source: SourceId) -> impl Iterator<Item = &str> {
        self.for_user.keys().filter(move |(of, _)| *of == source).map(|(_, user)| user.as_str())
    }

    /// What these roles, with those that they extend, mean for a request of this user of this source.
    pub(super) fn effects(
        &self,
        user: Option<(SourceId, &str)>,
        roles: impl IntoIterator<Item = RoleId>,
    ) -> Effects {
        let matched = user.and_then(|(source, user)| self.for_user.get(&(source, user.to_owned())));
        let matched = matched.unwrap_or(&self.for_everyone);
        roles.into_iter().fold(Effects::default(), |effects, role| effects.and(matched.effects.at(role)))
    }

    /// Every rule that matches, in the order of the policy; those for one user come last.
    pub(super) fn rules(&self) -> Vec<MatchingRule> {
        let found = self.for_everyone.rules.iter();
        let mut rules: Vec<MatchingRule> = found.map(|found| self.matching_rule(found, None)).collect();
        for ((_, user), matched) in &self.for_user {
            for found in &matched.rules {
                if self.for_everyone.rules.iter().any(|known| known.is_same(found)) {
                    continue;
                }
                let rule = self.matching_rule(found, Some(user));
                // Two sources may have a user of the same name.
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        rules
    }

    fn matching_rule(&self, found: &Match<'_>, user: Option<&str>) -> MatchingRule {
        let having = self.policy.roles.entries().filter(|(id, _)| self.held.at(*id).contains(&found.id));
        MatchingRule {
            rule: explained_rule(found.role, found.rule, found.effect),
            path: lossy(found.path),
            roles: having.map(|(_, role)| role.name.to_string()).collect(),
            user: user.map(str::to_owned),
        }
    }
}

impl Effects {
    fn and(mut self, other: &Self) -> Self {
        self.allowed_on.extend(&other.allowed_on);
        self.denied |= other.denied;
        self
    }
}

impl Match<'_> {
    fn is_same(&self, other: &Self) -> bool {
        (self.path, self.id) == (other.path, other.id) && std::ptr::eq(self.rule, other.rule)
    }
}

/// The rules that match, for the user of this name or for everyone.
fn rules<'a>(
    policy: &'a Policy,
    request: &ParsedRequest<'a>,
    ids: &HashMap<&str, RoleId>,
    subject: Option<PatternSubject<'_>>,
) -> Vec<Match<'a>> {
    let all = request.paths.all().enumerate().map(|(place, path)| (Some(place), path));
    let deny_only = request.paths.deny_only().map(|path| (None, path));
    let mut found = Vec::new();
    for (place, path) in all.chain(deny_only) {
        let matching = matching(policy, request.method, request.host, path, subject);
        let counting = matching.filter(|(.., effect)| place.is_some() || *effect == Effect::Deny);
        found.extend(counting.filter_map(|(role, rule, effect)| {
            Some(Match { place, path, id: *ids.get(&*role.name)?, role, rule, effect })
        }));
    }
    found
}

/// What each role means, with those that it extends.
fn effects(rules: &[Match<'_>], held: &IdVec<RoleId, BTreeSet<RoleId>>) -> IdVec<RoleId, Effects> {
    let mut own: BTreeMap<RoleId, Effects> = BTreeMap::new();
    for found in rules {
        let effects = own.entry(found.id).or_default();
        match found.effect {
            Effect::Allow => effects.allowed_on.extend(found.place),
            Effect::Deny => effects.denied = true,
        }
    }
    let mut all = IdVec::new();
    for (_, roles) in held.entries() {
        let effects = roles.iter().filter_map(|role| own.get(role));
        all.push(effects.fold(Effects::default(), Effects::and));
    }
    all
}

fn with_extended(policy: &Policy, role: RoleId) -> BTreeSet<RoleId> {
    let (mut held, mut to_visit) = (BTreeSet::from([role]), vec![role]);
    while let Some(role) = to_visit.pop() {
        let extended = policy.roles.at(role).extends.iter().copied();
        to_visit.extend(extended.filter(|extended| held.insert(*extended)));
    }
    held
}

/// The users for which a rule with `{user}` or `{user.id}` could match, each with the length of its prefix: those whose
/// name is a segment of the path, with or without the prefix of their source.
fn users(policy: &Policy, request: &ParsedRequest<'_>) -> BTreeMap<(SourceId, String), usize> {
    let paths = request.paths.all().chain(request.paths.deny_only());
    let segments = paths.flat_map(|path| path.split(|byte| *byte == b'/'));
    let names: BTreeSet<String> =
        segments.filter_map(|segment| String::from_utf8(decoded(segment)).ok()).collect();
    let mut users = BTreeMap::new();
    for name in names.iter().filter(|name| !name.is_empty()) {
        for (source, _, prefix) in policy.identity.sources() {
            users.insert((source, format!("{prefix}{name}")), prefix.len());
            if name.len() > prefix.len() && name.starts_with(prefix) {
                users.insert((source, name.clone()), prefix.len());
            }
        }
    }
    users
}
