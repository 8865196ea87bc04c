//! The patterns of all roles, and the names that they match.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::HashMap;
use roaring::RoaringBitmap;

use crate::inventory::Inventory;
use crate::pattern::{Matcher, Pattern};

/// The id of a pattern.
pub(super) type PatternId = u32;

/// The patterns, indexed so that the matches of a name are found without comparing each pattern.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    /// The names of the inventory that each pattern matches, by its id.
    matches: Box<[RoaringBitmap]>,
    /// Texts of exact patterns.
    exact: HashMap<Arc<str>, PatternId>,
    /// Prefixes of patterns such as `logs-*`; empty for the pattern `*`.
    prefixes: HashMap<Arc<str>, PatternId>,
    /// The lengths of the prefixes, each once, in bytes.
    lengths: BTreeSet<usize>,
    /// Patterns that must be compared with each name: globs and regular expressions. Sorted by id.
    compared: Vec<(PatternId, Pattern)>,
}

impl Patterns {
    /// The patterns in the order of their ids.
    pub(super) fn new<'p>(
        patterns: impl Iterator<Item = &'p Pattern> + Clone,
        inventory: &Inventory,
    ) -> Self {
        let names = patterns.clone().map(|pattern| matching_names(pattern, inventory));
        let mut compiled = Self { matches: names.collect(), ..Self::default() };
        for (id, pattern) in (0..).zip(patterns) {
            match pattern.matcher() {
                Matcher::Nothing => {}
                Matcher::Anything => drop(compiled.prefixes.insert("".into(), id)),
                Matcher::Exact(text) => drop(compiled.exact.insert(text.clone(), id)),
                Matcher::Prefix(text) => drop(compiled.prefixes.insert(text.clone(), id)),
                Matcher::Glob(_) | Matcher::Regex(_) => {
                    compiled.compared.push((id, pattern.clone()))
                }
            }
        }
        compiled.lengths = compiled.prefixes.keys().map(|prefix| prefix.len()).collect();
        compiled
    }

    /// The names of the inventory that a pattern matches.
    pub(super) fn matches(&self, id: PatternId) -> Option<&RoaringBitmap> {
        self.matches.get(id as usize)
    }

    /// Whether it is the pattern `*`.
    pub(super) fn is_anything(&self, id: PatternId) -> bool {
        self.prefixes.get("") == Some(&id)
    }

    /// The patterns among these that must be compared with each name.
    pub(super) fn compared(&self, among: &RoaringBitmap) -> Box<[Pattern]> {
        let compared = self.compared.iter().filter(|(id, _)| among.contains(*id));
        compared.map(|(_, pattern)| pattern.clone()).collect()
    }

    /// The number of patterns that must be compared with each name.
    pub(super) fn compared_len(&self) -> usize {
        self.compared.len()
    }

    /// Whether an exact pattern or a prefix among these matches a name.
    pub(super) fn finds_match(&self, among: &RoaringBitmap, name: &str) -> bool {
        self.any_prefix(among, name) || self.exact.get(name).is_some_and(|id| among.contains(*id))
    }

    /// Whether an exact pattern or a prefix among these covers an expression.
    pub(super) fn finds_cover(&self, among: &RoaringBitmap, expression: &str) -> bool {
        match expression.split_once('*') {
            Some((literal, _)) => self.any_prefix(among, literal),
            None => self.finds_match(among, expression),
        }
    }

    /// Whether a name starts with a prefix among these patterns.
    fn any_prefix(&self, among: &RoaringBitmap, name: &str) -> bool {
        let mut lengths = self.lengths.iter().take_while(|length| **length <= name.len());
        lengths.any(|length| {
            let id = name.get(..*length).and_then(|prefix| self.prefixes.get(prefix));
            id.is_some_and(|id| among.contains(*id))
        })
    }
}

/// The names of the inventory that a pattern matches. Names with the same prefix are a range of
/// ids.
pub(super) fn matching_names(pattern: &Pattern, inventory: &Inventory) -> RoaringBitmap {
    let mut names = RoaringBitmap::new();
    match pattern.matcher() {
        Matcher::Nothing => {}
        Matcher::Anything => drop(names.insert_range(0..inventory.len())),
        Matcher::Exact(text) => names.extend(inventory.id(text)),
        Matcher::Prefix(text) => drop(names.insert_range(inventory.with_prefix(text.as_bytes()))),
        Matcher::Glob(_) | Matcher::Regex(_) => {
            let range = inventory.with_prefix(pattern.literal_prefix().collect::<Vec<u8>>());
            names.extend(range.filter(|id| pattern.matches(inventory.name(*id))));
            names.optimize();
        }
    }
    names
}
