//! Representatives of the segments that globs distinguish.
//!
//! All globs read a segment at the same time, character by character, like a single automaton. A
//! breadth-first search over its states finds a shortest segment for each set of globs that some
//! segment matches.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use policy::canonical::decoded;
use policy::pattern::Glob;

use crate::TooComplex;

/// The maximum number of states that are visited.
const MAX_STATES: usize = 100_000;
/// The maximum number of characters of a glob: its states are the bits of a `u128`.
const MAX_UNITS: usize = 127;

/// The states of a glob that reads a name, as bits.
///
/// Bit `n` means that the first `n` units of the glob have been matched.
pub(crate) struct GlobStates<'g> {
    /// The characters of the glob; `None` is `*`.
    units: Vec<Option<&'g str>>,
    /// The states before a `*`.
    stars: u128,
    /// The states before the first character is read.
    start: u128,
}

impl<'g> GlobStates<'g> {
    /// The states of a glob after it has read `before`.
    pub(crate) fn new(glob: &'g Glob, before: &str) -> Result<Self, TooComplex> {
        let mut glob_units = Vec::new();
        for (index, piece) in glob.0.iter().enumerate() {
            if index > 0 {
                glob_units.push(None);
            }
            glob_units.extend(units(piece).map(Some));
        }
        if glob_units.len() > MAX_UNITS {
            return Err(TooComplex);
        }
        let stars = glob_units.iter().enumerate().filter(|(_, unit)| unit.is_none());
        let stars = stars.fold(0, |stars, (index, _)| stars | 1 << index);
        let mut states = Self { units: glob_units, stars, start: 0 };
        let start = states.with_skipped_stars(1);
        states.start = units(before).fold(start, |current, unit| states.step(current, unit));
        Ok(states)
    }

    fn step(&self, states: u128, unit: &str) -> u128 {
        let mut next = states & self.stars;
        let mut waiting = states & !self.stars;
        while waiting != 0 {
            let state = waiting.trailing_zeros() as usize;
            waiting &= waiting - 1;
            if self.units.get(state).copied().flatten() == Some(unit) {
                next |= 1 << (state + 1);
            }
        }
        self.with_skipped_stars(next)
    }

    /// Adds the states after each `*`, which may match nothing.
    const fn with_skipped_stars(&self, mut states: u128) -> u128 {
        loop {
            let more = states | ((states & self.stars) << 1);
            if more == states {
                return states;
            }
            states = more;
        }
    }

    fn accepts(&self, states: u128) -> bool {
        states >> self.units.len() & 1 == 1
    }
}

/// The words that a search must not return, as a tree of their characters.
#[derive(Default)]
struct WordTree<'w> {
    next: HashMap<(usize, &'w str), usize>,
    ends: HashSet<usize>,
}

impl<'w> WordTree<'w> {
    fn insert(&mut self, word: &'w str) {
        let mut node = 0;
        for unit in units(word) {
            let new_node = self.next.len() + 1;
            node = *self.next.entry((node, unit)).or_insert(new_node);
        }
        self.ends.insert(node);
    }
}

/// The states of the globs, the node in the tree of words, and the bytes of the last character if
/// it is incomplete: a canonical path is UTF-8.
type State = (Vec<u128>, Option<usize>, Vec<u8>);

/// Representatives for sets of globs and words. Most kinds of callers ask for the same sets.
#[derive(Default)]
pub(crate) struct RepresentativeCache(HashMap<(Vec<Glob>, BTreeSet<String>), Vec<String>>);

impl RepresentativeCache {
    /// One segment for each set of globs that a segment can match, not in `words`.
    pub(crate) fn representatives(
        &mut self,
        globs: &BTreeSet<&Glob>,
        words: BTreeSet<String>,
    ) -> Result<Vec<String>, TooComplex> {
        let key = (globs.iter().map(|glob| (*glob).clone()).collect(), words);
        if let Some(segments) = self.0.get(&key) {
            return Ok(segments.clone());
        }
        let states: Result<Vec<_>, _> =
            globs.iter().map(|glob| GlobStates::new(glob, "")).collect();
        let segments = representatives(&states?, &key.1.iter().map(String::as_str).collect())?;
        self.0.insert(key, segments.clone());
        Ok(segments)
    }
}

