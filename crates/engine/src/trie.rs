//! From a resource to the patterns that match it: one walk over its segments.
//!
//! All patterns of a scope are one trie, whose edges are segments. At a node there is at most one edge for a literal
//! (found by a look-up of the segment's bytes), one for `{id}`, one for `{user}`, and globs (see `globs`), so the walk
//! costs what the shape of the resource costs: a node is visited at most once, and a node is as deep as the resource
//! has segments so far. However long the resource, the walk ends where the patterns do.

mod build;

use smallvec::SmallVec;

pub(crate) use self::build::{End, TrieBuilder};
use crate::globs::Globs;
use crate::literals::Literals;
use crate::rows::{NO_ROW, RowId};
use crate::scopes::Roots;
use crate::segments::segment_at;
use crate::table::{NONE, Table};

/// The number of a node, or that of the row of a leaf: where patterns end here and none goes on, the row is all that the
/// node would have, and a look into memory is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

/// Where an edge would lead that does not exist.
pub(crate) const NO_NODE: NodeId = NodeId(NONE);
/// Marks a [`NodeId`] that is a leaf's row.
const LEAF: u32 = 1 << 31;

/// The tries of all scopes.
pub(crate) struct Trie {
    nodes: Table<Node>,
    literals: Literals,
    globs: Table<Globs>,
}

/// A walk over the segments of one resource.
pub(crate) struct Walk<'q> {
    resource: &'q [u8],
    owner: Option<&'q [u8]>,
    /// The ways that are still to be gone. No request allocates here unless its resource matches in more than sixteen
    /// ways at once.
    open: SmallVec<[Way; 16]>,
}

/// From which node to go on, and where in the resource; beyond its end if nothing is left of it.
#[derive(Clone, Copy)]
struct Way {
    node: NodeId,
    place: usize,
}

#[derive(Clone, Copy)]
struct Node {
    /// Whether edges with literals leave.
    literals: bool,
    /// Whether edges of the three other kinds leave.
    others: bool,
    /// Where `{id}` leads.
    one: NodeId,
    /// Where `{user}` leads.
    owner: NodeId,
    /// The number of the globs that leave.
    globs: u32,
    /// The row of the patterns that end here.
    here: RowId,
    /// The row of the patterns that end here in `**`.
    rest: RowId,
}

impl<'q> Walk<'q> {
    /// A resource of 4 GiB or more is none: nothing matches it, and so nothing allows it.
    pub(crate) fn new(resource: &'q [u8], owner: Option<&'q [u8]>) -> Option<Self> {
        let fits = u32::try_from(resource.len()).is_ok_and(|length| length < u32::MAX);
        fits.then(|| Self { resource, owner, open: SmallVec::new() })
    }
}

impl Trie {
    /// Visits the row of each pattern of one scope that matches.
    pub(crate) fn walk(&self, roots: Roots, walk: &mut Walk<'_>, visit: &mut impl FnMut(RowId)) {
        let absolute = walk.resource.first() == Some(&b'/');
        let node = if absolute { roots.absolute } else { roots.relative };
        self.follow(Way { node, place: usize::from(absolute) }, walk, visit);
        while let Some(way) = walk.open.pop() {
            self.follow(way, walk, visit);
        }
    }

    /// Goes on along literals, as far as that goes, and leaves every other way open.
    fn follow(&self, way: Way, walk: &mut Walk<'_>, visit: &mut impl FnMut(RowId)) {
        let Way { mut node, mut place } = way;
        while node != NO_NODE {
            if node.is_leaf() {
                if place > walk.resource.len() {
                    visit(node.row());
                }
                return;
            }
            let at = self.nodes.at(node.0);
            if at.rest != NO_ROW {
                visit(at.rest);
            }
            let Some(word) = segment_at(walk.resource, place) else {
                if at.here != NO_ROW {
                    visit(at.here);
                }
                return;
            };
            let start = place;
            place += word.length() as usize + 1;
            if at.others {
                self.fork(at, start, place, walk);
            }
            if !at.literals {
                return;
            }
            node = self.literals.find(node, word, walk.resource, start);
        }
    }

    /// Leaves open the ways that are not literals and match a segment; `place` is where the next one starts.
    ///
    /// Apart from `follow`, which has no registers to spare.
    #[inline(never)]
    fn fork(&self, at: &Node, start: usize, place: usize, walk: &mut Walk<'_>) {
        let segment = walk.resource.get(start..place - 1).unwrap_or_default();
        if segment.is_empty() {
            return;
        }
        if at.one != NO_NODE && segment != b"." && segment != b".." {
            walk.open.push(Way { node: at.one, place });
        }
        if at.owner != NO_NODE && walk.owner.is_some_and(|user| policy::canonical::names(segment, user)) {
            walk.open.push(Way { node: at.owner, place });
        }
        if at.globs != NONE {
            self.globs.at(at.globs).matching(segment, |node| walk.open.push(Way { node, place }));
        }
    }
}

impl NodeId {
    const fn is_leaf(self) -> bool {
        self.0 & LEAF != 0
    }

    const fn row(self) -> RowId {
        RowId::of_few(self.0 & !LEAF)
    }
}

impl Node {
    const EMPTY: Self = Self {
        literals: false,
        others: false,
        one: NO_NODE,
        owner: NO_NODE,
        globs: NONE,
        here: NO_ROW,
        rest: NO_ROW,
    };

    /// What may stand for this node, which has this number.
    fn or_leaf(&self, number: NodeId) -> NodeId {
        let has_edges = self.literals || self.one != NO_NODE || self.owner != NO_NODE || self.globs != NONE;
        let row = self.here.few().filter(|_| !has_edges && self.rest == NO_ROW);
        row.map_or(number, |row| NodeId(row | LEAF))
    }
}

impl std::fmt::Debug for Trie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} nodes, {} with globs", self.nodes.len(), self.globs.len())
    }
}
