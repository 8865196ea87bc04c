//! The rules that match a request, and what each role means for it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use authorizer::ParsedRequest;
use policy::Policy;
use policy::canonical::decoded;
use policy::model::{Effect, Role, RoleId, Rule, SourceId};
use policy::pattern::{PatternSubject, Segment};

use super::MatchingRule;
use crate::extending::Extending;
use crate::lossy;
use crate::matched::{explained_rule, has_path, is_for};

/// The rules that match a request, whoever makes it.
pub(super) struct Matches<'a> {
    policy: &'a Policy,
    /// How many interpretations of the path must be allowed.
    pub(super) paths: usize,
    extending: Extending,
    /// The rules that match for everyone.
    for_everyone: Matched<'a>,
    /// For each user for whom more rules match than for everyone: these rules. Such a name, with or
    /// without its prefix, is a segment of the path.
    for_user: BTreeMap<(SourceId, String), Matched<'a>>,
}

/// The rules that match for a user, and what each role means by them.
struct Matched<'a> {
    rules: Vec<Match<'a>>,
    /// Of those that mean something.
    effects: BTreeMap<RoleId, Effects>,
}

/// What roles mean for a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Effects {
    /// The interpretations of the path on which a rule allows the request.
    pub(super) allowed_on: BTreeSet<usize>,
    /// Whether a rule denies it.
    pub(super) denied: bool,
}

/// A rule that matches an interpretation of the path.
struct Match<'a> {
    /// The place of the interpretation among those that must be allowed; `None` if only `deny`
    /// rules count on it.
    place: Option<usize>,
    path: &'a [u8],
    of: Candidate<'a>,
}

/// A rule for the method and the host of the request.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    id: RoleId,
    role: &'a Role,
    rule: &'a Rule,
    effect: Effect,
}

impl<'a> Matches<'a> {
    pub(super) fn new(policy: &'a Policy, request: &ParsedRequest<'a>) -> Self {
        let extending = Extending::new(policy);
        let candidates = candidates(policy, request);
        let all = matching(&candidates, request, None);
        let for_everyone = Matched { effects: effects(&all, &extending), rules: all };
        let personal: Vec<Candidate<'_>> =
            candidates.into_iter().filter(|candidate| names_the_user(candidate.rule)).collect();
        let mut for_user = BTreeMap::new();
        for ((source, user), prefix) in users(policy, request, &places_of_user(&personal)) {
            let subject = PatternSubject { user: user.as_bytes(), prefix, source: Some(source) };
            let own = matching(&personal, request, Some(subject));
            if !own.is_empty() {
                let effects = effects(for_everyone.rules.iter().chain(&own), &extending);
                for_user.insert((source, user), Matched { rules: own, effects });
            }
        }
        Self { policy, paths: request.paths.all().count(), for_everyone, for_user, extending }
    }

    /// The user names of this source for which other rules may match than for everyone.
    pub(super) fn users(&self, source: SourceId) -> impl Iterator<Item = &str> {
        self.for_user.keys().filter(move |(of, _)| *of == source).map(|(_, user)| user.as_str())
    }

    /// Whether other rules may match for this user of this source than for everyone.
    pub(super) fn has_user(&self, source: SourceId, user: &str) -> bool {
        self.for_user.contains_key(&(source, user.to_owned()))
    }

    /// What these roles, with those that they extend, mean for a request of this user of this
    /// source.
    pub(super) fn effects(
        &self,
        user: Option<(SourceId, &str)>,
        roles: impl IntoIterator<Item = RoleId>,
    ) -> Effects {
        let matched = user.and_then(|(source, user)| self.for_user.get(&(source, user.to_owned())));
        let matched = matched.unwrap_or(&self.for_everyone);
        let effects = roles.into_iter().filter_map(|role| matched.effects.get(&role));
        effects.fold(Effects::default(), Effects::and)
    }

    /// The rules that match, in the order of the policy; those for one user come last. At most so
    /// many, each with at most so many roles; and how many there are.
    pub(super) fn rules(&self, most: usize) -> (Vec<MatchingRule>, usize) {
        let of_users = self
            .for_user
            .iter()
            .flat_map(|((_, user), own)| own.rules.iter().map(move |rule| (rule, Some(user))));
        let all = self.for_everyone.rules.iter().map(|rule| (rule, None)).chain(of_users);
        // Two sources may have a user of the same name.
        let mut known = HashSet::new();
        let different = all.filter(|(found, user)| {
            known.insert((found.path, std::ptr::from_ref(found.of.rule), *user))
        });
        let (mut rules, mut number) = (Vec::new(), 0);
        for (found, user) in different {
            if number < most {
                rules.push(self.matching_rule(found, user, most));
            }
            number += 1;
        }
        (rules, number)
    }

