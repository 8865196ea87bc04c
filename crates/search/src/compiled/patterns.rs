//! The patterns of all roles, and the names that they match.

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
    /// Prefixes, sorted.
    prefixes: Box<[Prefix]>,
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

#[derive(Debug)]
struct Prefix {
    text: Box<str>,
    id: PatternId,
    /// The longest other prefix that this one starts with.
    shorter: Option<u32>,
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
        let (mut exact, mut prefixes, mut others, mut anything) =
            (HashMap::new(), Vec::new(), Vec::new(), None);
        for (pattern, id) in patterns {
            match pattern.matcher() {
                Matcher::Nothing => {}
                Matcher::Anything => anything = Some(id),
                Matcher::Exact(text) => drop(exact.insert((**text).into(), id)),
                Matcher::Prefix(text) => prefixes.push(Prefix { text: (**text).into(), id, shorter: None }),
                Matcher::Glob(_) | Matcher::Regex(_) => others.push((id, pattern.clone())),
            }
        }
        Patterns { matches, exact, prefixes: sorted(prefixes), others: others.into(), anything }
    }
}

/// Sorts prefixes, and links each to the next shorter one.
fn sorted(mut prefixes: Vec<Prefix>) -> Box<[Prefix]> {
    prefixes.sort_unstable_by(|one, other| one.text.cmp(&other.text));
    // Those that the current one may start with, the longest last.
    let mut open: Vec<u32> = Vec::new();
    for number in 0..prefixes.len() {
        let Some(text) = prefixes.get(number).map(|prefix| prefix.text.clone()) else { break };
        let is_shorter = |open: u32| {
            prefixes.get(open as usize).is_some_and(|prefix: &Prefix| text.starts_with(&*prefix.text))
        };
        while open.last().is_some_and(|last| !is_shorter(*last)) {
            open.pop();
        }
        let shorter = open.last().copied();
        if let Some(prefix) = prefixes.get_mut(number) {
            prefix.shorter = shorter;
        }
        open.extend(u32::try_from(number));
    }
    prefixes.into()
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

    /// Whether a name starts with one of these prefixes. All prefixes that it starts with are on the way from its place
    /// in the order to ever shorter ones.
    fn any_prefix(&self, among: &RoaringBitmap, name: &str) -> bool {
        let after = self.prefixes.partition_point(|prefix| *prefix.text <= *name);
        let mut number = after.checked_sub(1);
        while let Some(prefix) = number.and_then(|number| self.prefixes.get(number)) {
            if name.starts_with(&*prefix.text) && among.contains(prefix.id) {
                return true;
            }
            number = prefix.shorter.map(|shorter| shorter as usize);
        }
        false
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
