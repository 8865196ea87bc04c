//! The rules that a caller can have under each of the two policies.

use std::collections::{BTreeSet, HashMap};

use policy::ids::IdVec;
use policy::model::{Effect, Identity, Role, RoleId, Rule};
use policy::pattern::{Actions, Glob, Pattern, PatternSubject, Scope, Segment};

use crate::callers::{Kind, Side, Source};
use crate::cells::Item;

/// A rule that a caller can have.
pub(crate) struct Held<'p> {
    /// 0 for the old policy, 1 for the new one.
    pub(crate) side: usize,
    pub(crate) role: &'p Role,
    pub(crate) rule: &'p Rule,
    pub(crate) effect: Effect,
    /// Whether every caller of the kind has it.
    pub(crate) all: bool,
    /// Otherwise, the attributes of the tokens that have it.
    pub(crate) attributes: Vec<usize>,
    /// The patterns that can match requests of this caller, among the items.
    pub(crate) items: Vec<usize>,
    /// Whether the other policy does not have it for this caller.
    pub(crate) changed: bool,
}

/// The rules of both policies that callers of a kind can have, and their patterns.
pub(crate) struct Compared<'p> {
    pub(crate) items: Vec<Item<'p>>,
    pub(crate) rules: Vec<Held<'p>>,
}

/// Which roles of the two policies have the same rules of their own.
pub(crate) struct Contents {
    of: [IdVec<RoleId, usize>; 2],
    has_own_names: bool,
}

impl Contents {
    pub(crate) fn new(sides: &[Side<'_>; 2]) -> Self {
        let mut known: HashMap<BTreeSet<String>, usize> = HashMap::from([(BTreeSet::new(), 0)]);
        let mut has_own_names = false;
        let of = sides.each_ref().map(|side| {
            let roles = side.policy.roles.iter().map(|role| {
                let allow =
                    role.allow.iter().map(|rule| text(rule, Effect::Allow, &side.policy.identity));
                let deny =
                    role.deny.iter().map(|rule| text(rule, Effect::Deny, &side.policy.identity));
                let rules: BTreeSet<String> = allow.chain(deny).collect();
                has_own_names |= rules.iter().any(|rule| rule.contains("{user"));
                let next = known.len();
                *known.entry(rules).or_insert(next)
            });
            roles.collect()
        });
        Self { of, has_own_names }
    }

    /// Whether rules may differ that callers of a kind can have.
    pub(crate) fn may_differ(&self, kind: &Kind, source: &Source) -> bool {
        let differ = |[old, new]: [&BTreeSet<RoleId>; 2]| {
            let of = |side: &IdVec<RoleId, usize>, roles: &BTreeSet<RoleId>| -> BTreeSet<usize> {
                roles.iter().map(|role| *side.at(*role)).filter(|content| *content != 0).collect()
            };
            let [of_old, of_new] = &self.of;
            of(of_old, old) != of(of_new, new)
        };
        let identity = kind.sides.each_ref().map(|side| (&side.name, side.prefix));
        let [old, new] = identity;
        (self.has_own_names && old != new)
            || differ(kind.sides.each_ref().map(|side| &side.roles))
            || source.attributes.iter().any(|(_, roles)| differ(roles.each_ref()))
    }
}

/// A rule as a text that is equal for equal meanings.
fn text(rule: &Rule, effect: Effect, identity: &Identity) -> String {
    let mut paths: Vec<String> =
        rule.resources.iter().map(|pattern| pattern_text(pattern, identity)).collect();
    paths.sort();
    format!("{effect:?} {} {} {paths:?}", actions_text(&rule.actions), scopes_text(&rule.scopes))
}

fn actions_text(actions: &Actions) -> String {
    match actions {
        Actions::Any => "*".to_owned(),
        Actions::These(these) => these
            .iter()
            .map(|action| &**action)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
            .join("|"),
    }
}

fn scopes_text(scopes: &[Scope]) -> String {
    let all: BTreeSet<String> = scopes.iter().map(ToString::to_string).collect();
    all.into_iter().collect::<Vec<_>>().join(",")
}

fn pattern_text(pattern: &Pattern, identity: &Identity) -> String {
    let segment = |segment: &Segment| match segment {
        Segment::One(_) => "{}".to_owned(),
        Segment::UserId(sources) => {
            let named = identity.sources().filter(|(id, ..)| sources.contains(id));
            let names: BTreeSet<&str> = named.map(|(_, name, _)| name).collect();
            format!("{{user.id}}{names:?}")
        }
        Segment::Literal(_) | Segment::User | Segment::Glob(_) => segment.to_string(),
    };
    let segments: Vec<String> = pattern.segments.iter().map(segment).collect();
    format!("{}{}{}", pattern.absolute, segments.join("/"), if pattern.rest { "/**" } else { "" })
}

/// What one segment of a pattern matches for a caller.
#[derive(PartialEq, Eq, Hash)]
enum SegmentKey<'p> {
    Literal(&'p str),
    One,
    Name(&'p [u8]),
    Glob(&'p Glob),
}

type ItemKey<'p> = (bool, bool, Vec<SegmentKey<'p>>);

/// What a pattern matches for a caller; `None` is nothing.
fn key<'p>(pattern: &'p Pattern, subject: Option<PatternSubject<'p>>) -> Option<ItemKey<'p>> {
    let segment = |segment: &'p Segment| {
        Some(match segment {
            Segment::Literal(literal) => SegmentKey::Literal(literal),
            Segment::One(_) => SegmentKey::One,
            Segment::User => SegmentKey::Name(subject?.user),
            Segment::UserId(sources) => {
                let subject = subject?;
                subject.source.filter(|source| sources.contains(source))?;
                SegmentKey::Name(subject.id())
            }
            Segment::Glob(glob) => SegmentKey::Glob(glob),
        })
    };
    let segments: Option<Vec<_>> = pattern.segments.iter().map(segment).collect();
    Some((pattern.absolute, pattern.rest, segments?))
}

/// The rules that callers of a kind can have.
pub(crate) fn compare<'p>(sides: &[Side<'p>; 2], kind: &'p Kind, source: &Source) -> Compared<'p> {
    let mut compared = Compared { items: Vec::new(), rules: Vec::new() };
    let mut known: HashMap<ItemKey<'p>, usize> = HashMap::new();
    for (index, (side, on_side)) in sides.iter().zip(&kind.sides).enumerate() {
        let policy: &'p policy::Policy = side.policy;
        let subject = on_side.subject();
        let mut by_attribute: HashMap<RoleId, Vec<usize>> = HashMap::new();
        for (attribute, (_, roles)) in source.attributes.iter().enumerate() {
            for role in roles.get(index).into_iter().flatten() {
                by_attribute.entry(*role).or_default().push(attribute);
            }
        }
        for (id, role) in policy.roles.entries() {
            let all = on_side.roles.contains(&id);
            let attributes =
                if all { Vec::new() } else { by_attribute.remove(&id).unwrap_or_default() };
            if !all && attributes.is_empty() {
                continue;
            }
            let allow = role.allow.iter().map(|rule| (rule, Effect::Allow));
            for (rule, effect) in allow.chain(role.deny.iter().map(|rule| (rule, Effect::Deny))) {
                let items = rule.resources.iter().filter_map(|pattern| {
                    let next = compared.items.len();
                    let item = *known.entry(key(pattern, subject)?).or_insert(next);
                    if item == next {
                        compared.items.push(Item { pattern, subject, changed: false });
                    }
                    Some(item)
                });
                let items: Vec<usize> = items.collect();
                let attributes = attributes.clone();
                let held = Held {
                    side: index,
                    role,
                    rule,
                    effect,
                    all,
                    attributes,
                    items,
                    changed: false,
                };
                compared.rules.push(held);
            }
        }
    }
    compared.mark();
    compared
}

