//! The names that are forwarded in place of an expression with patterns.
//!
//! The cluster resolves a forwarded pattern itself, maybe to an index that the inventory lacks. If
//! it gets names in place of the pattern, it finds only the indices that were checked.

use roaring::RoaringBitmap;

use crate::expression::{Expression, Part};
use crate::inventory::{Inventory, Kind};
use crate::narrow::MAX_TARGET;
use crate::parameters::push_encoded;
use crate::resolve::{
    NOTHING, certainly_excluded, expand_matching, matches_in, parts_without_excluded,
    visible_matches,
};

/// The names that are forwarded in place of an expression.
#[derive(Debug)]
pub(crate) struct NamesInPlace {
    /// The names, percent-encoded.
    pub(crate) list: Box<str>,
    /// Whether the request is forwarded with `ignore_unavailable`. The cluster then leaves out
    /// names that do not exist any more, as it does with patterns. `false` if the expression itself
    /// has names or asks for closed indices, because the cluster would leave these out, too.
    pub(crate) may_be_missing: bool,
    /// Whether the list has an alias because a pattern matches it. In the cluster the pattern does
    /// not match a hidden alias, and the inventory does not say which aliases are hidden.
    pub(crate) has_matched_alias: bool,
}

/// The names of an expression, gathered part by part.
#[derive(Default)]
struct ReachedNames<'e> {
    /// Names that are written in the expression, and that the inventory has.
    named: RoaringBitmap,
    /// Names that are written in the expression, and that the inventory lacks.
    unknown: Vec<&'e str>,
    /// Names that its patterns match.
    matched: RoaringBitmap,
    /// Indices and data streams that the cluster reaches by `named` and `matched`.
    reached: RoaringBitmap,
}

impl NamesInPlace {
    /// The names that reach the same indices as an expression. `None` if it has no pattern, or if
    /// there are no such names. `checked` are the names that were checked.
    ///
    /// An alias may have a filter that the inventory does not show. So it is forwarded by its name,
    /// and not replaced with its indices. But an alias that only a pattern matches is left out if
    /// all of its indices that are reached are forwarded by their own names, since the cluster then
    /// filters none of them.
    pub(crate) fn new(
        inventory: &Inventory,
        expression: &Expression<'_>,
        checked: &RoaringBitmap,
    ) -> Option<Self> {
        if !expression.has_pattern() || !expression.options.expands() {
            return None;
        }
        let ReachedNames { named, unknown, matched, reached } =
            ReachedNames::new(inventory, expression)?;
        let names = &named | &matched;
        let mut has_matched_alias = false;
        let mut forwarded = &names & &reached;
        let mut covered = forwarded.clone();
        for alias in &names & &inventory.aliases {
            let members: RoaringBitmap = inventory.members(alias).iter().collect();
            let members_reached = &members & &reached;
            if !named.contains(alias)
                && !members.is_empty()
                && members_reached.is_subset(&forwarded)
            {
                continue;
            }
            if members.is_empty() || members_reached != members {
                return None;
            }
            covered |= members;
            forwarded.insert(alias);
            has_matched_alias |= !named.contains(alias);
        }
        if covered != reached {
            return None;
        }
        let forwarded_names = forwarded.iter().map(|id| inventory.name(id));
        let mut list = String::new();
        for name in unknown.into_iter().chain(forwarded_names) {
            if !is_plain(name) {
                return None;
            }
            push_encoded(&mut list, name);
        }
        // The check resolves the expression in its own way. If it did not check one of these names,
        // nothing is forwarded.
        let checked = inventory.with_members(checked.clone());
        let are_checked = (&forwarded - &checked).iter().all(|id| {
            let mut members = inventory.members(id).iter();
            inventory.aliases.contains(id) && members.all(|index| checked.contains(*index))
        });
        if list.is_empty() || !are_checked {
            NOTHING.clone_into(&mut list);
        }
        (list.len() <= MAX_TARGET).then(|| Self {
            list: list.into(),
            may_be_missing: !expression.has_name() && !expression.options.closed,
            has_matched_alias,
        })
    }
}

