//! Finds the patterns that match a resource, in one walk over its segments.
//!
//! All patterns of a scope form one trie, whose edges are segments. A node has at most one edge per literal (found by
//! looking up the segment's bytes), one for `{id}`, one for `{user}`, and any number of globs (see `globs`).
//!
//! The walk handles one segment at a time, for all nodes reached so far, in the tries of all applicable scopes. So a
//! segment is read once and matched with the globs of all these nodes in one pass, however many nodes there are. A node
//! is visited at most once, and the walk ends where the patterns end, however long the resource is.

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

/// The index of a node, or for a leaf the id of its row. A leaf has no edges and no `**`, so its row is all that its
/// node would hold; storing it here saves a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

/// The target of an edge that does not exist.
pub(crate) const NO_NODE: NodeId = NodeId(NONE);
/// Set in a [`NodeId`] that holds a leaf's row.
const LEAF: u32 = 1 << 31;

/// The tries of all scopes.
pub(crate) struct Trie {
    nodes: Table<Node>,
    literals: Literals,
    /// The globs of the nodes that have any; what these share is in `glob_set`.
    globs: Table<Globs>,
    glob_set: GlobSet,
}

/// A walk over the segments of one resource. A request allocates here only if its resource reaches more than sixteen
/// nodes at once.
pub(crate) struct Walk<'q> {
    resource: &'q [u8],
    owner: Option<&'q [u8]>,
    /// The first start node.
    first: NodeId,
    /// The nodes reached by the segments so far, except the one that is kept in a register.
    here: SmallVec<[NodeId; 16]>,
    /// The nodes that the current segment leads to, with the same exception.
    next: SmallVec<[NodeId; 16]>,
    /// The globs to match with the current segment, for all nodes that have any.
    globs: SmallVec<[u32; 16]>,
    /// The start of the last segment that was compared with the owner's name, and the result.
    owned: Option<(usize, bool)>,
}

#[derive(Clone, Copy)]
struct Node {
    /// Whether it has edges for literals.
    literals: bool,
    /// Whether it has edges of the three other kinds.
    others: bool,
    /// The target of `{id}`.
    one: NodeId,
    /// The target of `{user}`.
    owner: NodeId,
    /// The index of its globs.
    globs: u32,
    /// The row of the patterns that end here.
    here: RowId,
    /// The row of the patterns that end here in `**`.
    rest: RowId,
}

impl<'q> Walk<'q> {
    /// Returns `None` for a resource of 4 GiB or more: nothing matches it, so nothing allows it.
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

    /// Adds the tries of a scope to the start of the walk.
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

    /// Whether this segment is the owner's name. Both may be long, so they are compared only once for all nodes.
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
    /// Calls `visit` with the row of each matching pattern, in the scopes where the walk starts.
    ///
    /// Most walks have one node at a time, which stays in a register. With that node in the list as well, and the three
    /// lists checked for each segment, a decision took 46 ns instead of 41 (2026-11-21, minimum of five interleaved
    /// runs).
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

    /// Follows the edges of one node for this segment. Returns the target of the literal edge; pushes the other targets
    /// to `next`. Sets `forked` if there may be any of those.
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

    /// Does the same for all nodes but the first, then matches the globs of all nodes. Returns the node to continue
    /// with: the first node's literal target if there is one. The others are left in `here`.
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

    /// Pushes the targets of the edges that are not literals to `next`; globs that are not simple are left to
    /// `match_globs`.
    ///
    /// A separate function because `step` has no registers to spare.
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

    /// Pushes the targets of all nodes' globs to `next`, in one pass over the segment.
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

    /// Visits the rows of a node at the end of the resource.
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

    /// The id to use for this node: its row if it is a leaf, else `number`.
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
