//! The rules that match a request, and the effects of each role on it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use authorizer::ParsedRequest;
use condition::Condition;
use policy::Policy;
use policy::canonical::decoded;
use policy::model::{Effect, Role, RoleId, Rule, SourceId};
use policy::pattern::{PatternSubject, Segment};

use super::MatchingRule;
use crate::lossy;
use crate::rules::{ExplainedRule, ExtendingRoles, has_path, in_order, is_for_host};
use crate::ways::{Given, GivenRole, Place, Position, Ways, roles_read_places};

/// The rules that match a request of any caller.
pub(super) struct Matches<'a> {
    policy: &'a Policy,
    /// What is known for conditions, except the path and the caller.
    given: Given<'a>,
    /// How many interpretations of the path must be allowed.
    pub(super) path_count: usize,
    extending_roles: ExtendingRoles,
    /// The rules that match for every caller.
    for_everyone: UserMatches<'a>,
    /// For each user whose name, with or without its prefix, is a segment of the path: the rules
    /// that match only for this user.
    for_user: BTreeMap<(SourceId, String), UserMatches<'a>>,
}

/// The rules that match for a user.
struct UserMatches<'a> {
    rules: Vec<PathMatch<'a>>,
    /// The effects of these rules, and of the rules that match for every caller, by role.
    effects: BTreeMap<RoleId, Effects>,
}

/// The effects of roles on a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Effects {
    /// By the index of an interpretation of the path: the ways in which rules allow the request on
    /// it. Interpretations without such ways are left out.
    pub(super) allowed_on: BTreeMap<usize, Ways>,
    /// The ways in which a rule denies it.
    pub(super) denied: Ways,
}

/// A rule that matches an interpretation of the path.
#[derive(Clone)]
struct PathMatch<'a> {
    /// The index of the interpretation, among those on which rules must allow the request. `None`
    /// for an interpretation that is only compared with `deny` rules.
    index: Option<usize>,
    path: &'a [u8],
    rule: RoleRule<'a>,
    /// The ways in which it counts for callers who have its role.
    ways: Ways,
}

/// A rule of a role.
#[derive(Clone, Copy)]
struct RoleRule<'a> {
    id: RoleId,
    role: &'a Role,
    rule: &'a Rule,
    effect: Effect,
}

impl<'a> Matches<'a> {
    /// The rules that match this request. `given` is what is known for their conditions.
    pub(super) fn new(policy: &'a Policy, request: &ParsedRequest<'a>, given: Given<'a>) -> Self {
        Self::among(policy, request, given, |rule| is_for_host(rule, request.host))
    }

    /// The rules that match, among those for certain hosts.
    fn among(
        policy: &'a Policy,
        request: &ParsedRequest<'a>,
        given: Given<'a>,
        is_for_hosts: impl Fn(&Rule) -> bool,
    ) -> Self {
        let keeps_place = roles_read_places(policy);
        let extending_roles = ExtendingRoles::new(policy);
        let rules: Vec<RoleRule<'a>> = policy
            .roles
            .entries()
            .flat_map(|(id, role)| {
                let allow = role.allow.iter().map(|rule| (rule, Effect::Allow));
                let deny = role.deny.iter().map(|rule| (rule, Effect::Deny));
                allow.chain(deny).map(move |(rule, effect)| RoleRule { id, role, rule, effect })
            })
            .filter(|rule| rule.rule.actions.matches(request.method) && is_for_hosts(rule.rule))
            .collect();
        let by_role = EffectsByRole { policy, extending: &extending_roles, given: &given };
        let matches = path_matches(&rules, request, None, (&given, keeps_place));
        let for_everyone = UserMatches { effects: by_role.find(&matches), rules: matches };
        // Rules with the name of the user in a path can match for some users only. The name must be
        // in the path of the request, so these users are found there.
        let rules: Vec<RoleRule<'a>> =
            rules.into_iter().filter(|rule| !user_segment_indices(rule.rule).is_empty()).collect();
        let segment_indices =
            rules.iter().flat_map(|rule| user_segment_indices(rule.rule)).collect();
        let mut for_user = BTreeMap::new();
        // `prefix` is the length of the prefix of the source.
        for ((source, user), prefix) in users_in_path(policy, request, &segment_indices) {
            let subject =
                PatternSubject { user: user.as_bytes(), prefix_len: prefix, source: Some(source) };
            let matches = path_matches(&rules, request, Some(subject), (&given, keeps_place));
            if !matches.is_empty() {
                let effects = by_role.find(for_everyone.rules.iter().chain(&matches));
                for_user.insert((source, user), UserMatches { rules: matches, effects });
            }
        }
        Self {
            policy,
            given,
            path_count: request.paths.all().count(),
            extending_roles,
            for_everyone,
            for_user,
        }
    }