/// One segment for each set of globs that a segment can match, not in `words`.
pub(crate) fn representatives(
    globs: &[GlobStates<'_>],
    words: &BTreeSet<&str>,
) -> Result<Vec<String>, TooComplex> {
    if globs.is_empty() {
        return Ok(vec![unused_segment(words.iter().copied())]);
    }
    let mut tree = WordTree::default();
    words.iter().for_each(|word| tree.insert(word));
    let mut alphabet: BTreeSet<&str> =
        globs.iter().flat_map(|glob| glob.units.iter().flatten().copied()).collect();
    let word_units: BTreeSet<&str> = tree.next.keys().map(|(_, unit)| *unit).collect();
    let unused = unused_unit(|unit| alphabet.contains(unit) || word_units.contains(unit));
    // Continuation bytes, for a glob that ends within a UTF-8 character.
    let continuations: Vec<String> = (0x80..=0xBF)
        .map(|byte| format!("%{byte:02X}"))
        .filter(|unit| !alphabet.contains(unit.as_str()))
        .collect();
    alphabet.insert(&unused);
    let start: State = (globs.iter().map(|glob| glob.start).collect(), Some(0), Vec::new());
    let mut visited: HashSet<State> = HashSet::from([start.clone()]);
    let mut to_visit = VecDeque::from([(start, String::new())]);
    let mut segments: BTreeMap<Vec<bool>, String> = BTreeMap::new();
    while let Some(((states, node, partial), text)) = to_visit.pop_front() {
        let is_word = node.is_some_and(|node| tree.ends.contains(&node));
        if !text.is_empty() && !is_word && partial.is_empty() {
            let accepted = globs.iter().zip(&states).map(|(glob, states)| glob.accepts(*states));
            segments.entry(accepted.collect()).or_insert_with(|| text.clone());
        }
        // Units that only words have are left out: to the globs, they are like `unused`.
        let continuing = continuations.iter().map(String::as_str).filter(|_| !partial.is_empty());
        for unit in alphabet.iter().copied().chain(continuing) {
            let Some(partial) = incomplete_character(&partial, unit) else { continue };
            let states =
                globs.iter().zip(&states).map(|(glob, states)| glob.step(*states, unit)).collect();
            let node = node.and_then(|node| tree.next.get(&(node, unit)).copied());
            let next = (states, node, partial);
            if visited.insert(next.clone()) {
                if visited.len() > MAX_STATES {
                    return Err(TooComplex);
                }
                to_visit.push_back((next, format!("{text}{unit}")));
            }
        }
    }
    Ok(segments.into_values().collect())
}

/// The bytes of the last character after `unit` is appended, if the character is incomplete; empty
/// if it is complete. `None` if the bytes are not UTF-8.
fn incomplete_character(partial: &[u8], unit: &str) -> Option<Vec<u8>> {
    let bytes = [partial, &decoded(unit.as_bytes())].concat();
    match std::str::from_utf8(&bytes) {
        Ok(_) => Some(Vec::new()),
        Err(error) => error.error_len().is_none().then_some(bytes),
    }
}

/// A segment with a single character that no word has.
pub(crate) fn unused_segment<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let used: HashSet<&str> = words.into_iter().flat_map(units).collect();
    unused_unit(|unit| used.contains(unit))
}

/// A character that is not used, as it appears in a canonical path.
fn unused_unit(is_used: impl Fn(&str) -> bool) -> String {
    let plain = ('a'..='z').chain('0'..='9').chain('A'..='Z').map(String::from);
    let private_use = ('\u{e000}'..='\u{f8ff}').map(|character| {
        character.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect()
    });
    let mut candidates = plain.chain(private_use);
    candidates.find(|text: &String| !units(text).any(&is_used)).unwrap_or_else(|| "~".to_owned())
}

/// The characters of a canonical text. A percent triplet is a character.
pub(crate) fn units(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let first = text.chars().next()?;
        let length = if first == '%' { 3.min(text.len()) } else { first.len_utf8() };
        let (unit, remaining) = text.split_at_checked(length)?;
        text = remaining;
        Some(unit)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use policy::pattern::Glob;

    use super::{GlobStates, representatives};

    fn glob(text: &str) -> Glob {
        Glob(text.split('*').map(Into::into).collect())
    }

    /// Which sets of globs a segment can match, by the globs themselves.
    fn found(globs: &[&str], words: &[&str]) -> BTreeSet<Vec<bool>> {
        let globs: Vec<Glob> = globs.iter().map(|text| glob(text)).collect();
        let readings: Vec<GlobStates<'_>> =
            globs.iter().map(|glob| GlobStates::new(glob, "").unwrap()).collect();
        let words = words.iter().copied().collect();
        let found = representatives(&readings, &words).unwrap();
        assert!(found.iter().all(|text| !words.contains(text.as_str())), "{found:?}");
        found
            .iter()
            .map(|text| globs.iter().map(|glob| glob.matches(text.as_bytes())).collect())
            .collect()
    }

    #[test]
    fn each_set_of_globs_that_a_segment_matches_is_found() {
        let all = found(&["a*", "*b"], &[]);
        assert_eq!(all.len(), 4, "{all:?}");
        assert_eq!(found(&["a*", "ab*"], &[]).len(), 3, "what begins with `ab` begins with `a`");
        assert_eq!(found(&["*%C3%A9", "*9"], &[]).len(), 3, "a triplet is one character");
    }

    #[test]
    fn a_set_that_only_words_match_is_left_out() {
        let globs = ["a*", "*a", "a*a"];
        let only = vec![true, true, false];
        assert!(found(&globs, &[]).contains(&only), "`a` itself");
        assert!(!found(&globs, &["a"]).contains(&only));
    }

    #[test]
    fn a_part_that_was_read_before_counts() {
        let glob = glob("ab*");
        let after = GlobStates::new(&glob, "a").unwrap();
        let texts = representatives(&[after], &BTreeSet::new()).unwrap();
        assert!(texts.iter().any(|text| text.starts_with('b')), "{texts:?}");
    }
}