impl<'e> ReachedNames<'e> {
    fn new(inventory: &Inventory, expression: &'e Expression<'_>) -> Option<Self> {
        let options = expression.options;
        // OpenSearch excludes no alias, no data stream, and none of their indices.
        if expression.excludes() && expression.parts().any(|part| is_parent(inventory, part)) {
            return None;
        }
        let (mut names, mut excluded) = (Self::default(), RoaringBitmap::new());
        for part in parts_without_excluded(inventory, expression) {
            match part {
                Part::Name(name) => names.add_name(inventory, name),
                Part::Pattern(pattern) => {
                    let matched = matches_in(inventory, expression, pattern, options);
                    let reached = expand_matching(inventory, matched.clone(), options);
                    // A pattern reaches those indices of a data stream that are in a requested
                    // state. The name of the data stream reaches all. A closed index is then an
                    // error, unless closed indices are requested or `ignore_unavailable` is set.
                    let may_be_closed = options.closed || !expression.has_name();
                    let streams = (&matched & &inventory.data_streams).into_iter();
                    let mut backing = streams.flat_map(|stream| inventory.members(stream));
                    if !backing.all(|index| match inventory.kind(*index) {
                        Some(Kind::OpenIndex) => options.open,
                        Some(Kind::ClosedIndex) => may_be_closed,
                        Some(Kind::Alias | Kind::DataStream) | None => true,
                    }) {
                        return None;
                    }
                    names.matched |= matched & (&reached | &inventory.aliases);
                    names.reached |= reached;
                }
                Part::Except(pattern) if pattern.contains('*') => {
                    let matched = visible_matches(inventory, pattern, options);
                    // These aliases and indices may be hidden. The cluster excludes nothing that is
                    // hidden.
                    if !matched.is_disjoint(&(&inventory.aliases | &inventory.unlisted)) {
                        return None;
                    }
                    let matched = certainly_excluded(inventory, matched, options);
                    names.exclude(&matched);
                    excluded |= matched;
                }
                Part::Except(name) => match inventory.id(name) {
                    // The cluster excludes indices by name, but not aliases and data streams.
                    Some(id) if !inventory.is_index(id) => return None,
                    Some(id) => names.exclude(&RoaringBitmap::from_iter([id])),
                    None => {}
                },
            }
        }
        // The name of a data stream cannot stand for only a part of it.
        let streams = (&names.reached & &inventory.data_streams).into_iter();
        let mut backing = streams.flat_map(|stream| inventory.members(stream));
        (!backing.any(|index| excluded.contains(*index))).then_some(names)
    }

    /// Excludes indices. An alias in a later part may reach them again, but their own names do not.
    fn exclude(&mut self, indices: &RoaringBitmap) {
        for names in [&mut self.matched, &mut self.named, &mut self.reached] {
            *names -= indices;
        }
    }

    fn add_name(&mut self, inventory: &Inventory, name: &'e str) {
        let Some(id) = inventory.id(name) else { return self.unknown.push(name) };
        self.named.insert(id);
        match inventory.aliases.contains(id) {
            true => self.reached.extend(inventory.members(id)),
            false => drop(self.reached.insert(id)),
        }
    }
}

/// Whether a part is the name of an alias or data stream.
fn is_parent(inventory: &Inventory, part: Part<'_>) -> bool {
    match part {
        Part::Name(name) => inventory.id(name).is_some_and(|id| !inventory.is_index(id)),
        Part::Pattern(_) | Part::Except(_) => false,
    }
}

/// Whether the cluster reads this text as a single name, anywhere in a path or a list.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(['-', '_', '+'])
        && !name.contains(['*', ',', ':', '<', '>', '/'])
}

#[cfg(test)]
mod tests;