    fn matching_rule(&self, found: &Match<'_>, user: Option<&String>, most: usize) -> MatchingRule {
        let having = self.extending.having(found.of.id);
        let names = having.iter().take(most).map(|id| self.policy.roles.at(*id).name.to_string());
        MatchingRule {
            rule: explained_rule(found.of.role, found.of.rule, found.of.effect),
            path: lossy(found.path),
            roles: names.collect(),
            more_roles: having.len().saturating_sub(most),
            user: user.cloned(),
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

fn candidates<'a>(policy: &'a Policy, request: &ParsedRequest<'a>) -> Vec<Candidate<'a>> {
    let ids: HashMap<&str, RoleId> =
        policy.roles.entries().map(|(id, role)| (&*role.name, id)).collect();
    let rules = policy.rules().filter(|(_, _, rule, _)| is_for(rule, request.method, request.host));
    let of = |(_, role, rule, effect): (_, &'a Role, &'a Rule, Effect)| {
        Some(Candidate { id: *ids.get(&*role.name)?, role, rule, effect })
    };
    rules.filter_map(of).collect()
}

fn names_the_user(rule: &Rule) -> bool {
    rule.resources.iter().flat_map(|pattern| &pattern.segments).any(is_the_user)
}

const fn is_the_user(segment: &Segment) -> bool {
    match segment {
        Segment::User | Segment::UserId(_) => true,
        Segment::Literal(_) | Segment::One(_) | Segment::Glob(_) => false,
    }
}

/// Which segments of a path must be the name of the user, by one of these rules.
fn places_of_user(rules: &[Candidate<'_>]) -> BTreeSet<usize> {
    let patterns = rules.iter().flat_map(|of| &of.rule.resources);
    let segments = patterns.flat_map(|pattern| pattern.segments.iter().enumerate());
    segments.filter(|(_, segment)| is_the_user(segment)).map(|(place, _)| place).collect()
}

/// The rules that match for everyone; or those that match for this user, and not for everyone.
fn matching<'a>(
    candidates: &[Candidate<'a>],
    request: &ParsedRequest<'a>,
    user: Option<PatternSubject<'_>>,
) -> Vec<Match<'a>> {
    let all = request.paths.all().enumerate().map(|(place, path)| (Some(place), path));
    let deny_only = request.paths.deny_only().map(|path| (None, path));
    let mut found = Vec::new();
    for (place, path) in all.chain(deny_only) {
        let counting = candidates.iter().filter(|of| place.is_some() || of.effect == Effect::Deny);
        let matching = counting.filter(|of| {
            has_path(of.rule, path, user) && (user.is_none() || !has_path(of.rule, path, None))
        });
        found.extend(matching.map(|of| Match { place, path, of: *of }));
    }
    found
}

/// What each role means, with those that it extends. A rule concerns its own role and those that
/// extend it, so the cost does not depend on how many roles each role has.
fn effects<'r>(
    rules: impl IntoIterator<Item = &'r Match<'r>>,
    extending: &Extending,
) -> BTreeMap<RoleId, Effects> {
    let mut all: BTreeMap<RoleId, Effects> = BTreeMap::new();
    for Match { place, of, .. } in rules {
        let effects = all.entry(of.id).or_default();
        match of.effect {
            Effect::Allow => effects.allowed_on.extend(*place),
            Effect::Deny => effects.denied = true,
        }
    }
    let mut to_visit: Vec<RoleId> = all.keys().copied().collect();
    while let Some(role) = to_visit.pop() {
        let effects = all.get(&role).cloned().unwrap_or_default();
        for role in extending.directly(role) {
            let known = all.entry(role).or_default();
            let both = known.clone().and(&effects);
            if both != *known {
                *known = both;
                to_visit.push(role);
            }
        }
    }
    all
}

/// The users for which a rule with `{user}` or `{user.id}` could match, each with the length of its
/// prefix: those whose name is a segment of the path at one of these places, with or without the
/// prefix of their source.
fn users(
    policy: &Policy,
    request: &ParsedRequest<'_>,
    places: &BTreeSet<usize>,
) -> BTreeMap<(SourceId, String), usize> {
    let paths = request.paths.all().chain(request.paths.deny_only());
    let names = paths.map(|path| path.strip_prefix(b"/").unwrap_or(path));
    let segments = names.flat_map(|name| name.split(|byte| *byte == b'/').enumerate());
    let names = segments.filter(|(place, _)| places.contains(place));
    let names: BTreeSet<String> =
        names.filter_map(|(_, segment)| String::from_utf8(decoded(segment)).ok()).collect();
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
