//! Builds the trie.

use hashbrown::HashMap;
use policy::pattern::{Glob, Pattern, Segment};

use super::{LEAF, NO_NODE, Node, NodeId, Trie};
use crate::globs::{Edge, GlobsBuilder};
use crate::literals::Literals;
use crate::rows::RowId;
use crate::scopes::Roots;
use crate::table::{NONE, Table};
use crate::word::Word;

/// The place in the trie where a pattern ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    node: NodeId,
    rest: bool,
}

/// A trie under construction.
#[derive(Default)]
pub(crate) struct TrieBuilder {
    nodes: Table<Node>,
    literals: Literals,
    /// The globs that leave each node that has any.
    globs: Table<Vec<Edge>>,
    glob_edges: HashMap<(NodeId, Glob), NodeId>,
}

impl TrieBuilder {
    /// Adds a root.
    pub(crate) fn root(&mut self) -> NodeId {
        self.node()
    }

    /// Adds a pattern to the trie with these roots, and returns its end.
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
        let nodes = &mut self.nodes;
        for number in 0..nodes.len() {
            let Node { one, owner, .. } = *nodes.at(number);
            let (one, owner) = (or_leaf(nodes, one), or_leaf(nodes, owner));
            *nodes.at_mut(number) = Node { one, owner, ..*nodes.at(number) };
        }
        self.literals.redirect(|to| or_leaf(nodes, to));
        drop(self.glob_edges);
        let mut builder = GlobsBuilder::default();
        let globs = self.globs.into_iter().map(|mut globs| {
            globs.iter_mut().for_each(|(_, to)| *to = or_leaf(nodes, *to));
            builder.add(globs)
        });
        let globs = globs.collect();
        self.nodes.shrink();
        self.literals.shrink();
        Trie { nodes: self.nodes, literals: self.literals, globs, glob_set: builder.finish() }
    }

    fn node(&mut self) -> NodeId {
        let number = self.nodes.push(Node::EMPTY);
        assert!(number < LEAF, "a policy has fewer than 2^31 different beginnings of patterns");
        NodeId(number)
    }

    /// The target of an edge, which is added if it does not exist.
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
        let node = self.nodes.at_mut(from.0);
        node.others = true;
        *edge(node) = to;
        to
    }

    fn literal(&mut self, from: NodeId, segment: &[u8]) -> NodeId {
        let found = self.literals.find(from, Word::new(segment), segment, 0);
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
            node.others = true;
            node.globs = self.globs.push(Vec::new());
        }
        self.globs.at_mut(node.globs).push((glob.clone(), to));
        to
    }
}

fn or_leaf(nodes: &Table<Node>, node: NodeId) -> NodeId {
    if node == NO_NODE { node } else { nodes.at(node.0).or_leaf(node) }
}