impl Compared<'_> {
    /// Marks the rules that only one policy has, and their patterns.
    fn mark(&mut self) {
        type Key = (usize, Effect, String, String, bool, Vec<usize>);
        let mut on_sides: HashMap<Key, usize> = HashMap::new();
        let keys = |rule: &Held<'_>| -> Vec<Key> {
            let (actions, scopes) =
                (actions_text(&rule.rule.actions), scopes_text(&rule.rule.scopes));
            let key = |item: &usize| {
                (
                    *item,
                    rule.effect,
                    actions.clone(),
                    scopes.clone(),
                    rule.all,
                    rule.attributes.clone(),
                )
            };
            rule.items.iter().map(key).collect()
        };
        for rule in &self.rules {
            for key in keys(rule) {
                *on_sides.entry(key).or_default() |= 1 << rule.side;
            }
        }
        for rule in &mut self.rules {
            for key in keys(rule) {
                if on_sides.get(&key) != Some(&0b11) {
                    rule.changed = true;
                    self.items.get_mut(key.0).into_iter().for_each(|item| item.changed = true);
                }
            }
        }
    }

    /// The rules of each pattern, by its place among the items.
    pub(crate) fn rules_of_items(&self) -> Vec<Vec<usize>> {
        let mut of = vec![Vec::new(); self.items.len()];
        for (index, rule) in self.rules.iter().enumerate() {
            for item in &rule.items {
                of.get_mut(*item).into_iter().for_each(|rules: &mut Vec<usize>| rules.push(index));
            }
        }
        of
    }
}
