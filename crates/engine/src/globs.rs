//! The globs that leave one node of the trie.
//!
//! A client chooses the segment, so what it costs to match one is linear in its length: no glob and no segment make it
//! look at anything again and again. Read [`scan`] for how; here stands where that is not worth while.

mod automaton;
mod scan;
mod symbols;

use hashbrown::HashMap;
use policy::pattern::Glob;

use self::automaton::{Automaton, NewPiece};
use self::scan::{Kind, Steps};
use self::symbols::Symbols;
use crate::table::{NONE, number};
use crate::trie::NodeId;
use crate::work;

pub(crate) use self::scan::GlobSet;

/// Up to so many globs of a node are tried one by one, and so many nodes' for the same segment.
const FEW: usize = 4;

/// Segments up to this length, in bytes, are matched with few globs one by one: for them that is faster than a pass with
/// the automaton, and looking at some bytes again costs little. For longer ones it would be quadratic.
const SHORT: usize = 64;

/// A glob with the node that it leads to.
pub(crate) type Edge = (Glob, NodeId);

/// The globs that leave one node, each once.
pub(crate) struct Globs {
    /// Those that are tried one by one where they may be: all, if there are few.
    few: Box<[Edge]>,
    /// Those that are always tried one by one. The others start at the step `start`.
    always: Box<[Edge]>,
    /// `NONE` if all are always tried one by one.
    start: u32,
}

impl Globs {
    /// Whether all are always tried one by one, which costs at most their own length.
    pub(crate) const fn is_simple(&self) -> bool {
        self.start == NONE
    }

    /// Gives the node of each glob that matches a segment, which is not empty, if they are to be tried one by one. Else
    /// the step to start at is given, and nodes for those that are tried one by one always. `nodes` is for how many nodes
    /// the segment is to be matched.
    pub(crate) fn try_each(&self, segment: &[u8], nodes: usize, found: impl FnMut(NodeId)) -> Option<u32> {
        if !self.few.is_empty() && segment.len() <= SHORT && nodes <= FEW {
            one_by_one(&self.few, segment, found);
            return None;
        }
        one_by_one(&self.always, segment, found);
        (!self.is_simple()).then_some(self.start)
    }

    /// Tries those that are always tried one by one.
    pub(crate) fn try_always(&self, segment: &[u8], found: impl FnMut(NodeId)) {
        one_by_one(&self.always, segment, found);
    }
}

fn one_by_one(globs: &[Edge], segment: &[u8], mut found: impl FnMut(NodeId)) {
    for (glob, to) in globs {
        work::steps(if glob.0.len() > 2 { segment.len() } else { 1 });
        if glob.matches(segment) {
            found(*to);
        }
    }
}

/// The globs of all nodes while more are added.
#[derive(Default)]
pub(crate) struct GlobsBuilder {
    symbols: Symbols,
    numbers: HashMap<Box<str>, u32>,
    pieces: Vec<NewPiece>,
    steps: Steps,
}

impl GlobsBuilder {
    /// The globs of one node.
    pub(crate) fn add(&mut self, globs: Vec<Edge>) -> Globs {
        if globs.len() <= FEW && globs.iter().all(|(glob, _)| glob.0.len() <= 2) {
            return Globs { few: Box::default(), always: globs.into(), start: NONE };
        }
        let few = if globs.len() <= FEW { globs.clone().into() } else { Box::default() };
        let start = self.steps.start();
        let mut always = Vec::new();
        for (glob, to) in globs {
            match self.pieces_of(&glob) {
                Some(pieces) => self.edges(start, &pieces, to),
                None => always.push((glob, to)),
            }
        }
        Globs { few, always: always.into(), start }
    }

    /// The pieces of a glob, `NONE` for an empty first or last one. Nothing for what the parser never makes: a glob
    /// without a `*`, one with two side by side, or one that is not canonical.
    fn pieces_of(&mut self, glob: &Glob) -> Option<(u32, Vec<u32>, u32)> {
        let [first, middle @ .., last] = &*glob.0 else { return None };
        let first = self.piece(first)?;
        let middle = middle.iter().map(|piece| self.piece(piece).filter(|piece| *piece != NONE));
        let middle = middle.collect::<Option<Vec<u32>>>()?;
        Some((first, middle, self.piece(last)?))
    }

    /// The number of a piece; `NONE` if it is empty.
    fn piece(&mut self, text: &str) -> Option<u32> {
        if text.is_empty() {
            return Some(NONE);
        }
        if let Some(known) = self.numbers.get(text) {
            return Some(*known);
        }
        let symbols = self.symbols.add(text.as_bytes())?;
        let new = number(self.pieces.len());
        self.pieces.push(NewPiece { symbols, length: number(text.len()), middle: false, last: false });
        self.numbers.insert(text.into(), new);
        Some(new)
    }

    fn edges(&mut self, start: u32, (first, middle, last): &(u32, Vec<u32>, u32), to: NodeId) {
        let mut step = start;
        if *first != NONE {
            step = self.steps.after(step, Kind::First, *first);
        }
        for piece in middle {
            self.pieces.get_mut(*piece as usize).into_iter().for_each(|piece| piece.middle = true);
            step = self.steps.after(step, Kind::Middle, *piece);
        }
        if *last == NONE {
            self.steps.steps.at_mut(step).accept = to;
        } else {
            self.pieces.get_mut(*last as usize).into_iter().for_each(|piece| piece.last = true);
            self.steps.add(step, Kind::Last, *last, to.0);
        }
    }

    pub(crate) fn finish(self) -> GlobSet {
        let lasts = self.pieces.iter().filter(|piece| piece.last);
        let longest_last = lasts.map(|piece| piece.length as usize).max().unwrap_or(0);
        let automaton = Automaton::new(&self.pieces, self.symbols.count());
        let (steps, edges, starts) = self.steps.finish(number(self.pieces.len()));
        GlobSet { symbols: self.symbols, automaton, steps, edges, starts, longest_last }
    }
}

#[cfg(test)]
mod tests;
