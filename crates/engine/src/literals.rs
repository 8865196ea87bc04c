//! The literal edges of all nodes of the trie: from a node and a segment to the next node.

use foldhash::fast::RandomState;
use policy::ids::narrow;

use crate::cost;
use crate::first_bytes::FirstBytes;
use crate::ids::NodeId;

/// A hash table with open addressing. A look-up reads one or two adjacent cache lines; `hashbrown`
/// stores its control bytes apart from the entries. With this table, and segments read sixteen
/// bytes at a time, a decision among 100,000 resources takes 99 ns instead of 123 (2026-11-21).
pub(crate) struct Literals {
    /// The length is a power of two, and at least half of the places are free. An edge is at the
    /// place given by its hash, or after it with no free place in between.
    edges: Box<[Literal]>,
    count: usize,
    /// The texts of segments that do not fit into a [`FirstBytes`].
    long: Vec<u8>,
    /// The length of the longest literal. A longer segment is not looked up: its hash would be
    /// computed again for each node.
    longest: u32,
    seed: RandomState,
}

/// 32 bytes: two fit into a cache line.
#[derive(Clone, Copy)]
struct Literal {
    bytes: [u64; 2],
    length: u32,
    from: NodeId,
    /// [`NodeId::NONE`] in a free place.
    to: NodeId,
    /// The index in `long` at which its text starts.
    start: u32,
}

const FREE: Literal =
    Literal { bytes: [0; 2], length: 0, from: NodeId::NONE, to: NodeId::NONE, start: 0 };

impl Literals {
    /// The target of the edge for a segment; [`NodeId::NONE`] if there is none. The segment has
    /// these first bytes, and starts at `start` of the resource.
    #[inline]
    pub(crate) fn find(
        &self,
        from: NodeId,
        first: FirstBytes,
        resource: &[u8],
        start: usize,
    ) -> NodeId {
        if first.is_whole() {
            self.edge(from, first, &[], |_| true).1.to
        } else {
            self.find_long(from, first, resource, start)
        }
    }

    #[cold]
    #[inline(never)]
    fn find_long(&self, from: NodeId, first: FirstBytes, resource: &[u8], start: usize) -> NodeId {
        if first.length() > self.longest {
            return NodeId::NONE;
        }
        cost::add(first.length() as usize / 16);
        let segment = resource.get(start..start + first.length() as usize).unwrap_or_default();
        self.edge(from, first, segment, |edge| self.text(edge) == segment).1.to
    }

    /// The edge with its place. If there is none, the free place where it would be inserted.
    #[inline]
    fn edge(
        &self,
        from: NodeId,
        first: FirstBytes,
        segment: &[u8],
        same: impl Fn(&Literal) -> bool,
    ) -> (usize, &Literal) {
        let mask = self.edges.len() - 1;
        let mut place = hash(from, first, segment, &self.seed) & mask;
        loop {
            #[expect(
                clippy::indexing_slicing,
                reason = "the mask keeps it in bounds, because the length is a power of two"
            )]
            let edge = &self.edges[place];
            if edge.is(from, first) && same(edge) || edge.to == NodeId::NONE {
                return (place, edge);
            }
            place = (place + 1) & mask;
        }
    }

    /// Adds an edge that does not exist yet.
    pub(crate) fn insert(&mut self, from: NodeId, segment: &[u8], to: NodeId) {
        let first = FirstBytes::new(segment);
        let (bytes, length) = first.parts();
        self.longest = self.longest.max(length);
        let edge = Literal { bytes, length, from, to, start: narrow(self.long.len()) };
        if !first.is_whole() {
            self.long.extend_from_slice(segment);
        }
        if (self.count + 1) * 2 > self.edges.len() {
            self.grow();
        }
        self.put(edge);
        self.count += 1;
    }

    /// Replaces the target of each edge.
    pub(crate) fn redirect(&mut self, to: impl Fn(NodeId) -> NodeId) {
        for edge in self.edges.iter_mut().filter(|edge| edge.to != NodeId::NONE) {
            edge.to = to(edge.to);
        }
    }

    /// Frees the spare capacity left from growing.
    pub(crate) fn shrink(&mut self) {
        self.long.shrink_to_fit();
    }

    fn grow(&mut self) {
        let places = self.edges.len() * 2;
        let old = std::mem::replace(&mut self.edges, vec![FREE; places].into());
        old.into_iter().filter(|edge| edge.to != NodeId::NONE).for_each(|edge| self.put(edge));
    }

    fn put(&mut self, edge: Literal) {
        let (place, _) = self.edge(edge.from, edge.first_bytes(), self.text(&edge), |_| false);
        if let Some(free) = self.edges.get_mut(place) {
            *free = edge;
        }
    }

    /// The text of an edge's segment; empty if the segment fits into a [`FirstBytes`].
    fn text(&self, edge: &Literal) -> &[u8] {
        if edge.first_bytes().is_whole() {
            return &[];
        }
        let start = edge.start as usize;
        self.long.get(start..start + edge.length as usize).unwrap_or_default()
    }
}

impl Default for Literals {
    fn default() -> Self {
        Self {
            edges: vec![FREE; 2].into(),
            count: 0,
            long: Vec::new(),
            longest: 0,
            seed: RandomState::default(),
        }
    }
}

impl Literal {
    const fn first_bytes(&self) -> FirstBytes {
        FirstBytes::from_parts(self.bytes, self.length)
    }

    fn is(&self, from: NodeId, first: FirstBytes) -> bool {
        self.from == from && self.first_bytes() == first
    }
}

/// The hash of the segment does not depend on the node, so the processor can compute it before the
/// node is known. The multiplication spreads the node's number over all bits; nodes created in
/// sequence differ only in the lowest.
#[inline]
fn hash(from: NodeId, first: FirstBytes, segment: &[u8], seed: &RandomState) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a table has fewer places than a usize can say"
    )]
    let hash = (first.hash(segment, seed) ^ u64::from(from.0).wrapping_mul(ODD)) as usize;
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(edges: &Literals, from: u32, segment: &str) -> NodeId {
        let segment = segment.as_bytes();
        edges.find(NodeId(from), FirstBytes::new(segment), segment, 0)
    }

    fn long(number: u32) -> String {
        format!("a-segment-of-more-than-sixteen-bytes-{number}")
    }

    #[test]
    fn edges_are_found_by_node_and_segment_and_no_others_are() {
        let mut edges = Literals::default();
        let cases: Vec<(u32, String)> = (0..3_000)
            .flat_map(|number| {
                [
                    (number, "same".to_owned()),
                    (0, format!("item-{number}")),
                    (number % 7, long(number)),
                ]
            })
            .collect();
        for (to, (from, segment)) in (1..).zip(&cases) {
            assert_eq!(find(&edges, *from, segment), NodeId::NONE);
            edges.insert(NodeId(*from), segment.as_bytes(), NodeId(to));
        }
        for (to, (from, segment)) in (1..).zip(&cases) {
            assert_eq!(find(&edges, *from, segment), NodeId(to));
            assert_eq!(find(&edges, from + 7_000, segment), NodeId::NONE);
            assert_eq!(find(&edges, *from, &format!("{segment}\0")), NodeId::NONE);
        }
        edges.redirect(|to| NodeId(to.0 + 1));
        assert_eq!(find(&edges, 0, "same"), NodeId(2));
        assert_eq!(find(&edges, 0, &long(3_007)), NodeId::NONE);
    }
}
