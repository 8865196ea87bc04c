//! Builds the trie.

use hashbrown::HashMap;
use policy::ids::{IdVec, SourceId};
use policy::pattern::{Glob, Pattern, Segment};

use super::{GlobsId, LEAF, Node, Roots, Trie};
use crate::first_bytes::FirstBytes;
use crate::globs::{Edge, GlobsBuilder};
use crate::ids::{NodeId, RowId};
use crate::literals::Literals;

/// The place in the trie where a pattern ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    node: NodeId,
    /// Whether the pattern ends in `**`.
    is_tail: bool,
}

/// A trie under construction.
#[derive(Default)]
pub(crate) struct TrieBuilder {
    nodes: IdVec<NodeId, Node>,
    literals: Literals,
    user_id_edges: HashMap<(NodeId, Option<SourceId>), NodeId>,
    /// The globs that leave each node that has any.
    globs: IdVec<GlobsId, Vec<Edge>>,
    glob_edges: HashMap<(NodeId, Glob), NodeId>,
}

impl TrieBuilder {
    /// Adds the tries of a scope.
    pub(crate) fn roots(&mut self) -> Roots {
        Roots { absolute: self.node(), relative: self.node() }
    }

    /// Adds a pattern to the trie with these roots, and returns its end. `source` is the identity
    /// source for each `{user.id}` in it.
    pub(crate) fn insert(
        &mut self,
        roots: Roots,
        pattern: &Pattern,
        source: Option<SourceId>,
    ) -> End {
        let mut node = if pattern.absolute { roots.absolute } else { roots.relative };
        for segment in &pattern.segments {
            node = self.edge(node, segment, source);
        }
        End { node, is_tail: pattern.open_ended }
    }

    pub(crate) fn set_row(&mut self, end: End, row: RowId) {
        let node = self.nodes.at_mut(end.node);
        *if end.is_tail { &mut node.tail_row } else { &mut node.end_row } = row;
    }

    pub(crate) fn finish(mut self) -> Trie {
        let nodes = &mut self.nodes;
        for id in nodes.ids() {
            let Node { any_segment, user, .. } = *nodes.at(id);
            let (any_segment, user) = (or_leaf(nodes, any_segment), or_leaf(nodes, user));
            *nodes.at_mut(id) = Node { any_segment, user, ..*nodes.at(id) };
        }
        self.literals.redirect(|to| or_leaf(nodes, to));
        self.user_id_edges.values_mut().for_each(|to| *to = or_leaf(nodes, *to));
        drop(self.glob_edges);
        let mut builder = GlobsBuilder::default();
        let globs = self.globs.into_iter().map(|mut globs| {
            globs.iter_mut().for_each(|(_, to)| *to = or_leaf(nodes, *to));
            builder.add(globs)
        });
        let globs = globs.collect();
        self.nodes.shrink();
        self.literals.shrink();
        Trie {
            nodes: self.nodes,
            literals: self.literals,
            user_id_edges: self.user_id_edges,
            globs,
            glob_set: builder.finish(),
        }
    }

    fn node(&mut self) -> NodeId {
        let id = self.nodes.push(Node::EMPTY);
        assert!(id.0 < LEAF, "a policy has fewer than 2^31 different beginnings of patterns");
        id
    }

    /// The target of an edge. If the edge does not exist, adds it and its target.
    fn edge(&mut self, from: NodeId, segment: &Segment, source: Option<SourceId>) -> NodeId {
        match segment {
            Segment::Literal(literal) => self.literal_edge(from, literal.as_bytes()),
            Segment::Any(_) => self.single_edge(from, |node| &mut node.any_segment),
            Segment::User => self.single_edge(from, |node| &mut node.user),
            Segment::UserId(_) => self.user_id_edge(from, source),
            Segment::Glob(glob) => self.glob_edge(from, glob),
        }
    }

    fn single_edge(&mut self, from: NodeId, edge: fn(&mut Node) -> &mut NodeId) -> NodeId {
        let existing = *edge(self.nodes.at_mut(from));
        if existing != NodeId::NONE {
            return existing;
        }
        let to = self.node();
        let node = self.nodes.at_mut(from);
        node.has_other_edges = true;
        *edge(node) = to;
        to
    }

    fn user_id_edge(&mut self, from: NodeId, source: Option<SourceId>) -> NodeId {
        if let Some(to) = self.user_id_edges.get(&(from, source)) {
            return *to;
        }
        let to = self.node();
        self.user_id_edges.insert((from, source), to);
        let node = self.nodes.at_mut(from);
        (node.has_other_edges, node.has_user_id_edges) = (true, true);
        to
    }

    fn literal_edge(&mut self, from: NodeId, segment: &[u8]) -> NodeId {
        let existing = self.literals.find(from, FirstBytes::new(segment), segment, 0);
        if existing != NodeId::NONE {
            return existing;
        }
        let to = self.node();
        self.nodes.at_mut(from).has_literals = true;
        self.literals.insert(from, segment, to);
        to
    }

    fn glob_edge(&mut self, from: NodeId, glob: &Glob) -> NodeId {
        let key = (from, glob.clone());
        if let Some(to) = self.glob_edges.get(&key) {
            return *to;
        }
        let to = self.node();
        self.glob_edges.insert(key, to);
        let node = self.nodes.at_mut(from);
        if node.globs == GlobsId::NONE {
            node.has_other_edges = true;
            node.globs = self.globs.push(Vec::new());
        }
        self.globs.at_mut(node.globs).push((glob.clone(), to));
        to
    }
}

fn or_leaf(nodes: &IdVec<NodeId, Node>, node: NodeId) -> NodeId {
    if node == NodeId::NONE { node } else { nodes.at(node).or_leaf(node) }
}
