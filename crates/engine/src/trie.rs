//! Finds the patterns that match a resource, in a single walk over its segments.
//!
//! The patterns of a scope form two tries, for absolute and for relative resources. Their edges are
//! segments. A node has at most one edge per literal, one for `{id}`, one for `{user}`, one for
//! `{user.id}` per identity source (`basic` or a JWT issuer), and any number of globs (see
//! `globs`).
//!
//! The walk handles a segment for all nodes reached so far, in the tries of all applicable scopes,
//! before it goes on to the next. So a segment is read once and matched with the globs of all these
//! nodes in a single pass. A node is visited at most once, and the walk ends where the patterns
//! end, however long the resource is.
//!
//! A segment is compared as two integers ([`FirstBytes`]), and nodes and edges are small: a
//! decision took 0.75 × the time of a walk over byte strings (2026-11-21).

mod build;

use hashbrown::HashMap;
use policy::ids::{IdVec, SourceId, id_types};
use policy::pattern::PatternSubject;
use smallvec::SmallVec;

pub(crate) use self::build::{End, TrieBuilder};
use crate::cost;
use crate::first_bytes::FirstBytes;
use crate::globs::{GlobSet, Globs, StepId};
use crate::ids::{NodeId, RowId};
use crate::literals::Literals;
use crate::segments::segment_at;

/// Set in a [`NodeId`] that holds the [`RowId`] of a leaf. A leaf has no edges and no `**`, so its
/// row is stored in the edge: this saves a memory access.
const LEAF: u32 = 1 << 31;

id_types! {
    /// The globs of a node that has any. Few nodes have.
    struct GlobsId;
}

impl GlobsId {
    const NONE: Self = Self(u32::MAX);
}

/// The two tries of a scope. The first byte of a resource selects the trie. The only relative
/// resource in HTTP is the `*` of `OPTIONS *`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roots {
    absolute: NodeId,
    relative: NodeId,
}

/// The tries of all scopes.
pub(crate) struct Trie {
    nodes: IdVec<NodeId, Node>,
    literals: Literals,
    /// The targets of `{user.id}` by identity source. Every key has a source, so a subject without
    /// a source finds nothing. Few nodes have such targets.
    user_id_edges: HashMap<(NodeId, Option<SourceId>), NodeId>,
    globs: IdVec<GlobsId, Globs>,
    /// Matches the globs of several nodes in a single pass.
    glob_set: GlobSet,
}

/// A walk over the segments of a resource. Allocates only if a segment reaches more than sixteen
/// nodes.
pub(crate) struct Walk<'q> {
    resource: &'q [u8],
    subject: Option<PatternSubject<'q>>,
    /// The node at which [`Trie::walk`] starts; `NONE` if no scope applies. That function keeps one
    /// node in its local variable `node`, at first this node. Further start nodes are in `current`.
    start_node: NodeId,
    /// The nodes reached by the segments so far, except for the node in that variable.
    current: SmallVec<[NodeId; 16]>,
    /// The nodes to which the current segment leads, with the same exception.
    next: SmallVec<[NodeId; 16]>,
    /// The globs to match with the current segment.
    globs: SmallVec<[GlobsId; 16]>,
    /// The start of the last segment that was compared with the subject's name, and whether it is
    /// the name.
    user_match: Option<(usize, bool)>,
    /// The same for the name without its prefix.
    user_id_match: Option<(usize, bool)>,
}

/// 24 bytes. Literal edges are in [`Literals`]: a map in each node would cost another memory
/// access.
#[derive(Clone, Copy)]
struct Node {
    has_literals: bool,
    /// Whether it has edges that are not literals. Most nodes have none.
    has_other_edges: bool,
    has_user_id_edges: bool,
    /// The target of `{id}`.
    any_segment: NodeId,
    /// The target of `{user}`.
    user: NodeId,
    globs: GlobsId,
    /// The row of the patterns that end here.
    end_row: RowId,
    /// The row of the patterns that end here in `**`.
    tail_row: RowId,
}

impl<'q> Walk<'q> {
    /// Returns `None` for a resource of 4 GiB or more: nothing matches it, so nothing allows it.
    pub(crate) fn new(resource: &'q [u8], subject: Option<PatternSubject<'q>>) -> Option<Self> {
        let fits = u32::try_from(resource.len()).is_ok_and(|length| length < u32::MAX);
        fits.then(|| Self {
            resource,
            subject,
            start_node: NodeId::NONE,
            current: SmallVec::new(),
            next: SmallVec::new(),
            globs: SmallVec::new(),
            user_match: None,
            user_id_match: None,
        })
    }

