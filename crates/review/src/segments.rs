//! Representatives of the segments that globs distinguish.
//!
//! All globs read a segment at the same time, character by character, as one automaton. A
//! breadth-first search over its states finds, for each set of globs that some segment matches, a
//! shortest such segment.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use policy::canonical::decoded;
use policy::pattern::Glob;

use crate::TooComplex;

/// The maximum number of states that are visited.
const MAX_STATES: usize = 100_000;
/// The maximum number of characters of a glob.
const MAX_UNITS: usize = 127;

/// A glob that reads a name of which a part has been read already.
pub(crate) struct Reading<'g> {
    /// The characters of the glob that each place before one waits for; `None` is `*`.
    units: Vec<Option<&'g str>>,
    /// The places before a `*`.
    stars: u128,
    /// The places where it may be.
    places: u128,
}

impl<'g> Reading<'g> {
    /// A glob after it has read `before`.
    pub(crate) fn new(glob: &'g Glob, before: &str) -> Result<Self, TooComplex> {
        let mut all = Vec::new();
        for (index, piece) in glob.0.iter().enumerate() {
            if index > 0 {
                all.push(None);
            }
            all.extend(units(piece).map(Some));
        }
        if all.len() > MAX_UNITS {
            return Err(TooComplex);
        }
        let stars = all.iter().enumerate().filter(|(_, unit)| unit.is_none());
        let stars = stars.fold(0, |stars, (place, _)| stars | 1 << place);
        let mut reading = Self { units: all, stars, places: 0 };
        reading.places =
            units(before).fold(reading.with_skipped(1), |places, unit| reading.step(places, unit));
        Ok(reading)
    }

    fn step(&self, places: u128, unit: &str) -> u128 {
        let mut next = places & self.stars;
        let mut waiting = places & !self.stars;
        while waiting != 0 {
            let place = waiting.trailing_zeros() as usize;
            waiting &= waiting - 1;
            if self.units.get(place).copied().flatten() == Some(unit) {
                next |= 1 << (place + 1);
            }
        }
        self.with_skipped(next)
    }

    /// Adds the places after each `*`, which may match nothing.
    const fn with_skipped(&self, mut places: u128) -> u128 {
        loop {
            let more = places | ((places & self.stars) << 1);
            if more == places {
                return places;
            }
            places = more;
        }
    }

    fn accepts(&self, places: u128) -> bool {
        places >> self.units.len() & 1 == 1
    }
}

/// The words that a search must not return, as a tree of their characters.
#[derive(Default)]
struct Words<'w> {
    next: HashMap<(usize, &'w str), usize>,
    ends: HashSet<usize>,
    count: usize,
}

impl<'w> Words<'w> {
    fn insert(&mut self, word: &'w str) {
        let mut node = 0;
        for unit in units(word) {
            let count = &mut self.count;
            node = *self.next.entry((node, unit)).or_insert_with(|| {
                *count += 1;
                *count
            });
        }
        self.ends.insert(node);
    }
}

/// Where the globs and the words are after a part of a segment, and the bytes of its last character
/// if that is not complete: a canonical path is UTF-8.
type State = (Vec<u128>, Option<usize>, Vec<u8>);

/// The segments that were found for globs and words. Most kinds of callers need the same.
#[derive(Default)]
pub(crate) struct Known {
    found: HashMap<(Vec<Glob>, BTreeSet<String>), Vec<String>>,
}

impl Known {
    /// For each set of these globs that a segment matches which is none of `words`, such a segment.
    pub(crate) fn witnesses(
        &mut self,
        globs: &BTreeSet<&Glob>,
        words: BTreeSet<String>,
    ) -> Result<&[String], TooComplex> {
        let key = (globs.iter().map(|glob| (*glob).clone()).collect(), words);
        match self.found.entry(key) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let readings: Result<Vec<_>, _> =
                    globs.iter().map(|glob| Reading::new(glob, "")).collect();
                let found =
                    witnesses(&readings?, &new.key().1.iter().map(String::as_str).collect())?;
                Ok(new.insert(found))
            }
        }
    }
}

