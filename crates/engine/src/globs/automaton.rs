//! Finds the pieces of globs in a segment, in a single pass (Aho and Corasick, CACM 18(6), 1975).
//!
//! The crate `aho-corasick` reports every piece that ends at a position. With nested pieces (`a`,
//! `aa`, …), that may be all of them, at each position. Here each piece links to the next shorter
//! piece that ends at the same position, so that the caller may stop early.

use policy::ids::{Id, IdVec, id_types, narrow};

use super::alphabet::CharId;
use crate::cost;

id_types! {
    /// A state. States are numbered level by level: shallow states come first, and the children of
    /// a state are adjacent.
    pub(crate) struct StateId;

    /// A piece of globs.
    pub(crate) struct PieceId;
}

impl StateId {
    /// The initial state, in which no character of any piece has been read.
    pub(crate) const ROOT: Self = Self(0);
    const NONE: Self = Self(u32::MAX);
}

impl PieceId {
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// Maximum number of entries in the table of the first states: 256 KiB. The table has all states of
/// a policy with a few hundred globs, and the most visited states of a larger policy.
const MAX_TABLE_ENTRIES: usize = 1 << 16;

/// The automaton of all pieces of all globs of a policy.
pub(crate) struct Automaton {
    /// The transitions of the first states: `width` entries for each state, indexed by character.
    table: Box<[StateId]>,
    width: usize,
    states: IdVec<StateId, State>,
    /// The character that leads to each state.
    characters: IdVec<StateId, CharId>,
    pieces: IdVec<PieceId, Piece>,
}

/// A prefix of a piece. The current state is the longest one that is a suffix of the input so far.
#[derive(Clone, Copy)]
pub(crate) struct State {
    /// The first child; children are sorted by character. They end where the next state's children
    /// start.
    children: StateId,
    /// The failure link: the longest other state that is a suffix of this prefix.
    shorter: StateId,
    /// The length of this prefix, in characters.
    pub(crate) depth: u32,
    /// The piece that equals this prefix, or `NONE`.
    pub(crate) whole: PieceId,
    /// The longest middle piece that is a suffix of this prefix, or `NONE`.
    pub(crate) longest_middle: PieceId,
    /// The longest last piece that is a suffix of this prefix, or `NONE`.
    pub(crate) longest_last: PieceId,
}

/// A piece, as input for building the automaton.
pub(crate) struct NewPiece {
    pub(crate) characters: Vec<CharId>,
    /// In bytes.
    pub(crate) length: u32,
    /// Whether the piece occurs in the middle of a glob.
    pub(crate) is_middle: bool,
    /// Whether the piece occurs at the end of a glob.
    pub(crate) is_last: bool,
}

/// A piece of the finished automaton.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// In bytes.
    pub(crate) length: u32,
    /// The longest middle piece that is a proper suffix of this piece, or `NONE`.
    pub(crate) shorter_middle: PieceId,
    /// The longest last piece that is a proper suffix of this piece, or `NONE`.
    pub(crate) shorter_last: PieceId,
}

impl Automaton {
    pub(crate) fn state(&self, id: StateId) -> &State {
        self.states.at(id)
    }

    pub(crate) fn piece(&self, id: PieceId) -> &Piece {
        self.pieces.at(id)
    }

    /// The state after another character. Over a segment, the loop runs at most twice per
    /// character: each round but the last shortens the state, and each character lengthens it by 1.
    #[inline]
    pub(crate) fn next(&self, mut state: StateId, character: CharId) -> StateId {
        if character == CharId::OTHER {
            cost::add(1);
            return StateId::ROOT;
        }
        loop {
            cost::add(1);
            if let Some(next) = self.table.get(state.index() * self.width + character.index()) {
                return *next;
            }
            match self.child(state, character) {
                StateId::NONE => state = self.state(state).shorter,
                child => return child,
            }
        }
    }

