//! The patterns of all roles, and the names that they match.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashMapExt};
use roaring::RoaringBitmap;

use crate::inventory::Inventory;
use crate::pattern::{Matcher, Pattern};

/// The number of a pattern.
pub(super) type PatternId = u32;

/// Numbers patterns; equal ones have the same number.
#[derive(Default)]
pub(super) struct Builder<'c> {
    ids: HashMap<&'c Pattern, PatternId>,
}

/// The patterns, so that those which match a name are found without asking each.
#[derive(Debug)]
pub(super) struct Patterns {
    matches: Box<[Matches]>,
    /// Texts of exact patterns.
    exact: HashMap<Box<str>, PatternId>,
    prefixes: HashMap<Box<str>, PatternId>,
    /// The lengths of the prefixes, each once, in bytes.
    lengths: BTreeSet<usize>,
    /// Patterns with wildcards elsewhere, and regular expressions: sorted by id.
    others: Box<[(PatternId, Pattern)]>,
    anything: Option<PatternId>,
}

/// The names of the inventory that a pattern matches.
#[derive(Clone, Debug)]
pub(super) enum Matches {
    /// From the first to before the second: names with a common prefix are adjacent.
    Range(u32, u32),
    Some(RoaringBitmap),
}

impl<'c> Builder<'c> {
    pub(super) fn add(&mut self, pattern: &'c Pattern) -> PatternId {
        let next = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        *self.ids.entry(pattern).or_insert(next)
    }

    pub(super) fn build(self, inventory: Option<&Inventory>) -> Patterns {
        let mut patterns: Vec<(&Pattern, PatternId)> = self.ids.into_iter().collect();
        patterns.sort_unstable_by_key(|(_, id)| *id);
        let nothing = || Matches::Range(0, 0);
        let matches = patterns
            .iter()
            .map(|(pattern, _)| inventory.map_or_else(nothing, |inventory| Matches::of(pattern, inventory)));
        let matches = matches.collect();
        let (mut exact, mut prefixes) = (HashMap::new(), HashMap::<Box<str>, PatternId>::new());
        let (mut others, mut anything) = (Vec::new(), None);
        for (pattern, id) in patterns {
            match pattern.matcher() {
                Matcher::Nothing => {}
                Matcher::Anything => anything = Some(id),
                Matcher::Exact(text) => drop(exact.insert((**text).into(), id)),
                Matcher::Prefix(text) => {
                    prefixes.insert((**text).into(), id);
                }
                Matcher::Glob(_) | Matcher::Regex(_) => others.push((id, pattern.clone())),
            }
        }
        let lengths = prefixes.keys().map(|prefix| prefix.len()).collect();
        Patterns { matches, exact, prefixes, lengths, others: others.into(), anything }
    }
}

impl Patterns {
    /// The names of the inventory that a pattern matches.
    pub(super) fn matches(&self, id: PatternId) -> Option<&Matches> {
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

    /// Whether one of these patterns matches a name, except [those](Self::others) that must be asked.
    pub(super) fn any_matches(&self, among: &RoaringBitmap, name: &str) -> bool {
        self.anything.is_some_and(|id| among.contains(id))
            || self.exact.get(name).is_some_and(|id| among.contains(*id))
            || self.any_prefix(among, name)
    }

    /// Whether one of these patterns covers an expression, except [those](Self::others) that must be asked.
    pub(super) fn any_covers(&self, among: &RoaringBitmap, expression: &str) -> bool {
        let literal = expression.split('*').next().unwrap_or_default();
        self.anything.is_some_and(|id| among.contains(id))
            || self.any_prefix(among, literal)
            || (!expression.contains('*') && self.exact.get(expression).is_some_and(|id| among.contains(*id)))
    }

    /// Whether a name starts with one of these prefixes.
    fn any_prefix(&self, among: &RoaringBitmap, name: &str) -> bool {
        self.lengths.iter().map_while(|length| name.as_bytes().get(..*length)).any(|prefix| {
            let prefix = std::str::from_utf8(prefix).ok().and_then(|prefix| self.prefixes.get(prefix));
            prefix.is_some_and(|id| among.contains(*id))
        })
    }
}

impl Matches {
    /// Finds the names that a pattern matches.
    pub(super) fn of(pattern: &Pattern, inventory: &Inventory) -> Self {
        let range = inventory.with_prefix(&pattern.literal_prefix());
        match pattern.matcher() {
            Matcher::Nothing => Self::Range(0, 0),
            Matcher::Anything | Matcher::Prefix(_) => Self::Range(range.start, range.end),
            Matcher::Exact(text) => match inventory.number(text) {
                Some(number) => Self::Range(number, number + 1),
                None => Self::Range(0, 0),
            },
            Matcher::Glob(_) | Matcher::Regex(_) => {
                Self::Some(range.filter(|number| pattern.matches(inventory.name(*number))).collect())
            }
        }
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        match self {
            Self::Range(start, end) => (*start..*end).contains(&number),
            Self::Some(bitmap) => bitmap.contains(number),
        }
    }

    /// Adds the names to others.
    pub(super) fn add_to(&self, names: &mut RoaringBitmap) {
        match self {
            Self::Range(start, end) => drop(names.insert_range(*start..*end)),
            Self::Some(bitmap) => *names |= bitmap,
        }
    }

    pub(super) fn to_bitmap(&self) -> RoaringBitmap {
        let mut names = RoaringBitmap::new();
        self.add_to(&mut names);
        names
    }
}
