//! Matches all candidate globs with a segment in one pass.
//!
//! The globs of a node form a trie whose edges are pieces: the first piece of a glob, those that
//! must follow in this order, and the last. Globs with a common beginning share its steps; a
//! reached step waits for its next piece. Each piece is matched at its first position after the
//! piece before it, which leaves the most for the pieces after it.
//!
//! The automaton reports which pieces end at each position. Each waiting step is tried only once
//! for each piece found after the step was reached, however often the piece occurs: `checked`
//! stores for each piece how many waiting steps it has been tried on. So a pass costs at most a few
//! steps for each byte, plus an amount that does not grow with the segment: for each piece found,
//! the smaller of the number of waiting steps and the number of the piece's edges.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use policy::ids::{IdVec, id_types, narrow};
use policy::pattern::cuts_triplet;
use smallvec::SmallVec;

use super::alphabet::Alphabet;
use super::automaton::{Automaton, PieceId, StateId};
use crate::cost;
use crate::ids::NodeId;

/// Up to this many items are searched one by one, on the stack. Chosen, not measured.
const FEW: usize = 16;

id_types! {
    /// A step.
    pub(crate) struct StepId;

    /// The edges of one piece and kind.
    struct EdgesId;
}

impl StepId {
    pub(crate) const NONE: Self = Self(u32::MAX);
}

impl EdgesId {
    const fn of(piece: PieceId, kind: Kind) -> Self {
        Self(piece.0 * 3 + kind as u32)
    }
}

/// The globs of all nodes, except those that are always tried one by one.
pub(crate) struct GlobSet {
    pub(super) alphabet: Alphabet,
    pub(super) automaton: Automaton,
    pub(super) steps: IdVec<StepId, Step>,
    pub(super) edges: Edges,
    /// The length of the longest last piece, in bytes.
    pub(super) longest_last: usize,
}

/// The state shared by globs that have matched the same pieces so far.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    /// The node for a glob that ends here in a `*`.
    pub(super) accept: NodeId,
    /// Whether edges of each [`Kind`] leave this step.
    pub(super) leaves: [bool; 3],
}

/// The transitions between steps.
pub(crate) struct Edges {
    /// Sorted by piece, kind, and the step that they leave.
    sorted: Box<[Edge]>,
    /// Where the edges of each piece and kind start in `sorted`; the last entry is where they end.
    starts: IdVec<EdgesId, u32>,
}

/// A transition by a piece.
#[derive(Clone, Copy)]
struct Edge {
    from: StepId,
    /// The next [`StepId`], or for a last piece the [`NodeId`] of the glob. The kind of the edge
    /// tells which, so it takes no room here.
    to: u32,
}

/// The position of a piece in its glob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// The segment starts with it.
    First,
    /// It follows a `*` and precedes another one.
    Middle,
    /// The segment ends with it.
    Last,
}

impl GlobSet {
    /// Calls `found` with the node of each matching glob, among those that begin at the steps
    /// `starts`.
    pub(crate) fn matching(
        &self,
        segment: &[u8],
        starts: &[StepId],
        mut found: impl FnMut(NodeId),
    ) {
        let mut scan = Scan {
            set: self,
            waiting: Default::default(),
            checked: Checked::default(),
            found: &mut found,
        };
        starts.iter().for_each(|start| scan.reach(*start, 0));
        scan.run(segment);
    }
}

impl Edges {
    fn of(&self, piece: PieceId, kind: Kind) -> &[Edge] {
        let EdgesId(id) = EdgesId::of(piece, kind);
        let (start, end) =
            (*self.starts.at(EdgesId(id)) as usize, *self.starts.at(EdgesId(id + 1)) as usize);
        #[expect(
            clippy::indexing_slicing,
            reason = "as in `IdVec::at`: to go on without an edge would be to pass over a `deny` rule"
        )]
        &self.sorted[start..end]
    }
}

struct Scan<'s, F> {
    set: &'s GlobSet,
    /// The waiting steps, by the kind of the piece that they wait for.
    waiting: [Waiting; 3],
    checked: Checked,
    found: &'s mut F,
}

