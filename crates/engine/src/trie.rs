//! From a resource to the patterns that match it: one walk over its segments.
//!
//! All patterns of a scope are one trie, whose edges are segments. At a node there is at most one edge for a literal
//! (found by a look-up of the segment's bytes), one for `{id}`, one for `{user}`, and globs (see `globs`).
//!
//! The walk takes one segment after another, for all nodes that are reached by those before it, in the tries of all
//! scopes that hold. So a segment is read once, and matched with the globs of all these nodes in one pass, however many
//! they are. A node is visited at most once, and the walk ends where the patterns do, however long the resource.

mod build;

use smallvec::SmallVec;

pub(crate) use self::build::{End, TrieBuilder};
use crate::globs::{GlobSet, Globs};
use crate::literals::Literals;
use crate::rows::{NO_ROW, RowId};
use crate::scopes::Roots;
use crate::segments::segment_at;
use crate::table::{NONE, Table};
use crate::word::Word;
use crate::work;

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
    /// The globs of the nodes that have any, and what is shared of them.
    globs: Table<Globs>,
    glob_set: GlobSet,
}

/// A walk over the segments of one resource. No request allocates here unless its resource matches in more than sixteen
/// ways at once.
pub(crate) struct Walk<'q> {
    resource: &'q [u8],
    owner: Option<&'q [u8]>,
    /// The first node to start at.
    first: NodeId,
    /// The nodes that are reached by the segments so far, but one.
    here: SmallVec<[NodeId; 16]>,
    /// The nodes that this segment leads to, but one.
    next: SmallVec<[NodeId; 16]>,
    /// The nodes' globs that are matched with this segment.
    globs: SmallVec<[u32; 16]>,
    /// Where the last segment starts that was compared with the owner's name, and whether it is that.
    owned: Option<(usize, bool)>,
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
        fits.then(|| Self {
            resource,
            owner,
            first: NO_NODE,
            here: SmallVec::new(),
            next: SmallVec::new(),
            globs: SmallVec::new(),
            owned: None,
        })
    }

    /// Lets the walk start in the tries of a scope, too.
    #[inline]
    pub(crate) fn start(&mut self, roots: Roots) {
        let root = if self.is_absolute() { roots.absolute } else { roots.relative };
        if self.first == NO_NODE {
            self.first = root;
        } else {
            self.here.push(root);
        }
    }

    fn is_absolute(&self) -> bool {
        self.resource.first() == Some(&b'/')
    }

    /// Whether this segment is the owner's name. Both may be long, so it is compared once for all nodes.
    fn is_owner(&mut self, start: usize, segment: &[u8]) -> bool {
        match self.owned {
            Some((at, owned)) if at == start => owned,
            _ => {
                work::steps(segment.len());
                let owned = self.owner.is_some_and(|user| policy::canonical::names(segment, user));
                self.owned = Some((start, owned));
                owned
            }
        }
    }
}

impl Trie {
    /// Visits the row of each pattern that matches, of the scopes in which the walk starts.
    ///
    /// Most walks have one node at a time, which stays in a register: with it on the list, and the three lists looked at
    /// for each segment, a decision took 46 ns in place of 41 (2026-11-21, least of five interleaved runs).
    pub(crate) fn walk(&self, walk: &mut Walk<'_>, visit: &mut impl FnMut(RowId)) {
        let (mut node, mut start) = (walk.first, usize::from(walk.is_absolute()));
        let mut alone = walk.here.is_empty();
        while node != NO_NODE {
            let Some(word) = segment_at(walk.resource, start) else {
                self.end(node, visit);
                if !alone {
                    walk.here.iter().for_each(|node| self.end(*node, visit));
                }
                return;
            };
            let end = start + word.length() as usize;
            let mut forked = false;
            node = self.step(node, word, start, end, walk, &mut forked, visit);
            if forked || !alone {
                node = self.step_others(node, word, start, end, walk, visit);
                alone = walk.here.is_empty();
            }
            start = end + 1;
        }
    }