    /// Adds the tries of a scope to the start of the walk.
    #[inline]
    pub(crate) fn add_roots(&mut self, roots: Roots) {
        let root = if self.is_absolute() { roots.absolute } else { roots.relative };
        if self.start_node == NodeId::NONE {
            self.start_node = root;
        } else {
            self.current.push(root);
        }
    }

    fn is_absolute(&self) -> bool {
        self.resource.first() == Some(&b'/')
    }

    /// Whether this segment is the subject's name.
    fn is_user(&mut self, start: usize, segment: &[u8]) -> bool {
        let name = self.subject.map(|subject| subject.user);
        is_name(&mut self.user_match, start, segment, name)
    }

    /// Whether this segment is the subject's name without its prefix.
    fn is_user_id(&mut self, start: usize, segment: &[u8]) -> bool {
        let name = self.subject.map(|subject| subject.id());
        is_name(&mut self.user_id_match, start, segment, name)
    }
}

/// Whether the segment at `start` is this name. Both may be long, so they are compared only once
/// for all nodes: `last` has the last segment that was compared, and the result.
fn is_name(
    last: &mut Option<(usize, bool)>,
    start: usize,
    segment: &[u8],
    name: Option<&[u8]>,
) -> bool {
    match *last {
        Some((compared, is_name)) if compared == start => is_name,
        _ => {
            cost::add(segment.len());
            let is_name =
                name.is_some_and(|name| policy::canonical::segment_is_name(segment, name));
            *last = Some((start, is_name));
            is_name
        }
    }
}

impl Trie {
    /// Calls `visit` with the row of each matching pattern, in the scopes where the walk starts.
    ///
    /// Most walks have a single node at a time, which stays in a register. With this node in
    /// `current`, a decision took 1.12 × the time (2026-11-21).
    pub(crate) fn walk(&self, walk: &mut Walk<'_>, visit: &mut impl FnMut(RowId)) {
        let (mut node, mut start) = (walk.start_node, usize::from(walk.is_absolute()));
        let mut alone = walk.current.is_empty();
        while node != NodeId::NONE {
            let Some(segment) = segment_at(walk.resource, start) else {
                self.end(node, visit);
                if !alone {
                    walk.current.iter().for_each(|node| self.end(*node, visit));
                }
                return;
            };
            let end = start + segment.length() as usize;
            let mut forked = false;
            node = self.step(node, segment, start, end, walk, &mut forked, visit);
            if forked || !alone {
                node = self.step_others(node, segment, start, end, walk, visit);
                alone = walk.current.is_empty();
            }
            start = end + 1;
        }
    }

    /// Follows the edges of a node for this segment. Returns the target of the literal edge, and
    /// pushes the other targets to `next`. Sets `forked` if there may be other targets.
    #[expect(clippy::too_many_arguments, reason = "inlined twice: each is in a register")]
    #[inline(always)]
    fn step(
        &self,
        node: NodeId,
        segment: FirstBytes,
        start: usize,
        end: usize,
        walk: &mut Walk<'_>,
        forked: &mut bool,
        visit: &mut impl FnMut(RowId),
    ) -> NodeId {
        cost::add(1);
        // A leaf has no edges for this segment.
        if node.is_leaf() {
            return NodeId::NONE;
        }
        let at = self.nodes.at(node);
        if at.tail_row != RowId::NONE {
            visit(at.tail_row);
        }
        if at.has_other_edges {
            *forked = true;
            self.fork(at, node, start, end, walk);
        }
        if at.has_literals {
            self.literals.find(node, segment, walk.resource, start)
        } else {
            NodeId::NONE
        }
    }

    /// Follows the edges of the nodes in `current`, and matches the globs of all nodes. `next_node`
    /// is the literal target of the node in the register, or `NONE`. Returns the next node for the
    /// register: `next_node`, or another target if it is `NONE`. The other nodes are in `current`
    /// afterwards.
    #[inline(never)]
    fn step_others(
        &self,
        mut next_node: NodeId,
        segment: FirstBytes,
        start: usize,
        end: usize,
        walk: &mut Walk<'_>,
        visit: &mut impl FnMut(RowId),
    ) -> NodeId {
        while let Some(node) = walk.current.pop() {
            let to = self.step(node, segment, start, end, walk, &mut false, visit);
            if to != NodeId::NONE {
                walk.next.push(to);
            }
        }
        if !walk.globs.is_empty() {
            self.match_globs(start, end, walk);
        }
        if next_node == NodeId::NONE {
            next_node = walk.next.pop().unwrap_or(NodeId::NONE);
        }
        // The loop has emptied `current`, so `next` is empty after this.
        if !walk.next.is_empty() {
            std::mem::swap(&mut walk.current, &mut walk.next);
        }
        next_node
    }