impl<F: FnMut(NodeId)> Scan<'_, F> {
    fn run(&mut self, segment: &[u8]) {
        let set = self.set;
        let (mut at, mut read, mut state) = (0, 0, StateId::ROOT);
        let mut may_start = !self.waiting(Kind::First).is_empty();
        let mut may_skip = true;
        while at < segment.len() {
            let waits = !self.waiting(Kind::Middle).is_empty();
            if may_skip && !waits && !may_start {
                may_skip = false;
                let tail = tail(segment, set.longest_last);
                if tail > at {
                    (at, state) = (tail, StateId::ROOT);
                    continue;
                }
            }
            let Some((character, width)) = set.alphabet.read(segment, at) else { return };
            at += width;
            read += 1;
            state = set.automaton.next(state, character);
            if state == StateId::ROOT {
                may_start = false;
                continue;
            }
            let known = set.automaton.state(state);
            may_start &= known.depth == read;
            if may_start && known.own != PieceId::NONE {
                let starting = self.waiting(Kind::First).len();
                self.advance(known.own, Kind::First, 0..starting, at);
            }
            if waits && known.middle != PieceId::NONE {
                self.middles(known.middle, at);
            }
        }
        self.ends(set.automaton.state(state).last, segment.len());
    }

    /// Handles a middle piece that ends at `at`, and the shorter ones that end there too. If a
    /// piece has been tried on all waiting steps, so have all shorter ones: they also ended
    /// wherever it ended before.
    fn middles(&mut self, mut piece: PieceId, at: usize) {
        while piece != PieceId::NONE {
            cost::add(1);
            let known = self.set.automaton.piece(piece);
            let waiting = self.waiting(Kind::Middle);
            let (all, until) = (waiting.len(), waiting.until(at - known.length as usize));
            let checked = self.checked.of(piece);
            let from = *checked;
            if from == all {
                return;
            }
            if until > from {
                *checked = until;
                self.advance(piece, Kind::Middle, from..until, at);
            }
            piece = known.shorter_middle;
        }
    }

    /// Handles the end of the segment, which ends in this last piece and in shorter ones.
    fn ends(&mut self, mut piece: PieceId, at: usize) {
        while piece != PieceId::NONE {
            cost::add(1);
            let known = self.set.automaton.piece(piece);
            let until = self.waiting(Kind::Last).until(at - known.length as usize);
            self.advance(piece, Kind::Last, 0..until, at);
            piece = known.shorter_last;
        }
    }

    /// Follows the edges of a piece that leave these waiting steps. Iterates over whichever are
    /// fewer, edges or steps.
    fn advance(&mut self, piece: PieceId, kind: Kind, waiting: std::ops::Range<usize>, at: usize) {
        let edges = self.set.edges.of(piece, kind);
        if edges.len() < waiting.len() {
            for edge in edges {
                cost::add(1);
                if self.waiting(kind).place(edge.from).is_some_and(|place| waiting.contains(&place))
                {
                    self.follow(edge.to, kind, at);
                }
            }
            return;
        }
        for place in waiting {
            cost::add(1);
            let from = self.waiting(kind).step(place);
            let edge = edges.binary_search_by_key(&from, |edge| Some(edge.from)).ok();
            if let Some(edge) = edge.and_then(|place| edges.get(place)) {
                self.follow(edge.to, kind, at);
            }
        }
    }

    fn follow(&mut self, to: u32, kind: Kind, at: usize) {
        match kind {
            Kind::First | Kind::Middle => self.reach(StepId(to), at),
            Kind::Last => (self.found)(NodeId(to)),
        }
    }

    /// Enters a step through a piece that ends at `at`.
    fn reach(&mut self, step: StepId, at: usize) {
        cost::add(1);
        let Step { accept, leaves } = *self.set.steps.at(step);
        if accept != NodeId::NONE {
            (self.found)(accept);
        }
        for (waiting, leaves) in self.waiting.iter_mut().zip(leaves) {
            if leaves {
                waiting.push(step, at);
            }
        }
    }

    fn waiting(&self, kind: Kind) -> &Waiting {
        let [first, middle, last] = &self.waiting;
        match kind {
            Kind::First => first,
            Kind::Middle => middle,
            Kind::Last => last,
        }
    }
}

/// Steps that wait for their next piece, in the order in which they were reached.
#[derive(Default)]
struct Waiting {
    /// Each step with the end of the piece through which it was reached.
    steps: SmallVec<[(StepId, usize); FEW]>,
    /// The index of each step in `steps`; filled once there are more than [`FEW`].
    places: HashMap<StepId, usize, RandomState>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn len(&self) -> usize {
        self.steps.len()
    }

