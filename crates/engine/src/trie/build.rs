//! Making the trie.

use hashbrown::HashMap;
use policy::pattern::{Glob, Pattern, Segment};

use super::{Literal, Literals, NO_NODE, Node, NodeId, Trie, hash, text_of};
use crate::globs::Globs;
use crate::rows::RowId;
use crate::scopes::Roots;
use crate::table::{NONE, Table, number};

/// Where a pattern ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    node: NodeId,
    rest: bool,
}

/// A trie that patterns are still added to.
#[derive(Default)]
pub(crate) struct TrieBuilder {
    nodes: Table<Node>,
    literals: Literals,
    /// The globs that leave each node that has any.
    globs: Table<Vec<(Glob, NodeId)>>,
    glob_edges: HashMap<(NodeId, Glob), NodeId>,
}

impl TrieBuilder {
    /// A new root.
    pub(crate) fn root(&mut self) -> NodeId {
        self.node()
    }

    /// Where this pattern ends in the trie that starts at these roots.
    pub(crate) fn insert(&mut self, roots: Roots, pattern: &Pattern) -> End {
        let mut node = if pattern.absolute { roots.absolute } else { roots.relative };
        for segment in &pattern.segments {
            node = self.edge(node, segment);
        }
        End { node, rest: pattern.rest }
    }

    pub(crate) fn set_row(&mut self, end: End, row: RowId) {
        let node = self.nodes.at_mut(end.node.0);
        if end.rest {
            node.rest = row;
        } else {
            node.here = row;
        }
    }

    pub(crate) fn finish(mut self) -> Trie {
        self.nodes.shrink();
        self.literals.text.shrink_to_fit();
        Trie {
            nodes: self.nodes,
            literals: self.literals,
            globs: self.globs.into_iter().map(Globs::new).collect(),
        }
    }

    fn node(&mut self) -> NodeId {
        NodeId(self.nodes.push(Node::EMPTY))
    }

    /// The node that an edge leads to, which is made if there is none.
    fn edge(&mut self, from: NodeId, segment: &Segment) -> NodeId {
        match segment {
            Segment::Literal(literal) => self.literal(from, literal.as_bytes()),
            Segment::One(_) => self.single(from, |node| &mut node.one),
            Segment::Owner => self.single(from, |node| &mut node.owner),
            Segment::Glob(glob) => self.glob(from, glob),
        }
    }

    fn single(&mut self, from: NodeId, edge: fn(&mut Node) -> &mut NodeId) -> NodeId {
        let found = *edge(self.nodes.at_mut(from.0));
        if found != NO_NODE {
            return found;
        }
        let to = self.node();
        *edge(self.nodes.at_mut(from.0)) = to;
        to
    }

    fn literal(&mut self, from: NodeId, segment: &[u8]) -> NodeId {
        let found = self.literals.find(from, segment);
        if found != NO_NODE {
            return found;
        }
        let to = self.node();
        self.nodes.at_mut(from.0).literals = true;
        self.literals.insert(from, segment, to);
        to
    }

    fn glob(&mut self, from: NodeId, glob: &Glob) -> NodeId {
        let key = (from, glob.clone());
        if let Some(to) = self.glob_edges.get(&key) {
            return *to;
        }
        let to = self.node();
        self.glob_edges.insert(key, to);
        let node = self.nodes.at_mut(from.0);
        if node.globs == NONE {
            node.globs = self.globs.push(Vec::new());
        }
        self.globs.at_mut(node.globs).push((glob.clone(), to));
        to
    }
}

impl Literals {
    fn insert(&mut self, from: NodeId, segment: &[u8], to: NodeId) {
        let edge = Literal { from, to, start: self.text.len(), length: number(segment.len()) };
        self.text.extend_from_slice(segment);
        let Self { edges, text, seed } = self;
        edges.insert_unique(hash(seed, from, segment), edge, |other| {
            hash(seed, other.from, text_of(text, other))
        });
    }
}
