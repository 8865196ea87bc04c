//! The rules that a caller can have under each of the two policies.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use policy::ids::IdVec;
use policy::model::{Effect, Identity, Role, RoleId, Rule};
use policy::pattern::{Actions, Glob, Pattern, PatternSubject, Scope, Segment};

use crate::callers::{CallerKind, Holding, Side, SourceCallers, is_user};
use crate::cells::CallerPattern;
use crate::interned::{ChangedVariables, Conditions, Places};

/// A rule that callers of a kind can have. If its conditions read placeholders of hosts or of
/// paths, it occurs once for each of its hosts or paths. It also occurs once for each set of
/// conditions under which the callers have its role.
pub(crate) struct CallerRule<'p> {
    /// Whether it is a rule of the new policy.
    pub(crate) is_new: bool,
    pub(crate) role: &'p Role,
    pub(crate) rule: &'p Rule,
    pub(crate) effect: Effect,
    /// Whether every caller of the kind has the rule.
    pub(crate) everyone: bool,
    /// If not every caller has the rule: the attributes that give it, as indices of
    /// [`SourceCallers::attributes`].
    pub(crate) attributes: Vec<usize>,
    /// Its conditions and those of the role and of grants, as numbers of [`Conditions`].
    pub(crate) when: Vec<usize>,
    /// Its hosts; empty means any.
    pub(crate) scopes: Vec<&'p Scope>,
    /// The patterns that can match requests of these callers, as indices of
    /// [`ComparedRules::patterns`].
    pub(crate) patterns: Vec<usize>,
    /// Whether the other policy lacks the rule for these callers, for at least one of its
    /// patterns.
    pub(crate) changed: bool,
}

/// The rules of both policies that callers of a kind can have, and their patterns.
pub(crate) struct ComparedRules<'p> {
    pub(crate) patterns: Vec<CallerPattern<'p>>,
    pub(crate) rules: Vec<CallerRule<'p>>,
}

/// For each role of the two policies, an id of its set of rules: equal for equal sets, 0 for the
/// empty set.
pub(crate) struct RuleSets {
    by_role: [IdVec<RoleId, usize>; 2],
    /// Whether a rule has `{user}` or `{user.id}`.
    have_user: bool,
}

