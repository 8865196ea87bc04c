//! The globs that leave a node of the trie.
//!
//! The client chooses the segment, so matching must be linear in its length, whatever the globs
//! are. [`scan`] explains how. This file handles the cases where a scan is not worth its cost.

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

/// A limit on the globs that are tried one by one: for a segment, at most this many nodes with at
/// most this many globs each. So each byte is read at most 4 · 4 = 16 times. Chosen, not measured.
const MAX_TRIED: usize = 4;

/// Maximum length, in bytes, of a segment on which globs are tried separately even if they have
/// middle pieces. For short segments, this is faster than a pass of the automaton; for long ones,
/// its time would be quadratic.
const MAX_TRIED_LENGTH: usize = 64;

/// A glob with the node that it leads to.
pub(crate) type Edge = (Glob, NodeId);

/// The globs that leave a node, without duplicates.
pub(crate) struct Globs {
    /// All globs, to be tried separately on a short segment. Empty if there are more than
    /// [`MAX_TRIED`], or if `always` has all of them.
    few: Box<[Edge]>,
    /// The globs that are tried separately on every segment. The scan matches the others.
    always: Box<[Edge]>,
    /// The step at which the scan starts; [`StepId::NONE`] if no glob needs it.
    start: StepId,
}

impl Globs {
    /// Whether some globs may need a scan of the segment. If not, each glob has only a first and a
    /// last piece, and a try costs at most the glob's length.
    pub(crate) fn may_need_scan(&self) -> bool {
        self.start != StepId::NONE
    }

    /// Matches a non-empty segment with globs that can be tried separately, and calls `visit` with
    /// the node of each match. Returns the step at which the scan for the other globs starts, or
    /// `None` if all have been tried. If `node_count` is above [`MAX_TRIED`], only the globs in
    /// `always` are tried.
    pub(crate) fn match_cheap_or_defer(
        &self,
        segment: &[u8],
        node_count: usize,
        visit: impl FnMut(NodeId),
    ) -> Option<StepId> {
        if !self.few.is_empty() && segment.len() <= MAX_TRIED_LENGTH && node_count <= MAX_TRIED {
            try_each(&self.few, segment, visit);
            return None;
        }
        try_each(&self.always, segment, visit);
        self.may_need_scan().then_some(self.start)
    }

    /// Matches the globs that are tried separately on every segment.
    pub(crate) fn match_cheap(&self, segment: &[u8], visit: impl FnMut(NodeId)) {
        try_each(&self.always, segment, visit);
    }
}

fn try_each(globs: &[Edge], segment: &[u8], mut visit: impl FnMut(NodeId)) {
    for (glob, to) in globs {
        cost::add(if glob.0.len() > 2 { segment.len() } else { 1 });
        if glob.matches(segment) {
            visit(*to);
        }
    }
}

/// Collects the globs of all nodes.
#[derive(Default)]
pub(crate) struct GlobsBuilder {
    alphabet: Alphabet,
    piece_ids: HashMap<Box<str>, PieceId>,
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
    /// Adds the globs of a node.
    pub(crate) fn add(&mut self, globs: Vec<Edge>) -> Globs {
        if globs.len() <= MAX_TRIED && globs.iter().all(|(glob, _)| glob.0.len() <= 2) {
            return Globs { few: Box::default(), always: globs.into(), start: StepId::NONE };
        }
        let few = if globs.len() <= MAX_TRIED { globs.clone().into() } else { Box::default() };
        let start = self.steps.start();
        let mut always = Vec::new();
        for (glob, to) in globs {
            match self.add_pieces(&glob) {
                Some(pieces) => self.add_edges(start, &pieces, to),
                None => always.push((glob, to)),
            }
        }
        Globs { few, always: always.into(), start }
    }

    /// Returns `None` for globs that the parser never makes: without a `*`, with two adjacent `*`,
    /// or not canonical.
    fn add_pieces(&mut self, glob: &Glob) -> Option<Pieces> {
        let [first, middle @ .., last] = &*glob.0 else { return None };
        Some(Pieces {
            first: if first.is_empty() { None } else { Some(self.add_piece(first)?) },
            middle: middle.iter().map(|text| self.add_piece(text)).collect::<Option<_>>()?,
            last: if last.is_empty() { None } else { Some(self.add_piece(last)?) },
        })
    }

    /// The id of a piece. A new piece is added. `None` if it is empty or not canonical.
    fn add_piece(&mut self, text: &str) -> Option<PieceId> {
        if let Some(id) = self.piece_ids.get(text) {
            return Some(*id);
        }
        let characters =
            self.alphabet.add(text.as_bytes()).filter(|characters| !characters.is_empty())?;
        let length = narrow(text.len());
        let id =
            self.pieces.push(NewPiece { characters, length, is_middle: false, is_last: false });
        self.piece_ids.insert(text.into(), id);
        Some(id)
    }

    fn add_edges(&mut self, start: StepId, pieces: &Pieces, to: NodeId) {
        let mut step = start;
        if let Some(first) = pieces.first {
            step = self.steps.after(step, Kind::First, first);
        }
        for piece in &pieces.middle {
            self.pieces.at_mut(*piece).is_middle = true;
            step = self.steps.after(step, Kind::Middle, *piece);
        }
        match pieces.last {
            None => self.steps.steps.at_mut(step).accept = to,
            Some(last) => {
                self.pieces.at_mut(last).is_last = true;
                self.steps.accept_after(step, last, to);
            }
        }
    }

    pub(crate) fn finish(self) -> GlobSet {
        let last_pieces = self.pieces.iter().filter(|piece| piece.is_last);
        let last_piece_max = last_pieces.map(|piece| piece.length as usize).max().unwrap_or(0);
        let automaton = Automaton::new(&self.pieces, self.alphabet.count());
        let (steps, edges) = self.steps.finish(self.pieces.next_id());
        GlobSet { alphabet: self.alphabet, automaton, steps, edges, last_piece_max }
    }
}

#[cfg(test)]
mod tests;
