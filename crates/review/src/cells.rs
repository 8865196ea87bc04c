//! The kinds of paths that patterns distinguish, each with a representative.
//!
//! A walk over all patterns at the same time, segment by segment: it tries each segment that some
//! pattern tells from the others, and goes on with the patterns that match. It follows only paths
//! that a pattern of a changed rule can match.

use std::collections::{BTreeSet, HashSet};

use policy::pattern::{Glob, Pattern, PatternSubject, Segment};

use crate::TooComplex;
use crate::callers::encodings;
use crate::segments::{Known, fresh_segment};

/// The maximum number of steps of a walk.
const MAX_STEPS: usize = 2_000_000;

/// A pattern, as it applies to the caller under one of the policies.
pub(crate) struct Item<'p> {
    pub(crate) pattern: &'p Pattern,
    pub(crate) subject: Option<PatternSubject<'p>>,
    /// Whether a rule that only one of the policies has for this caller has this pattern.
    pub(crate) changed: bool,
}

/// A kind of paths: the patterns that match, by their place among the items.
pub(crate) type Cell = Vec<usize>;

/// All kinds of paths that a changed pattern matches.
pub(crate) fn cells(items: &[Item<'_>], known: &mut Known) -> Result<BTreeSet<Cell>, TooComplex> {
    let mut walk = Walk { items, known, cells: BTreeSet::new(), visited: HashSet::new(), steps: 0 };
    let (absolute, relative): (Vec<usize>, Vec<usize>) = (0..items.len())
        .partition(|index| walk.item(*index).is_some_and(|item| item.pattern.absolute));
    // The only canonical path that does not begin with a slash.
    let matches = |item: &Item<'_>| item.pattern.matches(b"*", item.subject);
    walk.add(relative.into_iter().filter(|index| items.get(*index).is_some_and(matches)).collect());
    walk.below(0, absolute)?;
    Ok(walk.cells)
}

struct Walk<'i, 'p> {
    items: &'i [Item<'p>],
    known: &'i mut Known,
    cells: BTreeSet<Cell>,
    visited: HashSet<(usize, Vec<usize>)>,
    steps: usize,
}

