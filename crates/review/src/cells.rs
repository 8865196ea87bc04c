//! The kinds of paths that patterns distinguish, each with a representative.
//!
//! A walk over all patterns at the same time, segment by segment: it tries each segment that some pattern tells from the
//! others, and goes on with the patterns that match. It follows only paths that a pattern of a changed rule can match.

use std::collections::{BTreeMap, BTreeSet, HashSet};

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

/// A kind of paths: those that the same patterns match.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// The patterns that match, by their place among the items.
    pub(crate) matched: Vec<usize>,
    /// A path of this kind.
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests ask the reference evaluator about it"))]
    pub(crate) path: String,
}

/// All kinds of paths that a changed pattern matches.
pub(crate) fn cells(items: &[Item<'_>], known: &mut Known) -> Result<Vec<Cell>, TooComplex> {
    let mut walk = Walk { items, known, cells: BTreeMap::new(), visited: HashSet::new(), steps: 0 };
    let relative = items.iter().enumerate().filter(|(_, item)| !item.pattern.absolute);
    // The only canonical path that does not begin with a slash.
    let matched = relative.filter(|(_, item)| item.pattern.matches(b"*", item.subject));
    walk.found(matched.map(|(index, _)| index).collect(), "*");
    let absolute = items.iter().enumerate().filter(|(_, item)| item.pattern.absolute);
    walk.below(0, absolute.map(|(index, _)| index).collect(), "")?;
    Ok(walk.cells.into_iter().map(|(matched, path)| Cell { matched, path }).collect())
}

struct Walk<'i, 'p> {
    items: &'i [Item<'p>],
    known: &'i mut Known,
    cells: BTreeMap<Vec<usize>, String>,
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

    fn found(&mut self, matched: Vec<usize>, path: &str) {
        if self.is_changed(&matched) {
            self.cells.entry(matched).or_insert_with(|| path.to_owned());
        }
    }

    /// The paths below `path`, whose `depth` segments these patterns match.
    fn below(&mut self, depth: usize, live: Vec<usize>, path: &str) -> Result<(), TooComplex> {
        if !self.is_changed(&live) || !self.visited.insert((depth, live.clone())) {
            return Ok(());
        }
        self.steps += 1 + live.len();
        if self.steps > MAX_STEPS {
            return Err(TooComplex);
        }
        let is_over =
            |index: &usize| self.item(*index).is_some_and(|item| item.pattern.segments.len() <= depth);
        let (over, open): (Vec<usize>, Vec<usize>) = live.iter().copied().partition(is_over);
        if open.is_empty() {
            let rests =
                over.into_iter().filter(|index| self.item(*index).is_some_and(|item| item.pattern.rest));
            self.found(rests.collect(), &format!("{path}/x"));
            return Ok(());
        }
        for segment in self.segments(depth, &open)? {
            let further = |index: &usize| {
                self.item(*index).is_some_and(|item| match item.pattern.segments.get(depth) {
                    Some(own) => own.matches(segment.as_bytes(), item.subject),
                    None => item.pattern.rest,
                })
            };
            let further: Vec<usize> = live.iter().copied().filter(further).collect();
            self.steps += live.len();
            let path = format!("{path}/{segment}");
            let ends = |index: &usize| {
                self.item(*index).is_some_and(|item| item.pattern.segments.len() <= depth + 1)
            };
            let ending = further.iter().copied().filter(ends).collect();
            self.found(ending, &path);
            self.below(depth + 1, further, &path)?;
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
                Segment::User => words.extend(subject.iter().flat_map(|subject| encodings(subject.user))),
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
            text if text.contains('*') => Segment::Glob(Glob(text.split('*').map(Into::into).collect())),
            text => Segment::Literal(text.into()),
        };
        Pattern { absolute: true, segments: segments.iter().map(segment).collect(), rest }
    }

    /// Which sets of these patterns a path matches, all of them changed.
    fn found(texts: &[&str]) -> Vec<Vec<usize>> {
        let patterns: Vec<Pattern> = texts.iter().map(|text| pattern(text)).collect();
        let items: Vec<Item<'_>> =
            patterns.iter().map(|pattern| Item { pattern, subject: None, changed: true }).collect();
        let cells = cells(&items, &mut Known::default()).unwrap();
        for cell in &cells {
            let matched =
                items.iter().enumerate().filter(|(_, item)| item.pattern.matches(cell.path.as_bytes(), None));
            assert_eq!(matched.map(|(index, _)| index).collect::<Vec<_>>(), cell.matched, "{}", cell.path);
        }
        cells.into_iter().map(|cell| cell.matched).collect()
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
