//! The names that an expression with patterns stands for, to be forwarded in its place.
//!
//! The cluster resolves a pattern again, maybe to an index that the inventory lacks. With the names in its
//! place it finds the indices that were decided about.

use std::fmt::Write;

use roaring::RoaringBitmap;

use crate::expression::{Expression, Part};
use crate::inventory::{Inventory, Kind};
use crate::resolve::{Excluded, NOTHING, certainly_excluded, expand_matching, named_by};

/// Names in place of an expression.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Concrete<'e> {
    /// Those of the inventory, by number.
    known: RoaringBitmap,
    /// Names of the expression that the inventory lacks.
    unknown: Vec<&'e str>,
    /// Whether all of them come from patterns, and none is a name of the expression.
    pub(crate) is_of_patterns: bool,
    /// Whether one is an alias that a pattern matches. It would not match a hidden alias, and the inventory does
    /// not say whether this one is.
    pub(crate) has_matched_alias: bool,
}

/// The names of an expression, gathered part by part.
#[derive(Default)]
struct Gathered<'e> {
    /// Names of the expression.
    named: RoaringBitmap,
    unknown: Vec<&'e str>,
    /// Names that its patterns match.
    matched: RoaringBitmap,
    /// Indices and data streams that the cluster reaches by all of them.
    reached: RoaringBitmap,
}

impl<'e> Concrete<'e> {
    /// The names that reach the same indices as an expression. `None` if it has no pattern, or there are no
    /// such names.
    ///
    /// An alias may have a filter, of which the inventory knows nothing. So it is not replaced by its indices: it
    /// is forwarded by its name, or left out where each of its indices is forwarded by its own name, since the
    /// cluster then filters none of them.
    pub(crate) fn of(inventory: &Inventory, expression: &'e Expression<'_>) -> Option<Self> {
        let is_of_patterns = !expression.has_name();
        if !expression.has_pattern() || !expression.options.expands() {
            return None;
        }
        let Gathered { named, unknown, matched, reached } = Gathered::of(inventory, expression)?;
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
        (covered == reached).then_some(Self { known, unknown, is_of_patterns, has_matched_alias })
    }

    /// Whether each index that it reaches is among these names.
    pub(crate) fn is_within(&self, inventory: &Inventory, decided: &RoaringBitmap) -> bool {
        let mut reached = decided.clone();
        for group in decided & (&inventory.aliases | &inventory.data_streams) {
            reached.extend(inventory.related(group));
        }
        self.known.iter().all(|number| {
            let members = inventory.related(number);
            reached.contains(number)
                || (inventory.aliases.contains(number)
                    && members.iter().all(|index| reached.contains(*index)))
        })
    }

    /// The names as a list, percent-encoded; `None` if one of them would be read as something else than a name.
    pub(crate) fn encoded(&self, inventory: &Inventory) -> Option<String> {
        let known = self.known.iter().map(|number| inventory.name(number));
        let mut text = String::new();
        for name in self.unknown.iter().copied().chain(known) {
            if !is_plain(name) {
                return None;
            }
            push_encoded(&mut text, name);
        }
        Some(if text.is_empty() { NOTHING.to_owned() } else { text })
    }
}

impl<'e> Gathered<'e> {
    fn of(inventory: &Inventory, expression: &'e Expression<'_>) -> Option<Self> {
        let (options, is_all) = (expression.options, expression.is_of_all());
        let is_of_patterns = !expression.has_name();
        let is_group = |part| match part {
            Part::Name(name) => inventory.number(name).is_some_and(|number| !inventory.is_index(number)),
            Part::Pattern(_) | Part::Except(_) => false,
        };
        if expression.excludes() && expression.parts().any(is_group) {
            // OpenSearch excludes neither aliases and data streams nor their indices.
            return None;
        }
        let (mut all, mut excluded) = (Self::default(), Excluded::default());
        let mut taken_out = RoaringBitmap::new();
        for part in expression.parts() {
            match part {
                Part::Name(name) => all.add_name(inventory, name),
                Part::Pattern(pattern) => {
                    let matched = named_by(inventory, pattern, options, is_all);
                    let reached = expand_matching(inventory, matched.clone(), options);
                    // A pattern reaches the indices of a data stream in the states that the request asks for, and
                    // its name all of them. A closed one is an error then, unless it is ignored.
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
                    let matched = named_by(inventory, pattern, options, false);
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
                    // The cluster excludes names of indices, not the indices of an alias or data stream.
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

/// Adds a name to a list, percent-encoded (RFC 3986, 2.3).
pub(crate) fn push_encoded(list: &mut String, name: &str) {
    if !list.is_empty() {
        list.push(',');
    }
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            list.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(list, "%{byte:02X}");
        }
    }
}

/// Whether the cluster reads it as the name of one index, alias or data stream, wherever it stands in a path or a list.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(['-', '_', '+']) && !name.contains(['*', ',', ':', '<', '>', '/'])
}

#[cfg(test)]
mod tests;