impl Walk<'_, '_> {
    fn item(&self, index: usize) -> Option<&Item<'_>> {
        self.items.get(index)
    }

    fn is_changed(&self, live: &[usize]) -> bool {
        live.iter().any(|index| self.item(*index).is_some_and(|item| item.changed))
    }

    fn add(&mut self, matched: Cell) {
        if self.is_changed(&matched) {
            self.cells.insert(matched);
        }
    }

    /// The paths below one whose `depth` segments these patterns match.
    fn below(&mut self, depth: usize, live: Vec<usize>) -> Result<(), TooComplex> {
        if !self.is_changed(&live) || !self.visited.insert((depth, live.clone())) {
            return Ok(());
        }
        self.steps += 1 + live.len();
        if self.steps > MAX_STEPS {
            return Err(TooComplex);
        }
        let is_over = |index: &usize| {
            self.item(*index).is_some_and(|item| item.pattern.segments.len() <= depth)
        };
        let (over, open): (Vec<usize>, Vec<usize>) = live.iter().copied().partition(is_over);
        if open.is_empty() {
            let has_rest = |index: &usize| self.item(*index).is_some_and(|item| item.pattern.rest);
            self.add(over.into_iter().filter(has_rest).collect());
            return Ok(());
        }
        for segment in self.segments(depth, &open)? {
            let matches = |index: &usize| {
                self.item(*index).is_some_and(|item| match item.pattern.segments.get(depth) {
                    Some(own) => own.matches(segment.as_bytes(), item.subject),
                    None => item.pattern.rest,
                })
            };
            let further: Vec<usize> = live.iter().copied().filter(matches).collect();
            self.steps += live.len();
            let ends = |index: &usize| {
                self.item(*index).is_some_and(|item| item.pattern.segments.len() <= depth + 1)
            };
            self.add(further.iter().copied().filter(ends).collect());
            self.below(depth + 1, further)?;
        }
        Ok(())
    }

    /// A segment of each kind that these patterns distinguish at this depth.
    fn segments(&mut self, depth: usize, open: &[usize]) -> Result<BTreeSet<String>, TooComplex> {
        let mut words: BTreeSet<String> = BTreeSet::from([String::new()]);
        let mut globs: BTreeSet<&Glob> = BTreeSet::new();
        let items = self.items;
        let own = open.iter().filter_map(|index| {
            let item = items.get(*index)?;
            Some((item.pattern.segments.get(depth)?, item.subject))
        });
        for (segment, subject) in own {
            match segment {
                Segment::Literal(literal) => _ = words.insert(literal.to_string()),
                Segment::User => {
                    words.extend(subject.iter().flat_map(|subject| encodings(subject.user)))
                }
                Segment::UserId(_) => {
                    words.extend(subject.iter().flat_map(|subject| encodings(subject.id())))
                }
                Segment::Glob(glob) => _ = globs.insert(glob),
                Segment::One(_) => {}
            }
        }
        let pieces = globs.iter().flat_map(|glob| glob.0.iter().map(|piece| &**piece));
        let fresh = fresh_segment(words.iter().map(String::as_str).chain(pieces));
        if globs.is_empty() {
            words.insert(fresh);
            return Ok(words);
        }
        let is_avoided = |word: &&String| globs.iter().any(|glob| glob.matches(word.as_bytes()));
        let avoided = words.iter().filter(is_avoided).cloned().collect();
        words.extend(self.known.witnesses(&globs, avoided)?.iter().cloned());
        words.insert(fresh);
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use policy::pattern::{Glob, Pattern, Segment};

    use super::{Item, cells};
    use crate::segments::Known;

    fn pattern(text: &str) -> Pattern {
        let mut segments: Vec<&str> = text.split('/').skip(1).collect();
        let rest = segments.last() == Some(&"**");
        if rest {
            segments.pop();
        }
        let segment = |text: &&str| match *text {
            "{id}" => Segment::One("id".into()),
            text if text.contains('*') => {
                Segment::Glob(Glob(text.split('*').map(Into::into).collect()))
            }
            text => Segment::Literal(text.into()),
        };
        Pattern { absolute: true, segments: segments.iter().map(segment).collect(), rest }
    }

    /// The sets of these patterns, all of them changed, that a path matches.
    fn found(texts: &[&str]) -> Vec<Vec<usize>> {
        let patterns: Vec<Pattern> = texts.iter().map(|text| pattern(text)).collect();
        let items: Vec<Item<'_>> =
            patterns.iter().map(|pattern| Item { pattern, subject: None, changed: true }).collect();
        cells(&items, &mut Known::default()).unwrap().into_iter().collect()
    }

    #[test]
    fn each_set_of_patterns_that_a_path_matches_is_found() {
        assert_eq!(found(&["/a/**", "/a/{id}"]), [vec![0], vec![0, 1]]);
        assert_eq!(found(&["/{id}/b", "/a/{id}"]), [vec![0], vec![0, 1], vec![1]]);
        assert_eq!(found(&["/a*", "/*b", "/**"]), [vec![0, 1, 2], vec![0, 2], vec![1, 2], vec![2]]);
        assert_eq!(found(&["/a", "/a/", "/a/b"]).len(), 3);
        assert_eq!(found(&["/", "/**"]), [vec![0, 1], vec![1]]);
        // A literal that the glob does not match is not what no literal and no glob matches.
        assert!(found(&["/{id}", "/a", "/z*"]).contains(&vec![0]));
    }

    #[test]
    fn a_walk_that_would_take_too_long_is_given_up() {
        let texts: Vec<String> = ('a'..='z').map(|letter| format!("/*{letter}*/a")).collect();
        let patterns: Vec<Pattern> = texts.iter().map(|text| pattern(text)).collect();
        let items: Vec<Item<'_>> =
            patterns.iter().map(|pattern| Item { pattern, subject: None, changed: true }).collect();
        assert!(cells(&items, &mut Known::default()).is_err());
    }
}