/// For each set of these globs that a segment matches which is none of `words`, such a segment.
pub(crate) fn witnesses(
    globs: &[Reading<'_>],
    words: &BTreeSet<&str>,
) -> Result<Vec<String>, TooComplex> {
    if globs.is_empty() {
        return Ok(vec![fresh_segment(words.iter().copied())]);
    }
    let mut known = Words::default();
    words.iter().for_each(|word| known.insert(word));
    let mut children: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for (node, unit) in known.next.keys() {
        children.entry(*node).or_default().insert(unit);
    }
    let in_globs = globs.iter().flat_map(|glob| glob.units.iter().flatten().copied());
    let mut alphabet: BTreeSet<&str> = in_globs.collect();
    let in_words: BTreeSet<&str> = known.next.keys().map(|(_, unit)| *unit).collect();
    let fresh = fresh_unit(|unit| alphabet.contains(unit) || in_words.contains(unit));
    // Any other byte that goes on with a character which begins like one of a glob.
    let continuation = (0x80..=0xBF).map(|byte| format!("%{byte:02X}"));
    let continuations: Vec<String> =
        continuation.filter(|unit| !alphabet.contains(unit.as_str())).collect();
    alphabet.insert(&fresh);
    let start: State = (globs.iter().map(|glob| glob.places).collect(), Some(0), Vec::new());
    let mut visited: HashSet<State> = HashSet::from([start.clone()]);
    let mut open = VecDeque::from([(start, String::new())]);
    let mut found: BTreeMap<Vec<bool>, String> = BTreeMap::new();
    while let Some(((places, node, partial), text)) = open.pop_front() {
        let is_word = node.is_some_and(|node| known.ends.contains(&node));
        if !text.is_empty() && !is_word && partial.is_empty() {
            let accepted =
                globs.iter().zip(&places).map(|(glob, places)| glob.accepts(*places)).collect();
            found.entry(accepted).or_insert_with(|| text.clone());
        }
        let of_words = node.and_then(|node| children.get(&node)).into_iter().flatten();
        let going_on = continuations.iter().map(String::as_str).filter(|_| !partial.is_empty());
        for unit in alphabet.iter().chain(of_words).copied().chain(going_on) {
            let Some(partial) = completed(&partial, unit) else { continue };
            let places =
                globs.iter().zip(&places).map(|(glob, places)| glob.step(*places, unit)).collect();
            let node = node.and_then(|node| known.next.get(&(node, unit)).copied());
            let next = (places, node, partial);
            if visited.insert(next.clone()) {
                if visited.len() > MAX_STATES {
                    return Err(TooComplex);
                }
                open.push_back((next, format!("{text}{unit}")));
            }
        }
    }
    Ok(found.into_values().collect())
}

/// The bytes of the last character after one more unit, if that is not complete; `None` if this is
/// not UTF-8.
fn completed(partial: &[u8], unit: &str) -> Option<Vec<u8>> {
    let bytes = [partial, &decoded(unit.as_bytes())].concat();
    match std::str::from_utf8(&bytes) {
        Ok(_) => Some(Vec::new()),
        Err(error) => error.error_len().is_none().then_some(bytes),
    }
}

/// A segment of one character that none of these contains.
pub(crate) fn fresh_segment<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let used: HashSet<&str> = words.into_iter().flat_map(units).collect();
    fresh_unit(|unit| used.contains(unit))
}

/// A character that is not used, as it appears in a canonical path.
fn fresh_unit(is_used: impl Fn(&str) -> bool) -> String {
    let plain = ('a'..='z').chain('0'..='9').chain('A'..='Z').map(String::from);
    // The characters that nobody may mean anything by, for private use.
    let private = ('\u{e000}'..='\u{f8ff}').map(|rare| {
        let mut bytes = [0; 4];
        rare.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02X}")).collect()
    });
    let mut all = plain.chain(private);
    all.find(|text: &String| !units(text).any(&is_used)).unwrap_or_else(|| "~".to_owned())
}

/// The characters of a canonical text, of which a percent triplet is one.
pub(crate) fn units(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let length = if first == '%' { 3.min(rest.len()) } else { first.len_utf8() };
        let (unit, after) = rest.split_at_checked(length)?;
        rest = after;
        Some(unit)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use policy::pattern::Glob;

    use super::{Reading, witnesses};

    fn glob(text: &str) -> Glob {
        Glob(text.split('*').map(Into::into).collect())
    }

    /// Which sets of globs a segment can match, by the globs themselves.
    fn found(globs: &[&str], words: &[&str]) -> BTreeSet<Vec<bool>> {
        let globs: Vec<Glob> = globs.iter().map(|text| glob(text)).collect();
        let readings: Vec<Reading<'_>> =
            globs.iter().map(|glob| Reading::new(glob, "").unwrap()).collect();
        let words = words.iter().copied().collect();
        let found = witnesses(&readings, &words).unwrap();
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
        let after = Reading::new(&glob, "a").unwrap();
        let texts = witnesses(&[after], &BTreeSet::new()).unwrap();
        assert!(texts.iter().any(|text| text.starts_with('b')), "{texts:?}");
    }
}