    /// The users of this source for whom more rules match than for everyone.
    pub(super) fn users(&self, source: SourceId) -> impl Iterator<Item = &str> {
        let users = self.for_user.keys().filter(move |(id, _)| *id == source);
        users.map(|(_, user)| user.as_str())
    }

    /// Whether more rules match for this user than for everyone.
    pub(super) fn has_user(&self, source: SourceId, user: &str) -> bool {
        self.for_user.contains_key(&(source, user.to_owned()))
    }

    /// The effects of these roles, and of the roles that they extend, on a request of this user.
    /// `caller` has what is known of the caller.
    pub(super) fn effects<'p>(
        &self,
        user: Option<(SourceId, &str)>,
        roles: impl IntoIterator<Item = GivenRole<'p>>,
        caller: &Given<'_>,
    ) -> Effects {
        let matches = user.and_then(|(source, user)| self.for_user.get(&(source, user.to_owned())));
        let matches = matches.unwrap_or(&self.for_everyone);
        let given = Given { request: self.given.request, ..*caller };
        let mut effects = Effects::default();
        for (role, when) in roles {
            if let Some(of_role) = matches.effects.get(&role) {
                effects.add(&of_role.under(when, &given).reduced(&given));
            }
        }
        effects.map(|ways, _| ways.without_places())
    }

    /// The first `max` rules that match, each with at most `max` roles, and how many rules match.
    /// They are in the order of the policy; rules that match only for some users come last.
    pub(super) fn rules(&self, max: usize) -> (Vec<MatchingRule>, usize) {
        let for_everyone = self.for_everyone.rules.iter().map(|matched| (matched, None));
        let for_user = self.for_user.iter().flat_map(|((_, user), matches)| {
            matches.rules.iter().map(move |matched| (matched, Some(user)))
        });
        // Two sources may have a user of the same name.
        let mut distinct = HashSet::new();
        let (mut rules, mut count) = (Vec::new(), 0);
        for (matched, user) in for_everyone.chain(for_user) {
            if distinct.insert((matched.path, std::ptr::from_ref(matched.rule.rule), user)) {
                if count < max {
                    rules.push(self.matching_rule(matched, user, max));
                }
                count += 1;
            }
        }
        (rules, count)
    }

    fn matching_rule(
        &self,
        matched: &PathMatch<'_>,
        user: Option<&String>,
        max: usize,
    ) -> MatchingRule {
        let RoleRule { id, role, rule, effect } = matched.rule;
        let roles = self.extending_roles.with_extending(id);
        let ways = matched.ways.under(role.when.as_ref(), Position::First, effect, &self.given);
        let names = roles.iter().take(max).map(|id| self.policy.roles.at(*id).name.to_string());
        MatchingRule {
            rule: ExplainedRule::new(role, rule, effect),
            path: lossy(matched.path),
            roles: names.collect(),
            when: ways.condition(),
            more_roles: roles.len().saturating_sub(max),
            user: user.cloned(),
        }
    }
}

/// The hosts of the rules that would match if the request were for their host.
pub(super) fn other_hosts(policy: &Policy, request: &ParsedRequest<'_>) -> Vec<String> {
    let matches =
        Matches::among(policy, request, Given::default(), |rule| !is_for_host(rule, request.host));
    let for_user = matches.for_user.values().flat_map(|matches| &matches.rules);
    let rules = matches.for_everyone.rules.iter().chain(for_user);
    let hosts = rules.flat_map(|matched| &matched.rule.rule.scopes).map(ToString::to_string);
    hosts.collect::<BTreeSet<String>>().into_iter().collect()
}

impl Effects {
    fn add(&mut self, effects: &Self) {
        for (index, ways) in &effects.allowed_on {
            self.allowed_on.entry(*index).or_default().extend(ways);
        }
        self.denied.extend(&effects.denied);
    }

    /// The effects under a further condition.
    fn under(&self, when: Option<&Condition>, given: &Given<'_>) -> Self {
        self.map(|ways, effect| ways.under(when, Position::First, effect, given))
    }

    /// The effects, with what is left of their conditions for these inputs.
    fn reduced(&self, given: &Given<'_>) -> Self {
        self.map(|ways, effect| ways.reduced(effect, given))
    }

    fn map(&self, change: impl Fn(&Ways, Effect) -> Ways) -> Self {
        let allowed_on =
            self.allowed_on.iter().map(|(index, ways)| (*index, change(ways, Effect::Allow)));
        let allowed_on = allowed_on.filter(|(_, ways)| !ways.is_never()).collect();
        Self { allowed_on, denied: change(&self.denied, Effect::Deny) }
    }
}