    /// Pushes the targets of the edges that are not literals to `next`. Leaves globs that may need
    /// a scan to `match_globs`. A separate function because `step` has no registers to spare.
    #[inline(never)]
    fn fork(&self, at: &Node, node: NodeId, start: usize, end: usize, walk: &mut Walk<'_>) {
        let segment = walk.resource.get(start..end).unwrap_or_default();
        // As in `Segment::matches` of `policy`: only a literal matches the empty segment after a
        // trailing slash, and `{id}` matches neither `.` nor `..`.
        if segment.is_empty() {
            return;
        }
        if at.any_segment != NodeId::NONE && segment != b"." && segment != b".." {
            walk.next.push(at.any_segment);
        }
        if at.user != NodeId::NONE && walk.is_user(start, segment) {
            walk.next.push(at.user);
        }
        if at.has_user_id_edges {
            self.follow_user_id(node, start, segment, walk);
        }
        if at.globs != GlobsId::NONE {
            let globs = self.globs.at(at.globs);
            // Cheap globs read only the ends of the segment. The other globs of all nodes share a
            // scan of it.
            if globs.may_need_scan() {
                walk.globs.push(at.globs);
            } else {
                globs.match_cheap(segment, |node| walk.next.push(node));
            }
        }
    }

    /// Pushes the target of `{user.id}` for the subject's source to `next`. A subject without a
    /// source has no target, because no pattern with `{user.id}` is inserted without a source.
    #[inline(never)]
    fn follow_user_id(&self, node: NodeId, start: usize, segment: &[u8], walk: &mut Walk<'_>) {
        let source = walk.subject.and_then(|subject| subject.source);
        if let Some(to) = self.user_id_edges.get(&(node, source))
            && walk.is_user_id(start, segment)
        {
            walk.next.push(*to);
        }
    }

    /// Pushes the targets of the globs of all nodes to `next`, in a single pass over the segment.
    #[inline(never)]
    fn match_globs(&self, start: usize, end: usize, walk: &mut Walk<'_>) {
        let Walk { resource, next, globs, .. } = walk;
        let segment = resource.get(start..end).unwrap_or_default();
        // With many nodes, even cheap globs are left to the scan.
        let node_count = globs.len();
        let mut scan_starts: SmallVec<[StepId; 16]> = SmallVec::new();
        for id in globs.drain(..) {
            scan_starts.extend(self.globs.at(id).match_cheap_or_defer(
                segment,
                node_count,
                |node| next.push(node),
            ));
        }
        if !scan_starts.is_empty() {
            self.glob_set.matching(segment, &scan_starts, |node| next.push(node));
        }
    }

    /// Visits the rows of a node at the end of the resource.
    #[inline]
    fn end(&self, node: NodeId, visit: &mut impl FnMut(RowId)) {
        cost::add(1);
        if node.is_leaf() {
            visit(node.row());
            return;
        }
        let at = self.nodes.at(node);
        for row in [at.tail_row, at.end_row] {
            if row != RowId::NONE {
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
        RowId(self.0 & !LEAF)
    }
}

impl Node {
    const EMPTY: Self = Self {
        has_literals: false,
        has_other_edges: false,
        has_user_id_edges: false,
        any_segment: NodeId::NONE,
        user: NodeId::NONE,
        globs: GlobsId::NONE,
        end_row: RowId::NONE,
        tail_row: RowId::NONE,
    };

    /// The id to use for this node: its row if it is a leaf, else `id`. A wide row cannot be stored
    /// there: its id already has the bit of [`LEAF`] set.
    fn or_leaf(&self, id: NodeId) -> NodeId {
        let is_leaf = !self.has_literals
            && !self.has_other_edges
            && self.tail_row == RowId::NONE
            && !self.end_row.is_wide();
        if is_leaf { NodeId(self.end_row.0 | LEAF) } else { id }
    }
}