    /// The child for this character, or `NONE`.
    fn child(&self, state: StateId, character: CharId) -> StateId {
        let end = self.state(StateId(state.0 + 1)).children;
        let (mut low, mut high) = (self.state(state).children.0, end.0);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.characters.at(StateId(middle)).cmp(&character) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return StateId(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        StateId::NONE
    }

    /// Builds the automaton. The pieces are distinct, not empty, and consist of characters below
    /// `width`.
    pub(crate) fn new(pieces: &IdVec<PieceId, NewPiece>, width: usize) -> Self {
        let mut automaton = Self {
            table: Box::default(),
            width,
            states: IdVec::new(),
            characters: IdVec::new(),
            pieces: pieces
                .iter()
                .map(|piece| Piece {
                    length: piece.length,
                    shorter_middle: PieceId::NONE,
                    shorter_last: PieceId::NONE,
                })
                .collect(),
        };
        automaton.add_states(pieces);
        automaton.fill_table();
        automaton
    }

    fn add_states(&mut self, pieces: &IdVec<PieceId, NewPiece>) {
        let mut sorted: Vec<(PieceId, &NewPiece)> = pieces.entries().collect();
        sorted.sort_unstable_by(|(_, a), (_, b)| a.characters.cmp(&b.characters));
        // For each state, the pieces that start with its prefix.
        let mut pieces_below: IdVec<StateId, &[(PieceId, &NewPiece)]> = vec![&*sorted].into();
        self.push(StateId::ROOT, 0, CharId::OTHER);
        let mut state = StateId::ROOT;
        while let Some(starting) = pieces_below.get(state.index()).copied() {
            let depth = self.state(state).depth as usize;
            self.states.at_mut(state).children = self.states.next_id();
            for chunk in starting
                .chunk_by(|(_, a), (_, b)| a.characters.get(depth) == b.characters.get(depth))
            {
                let Some((id, piece)) = chunk.first() else { continue };
                match piece.characters.get(depth) {
                    None => self.states.at_mut(state).whole = *id,
                    Some(character) => {
                        let shorter = match state {
                            StateId::ROOT => StateId::ROOT,
                            _ => self.after_shorter(state, *character),
                        };
                        self.push(shorter, narrow(depth + 1), *character);
                        pieces_below.push(chunk);
                    }
                }
            }
            self.link(state, pieces);
            state = StateId(state.0 + 1);
        }
        // Marks the end of the last state's children.
        self.push(StateId::ROOT, 0, CharId::OTHER);
        self.states.at_mut(state).children = state;
        self.states.shrink();
        self.characters.shrink();
    }

    fn push(&mut self, shorter: StateId, depth: u32, character: CharId) {
        let (children, [whole, longest_middle, longest_last]) = (StateId::ROOT, [PieceId::NONE; 3]);
        self.states.push(State { children, shorter, depth, whole, longest_middle, longest_last });
        self.characters.push(character);
    }

    /// The failure link of the child that this character leads to: the state after the character,
    /// starting from the failure link of the parent. All shorter states have their children
    /// already.
    fn after_shorter(&self, state: StateId, character: CharId) -> StateId {
        let mut shorter = self.state(state).shorter;
        loop {
            match self.child(shorter, character) {
                StateId::NONE if shorter == StateId::ROOT => return StateId::ROOT,
                StateId::NONE => shorter = self.state(shorter).shorter,
                child => return child,
            }
        }
    }

    /// Sets the pieces that a state ends in: the piece that equals its prefix, and the pieces of
    /// its failure link, which has been linked before.
    fn link(&mut self, state: StateId, pieces: &IdVec<PieceId, NewPiece>) {
        let id = self.state(state).whole;
        let shorter = *self.state(self.state(state).shorter);
        let (mut middle, mut last) = (shorter.longest_middle, shorter.longest_last);
        if let Some(piece) = pieces.get(id.index()) {
            let links = self.pieces.at_mut(id);
            (links.shorter_middle, links.shorter_last) = (middle, last);
            middle = if piece.is_middle { id } else { middle };
            last = if piece.is_last { id } else { last };
        }
        let state = self.states.at_mut(state);
        (state.longest_middle, state.longest_last) = (middle, last);
    }

    /// Fills the table for as many of the first states as fit, at least for the root, where every
    /// chain of failure links ends.
    fn fill_table(&mut self) {
        let state_count = (MAX_TABLE_ENTRIES / self.width).clamp(1, self.states.len() - 1);
        let mut table: Vec<StateId> = Vec::with_capacity(state_count * self.width);
        for state in self.states.ids().take(state_count) {
            let shorter = self.state(state).shorter.index();
            for character in 0..self.width {
                let id = u16::try_from(character).map(CharId);
                table.push(match id.map_or(StateId::NONE, |id| self.child(state, id)) {
                    StateId::NONE if state == StateId::ROOT => StateId::ROOT,
                    StateId::NONE => {
                        *table.get(shorter * self.width + character).unwrap_or(&StateId::ROOT)
                    }
                    child => child,
                });
            }
        }
        self.table = table.into();
    }
}

#[cfg(test)]
impl Automaton {
    pub(super) fn has_states_beyond_the_table(&self) -> bool {
        self.table.len() < (self.states.len() - 1) * self.width
    }
}
