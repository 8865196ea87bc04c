//! The answers of both policies for points, in each world of the conditions that matter there.
//!
//! A *point* is a kind of requests (see `diff`). A *world* says which conditions are true in it
//! (see `worlds`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use policy::model::Effect;

use crate::cases::Cases;
use crate::conditions::{Answer, Attributes, Direction, Effects, answers};
use crate::interned::Conditions;
use crate::rules::CallerRule;
use crate::worlds::World;

/// The result at a point.
#[derive(Default)]
pub(crate) struct PointAnswers {
    /// The callers to whom the point is granted, or from whom it is revoked. Without cases, this is
    /// so in every world.
    pub(crate) changes: Vec<(Attributes, Direction, Option<Rc<Cases>>)>,
    /// For all attributes that have an effect: whether the new policy always allows the point, and
    /// whether it always denies it.
    pub(crate) always: Vec<(Attributes, [bool; 2])>,
}

/// The answers for some rules that match a point.
pub(crate) fn point_answers(
    rules: &[&CallerRule<'_>],
    conditions: &mut Conditions,
) -> PointAnswers {
    let mut numbers: Vec<usize> = rules.iter().flat_map(|rule| &rule.when).copied().collect();
    numbers.sort_unstable();
    numbers.dedup();
    // Most points have the same answers under both policies, whatever the conditions are. Their
    // worlds are not enumerated.
    let bounds = bounds(rules);
    if bounds.changes.is_empty() || !rules.iter().any(|rule| rule.changed) {
        return PointAnswers { changes: Vec::new(), ..bounds };
    }
    let Some(worlds) = conditions.worlds(&numbers) else { return bounds };
    let positions: Vec<Vec<usize>> = rules
        .iter()
        .map(|rule| rule.when.iter().filter_map(|when| numbers.binary_search(when).ok()).collect())
        .collect();
    // Worlds in which the same rules count have the same answers.
    let mut worlds_by_rules: BTreeMap<Vec<bool>, Vec<usize>> = BTreeMap::new();
    for (number, world) in worlds.iter().enumerate() {
        let counting = rules.iter().zip(&positions).map(|(rule, at)| rule.counts(world, at));
        let counting = counting.collect();
        worlds_by_rules.entry(counting).or_default().push(number);
    }
    let mut attributes = BTreeSet::new();
    let mut effects = Vec::new();
    for (counting, worlds) in worlds_by_rules {
        let [mut old, mut new] = [Effects::default(), Effects::default()];
        for (rule, _) in rules.iter().zip(counting).filter(|(_, counts)| *counts) {
            rule.add_to(if rule.is_new { &mut new } else { &mut old });
        }
        let answers = answers(&old, &new);
        attributes.extend(answers.iter().map(|answer| answer.attributes.clone()));
        effects.push((new, answers, worlds));
    }
    let mut point = PointAnswers::default();
    let mut applies: BTreeMap<(Attributes, Direction), Vec<bool>> = BTreeMap::new();
    for (_, answers, in_worlds) in &effects {
        for answer in changes(answers) {
            let key = (answer.attributes.clone(), answer.direction());
            let applies = applies.entry(key).or_insert_with(|| vec![false; worlds.len()]);
            for world in in_worlds {
                if let Some(applies) = applies.get_mut(*world) {
                    *applies = true;
                }
            }
        }
    }
    let texts = conditions.texts(&numbers);
    let mut described: HashMap<Vec<bool>, Option<Rc<Cases>>> = HashMap::new();
    for ((attributes, direction), applies) in applies {
        let cases = described
            .entry(applies)
            .or_insert_with_key(|applies| Cases::new(&texts, &worlds, applies).map(Rc::new))
            .clone();
        point.changes.push((attributes, direction, cases));
    }
    for attributes in attributes {
        let allowed: BTreeSet<bool> =
            effects.iter().map(|(new, ..)| new.allow(&attributes)).collect();
        let always = [true, false].map(|always| allowed == BTreeSet::from([always]));
        point.always.push((attributes, always));
    }
    point
}

/// The answers that are possible if nothing is known about conditions.
fn bounds(rules: &[&CallerRule<'_>]) -> PointAnswers {
    // The effects with which each policy allows the most and the least. A rule with a condition may
    // count or not: it is added only to one of the two.
    let mut most: [Effects; 2] = Default::default();
    let mut least: [Effects; 2] = Default::default();
    for rule in rules {
        let side = usize::from(rule.is_new);
        let in_doubt = if rule.effect == Effect::Allow { &mut most } else { &mut least };
        in_doubt.get_mut(side).into_iter().for_each(|effects| rule.add_to(effects));
        if rule.when.is_empty() {
            let certain = if rule.effect == Effect::Allow { &mut least } else { &mut most };
            certain.get_mut(side).into_iter().for_each(|effects| rule.add_to(effects));
        }
    }
    let ([most_old, most_new], [least_old, least_new]) = (most, least);
    let mut point = PointAnswers::default();
    let mut attributes = BTreeSet::new();
    for (direction, answers) in [
        (Direction::Granted, answers(&least_old, &most_new)),
        (Direction::Revoked, answers(&most_old, &least_new)),
    ] {
        attributes.extend(answers.iter().map(|answer| answer.attributes.clone()));
        // Without a changed rule, everyone's answer does not change, although it is in doubt. Then
        // it does not stand for the answers of others.
        let changes: Vec<&Answer> =
            match rules.iter().any(|rule| rule.can_cause(direction) && rule.everyone) {
                true => changes(&answers).collect(),
                false => answers.iter().filter(|answer| !answer.attributes.is_empty()).collect(),
            };
        let allowed = [direction == Direction::Revoked, direction == Direction::Granted];
        for answer in changes.into_iter().filter(|answer| answer.allowed == allowed) {
            let cases = Some(Rc::new(Cases::too_many()));
            point.changes.push((answer.attributes.clone(), direction, cases));
        }
    }
    for attributes in attributes {
        let always = [least_new.allow(&attributes), !most_new.allow(&attributes)];
        point.always.push((attributes, always));
    }
    point
}

/// The answers that differ between the policies. An answer that is the same as the answer for
/// everyone is left out: everyone's answer stands for it.
fn changes(answers: &[Answer]) -> impl Iterator<Item = &Answer> {
    let everyone = answers.iter().find(|answer| answer.attributes.is_empty());
    answers.iter().filter(move |answer| {
        let [old, new] = answer.allowed;
        let is_of_everyone = everyone.is_some_and(|everyone| everyone.allowed == answer.allowed);
        old != new && (answer.attributes.is_empty() || !is_of_everyone)
    })
}

impl CallerRule<'_> {
    /// Whether the rule counts in a world. Its conditions are at these positions of the world.
    fn counts(&self, world: &World, positions: &[usize]) -> bool {
        let mut truths = positions.iter().map(|position| world.get(*position).copied().flatten());
        match self.effect {
            Effect::Allow => truths.all(|truth| truth == Some(true)),
            Effect::Deny => truths.all(|truth| truth != Some(false)),
        }
    }

    fn add_to(&self, effects: &mut Effects) {
        let holders = match self.effect {
            Effect::Allow => &mut effects.allow,
            Effect::Deny => &mut effects.deny,
        };
        holders.add(self.everyone, &self.attributes);
    }
}
