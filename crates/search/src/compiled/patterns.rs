//! The patterns of all roles, and the names that they match.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashMapExt};
use roaring::RoaringBitmap;

use crate::inventory::Inventory;
use crate::pattern::{Matcher, Pattern};

/// The number of a pattern.
pub(super) type PatternId = u32;

/// The patterns, so that those which match a name are found without asking each.
#[derive(Debug)]
pub(super) struct Patterns {
    /// The names of the inventory that each pattern matches, by its id.
    matches: Box<[RoaringBitmap]>,
    /// Texts of exact patterns.
    exact: HashMap<Box<str>, PatternId>,
    prefixes: HashMap<Box<str>, PatternId>,
    /// The lengths of the prefixes, each once, in bytes.
    lengths: BTreeSet<usize>,
    /// Patterns with wildcards elsewhere, and regular expressions: sorted by id.
    others: Box<[(PatternId, Pattern)]>,
    anything: Option<PatternId>,
}

impl Patterns {
    /// The patterns in the order of their ids.
    pub(super) fn new(patterns: &[&Pattern], inventory: &Inventory) -> Self {
        let matches = patterns.iter().map(|pattern| matches_of(pattern, inventory)).collect();
        let (mut exact, mut prefixes) = (HashMap::new(), HashMap::<Box<str>, PatternId>::new());
        let (mut others, mut anything) = (Vec::new(), None);
        for (id, pattern) in (0..).zip(patterns) {
            match pattern.matcher() {
                Matcher::Nothing => {}
                Matcher::Anything => anything = Some(id),
                Matcher::Exact(text) => drop(exact.insert((**text).into(), id)),
                Matcher::Prefix(text) => drop(prefixes.insert((**text).into(), id)),
                Matcher::Glob(_) | Matcher::Regex(_) => others.push((id, Pattern::clone(pattern))),
            }
        }
        let lengths = prefixes.keys().map(|prefix| prefix.len()).collect();
        Self { matches, exact, prefixes, lengths, others: others.into(), anything }
    }

    /// The names of the inventory that a pattern matches.
    pub(super) fn matches(&self, id: PatternId) -> Option<&RoaringBitmap> {
        self.matches.get(id as usize)
    }

    /// Those of these patterns that must be asked one by one.
    pub(super) fn others(&self, among: &RoaringBitmap) -> Box<[Pattern]> {
        let others = self.others.iter().filter(|(id, _)| among.contains(*id));
        others.map(|(_, pattern)| pattern.clone()).collect()
    }

    /// Whether it is the pattern `*`.
    pub(super) fn is_anything(&self, id: PatternId) -> bool {
        self.anything == Some(id)
    }

    /// How many patterns must be asked one by one.
    pub(super) fn others_len(&self) -> usize {
        self.others.len()
    }

    /// Whether one of these patterns matches a name, except [the others](Self::others).
    pub(super) fn any_matches(&self, among: &RoaringBitmap, name: &str) -> bool {
        self.anything.is_some_and(|id| among.contains(id))
            || self.exact.get(name).is_some_and(|id| among.contains(*id))
            || self.any_prefix(among, name)
    }

    /// Whether one of these patterns covers an expression, except [the others](Self::others).
    pub(super) fn any_covers(&self, among: &RoaringBitmap, expression: &str) -> bool {
        let literal = expression.split('*').next().unwrap_or_default();
        self.anything.is_some_and(|id| among.contains(id))
            || self.any_prefix(among, literal)
            || (!expression.contains('*')
                && self.exact.get(expression).is_some_and(|id| among.contains(*id)))
    }

    /// Whether a name starts with one of these prefixes.
    fn any_prefix(&self, among: &RoaringBitmap, name: &str) -> bool {
        self.lengths.iter().map_while(|length| name.as_bytes().get(..*length)).any(|prefix| {
            let prefix =
                std::str::from_utf8(prefix).ok().and_then(|prefix| self.prefixes.get(prefix));
            prefix.is_some_and(|id| among.contains(*id))
        })
    }
}

/// The names of the inventory that a pattern matches. Those of a prefix are a range of numbers.
pub(super) fn matches_of(pattern: &Pattern, inventory: &Inventory) -> RoaringBitmap {
    let range = inventory.with_prefix(&pattern.literal_prefix());
    let mut names = RoaringBitmap::new();
    match pattern.matcher() {
        Matcher::Nothing => {}
        Matcher::Anything | Matcher::Prefix(_) => drop(names.insert_range(range)),
        Matcher::Exact(text) => names.extend(inventory.number(text)),
        Matcher::Glob(_) | Matcher::Regex(_) => {
            names.extend(range.filter(|number| pattern.matches(inventory.name(*number))));
        }
    }
    names.optimize();
    names
}
