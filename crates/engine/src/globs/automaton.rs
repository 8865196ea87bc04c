//! Finds the pieces of globs in a segment, all in one pass (Aho and Corasick, CACM 18(6), 1975).
//!
//! The crate `aho-corasick` lost: it reports every piece that ends at a position, so nested pieces (`a`, `aa`, …) cost
//! their number at each position. Here each piece links to the next shorter one, and the caller may stop early.

use super::symbols::{OTHER, Symbol};
use crate::table::{NONE, Table, number};
use crate::work;

/// The initial state, in which no symbol of any piece has been read.
pub(crate) const ROOT: u32 = 0;

/// The maximum number of entries in the table of the first states: 256 KiB. This holds all states of a policy with some
/// hundred globs, and the most visited ones of a larger policy.
const ENTRIES: usize = 1 << 16;

/// States are numbered level by level: shallow states come first, and the children of a state are adjacent.
pub(crate) struct Automaton {
    /// The transitions of the first states: `width` entries for each state, indexed by symbol.
    table: Box<[u32]>,
    width: usize,
    states: Table<State>,
    /// The symbol that leads to each state.
    symbols: Table<Symbol>,
    pieces: Table<Piece>,
}

/// The longest suffix of the input that is a prefix of a piece.
#[derive(Clone, Copy)]
pub(crate) struct State {
    /// The index of the first child; children are sorted by symbol. They end where the next state's children start.
    children: u32,
    /// The failure link: the state of the longest proper suffix.
    shorter: u32,
    /// The length of this prefix, in symbols.
    pub(crate) depth: u32,
    /// The piece that equals this prefix, or `NONE`.
    pub(crate) own: u32,
    /// The longest middle piece that is a suffix of this prefix, or `NONE`.
    pub(crate) middle: u32,
    /// The longest last piece that is a suffix of this prefix, or `NONE`.
    pub(crate) last: u32,
}

/// A piece, as input for building the automaton.
pub(crate) struct NewPiece {
    pub(crate) symbols: Vec<Symbol>,
    /// In bytes.
    pub(crate) length: u32,
    /// Whether the piece occurs in the middle of a glob.
    pub(crate) middle: bool,
    /// Whether the piece occurs at the end of a glob.
    pub(crate) last: bool,
}

/// A piece of the finished automaton.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// In bytes.
    pub(crate) length: u32,
    /// The longest middle piece that is a proper suffix of this one, or `NONE`.
    pub(crate) shorter_middle: u32,
    /// The longest last piece that is a proper suffix of this one, or `NONE`.
    pub(crate) shorter_last: u32,
}

impl Automaton {
    pub(crate) fn state(&self, number: u32) -> &State {
        self.states.at(number)
    }

    pub(crate) fn piece(&self, number: u32) -> &Piece {
        self.pieces.at(number)
    }

    /// The state after one more symbol. Over a segment, the loop runs at most twice per symbol: each round but the last
    /// shortens the state, and each symbol lengthens it by one.
    #[inline]
    pub(crate) fn next(&self, mut state: u32, symbol: Symbol) -> u32 {
        if symbol == OTHER {
            work::step();
            return ROOT;
        }
        loop {
            work::step();
            if let Some(next) = self.table.get(state as usize * self.width + usize::from(symbol)) {
                return *next;
            }
            match self.child(state, symbol) {
                NONE => state = self.state(state).shorter,
                child => return child,
            }
        }
    }

    /// The child for this symbol, or `NONE`.
    fn child(&self, state: u32, symbol: Symbol) -> u32 {
        let (mut low, mut high) = (self.state(state).children, self.state(state + 1).children);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.symbols.at(middle).cmp(&symbol) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return middle,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        NONE
    }

    /// Builds the automaton. The pieces are distinct, not empty, and consist of symbols below `width`.
    pub(crate) fn new(pieces: &[NewPiece], width: usize) -> Self {
        let mut automaton = Self {
            table: Box::default(),
            width,
            states: Table::new(),
            symbols: Table::new(),
            pieces: pieces
                .iter()
                .map(|piece| Piece { length: piece.length, shorter_middle: NONE, shorter_last: NONE })
                .collect(),
        };
        automaton.add_states(pieces);
        automaton.fill_table();
        automaton
    }

