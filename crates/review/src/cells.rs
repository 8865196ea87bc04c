//! The kinds of paths that patterns distinguish, each with a representative.
//!
//! They are found with a walk over all patterns at the same time, segment by segment: it tries each
//! segment that distinguishes patterns, and goes on with the patterns that match. It follows only
//! paths that a pattern of a changed rule can match.

use std::collections::{BTreeSet, HashSet};

use policy::pattern::{Glob, Pattern, PatternSubject, Segment};

use crate::TooComplex;
use crate::callers::encodings;
use crate::segments::{RepresentativeCache, unused_segment};

/// The maximum number of steps of a walk.
const MAX_STEPS: usize = 2_000_000;

/// A pattern, as it applies to a caller under one of the policies.
pub(crate) struct CallerPattern<'p> {
    pub(crate) pattern: &'p Pattern,
    pub(crate) subject: Option<PatternSubject<'p>>,
    /// Whether it is in a rule that only one of the policies has for this caller.
    pub(crate) changed: bool,
}

impl CallerPattern<'_> {
    /// Whether the pattern ends at this depth, or before.
    fn ends_by(&self, depth: usize) -> bool {
        self.pattern.segments.len() <= depth
    }

    fn matches_segment(&self, depth: usize, text: &str) -> bool {
        match self.pattern.segments.get(depth) {
            Some(segment) => segment.matches(text.as_bytes(), self.subject),
            None => self.pattern.open_ended,
        }
    }
}

/// A kind of paths: the indices of the patterns that match.
pub(crate) type Cell = Vec<usize>;

/// All kinds of paths that a changed pattern matches.
pub(crate) fn cells(
    patterns: &[CallerPattern<'_>],
    representatives: &mut RepresentativeCache,
) -> Result<BTreeSet<Cell>, TooComplex> {
    let mut walk = Walk {
        patterns,
        representatives,
        cells: BTreeSet::new(),
        visited: HashSet::new(),
        steps: 0,
    };
    // `*` is the only canonical path that does not begin with a slash.
    let indices: Vec<usize> = (0..patterns.len()).collect();
    walk.add(walk.select(&indices, |item| {
        !item.pattern.absolute && item.pattern.matches(b"*", item.subject)
    }));
    walk.visit(0, walk.select(&indices, |item| item.pattern.absolute))?;
    Ok(walk.cells)
}

struct Walk<'i, 'p> {
    patterns: &'i [CallerPattern<'p>],
    representatives: &'i mut RepresentativeCache,
    cells: BTreeSet<Cell>,
    visited: HashSet<(usize, Cell)>,
    steps: usize,
}

impl<'p> Walk<'_, 'p> {
    fn select(&self, indices: &[usize], is_selected: impl Fn(&CallerPattern<'p>) -> bool) -> Cell {
        let selected = |index: &usize| self.patterns.get(*index).is_some_and(&is_selected);
        indices.iter().copied().filter(selected).collect()
    }

    fn is_changed(&self, cell: &Cell) -> bool {
        cell.iter().any(|index| self.patterns.get(*index).is_some_and(|item| item.changed))
    }

    fn add(&mut self, cell: Cell) {
        if self.is_changed(&cell) {
            self.cells.insert(cell);
        }
    }

    /// Visits the paths whose first `depth` segments match the patterns of `live`.
    fn visit(&mut self, depth: usize, live: Cell) -> Result<(), TooComplex> {
        if !self.is_changed(&live) || !self.visited.insert((depth, live.clone())) {
            return Ok(());
        }
        self.steps += 1 + live.len();
        if self.steps > MAX_STEPS {
            return Err(TooComplex);
        }
        let unfinished = self.select(&live, |item| !item.ends_by(depth));
        if unfinished.is_empty() {
            self.add(self.select(&live, |item| item.pattern.open_ended));
            return Ok(());
        }
        for segment in self.segments(depth, &unfinished)? {
            let matching = self.select(&live, |item| item.matches_segment(depth, &segment));
            self.steps += live.len();
            self.add(self.select(&matching, |item| item.ends_by(depth + 1)));
            self.visit(depth + 1, matching)?;
        }
        Ok(())
    }

    /// A segment of each kind that these patterns distinguish at this depth.
    fn segments(&mut self, depth: usize, cell: &Cell) -> Result<BTreeSet<String>, TooComplex> {
        let mut words: BTreeSet<String> = BTreeSet::from([String::new()]);
        let mut globs: BTreeSet<&Glob> = BTreeSet::new();
        let patterns = self.patterns;
        for item in cell.iter().filter_map(|index| patterns.get(*index)) {
            match (item.pattern.segments.get(depth), item.subject) {
                (Some(Segment::Literal(literal)), _) => _ = words.insert(literal.to_string()),
                (Some(Segment::User), Some(subject)) => words.extend(encodings(subject.user)),
                (Some(Segment::UserId(_)), Some(subject)) => words.extend(encodings(subject.id())),
                (Some(Segment::Glob(glob)), _) => _ = globs.insert(glob),
                (Some(Segment::User | Segment::UserId(_) | Segment::Any(_)) | None, _) => {}
            }
        }
        let pieces = globs.iter().flat_map(|glob| glob.0.iter().map(|piece| &**piece));
        let unused = unused_segment(words.iter().map(String::as_str).chain(pieces));
        if !globs.is_empty() {
            let matched =
                words.iter().filter(|word| globs.iter().any(|glob| glob.matches(word.as_bytes())));
            let matched = matched.cloned().collect();
            words.extend(self.representatives.representatives(&globs, matched)?);
        }
        words.insert(unused);
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use policy::pattern::{Glob, Pattern, Segment};

    use super::{CallerPattern, cells};
    use crate::segments::RepresentativeCache;

    fn pattern(text: &str) -> Pattern {
        let mut segments: Vec<&str> = text.split('/').skip(1).collect();
        let open_ended = segments.last() == Some(&"**");
        if open_ended {
            segments.pop();
        }
        let segment = |text: &&str| match *text {
            "{id}" => Segment::Any("id".into()),
            text if text.contains('*') => {
                Segment::Glob(Glob(text.split('*').map(Into::into).collect()))
            }
            text => Segment::Literal(text.into()),
        };
        Pattern { absolute: true, segments: segments.iter().map(segment).collect(), open_ended }
    }

    /// The sets of these patterns, all of them changed, that a path matches.
    fn found(texts: &[&str]) -> Vec<Vec<usize>> {
        let patterns: Vec<Pattern> = texts.iter().map(|text| pattern(text)).collect();
        let items: Vec<CallerPattern<'_>> = patterns
            .iter()
            .map(|pattern| CallerPattern { pattern, subject: None, changed: true })
            .collect();
        cells(&items, &mut RepresentativeCache::default()).unwrap().into_iter().collect()
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
        let items: Vec<CallerPattern<'_>> = patterns
            .iter()
            .map(|pattern| CallerPattern { pattern, subject: None, changed: true })
            .collect();
        assert!(cells(&items, &mut RepresentativeCache::default()).is_err());
    }
}
