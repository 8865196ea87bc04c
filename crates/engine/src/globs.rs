//! The globs that leave one node of the trie.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};
use policy::pattern::{Glob, cuts_triplet};

use crate::trie::NodeId;

/// Up to so many globs are tried one by one.
const FEW: usize = 4;

/// A glob with the node that it leads to.
pub(crate) type Edge = (Glob, NodeId);

/// The globs that leave one node, each once.
pub(crate) enum Globs {
    /// Tried one by one.
    Few(Vec<Edge>),
    /// Looked up.
    Many(Many),
}

/// Globs by what a segment must start and end with.
///
/// A segment is matched by look-ups of its first and last bytes, one for each pair of lengths that the globs have; none
/// where the last bytes would start inside a triplet. So ten thousand globs `logs-NNNN-*` cost one look-up, and whatever
/// the globs, a segment of n bytes costs at most as many as it has pairs of a start and an end. An automaton for all the
/// globs of a node would do with one pass over the segment, but takes megabytes for some thousand globs, and explodes
/// where several have a `*` before their end.
pub(crate) struct Many {
    lengths: Vec<(usize, usize)>,
    ends: HashTable<Ends>,
    seed: RandomState,
}

/// The globs with the same start and end.
struct Ends {
    first: Box<[u8]>,
    last: Box<[u8]>,
    /// The one that has nothing but a `*` between them.
    nothing: Option<NodeId>,
    /// Those that have something between them.
    middles: Middles,
}

enum Middles {
    /// Tried one by one.
    Few(Vec<Edge>),
    /// Looked up.
    Many(Pieces),
}

/// Globs by the longest piece between their ends.
///
/// A segment is matched by a look-up of what stands at each of its places, one for each length that the pieces have. Only
/// globs with the same ends and the same longest piece are tried one by one.
struct Pieces {
    lengths: Vec<usize>,
    pieces: HashMap<Box<[u8]>, Vec<Edge>, RandomState>,
}

impl Globs {
    pub(crate) fn new(globs: Vec<Edge>) -> Self {
        if globs.len() <= FEW { Self::Few(globs) } else { Self::Many(Many::new(globs)) }
    }

    /// Gives the node of each glob that matches a segment. The segment is not empty.
    pub(crate) fn matching(&self, segment: &[u8], mut found: impl FnMut(NodeId)) {
        match self {
            Self::Few(globs) => one_by_one(globs, segment, &mut found),
            Self::Many(globs) => globs.matching(segment, &mut found),
        }
    }
}

impl Many {
    fn new(globs: Vec<Edge>) -> Self {
        let seed = RandomState::default();
        let mut by_ends: HashMap<[Box<[u8]>; 2], Vec<Edge>> = HashMap::new();
        for (glob, to) in globs {
            by_ends.entry(ends_of(&glob)).or_default().push((glob, to));
        }
        let mut lengths: Vec<_> = by_ends.keys().map(|[first, last]| (first.len(), last.len())).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let mut ends = HashTable::with_capacity(by_ends.len());
        for ([first, last], globs) in by_ends {
            let hash = hash(&seed, &first, &last);
            ends.insert_unique(hash, Ends::new(first, last, globs), |it| {
                self::hash(&seed, &it.first, &it.last)
            });
        }
        Self { lengths, ends, seed }
    }

    fn matching(&self, segment: &[u8], found: &mut impl FnMut(NodeId)) {
        for (first, last) in &self.lengths {
            let Some((first, rest)) = segment.split_at_checked(*first) else { return };
            let Some(before_last) = rest.len().checked_sub(*last) else { continue };
            let Some((_, last)) = rest.split_at_checked(before_last) else { continue };
            if cuts_triplet(segment, segment.len() - last.len()) {
                continue;
            }
            let ends =
                self.ends.find(hash(&self.seed, first, last), |it| *it.first == *first && *it.last == *last);
            if let Some(ends) = ends {
                ends.nothing.into_iter().for_each(&mut *found);
                ends.middles.matching(segment, found);
            }
        }
    }
}

impl Ends {
    fn new(first: Box<[u8]>, last: Box<[u8]>, mut globs: Vec<Edge>) -> Self {
        let nothing = globs.extract_if(.., |(glob, _)| glob.0.len() <= 2).next().map(|(_, to)| to);
        Self { first, last, nothing, middles: Middles::new(globs) }
    }
}

impl Middles {
    fn new(globs: Vec<Edge>) -> Self {
        if globs.len() <= FEW { Self::Few(globs) } else { Self::Many(Pieces::new(globs)) }
    }

    fn matching(&self, segment: &[u8], found: &mut impl FnMut(NodeId)) {
        match self {
            Self::Few(globs) => one_by_one(globs, segment, found),
            Self::Many(pieces) => pieces.matching(segment, found),
        }
    }
}

impl Pieces {
    fn new(globs: Vec<Edge>) -> Self {
        let mut pieces: HashMap<Box<[u8]>, Vec<Edge>, RandomState> = HashMap::default();
        for (glob, to) in globs {
            let longest = glob.0.iter().skip(1).rev().skip(1).max_by_key(|piece| piece.len());
            let longest = longest.map_or_else(Box::default, |piece| piece.as_bytes().into());
            pieces.entry(longest).or_default().push((glob, to));
        }
        let mut lengths: Vec<usize> = pieces.keys().map(|piece| piece.len()).collect();
        lengths.sort_unstable();
        lengths.dedup();
        Self { lengths, pieces }
    }

    fn matching(&self, segment: &[u8], found: &mut impl FnMut(NodeId)) {
        for length in &self.lengths {
            if *length == 0 {
                self.at(segment, 0, 0, found);
                continue;
            }
            for place in 0..(segment.len() + 1).saturating_sub(*length) {
                self.at(segment, place, *length, found);
            }
        }
    }

    fn at(&self, segment: &[u8], place: usize, length: usize, found: &mut impl FnMut(NodeId)) {
        let Some(piece) = segment.get(place..place + length) else { return };
        if !cuts_triplet(segment, place)
            && let Some(globs) = self.pieces.get(piece)
            && stands_first_at(segment, piece, place)
        {
            one_by_one(globs, segment, found);
        }
    }
}

fn one_by_one(globs: &[Edge], segment: &[u8], found: &mut impl FnMut(NodeId)) {
    globs.iter().filter(|(glob, _)| glob.matches(segment)).for_each(|(_, to)| found(*to));
}

/// Whether a piece that stands at this place stands nowhere before it: each glob is to be found once. Where it would take
/// a triplet apart it does not stand.
fn stands_first_at(segment: &[u8], piece: &[u8], place: usize) -> bool {
    let stands = |at| segment.get(at..at + piece.len()) == Some(piece) && !cuts_triplet(segment, at);
    !(0..place).any(stands)
}

fn ends_of(glob: &Glob) -> [Box<[u8]>; 2] {
    let end = |piece: Option<&Box<str>>| piece.map_or_else(Box::default, |piece| piece.as_bytes().into());
    [end(glob.0.first()), end(glob.0.last())]
}

fn hash(seed: &RandomState, first: &[u8], last: &[u8]) -> u64 {
    let mut hasher = seed.build_hasher();
    hasher.write_usize(first.len());
    hasher.write(first);
    hasher.write(last);
    hasher.finish()
}