    /// Leaves the nodes in `next` that this segment leads to from a node, but gives the one that a literal leads to.
    /// `forked` becomes true where there may be others.
    #[expect(clippy::too_many_arguments, reason = "inlined twice: each is in a register")]
    #[inline(always)]
    fn step(
        &self,
        node: NodeId,
        word: Word,
        start: usize,
        end: usize,
        walk: &mut Walk<'_>,
        forked: &mut bool,
        visit: &mut impl FnMut(RowId),
    ) -> NodeId {
        work::step();
        if node.is_leaf() {
            return NO_NODE;
        }
        let at = self.nodes.at(node.0);
        if at.rest != NO_ROW {
            visit(at.rest);
        }
        if at.others {
            *forked = true;
            self.fork(at, start, end, walk);
        }
        if at.literals { self.literals.find(node, word, walk.resource, start) } else { NO_NODE }
    }

    /// The same from all nodes but the first, then from the globs of all. Gives the node to go on from, which is the one
    /// that a literal leads to from the first, if there is one; the others are left in `here`.
    #[inline(never)]
    fn step_others(
        &self,
        mut literal: NodeId,
        word: Word,
        start: usize,
        end: usize,
        walk: &mut Walk<'_>,
        visit: &mut impl FnMut(RowId),
    ) -> NodeId {
        while let Some(node) = walk.here.pop() {
            let to = self.step(node, word, start, end, walk, &mut false, visit);
            if to != NO_NODE {
                walk.next.push(to);
            }
        }
        if !walk.globs.is_empty() {
            self.match_globs(start, end, walk);
        }
        if literal == NO_NODE {
            literal = walk.next.pop().unwrap_or(NO_NODE);
        }
        if !walk.next.is_empty() {
            std::mem::swap(&mut walk.here, &mut walk.next);
        }
        literal
    }

    /// Leaves the nodes in `next` that edges lead to which are not literals; those of globs that are not simple are left
    /// for `match_globs`.
    ///
    /// Apart from `step`, which has no registers to spare.
    #[inline(never)]
    fn fork(&self, at: &Node, start: usize, end: usize, walk: &mut Walk<'_>) {
        let segment = walk.resource.get(start..end).unwrap_or_default();
        if segment.is_empty() {
            return;
        }
        if at.one != NO_NODE && segment != b"." && segment != b".." {
            walk.next.push(at.one);
        }
        if at.owner != NO_NODE && walk.is_owner(start, segment) {
            walk.next.push(at.owner);
        }
        if at.globs != NONE {
            let globs = self.globs.at(at.globs);
            if globs.is_simple() {
                globs.try_always(segment, |node| walk.next.push(node));
            } else {
                walk.globs.push(at.globs);
            }
        }
    }

    /// Leaves the nodes in `next` that globs lead to from all nodes, by one pass over the segment.
    #[inline(never)]
    fn match_globs(&self, start: usize, end: usize, walk: &mut Walk<'_>) {
        let Walk { resource, next, globs, .. } = walk;
        let segment = resource.get(start..end).unwrap_or_default();
        let nodes = globs.len();
        let mut starts: SmallVec<[u32; 16]> = SmallVec::new();
        for number in globs.drain(..) {
            starts.extend(self.globs.at(number).try_each(segment, nodes, |node| next.push(node)));
        }
        if !starts.is_empty() {
            self.glob_set.matching(segment, &starts, |node| next.push(node));
        }
    }

    /// Nothing is left of the resource.
    #[inline]
    fn end(&self, node: NodeId, visit: &mut impl FnMut(RowId)) {
        work::step();
        if node.is_leaf() {
            visit(node.row());
            return;
        }
        let at = self.nodes.at(node.0);
        for row in [at.rest, at.here] {
            if row != NO_ROW {
                visit(row);
            }
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