impl RuleSets {
    pub(crate) fn new(sides: &[Side<'_>; 2], conditions: &Conditions) -> Self {
        let with_names = conditions.have_placeholders();
        let mut ids: HashMap<BTreeSet<String>, usize> = HashMap::from([(BTreeSet::new(), 0)]);
        let mut have_user = false;
        let by_role = sides.each_ref().map(|side| {
            let policy = side.policy;
            let sets = policy.roles.iter().map(|role| {
                have_user |= rules_of(role)
                    .flat_map(|(rule, _)| &rule.resources)
                    .any(|pattern| pattern.segments.iter().any(is_user));
                let rules: BTreeSet<String> = rules_of(role)
                    .map(|(rule, effect)| rule_key(rule, effect, &policy.identity, with_names))
                    .collect();
                let next = ids.len();
                *ids.entry(rules).or_insert(next)
            });
            sets.collect()
        });
        Self { by_role, have_user }
    }

    /// Whether callers of a kind can have different rules under the two policies.
    pub(crate) fn may_differ(
        &self,
        sides: &[Side<'_>; 2],
        kind: &CallerKind,
        source: &SourceCallers,
        conditions: &Conditions,
    ) -> bool {
        let [old, new] = kind.sides.each_ref().map(|side| (&side.name, side.prefix));
        (self.have_user && old != new)
            || !kind.changed_variables(sides, source, conditions).0.is_empty()
            || self.differ(kind.sides.each_ref().map(|side| &side.roles))
            || source.attributes.iter().any(|(_, roles)| self.differ(roles.each_ref()))
    }

    fn differ(&self, [old, new]: [&BTreeSet<Holding>; 2]) -> bool {
        let [by_old_role, by_new_role] = &self.by_role;
        rule_sets(by_old_role, old) != rule_sets(by_new_role, new)
    }
}

/// The ids of the sets of rules of these roles, each with the conditions under which a caller has
/// the role.
fn rule_sets<'h>(
    by_role: &IdVec<RoleId, usize>,
    held: &'h BTreeSet<Holding>,
) -> BTreeSet<(usize, &'h [usize])> {
    let sets = held.iter().map(|holding| (*by_role.at(holding.role), &*holding.when));
    sets.filter(|(id, _)| *id != 0).collect()
}

fn rules_of(role: &Role) -> impl Iterator<Item = (&Rule, Effect)> {
    let allow = role.allow.iter().map(|rule| (rule, Effect::Allow));
    allow.chain(role.deny.iter().map(|rule| (rule, Effect::Deny)))
}

/// A text that is equal only for rules with equal meanings. `with_names`: with the names of
/// placeholders, which conditions read.
fn rule_key(rule: &Rule, effect: Effect, identity: &Identity, with_names: bool) -> String {
    let paths: BTreeSet<String> =
        rule.resources.iter().map(|pattern| pattern_key(pattern, identity, with_names)).collect();
    let when = rule.when.as_ref().map(|when| &when.expression);
    let hosts: BTreeSet<&Scope> = rule.scopes.iter().collect();
    format!("{effect:?} {:?} {hosts:?} {paths:?} {when:?}", methods(rule))
}

/// The methods of a rule, without an order; `None` is any method.
fn methods(rule: &Rule) -> Option<BTreeSet<&str>> {
    match &rule.actions {
        Actions::Any => None,
        Actions::These(actions) => Some(actions.iter().map(|action| &**action).collect()),
    }
}

fn pattern_key(pattern: &Pattern, identity: &Identity, with_names: bool) -> String {
    let segments: Vec<String> = pattern
        .segments
        .iter()
        .map(|segment| match segment {
            Segment::Any(name) => format!("{{{}}}", if with_names { name } else { "" }),
            Segment::UserId(ids) => {
                let sources = identity.sources().filter(|(id, ..)| ids.contains(id));
                let names: BTreeSet<&str> = sources.map(|(_, name, _)| name).collect();
                format!("{{user.id}}{names:?}")
            }
            Segment::Literal(_) | Segment::User | Segment::Glob(_) => segment.to_string(),
        })
        .collect();
    format!(
        "{}{}{}",
        pattern.absolute,
        segments.join("/"),
        if pattern.open_ended { "/**" } else { "" }
    )
}

/// The texts that a segment of a pattern matches for a caller.
#[derive(PartialEq, Eq, Hash)]
enum SegmentKey<'p> {
    Literal(&'p str),
    Any,
    Name(&'p [u8]),
    Glob(&'p Glob),
}

type MatchKey<'p> = (bool, bool, Vec<SegmentKey<'p>>);

/// A key that is equal for patterns that match the same paths for a caller; `None` if a pattern
/// matches no path.
fn match_key<'p>(
    pattern: &'p Pattern,
    subject: Option<PatternSubject<'p>>,
) -> Option<MatchKey<'p>> {
    let mut segments = Vec::new();
    for segment in &pattern.segments {
        segments.push(match segment {
            Segment::Literal(literal) => SegmentKey::Literal(literal),
            Segment::Any(_) => SegmentKey::Any,
            Segment::User => SegmentKey::Name(subject?.user),
            Segment::UserId(sources) => {
                let subject = subject?;
                subject.source.filter(|source| sources.contains(source))?;
                SegmentKey::Name(subject.id())
            }
            Segment::Glob(glob) => SegmentKey::Glob(glob),
        });
    }
    Some((pattern.absolute, pattern.open_ended, segments))
}

/// A pattern of a rule, with the properties of the rule that matter. The two policies are compared
/// pattern by pattern: of two rules that differ only in their patterns, some patterns may be the
/// same.
#[derive(PartialEq, Eq, Hash)]
struct PatternUse<'p> {
    /// Its index in [`ComparedRules::patterns`].
    pattern: usize,
    effect: Effect,
    methods: Option<BTreeSet<&'p str>>,
    hosts: BTreeSet<&'p Scope>,
    everyone: bool,
    attributes: Vec<usize>,
    when: Vec<usize>,
}

/// Who has a role under some conditions.
#[derive(Clone, Default)]
struct Holders {
    everyone: bool,
    attributes: Vec<usize>,
}

