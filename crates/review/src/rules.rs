//! The rules that a caller can have under each of the two policies.

use std::collections::{BTreeSet, HashMap};

use policy::ids::IdVec;
use policy::model::{Effect, Identity, Role, RoleId, Rule};
use policy::pattern::{Actions, Glob, Pattern, PatternSubject, Scope, Segment};

use crate::callers::{CallerKind, Side, SourceCallers};
use crate::cells::Item;

/// A rule that callers of a kind can have.
pub(crate) struct CallerRule<'p> {
    /// 0 for the old policy, 1 for the new one.
    pub(crate) side: usize,
    pub(crate) role: &'p Role,
    pub(crate) rule: &'p Rule,
    pub(crate) effect: Effect,
    /// Whether every caller of the kind has it.
    pub(crate) everyone: bool,
    /// Otherwise, the attributes of the tokens that have it.
    pub(crate) attributes: Vec<usize>,
    /// The indices of its patterns that can match requests of these callers, among the items.
    pub(crate) items: Vec<usize>,
    /// Whether the other policy does not have it for these callers.
    pub(crate) changed: bool,
}

/// The rules of both policies that callers of a kind can have, and their patterns.
pub(crate) struct ComparedRules<'p> {
    pub(crate) items: Vec<Item<'p>>,
    pub(crate) rules: Vec<CallerRule<'p>>,
}

/// For each role of the two policies, the number of its set of rules: 0 if it has none.
pub(crate) struct RuleSets {
    by_role: [IdVec<RoleId, usize>; 2],
    /// Whether a rule has `{user}` or `{user.id}`.
    have_user: bool,
}

