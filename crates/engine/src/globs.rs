//! The globs that leave one node of the trie.
//!
//! The client chooses the segment, so matching must be linear in its length: no combination of
//! globs and segment may make it read bytes repeatedly. [`scan`] explains how. This file handles
//! the cases where a scan is not worth its cost.

mod alphabet;
mod automaton;
mod scan;

use hashbrown::HashMap;
use policy::ids::{IdVec, narrow};
use policy::pattern::Glob;

use self::alphabet::Alphabet;
use self::automaton::{Automaton, NewPiece, PieceId};
use self::scan::{Kind, Steps};
use crate::cost;
use crate::ids::NodeId;

pub(crate) use self::scan::{GlobSet, StepId};

/// Up to this many globs of a node are tried one by one, and those of up to this many nodes for the
/// same segment: their product, 16, is how often a byte of the segment may be read. Chosen, not
/// measured.
const FEW: usize = 4;

/// Up to this length, in bytes, a segment is matched with few globs one by one, which is faster
/// than a pass of the automaton. For longer segments it would be quadratic.
const SHORT: usize = 64;

/// A glob with the node that it leads to.
pub(crate) type Edge = (Glob, NodeId);

/// The globs that leave one node, without duplicates.
pub(crate) struct Globs {
    /// The globs to try one by one when that is permitted: all of them if there are few, else none.
    few: Box<[Edge]>,
    /// The globs that are always tried one by one. The others are matched by the scan, from the
    /// step `start` on.
    always: Box<[Edge]>,
    /// [`StepId::NONE`] if all globs are always tried one by one.
    start: StepId,
}

impl Globs {
    /// Whether some globs may need a scan of the segment. If none does, all are cheap: they have a
    /// first and a last piece only, so one by one they cost at most their own length.
    pub(crate) fn scan_needed(&self) -> bool {
        self.start != StepId::NONE
    }

    /// Matches a non-empty segment, one glob at a time where that is cheaper, and calls `found`
    /// with the node of each match. Returns `None` if all globs have been tried, otherwise the step
    /// at which the scan for the others starts. `nodes` is the number of nodes that match this
    /// segment.
    pub(crate) fn match_cheap_or_defer(
        &self,
        segment: &[u8],
        nodes: usize,
        found: impl FnMut(NodeId),
    ) -> Option<StepId> {
        if !self.few.is_empty() && segment.len() <= SHORT && nodes <= FEW {
            one_by_one(&self.few, segment, found);
            return None;
        }
        one_by_one(&self.always, segment, found);
        self.scan_needed().then_some(self.start)
    }

    /// Matches the globs that are always tried one by one.
    pub(crate) fn match_cheap(&self, segment: &[u8], found: impl FnMut(NodeId)) {
        one_by_one(&self.always, segment, found);
    }
}

fn one_by_one(globs: &[Edge], segment: &[u8], mut found: impl FnMut(NodeId)) {
    for (glob, to) in globs {
        cost::add(if glob.0.len() > 2 { segment.len() } else { 1 });
        if glob.matches(segment) {
            found(*to);
        }
    }
}

/// Collects the globs of all nodes.
#[derive(Default)]
pub(crate) struct GlobsBuilder {
    alphabet: Alphabet,
    known: HashMap<Box<str>, PieceId>,
    pieces: IdVec<PieceId, NewPiece>,
    steps: Steps,
}

/// The pieces of a glob. A first or last piece that is empty is `None`.
struct Pieces {
    first: Option<PieceId>,
    middle: Vec<PieceId>,
    last: Option<PieceId>,
}

impl GlobsBuilder {
    /// Adds the globs of one node.
    pub(crate) fn add(&mut self, globs: Vec<Edge>) -> Globs {
        if globs.len() <= FEW && globs.iter().all(|(glob, _)| glob.0.len() <= 2) {
            return Globs { few: Box::default(), always: globs.into(), start: StepId::NONE };
        }
        let few = if globs.len() <= FEW { globs.clone().into() } else { Box::default() };
        let start = self.steps.start();
        let mut always = Vec::new();
        for (glob, to) in globs {
            match self.pieces_of(&glob) {
                Some(pieces) => self.add_edges(start, &pieces, to),
                None => always.push((glob, to)),
            }
        }
        Globs { few, always: always.into(), start }
    }

    /// Returns `None` for globs that the parser never makes: without a `*`, with two adjacent `*`,
    /// or not canonical.
    fn pieces_of(&mut self, glob: &Glob) -> Option<Pieces> {
        let [first, middle @ .., last] = &*glob.0 else { return None };
        let mut end =
            |text: &str| if text.is_empty() { Some(None) } else { self.piece(text).map(Some) };
        let (first, last) = (end(first)?, end(last)?);
        let middle =
            middle.iter().map(|text| self.piece(text)).collect::<Option<Vec<PieceId>>>()?;
        Some(Pieces { first, middle, last })
    }

    /// The id of a piece that is not empty.
    fn piece(&mut self, text: &str) -> Option<PieceId> {
        if let Some(known) = self.known.get(text) {
            return Some(*known);
        }
        let characters =
            self.alphabet.add(text.as_bytes()).filter(|characters| !characters.is_empty())?;
        let length = narrow(text.len());
        let id = self.pieces.push(NewPiece { characters, length, middle: false, last: false });
        self.known.insert(text.into(), id);
        Some(id)
    }

    fn add_edges(&mut self, start: StepId, pieces: &Pieces, to: NodeId) {
        let mut step = start;
        if let Some(first) = pieces.first {
            step = self.steps.after(step, Kind::First, first);
        }
        for piece in &pieces.middle {
            self.pieces.at_mut(*piece).middle = true;
            step = self.steps.after(step, Kind::Middle, *piece);
        }
        match pieces.last {
            None => self.steps.steps.at_mut(step).accept = to,
            Some(last) => {
                self.pieces.at_mut(last).last = true;
                self.steps.accept_after(step, last, to);
            }
        }
    }

    pub(crate) fn finish(self) -> GlobSet {
        let lasts = self.pieces.iter().filter(|piece| piece.last);
        let longest_last = lasts.map(|piece| piece.length as usize).max().unwrap_or(0);
        let automaton = Automaton::new(&self.pieces, self.alphabet.count());
        let (steps, edges) = self.steps.finish(self.pieces.next_id());
        GlobSet { alphabet: self.alphabet, automaton, steps, edges, longest_last }
    }
}

#[cfg(test)]
mod tests;
