//! The globs that leave one node of the trie.
//!
//! The client chooses the segment, so matching must be linear in its length: no combination of globs and segment may
//! make it read bytes repeatedly. [`scan`] explains how. This file handles the cases where a scan is not worth its
//! cost.

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

/// Up to this many globs of a node are tried one by one, and those of up to this many nodes for the same segment.
const FEW: usize = 4;

/// Up to this length, in bytes, a segment is matched with few globs one by one. That is faster than a pass of the
/// automaton, and reading some bytes twice costs little. For longer segments it would be quadratic.
const SHORT: usize = 64;

/// A glob with the node that it leads to.
pub(crate) type Edge = (Glob, NodeId);

/// The globs that leave one node, without duplicates.
pub(crate) struct Globs {
    /// The globs to try one by one when that is permitted: all of them if there are few, else none.
    few: Box<[Edge]>,
    /// The globs that are always tried one by one. The others are matched by the scan, from the step `start` on.
    always: Box<[Edge]>,
    /// `NONE` if all globs are always tried one by one.
    start: u32,
}

impl Globs {
    /// Whether all globs are always tried one by one, which costs at most their own length.
    pub(crate) const fn is_simple(&self) -> bool {
        self.start == NONE
    }

    /// Matches a non-empty segment, one glob at a time where that is cheaper, and calls `found` with the node of each
    /// match. Returns `None` if all globs have been tried; else the step at which to start the scan for the remaining
    /// ones. `nodes` is the number of nodes that match this segment.
    pub(crate) fn try_each(&self, segment: &[u8], nodes: usize, found: impl FnMut(NodeId)) -> Option<u32> {
        if !self.few.is_empty() && segment.len() <= SHORT && nodes <= FEW {
            one_by_one(&self.few, segment, found);
            return None;
        }
        one_by_one(&self.always, segment, found);
        (!self.is_simple()).then_some(self.start)
    }

    /// Tries the globs that are always tried one by one.
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

/// Collects the globs of all nodes.
#[derive(Default)]
pub(crate) struct GlobsBuilder {
    symbols: Symbols,
    numbers: HashMap<Box<str>, u32>,
    pieces: Vec<NewPiece>,
    steps: Steps,
}

impl GlobsBuilder {
    /// Adds the globs of one node.
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

    /// The pieces of a glob; `NONE` stands for an empty first or last piece. Returns `None` for globs that the parser
    /// never makes: without a `*`, with two adjacent `*`, or not canonical.
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