impl RuleSets {
    pub(crate) fn new(sides: &[Side<'_>; 2]) -> Self {
        let mut numbers: HashMap<BTreeSet<String>, usize> = HashMap::from([(BTreeSet::new(), 0)]);
        let mut have_user = false;
        let by_role = sides.each_ref().map(|side| {
            let policy = side.policy;
            let sets = policy.roles.iter().map(|role| {
                let rules: BTreeSet<String> = rules_of(role)
                    .map(|(rule, effect)| rule_key(rule, effect, &policy.identity))
                    .collect();
                have_user |= rules.iter().any(|rule| rule.contains("{user"));
                let next = numbers.len();
                *numbers.entry(rules).or_insert(next)
            });
            sets.collect()
        });
        Self { by_role, have_user }
    }

    /// Whether callers of a kind can have different rules under the two policies.
    pub(crate) fn may_differ(&self, kind: &CallerKind, source: &SourceCallers) -> bool {
        let [old, new] = kind.sides.each_ref().map(|side| (&side.name, side.prefix));
        (self.have_user && old != new)
            || self.differ(kind.sides.each_ref().map(|side| &side.roles))
            || source.attributes.iter().any(|(_, roles)| self.differ(roles.each_ref()))
    }

    fn differ(&self, [old, new]: [&BTreeSet<RoleId>; 2]) -> bool {
        let [by_old_role, by_new_role] = &self.by_role;
        rule_sets(by_old_role, old) != rule_sets(by_new_role, new)
    }
}

fn rule_sets(by_role: &IdVec<RoleId, usize>, roles: &BTreeSet<RoleId>) -> BTreeSet<usize> {
    roles.iter().map(|role| *by_role.at(*role)).filter(|number| *number != 0).collect()
}

fn rules_of(role: &Role) -> impl Iterator<Item = (&Rule, Effect)> {
    let allow = role.allow.iter().map(|rule| (rule, Effect::Allow));
    allow.chain(role.deny.iter().map(|rule| (rule, Effect::Deny)))
}

/// A text that is equal for rules with equal meanings.
fn rule_key(rule: &Rule, effect: Effect, identity: &Identity) -> String {
    let paths: BTreeSet<String> =
        rule.resources.iter().map(|pattern| pattern_key(pattern, identity)).collect();
    format!("{effect:?} {:?} {:?} {paths:?}", methods(rule), hosts(rule))
}

/// The methods of a rule, without an order; `None` is any method.
fn methods(rule: &Rule) -> Option<BTreeSet<&str>> {
    match &rule.actions {
        Actions::Any => None,
        Actions::These(actions) => Some(actions.iter().map(|action| &**action).collect()),
    }
}

fn hosts(rule: &Rule) -> BTreeSet<&Scope> {
    rule.scopes.iter().collect()
}

fn pattern_key(pattern: &Pattern, identity: &Identity) -> String {
    let segments: Vec<String> = pattern
        .segments
        .iter()
        .map(|segment| match segment {
            Segment::One(_) => "{}".to_owned(),
            Segment::UserId(ids) => {
                let sources = identity.sources().filter(|(id, ..)| ids.contains(id));
                let names: BTreeSet<&str> = sources.map(|(_, name, _)| name).collect();
                format!("{{user.id}}{names:?}")
            }
            Segment::Literal(_) | Segment::User | Segment::Glob(_) => segment.to_string(),
        })
        .collect();
    format!("{}{}{}", pattern.absolute, segments.join("/"), if pattern.rest { "/**" } else { "" })
}

/// The texts that a segment of a pattern matches for a caller.
#[derive(PartialEq, Eq, Hash)]
enum SegmentKey<'p> {
    Literal(&'p str),
    Any,
    Name(&'p [u8]),
    Glob(&'p Glob),
}

type ItemKey<'p> = (bool, bool, Vec<SegmentKey<'p>>);

/// A key that is equal for patterns that match the same paths for a caller; `None` if a pattern
/// matches no path.
fn item_key<'p>(pattern: &'p Pattern, subject: Option<PatternSubject<'p>>) -> Option<ItemKey<'p>> {
    let mut segments = Vec::new();
    for segment in &pattern.segments {
        segments.push(match segment {
            Segment::Literal(literal) => SegmentKey::Literal(literal),
            Segment::One(_) => SegmentKey::Any,
            Segment::User => SegmentKey::Name(subject?.user),
            Segment::UserId(sources) => {
                let subject = subject?;
                subject.source.filter(|source| sources.contains(source))?;
                SegmentKey::Name(subject.id())
            }
            Segment::Glob(glob) => SegmentKey::Glob(glob),
        });
    }
    Some((pattern.absolute, pattern.rest, segments))
}

/// A pattern of a rule with everything else that matters: two rules that differ in their patterns
/// alone may have some in common.
type PatternUse<'p> =
    (usize, Effect, Option<BTreeSet<&'p str>>, BTreeSet<&'p Scope>, bool, Vec<usize>);

impl<'p> ComparedRules<'p> {
    /// The rules that callers of a kind can have.
    pub(crate) fn new(sides: &[Side<'p>; 2], kind: &'p CallerKind, source: &SourceCallers) -> Self {
        let mut compared = Self { items: Vec::new(), rules: Vec::new() };
        let mut items_by_key: HashMap<ItemKey<'p>, usize> = HashMap::new();
        for (index, (side, caller)) in sides.iter().zip(&kind.sides).enumerate() {
            let policy: &'p policy::Policy = side.policy;
            let subject = caller.subject();
            let mut attributes_by_role: HashMap<RoleId, Vec<usize>> = HashMap::new();
            for (attribute, (_, roles)) in source.attributes.iter().enumerate() {
                for role in roles.get(index).into_iter().flatten() {
                    attributes_by_role.entry(*role).or_default().push(attribute);
                }
            }
            for (id, role) in policy.roles.entries() {
                let everyone = caller.roles.contains(&id);
                let attributes = attributes_by_role.remove(&id).filter(|_| !everyone);
                if !everyone && attributes.is_none() {
                    continue;
                }
                for (rule, effect) in rules_of(role) {
                    let items = rule.resources.iter().filter_map(|pattern| {
                        let next = compared.items.len();
                        let item = *items_by_key.entry(item_key(pattern, subject)?).or_insert(next);
                        if item == next {
                            compared.items.push(Item { pattern, subject, changed: false });
                        }
                        Some(item)
                    });
                    let items = items.collect();
                    compared.rules.push(CallerRule {
                        side: index,
                        role,
                        rule,
                        effect,
                        everyone,
                        attributes: attributes.clone().unwrap_or_default(),
                        items,
                        changed: false,
                    });
                }
            }
        }
        compared.mark_changed();
        compared
    }

    /// Marks the rules that only one policy has, and their patterns.
    fn mark_changed(&mut self) {
        let mut sides: HashMap<PatternUse<'_>, usize> = HashMap::new();
        for rule in &self.rules {
            for pattern_use in rule.pattern_uses() {
                *sides.entry(pattern_use).or_default() |= 1 << rule.side;
            }
        }
        for rule in &mut self.rules {
            for pattern_use in rule.pattern_uses() {
                if sides.get(&pattern_use) != Some(&0b11) {
                    rule.changed = true;
                    if let Some(item) = self.items.get_mut(pattern_use.0) {
                        item.changed = true;
                    }
                }
            }
        }
    }

    /// For each item, the indices of the rules with this pattern.
    pub(crate) fn rules_by_item(&self) -> Vec<Vec<usize>> {
        let mut by_item = vec![Vec::new(); self.items.len()];
        for (index, rule) in self.rules.iter().enumerate() {
            for item in &rule.items {
                if let Some(rules) = by_item.get_mut(*item) {
                    rules.push(index);
                }
            }
        }
        by_item
    }
}

impl<'p> CallerRule<'p> {
    fn pattern_uses(&self) -> Vec<PatternUse<'p>> {
        let (methods, hosts) = (methods(self.rule), hosts(self.rule));
        let items = self.items.iter().copied();
        items
            .map(|item| {
                let attributes = self.attributes.clone();
                (item, self.effect, methods.clone(), hosts.clone(), self.everyone, attributes)
            })
            .collect()
    }
}