impl<'p> ComparedRules<'p> {
    /// The rules that callers of a kind can have.
    pub(crate) fn new(
        sides: &[Side<'p>; 2],
        kind: &'p CallerKind,
        source: &SourceCallers,
        conditions: &mut Conditions,
    ) -> Self {
        let mut compared = Self { patterns: Vec::new(), rules: Vec::new() };
        let mut patterns_by_key: HashMap<MatchKey<'p>, usize> = HashMap::new();
        let changed_variables = kind.changed_variables(sides, source, conditions);
        for (index, (side, caller)) in sides.iter().zip(&kind.sides).enumerate() {
            let policy: &'p policy::Policy = side.policy;
            let subject = caller.subject();
            let mut held: BTreeMap<RoleId, BTreeMap<&[usize], Holders>> = BTreeMap::new();
            for Holding { role, when } in &caller.roles {
                held.entry(*role).or_default().entry(when).or_default().everyone = true;
            }
            for (attribute, (_, roles)) in source.attributes.iter().enumerate() {
                for Holding { role, when } in roles.get(index).into_iter().flatten() {
                    let by_conditions = held.entry(*role).or_default();
                    if by_conditions.get(&[][..]).is_none_or(|holders| !holders.everyone) {
                        let holders = by_conditions.entry(when).or_default();
                        if !holders.everyone {
                            holders.attributes.push(attribute);
                        }
                    }
                }
            }
            let unchanged = ChangedVariables::default();
            let changed_variables = if index == 1 { &changed_variables } else { &unchanged };
            for (id, by_conditions) in held {
                let role = policy.roles.at(id);
                for (rule, effect) in rules_of(role) {
                    let own_condition = rule.when.as_ref().map(|when| conditions.add(when));
                    for (when, holders) in &by_conditions {
                        let when = [when, own_condition.as_slice()].concat();
                        for part in parts(rule, &when, conditions) {
                            let when = conditions.at(&when, &part.places(), changed_variables);
                            let patterns = part.patterns.iter().filter_map(|pattern| {
                                let next = compared.patterns.len();
                                let key = match_key(pattern, subject)?;
                                let number = *patterns_by_key.entry(key).or_insert(next);
                                if number == next {
                                    let changed = false;
                                    let pattern = CallerPattern { pattern, subject, changed };
                                    compared.patterns.push(pattern);
                                }
                                Some(number)
                            });
                            let patterns = patterns.collect();
                            compared.rules.push(CallerRule {
                                is_new: index == 1,
                                role,
                                rule,
                                effect,
                                everyone: holders.everyone,
                                attributes: holders.attributes.clone(),
                                when,
                                scopes: part.scopes,
                                patterns,
                                changed: false,
                            });
                        }
                    }
                }
            }
        }
        compared.mark_changed();
        compared
    }

    /// Marks the rules and the patterns of each [`PatternUse`] that only one policy has.
    fn mark_changed(&mut self) {
        // Bit 0: the old policy has it. Bit 1: the new policy has it.
        let mut found_in: HashMap<PatternUse<'_>, usize> = HashMap::new();
        for rule in &self.rules {
            for pattern_use in rule.pattern_uses() {
                *found_in.entry(pattern_use).or_default() |= if rule.is_new { 0b10 } else { 0b01 };
            }
        }
        for rule in &mut self.rules {
            for pattern_use in rule.pattern_uses() {
                if found_in.get(&pattern_use) != Some(&0b11) {
                    rule.changed = true;
                    if let Some(pattern) = self.patterns.get_mut(pattern_use.pattern) {
                        pattern.changed = true;
                    }
                }
            }
        }
    }

    /// For each pattern, the indices of its rules.
    pub(crate) fn rules_by_pattern(&self) -> Vec<Vec<usize>> {
        let mut by_pattern = vec![Vec::new(); self.patterns.len()];
        for (index, rule) in self.rules.iter().enumerate() {
            for pattern in &rule.patterns {
                if let Some(rules) = by_pattern.get_mut(*pattern) {
                    rules.push(index);
                }
            }
        }
        by_pattern
    }
}

/// Some hosts and paths of a rule. Its conditions have the same value for all of them.
struct Part<'p> {
    scopes: Vec<&'p Scope>,
    patterns: Vec<&'p Pattern>,
}

/// Splits a rule by its hosts if its conditions read placeholders of hosts, and likewise by its
/// paths.
fn parts<'p>(rule: &'p Rule, when: &[usize], conditions: &Conditions) -> Vec<Part<'p>> {
    let (scopes, patterns): (Vec<&Scope>, Vec<&Pattern>) =
        (rule.scopes.iter().collect(), rule.resources.iter().collect());
    let scopes: Vec<Vec<&Scope>> = if conditions.are_in_host(when) && !scopes.is_empty() {
        scopes.into_iter().map(|scope| vec![scope]).collect()
    } else {
        vec![scopes]
    };
    let patterns: Vec<Vec<&Pattern>> = if conditions.are_in_path(when) {
        patterns.into_iter().map(|pattern| vec![pattern]).collect()
    } else {
        vec![patterns]
    };
    let parts = scopes.iter().flat_map(|scopes| {
        patterns.iter().map(|patterns| Part { scopes: scopes.clone(), patterns: patterns.clone() })
    });
    parts.collect()
}

impl Part<'_> {
    fn places(&self) -> Places {
        Places {
            path: self.patterns.first().map(|path| path.placeholders()).unwrap_or_default(),
            host: self.scopes.first().map(|host| host.placeholders()).unwrap_or_default(),
        }
    }
}

impl<'p> CallerRule<'p> {
    fn pattern_uses(&self) -> Vec<PatternUse<'p>> {
        let hosts: BTreeSet<&Scope> = self.scopes.iter().copied().collect();
        let methods = methods(self.rule);
        let uses = self.patterns.iter().map(|pattern| PatternUse {
            pattern: *pattern,
            effect: self.effect,
            methods: methods.clone(),
            hosts: hosts.clone(),
            everyone: self.everyone,
            attributes: self.attributes.clone(),
            when: self.when.clone(),
        });
        uses.collect()
    }
}
