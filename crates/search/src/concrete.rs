//! The names that are forwarded in place of an expression with patterns.
//!
//! The cluster resolves a pattern again, maybe to an index that the inventory lacks. With names in
//! its place, it finds the indices that were decided about.

use roaring::RoaringBitmap;

use crate::expression::{Expression, Part};
use crate::inventory::{Inventory, Kind};
use crate::narrow::MAX_TARGET;
use crate::parameters::push_encoded;
use crate::resolve::{Exclusions, NOTHING, certainly_excluded, expand_matching, names_for_pattern};

/// The names that are forwarded in place of an expression.
#[derive(Debug)]
pub(crate) struct NamesInPlace {
    /// The names, percent-encoded.
    pub(crate) list: Box<str>,
    /// Whether the cluster is told to leave out names that do not exist any more, as patterns
    /// would. Not if the expression itself has names, or asks for closed indices:
    /// `ignore_unavailable` leaves these out, too.
    pub(crate) may_be_missing: bool,
    /// Whether one is an alias that a pattern matches. The pattern would not match a hidden alias,
    /// and the inventory does not say whether this one is hidden.
    pub(crate) has_matched_alias: bool,
}

/// The names of an expression, gathered part by part.
#[derive(Default)]
struct ReachedNames<'e> {
    /// Names of the expression.
    named: RoaringBitmap,
    unknown: Vec<&'e str>,
    /// Names that its patterns match.
    matched: RoaringBitmap,
    /// Indices and data streams that the cluster reaches by all of them.
    reached: RoaringBitmap,
}

impl NamesInPlace {
    /// The names that reach the same indices as an expression. `None` if it has no pattern, or if
    /// there are no such names. `decided` are the names that were decided about.
    ///
    /// An alias may have a filter that the inventory does not show. So it is not replaced by its
    /// indices: it is forwarded by its name. It is left out if each of its indices is forwarded by
    /// its own name, since the cluster then filters none of them.
    pub(crate) fn new(
        inventory: &Inventory,
        expression: &Expression<'_>,
        decided: &RoaringBitmap,
    ) -> Option<Self> {
        if !expression.has_pattern() || !expression.options.expands() {
            return None;
        }
        let ReachedNames { named, unknown, matched, reached } =
            ReachedNames::new(inventory, expression)?;
        let names = &named | &matched;
        let mut has_matched_alias = false;
        let mut known = &names & &reached;
        let mut covered = known.clone();
        for alias in &names & &inventory.aliases {
            let members = inventory.related(alias);
            let is_reached = |member: &&u32| reached.contains(**member);
            let is_left_out = !named.contains(alias)
                && !members.is_empty()
                && members.iter().filter(is_reached).all(|member| known.contains(*member));
            if is_left_out {
                continue;
            }
            if members.is_empty() || !members.iter().all(|member| reached.contains(*member)) {
                return None;
            }
            covered.extend(members);
            known.insert(alias);
            has_matched_alias |= !named.contains(alias);
        }
        if covered != reached {
            return None;
        }
        let mut list = String::new();
        for name in unknown.into_iter().chain(known.iter().map(|number| inventory.name(number))) {
            if !is_plain(name) {
                return None;
            }
            push_encoded(&mut list, name);
        }
        // Never more than was decided about: two ways to work out the same could differ.
        if list.is_empty() || !is_within(inventory, &known, decided) {
            NOTHING.clone_into(&mut list);
        }
        (list.len() <= MAX_TARGET).then(|| Self {
            list: list.into(),
            may_be_missing: !expression.has_name() && !expression.options.closed,
            has_matched_alias,
        })
    }
}

/// Whether each index that these names reach was decided about.
fn is_within(inventory: &Inventory, names: &RoaringBitmap, decided: &RoaringBitmap) -> bool {
    let mut reached = decided.clone();
    for group in decided & (&inventory.aliases | &inventory.data_streams) {
        reached.extend(inventory.related(group));
    }
    names.iter().all(|number| {
        let members = inventory.members(number);
        let is_alias = inventory.aliases.contains(number);
        reached.contains(number)
            || (is_alias && members.iter().all(|index| reached.contains(*index)))
    })
}