    fn push(&mut self, step: StepId, at: usize) {
        self.steps.push((step, at));
        if self.steps.len() == FEW + 1 {
            self.places
                .extend(self.steps.iter().enumerate().map(|(place, (step, _))| (*step, place)));
        } else if self.steps.len() > FEW {
            self.places.insert(step, self.steps.len() - 1);
        }
    }

    fn step(&self, place: usize) -> Option<StepId> {
        self.steps.get(place).map(|(step, _)| *step)
    }

    fn place(&self, step: StepId) -> Option<usize> {
        if self.places.is_empty() {
            return self.steps.iter().position(|(one, _)| *one == step);
        }
        self.places.get(&step).copied()
    }

    /// How many steps were reached at or before `start`: a piece that starts there may follow them.
    fn until(&self, start: usize) -> usize {
        match self.steps.last() {
            Some((_, at)) if *at > start => self.steps.partition_point(|(_, at)| *at <= start),
            _ => self.steps.len(),
        }
    }
}

/// For each middle piece found, the number of waiting steps on which it has been tried.
#[derive(Default)]
struct Checked {
    few: SmallVec<[(PieceId, usize); FEW]>,
    /// All entries, once there are more than [`FEW`]. A linear search of those would then dominate
    /// the cost of each byte.
    many: HashMap<PieceId, usize, RandomState>,
}

impl Checked {
    fn of(&mut self, piece: PieceId) -> &mut usize {
        if !self.many.is_empty() {
            return self.many.entry(piece).or_default();
        }
        let known = self.few.iter().position(|(one, _)| *one == piece);
        let place = known.unwrap_or(self.few.len());
        if known.is_none() {
            if self.few.len() >= FEW {
                self.many.extend(self.few.drain(..));
                return self.many.entry(piece).or_default();
            }
            self.few.push((piece, 0));
        }
        #[expect(
            clippy::indexing_slicing,
            reason = "the piece was found at this place, or put there just now"
        )]
        &mut self.few[place].1
    }
}

/// The start of the part of the segment in which last pieces of up to this length can occur; never
/// inside a triplet.
fn tail(segment: &[u8], longest: usize) -> usize {
    let start = segment.len().saturating_sub(longest + 2);
    (start..segment.len()).find(|place| !cuts_triplet(segment, *place)).unwrap_or(segment.len())
}

/// The steps and edges of a set while it is built.
#[derive(Default)]
pub(super) struct Steps {
    pub(super) steps: IdVec<StepId, Step>,
    edges: HashMap<(PieceId, Kind, StepId), u32>,
}

impl Steps {
    /// Adds a step without predecessors: the first step for the globs of a node.
    pub(super) fn start(&mut self) -> StepId {
        self.steps.push(Step { accept: NodeId::NONE, leaves: [false; 3] })
    }

    /// The step that this piece leads to from `from`. It is added if there is none.
    pub(super) fn after(&mut self, from: StepId, kind: Kind, piece: PieceId) -> StepId {
        if let Some(to) = self.edges.get(&(piece, kind, from)) {
            return StepId(*to);
        }
        let to = self.start();
        self.add(from, kind, piece, to.0);
        to
    }

    /// Adds the end of a glob: after this last piece, it leads to this node.
    pub(super) fn accept_after(&mut self, from: StepId, last: PieceId, to: NodeId) {
        self.add(from, Kind::Last, last, to.0);
    }

    fn add(&mut self, from: StepId, kind: Kind, piece: PieceId, to: u32) {
        self.edges.insert((piece, kind, from), to);
        let [first, middle, last] = &mut self.steps.at_mut(from).leaves;
        *match kind {
            Kind::First => first,
            Kind::Middle => middle,
            Kind::Last => last,
        } = true;
    }

    /// All edges, sorted, and where those of each piece and kind start. `pieces` is the id after
    /// the last piece.
    pub(super) fn finish(self, pieces: PieceId) -> (IdVec<StepId, Step>, Edges) {
        let mut sorted: Vec<_> = self.edges.into_iter().collect();
        sorted.sort_unstable();
        let end = EdgesId::of(pieces, Kind::First);
        let before =
            |id| sorted.partition_point(|((piece, kind, _), _)| EdgesId::of(*piece, *kind) < id);
        let starts = (0..=end.0).map(|id| narrow(before(EdgesId(id)))).collect();
        let edges = sorted.into_iter().map(|((_, _, from), to)| Edge { from, to }).collect();
        (self.steps, Edges { sorted: edges, starts })
    }
}