    fn add_states(&mut self, pieces: &[NewPiece]) {
        let mut sorted: Vec<(u32, &NewPiece)> = (0..).zip(pieces).collect();
        sorted.sort_unstable_by(|one, other| one.1.symbols.cmp(&other.1.symbols));
        // For each state, the pieces that start with it.
        let mut open: Vec<&[(u32, &NewPiece)]> = vec![&sorted];
        self.push(ROOT, 0, OTHER);
        let mut state = ROOT;
        while let Some(starting) = open.get(state as usize).copied() {
            let depth = self.state(state).depth as usize;
            self.states.at_mut(state).children = self.states.len();
            for below in
                starting.chunk_by(|one, other| one.1.symbols.get(depth) == other.1.symbols.get(depth))
            {
                let Some((own, piece)) = below.first() else { continue };
                match piece.symbols.get(depth) {
                    None => self.states.at_mut(state).own = *own,
                    Some(symbol) => {
                        let shorter = if state == ROOT { ROOT } else { self.after_shorter(state, *symbol) };
                        self.push(shorter, number(depth + 1), *symbol);
                        open.push(below);
                    }
                }
            }
            self.link(state, pieces);
            state += 1;
        }
        // Marks the end of the last state's children.
        self.push(ROOT, 0, OTHER);
        self.states.at_mut(state).children = state;
        self.states.shrink();
        self.symbols.shrink();
    }

    fn push(&mut self, shorter: u32, depth: u32, symbol: Symbol) {
        let state = State { children: 0, shorter, depth, own: NONE, middle: NONE, last: NONE };
        self.states.push(state);
        self.symbols.push(symbol);
    }

    /// The failure link of the child that this symbol leads to: the state after the symbol, starting from the failure
    /// link of the parent. All shorter states have their children already.
    fn after_shorter(&self, state: u32, symbol: Symbol) -> u32 {
        let mut shorter = self.state(state).shorter;
        loop {
            match self.child(shorter, symbol) {
                NONE if shorter == ROOT => return ROOT,
                NONE => shorter = self.state(shorter).shorter,
                child => return child,
            }
        }
    }

    /// Sets the pieces that a state ends in: its own, and those of its failure link, which has been linked before.
    fn link(&mut self, state: u32, pieces: &[NewPiece]) {
        let own = self.state(state).own;
        let shorter = *self.state(self.state(state).shorter);
        let (mut middle, mut last) = (shorter.middle, shorter.last);
        if let Some(piece) = pieces.get(own as usize) {
            let known = self.pieces.at_mut(own);
            (known.shorter_middle, known.shorter_last) = (middle, last);
            middle = if piece.middle { own } else { middle };
            last = if piece.last { own } else { last };
        }
        let state = self.states.at_mut(state);
        (state.middle, state.last) = (middle, last);
    }

    /// Fills the table for as many of the first states as fit, at least for the root, where every chain of failure
    /// links ends.
    fn fill_table(&mut self) {
        let states = (ENTRIES / self.width).clamp(1, self.states.len() as usize - 1);
        let mut table: Vec<u32> = Vec::with_capacity(states * self.width);
        for state in (0..self.states.len()).take(states) {
            let shorter = self.state(state).shorter as usize;
            for symbol in 0..self.width {
                let child = Symbol::try_from(symbol).map_or(NONE, |symbol| self.child(state, symbol));
                let otherwise = if state == ROOT { None } else { table.get(shorter * self.width + symbol) };
                let next = if child == NONE { otherwise.copied().unwrap_or(ROOT) } else { child };
                table.push(next);
            }
        }
        self.table = table.into();
    }
}

#[cfg(test)]
impl Automaton {
    pub(super) fn has_states_beyond_the_table(&self) -> bool {
        self.table.len() < (self.states.len() as usize - 1) * self.width
    }
}