impl<'e> ReachedNames<'e> {
    fn new(inventory: &Inventory, expression: &'e Expression<'_>) -> Option<Self> {
        let (options, is_all) = (expression.options, expression.is_of_all());
        let is_of_patterns = !expression.has_name();
        let is_group = |part| match part {
            Part::Name(name) => {
                inventory.number(name).is_some_and(|number| !inventory.is_index(number))
            }
            Part::Pattern(_) | Part::Except(_) => false,
        };
        if expression.excludes() && expression.parts().any(is_group) {
            // OpenSearch excludes neither aliases and data streams nor their indices.
            return None;
        }
        let (mut all, mut excluded) = (Self::default(), Exclusions::default());
        let mut taken_out = RoaringBitmap::new();
        for part in expression.parts() {
            match part {
                Part::Name(name) => all.add_name(inventory, name),
                Part::Pattern(pattern) => {
                    let matched = names_for_pattern(inventory, pattern, options, is_all);
                    let reached = expand_matching(inventory, matched.clone(), options);
                    // A pattern reaches the indices of a data stream in some states, its name all
                    // of them. A closed one is an error, unless it is ignored.
                    let closed = options.closed || is_of_patterns;
                    let mut streams = (&matched & &inventory.data_streams).into_iter();
                    let is_reached = |index: &u32| match inventory.kind(*index) {
                        Some(Kind::OpenIndex) => options.open,
                        Some(Kind::ClosedIndex) => closed,
                        Some(Kind::Alias | Kind::DataStream) | None => true,
                    };
                    if !streams.all(|stream| inventory.related(stream).iter().all(is_reached)) {
                        return None;
                    }
                    all.matched |= matched & (&reached | &inventory.aliases);
                    all.reached |= reached;
                }
                Part::Except(pattern) if pattern.contains('*') => {
                    let matched = names_for_pattern(inventory, pattern, options, false);
                    // It is not known whether it excludes aliases, and indices that are not listed.
                    let unsure = &inventory.aliases | &inventory.unlisted;
                    if !matched.is_disjoint(&unsure) {
                        return None;
                    }
                    let excluded = certainly_excluded(inventory, matched, options);
                    // An alias after it may reach the same indices again, but not by their names.
                    for set in [&mut all.matched, &mut all.named, &mut all.reached] {
                        *set -= &excluded;
                    }
                    taken_out |= excluded;
                }
                Part::Except(name) => match inventory.number(name) {
                    // The cluster excludes names of indices, not those of a group.
                    Some(number) if !inventory.is_index(number) => return None,
                    Some(number) => {
                        for set in [&mut all.matched, &mut all.named, &mut all.reached] {
                            set.remove(number);
                        }
                    }
                    None => excluded.add(name, all.unknown.len()),
                },
            }
        }
        excluded.take_out(&mut all.unknown, |name| Some(name));
        // A part of a data stream cannot be named by its name.
        let mut streams = (&all.reached & &inventory.data_streams).into_iter();
        let is_whole =
            |stream: u32| !inventory.related(stream).iter().any(|index| taken_out.contains(*index));
        streams.all(is_whole).then_some(all)
    }

    fn add_name(&mut self, inventory: &Inventory, name: &'e str) {
        match inventory.number(name) {
            Some(number) if inventory.kind(number) == Some(Kind::Alias) => {
                self.named.insert(number);
                self.reached.extend(inventory.related(number));
            }
            Some(number) => {
                self.named.insert(number);
                self.reached.insert(number);
            }
            None => self.unknown.push(name),
        }
    }
}

/// Whether the cluster reads it as one name, wherever it stands in a path or a list.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(['-', '_', '+'])
        && !name.contains(['*', ',', ':', '<', '>', '/'])
}

#[cfg(test)]
mod tests;
