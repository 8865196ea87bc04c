//! From a resource to the patterns that match it: one walk over its segments.
//!
//! All patterns of a scope are one trie, whose edges are segments. At a node there is at most one edge for a literal
//! (found by a look-up of the segment's bytes), one for `{id}`, one for `{user}`, and globs (see `globs`), so the walk
//! costs what the shape of the resource costs: a node is visited at most once, and a node is as deep as the resource
//! has segments so far. However long the resource, the walk ends where the patterns do.

mod build;

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use smallvec::SmallVec;

pub(crate) use self::build::{End, TrieBuilder};
use crate::globs::Globs;
use crate::rows::{NO_ROW, RowId};
use crate::scopes::Starts;
use crate::table::{NONE, Table};

/// The number of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(u32);

/// Where an edge would lead that does not exist.
const NO_NODE: NodeId = NodeId(NONE);

/// The tries of all scopes.
pub(crate) struct Trie {
    nodes: Table<Node>,
    literals: Literals,
    globs: Table<Globs>,
}

#[derive(Clone, Copy)]
struct Node {
    /// Whether edges with literals leave.
    literals: bool,
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

/// The edges with literals, of all nodes.
#[derive(Default)]
struct Literals {
    edges: HashTable<Literal>,
    text: Vec<u8>,
    seed: RandomState,
}

#[derive(Clone, Copy)]
struct Literal {
    from: NodeId,
    to: NodeId,
    start: usize,
    length: u32,
}

/// The walks that are still to be made: from which node, and where in the resource. A walk that has the resource behind
/// it is at a place beyond its end. No request allocates here unless its resource matches more than 16 ways at once.
type Open = SmallVec<[(NodeId, usize); 16]>;

impl Trie {
    /// Visits the row of each pattern that matches.
    pub(crate) fn walk(
        &self,
        starts: Starts,
        resource: &[u8],
        owner: Option<&[u8]>,
        mut visit: impl FnMut(RowId),
    ) {
        let absolute = resource.first() == Some(&b'/');
        let mut open = Open::new();
        for roots in starts {
            open.push(if absolute { (roots.absolute, 1) } else { (roots.relative, 0) });
        }
        while let Some((node, place)) = open.pop() {
            self.follow(node, place, resource, owner, &mut open, &mut visit);
        }
    }

    /// Goes on from a node along literals, as far as that goes, and leaves every other way in `open`.
    #[inline]
    fn follow(
        &self,
        mut node: NodeId,
        mut place: usize,
        resource: &[u8],
        owner: Option<&[u8]>,
        open: &mut Open,
        visit: &mut impl FnMut(RowId),
    ) {
        while node != NO_NODE {
            let at = self.nodes.at(node.0);
            if at.rest != NO_ROW {
                visit(at.rest);
            }
            let Some(left) = resource.get(place..) else {
                if at.here != NO_ROW {
                    visit(at.here);
                }
                return;
            };
            if !at.has_edges() {
                return;
            }
            let end = left.iter().position(|byte| *byte == b'/').unwrap_or(left.len());
            let segment = left.get(..end).unwrap_or_default();
            place += end + 1;
            self.open_others(at, segment, owner, |to| open.push((to, place)));
            node = if at.literals { self.literals.find(node, segment) } else { NO_NODE };
        }
    }

    /// The edges that match a segment and are not literals.
    #[inline]
    fn open_others(&self, at: &Node, segment: &[u8], owner: Option<&[u8]>, mut open: impl FnMut(NodeId)) {
        if segment.is_empty() {
            return;
        }
        if at.one != NO_NODE && segment != b"." && segment != b".." {
            open(at.one);
        }
        if at.owner != NO_NODE && owner.is_some_and(|user| policy::canonical::names(segment, user)) {
            open(at.owner);
        }
        if at.globs != NONE {
            self.globs.at(at.globs).matching(segment, open);
        }
    }
}

impl Node {
    const EMPTY: Self =
        Self { literals: false, one: NO_NODE, owner: NO_NODE, globs: NONE, here: NO_ROW, rest: NO_ROW };

    fn has_edges(&self) -> bool {
        self.literals || self.one != NO_NODE || self.owner != NO_NODE || self.globs != NONE
    }
}

impl Literals {
    fn find(&self, from: NodeId, segment: &[u8]) -> NodeId {
        let found = self.edges.find(hash(&self.seed, from, segment), |edge| {
            edge.from == from && text_of(&self.text, edge) == segment
        });
        found.map_or(NO_NODE, |edge| edge.to)
    }
}

fn text_of<'t>(text: &'t [u8], edge: &Literal) -> &'t [u8] {
    text.get(edge.start..edge.start + edge.length as usize).unwrap_or_default()
}

fn hash(seed: &RandomState, from: NodeId, segment: &[u8]) -> u64 {
    let mut hasher = seed.build_hasher();
    hasher.write_u32(from.0);
    hasher.write(segment);
    hasher.finish()
}

impl std::fmt::Debug for Trie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} nodes, {} with globs", self.nodes.len(), self.globs.len())
    }
}