/// The indices of the segments that must be the name of the user.
fn user_segment_indices(rule: &Rule) -> BTreeSet<usize> {
    let segments = rule.resources.iter().flat_map(|pattern| pattern.segments.iter().enumerate());
    let user = segments.filter(|(_, segment)| match segment {
        Segment::User | Segment::UserId(_) => true,
        Segment::Literal(_) | Segment::Any(_) | Segment::Glob(_) => false,
    });
    user.map(|(index, _)| index).collect()
}

/// Without `user`: the rules that match for everyone. Otherwise: the rules that match for this user
/// only.
fn path_matches<'a>(
    rules: &[RoleRule<'a>],
    request: &ParsedRequest<'a>,
    user: Option<PatternSubject<'_>>,
    (given, keeps_place): (&Given<'_>, bool),
) -> Vec<PathMatch<'a>> {
    let allowed = request.paths.all().enumerate().map(|(index, path)| (Some(index), path));
    let deny_only = request.paths.deny_only().map(|path| (None, path));
    let mut matches = Vec::new();
    for (index, path) in allowed.chain(deny_only) {
        for rule in rules {
            let applies = index.is_some() || rule.effect == Effect::Deny;
            let RoleRule { rule: written, effect, .. } = *rule;
            // A condition may read the placeholders of the pattern that matches. So with
            // conditions, a pattern that matches only for this user counts even if another pattern
            // of the rule matches for everyone.
            let is_conditional = written.when.is_some() || keeps_place;
            let is_only_for_user = user.is_some() && {
                let mut patterns = written.resources.iter();
                patterns.any(|pattern| pattern.matches(path, user) && !pattern.matches(path, None))
                    && (is_conditional || !has_path(written, path, None))
            };
            if !applies || !has_path(written, path, user) || user.is_some() && !is_only_for_user {
                continue;
            }
            let ways = if is_conditional {
                let places = Place::all(written, request.host, path, user);
                Ways::at_places((written, effect), places, keeps_place, given)
            } else {
                Ways::always()
            };
            if !ways.is_never() {
                matches.push(PathMatch { index, path, rule: *rule, ways });
            }
        }
    }
    matches
}

/// Finds the effects of each role, with those of the roles that it extends. A rule affects its own
/// role and the roles that extend it. Effects are passed on from the roles of the matching rules,
/// so the cost does not depend on how many roles each role extends.
struct EffectsByRole<'m> {
    policy: &'m Policy,
    extending: &'m ExtendingRoles,
    given: &'m Given<'m>,
}

impl EffectsByRole<'_> {
    fn find<'r>(
        &self,
        matches: impl IntoIterator<Item = &'r PathMatch<'r>>,
    ) -> BTreeMap<RoleId, Effects> {
        let mut by_role: BTreeMap<RoleId, Effects> = BTreeMap::new();
        for PathMatch { index, rule, ways, .. } in matches {
            let effects = by_role.entry(rule.id).or_default();
            match (rule.effect, index) {
                (Effect::Allow, Some(index)) => {
                    effects.allowed_on.entry(*index).or_default().extend(ways);
                }
                (Effect::Allow, None) => {}
                (Effect::Deny, _) => effects.denied.extend(ways),
            }
        }
        let matched: Vec<RoleId> = by_role.keys().copied().collect();
        for role in in_order(matched.into_iter(), |role| self.extending.directly(role)) {
            let effects = by_role.remove(&role).unwrap_or_default();
            let effects = effects.under(self.policy.roles.at(role).when.as_ref(), self.given);
            for extending in self.extending.directly(role) {
                by_role.entry(extending).or_default().add(&effects);
            }
            by_role.insert(role, effects);
        }
        by_role
    }
}

/// The users for whom a rule with `{user}` or `{user.id}` could match, each with the length of the
/// prefix of its source. A segment of the path, at one of these indices, is the user's name, with
/// or without this prefix.
fn users_in_path(
    policy: &Policy,
    request: &ParsedRequest<'_>,
    segment_indices: &BTreeSet<usize>,
) -> BTreeMap<(SourceId, String), usize> {
    let mut users = BTreeMap::new();
    for path in request.paths.all().chain(request.paths.deny_only()) {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        for (index, segment) in path.split(|byte| *byte == b'/').enumerate() {
            if segment.is_empty() || !segment_indices.contains(&index) {
                continue;
            }
            let Ok(name) = String::from_utf8(decoded(segment)) else { continue };
            for (source, _, prefix) in policy.identity.sources() {
                users.insert((source, format!("{prefix}{name}")), prefix.len());
                if name.len() > prefix.len() && name.starts_with(prefix) {
                    users.insert((source, name.clone()), prefix.len());
                }
            }
        }
    }
    users
}
