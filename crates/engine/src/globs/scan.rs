//! Matches all candidate globs with a segment in a single pass.
//!
//! The globs of a node form a trie whose nodes are steps and whose edges are pieces: the first
//! piece of a glob, the middle pieces in their order, and the last piece. Globs with a common
//! beginning share its steps. A reached step waits for its next piece. Each piece is matched at its
//! first position after its predecessor, which leaves the most bytes for its successors.
//!
//! The automaton reports which pieces end at each position. However often a piece occurs, it is
//! tried on each waiting step only once: at its first occurrence after the step was reached. For
//! this, `checked` has the number of waiting steps on which each piece has been tried. So a pass
//! costs at most a few steps for each byte, plus an amount that does not grow with the segment: for
//! each piece found, the smaller of the number of waiting steps and the number of its edges.

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use policy::ids::{IdVec, id_types, narrow};
use policy::pattern::cuts_triplet;
use smallvec::SmallVec;

use super::alphabet::Alphabet;
use super::automaton::{Automaton, PieceId, StateId};
use crate::cost;
use crate::ids::NodeId;

/// Maximum number of items that are kept on the stack and searched linearly. Chosen, not measured.
const MAX_LINEAR: usize = 16;

id_types! {
    /// A step.
    pub(crate) struct StepId;

    /// The edges of a piece and a kind.
    struct EdgesId;
}

impl StepId {
    pub(crate) const NONE: Self = Self(u32::MAX);
}

impl EdgesId {
    const fn new(piece: PieceId, kind: Kind) -> Self {
        Self(piece.0 * 3 + kind as u32)
    }
}

/// The globs of all nodes, except those that are always tried separately.
pub(crate) struct GlobSet {
    pub(super) alphabet: Alphabet,
    pub(super) automaton: Automaton,
    pub(super) steps: IdVec<StepId, Step>,
    pub(super) edges: Edges,
    /// The length of the longest last piece, in bytes.
    pub(super) last_piece_max: usize,
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
    /// The index in `sorted` at which the edges of each piece and kind start, and the end.
    starts: IdVec<EdgesId, u32>,
}

/// A transition by a piece.
#[derive(Clone, Copy)]
struct Edge {
    from: StepId,
    /// The next [`StepId`], or for a last piece the [`NodeId`] of the glob.
    to: u32,
}

/// The position of a piece in its glob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// The segment starts with it.
    First,
    /// It stands between two `*`.
    Middle,
    /// The segment ends with it.
    Last,
}

impl GlobSet {
    /// Calls `visit` with the node of each matching glob, among the globs that begin at the steps
    /// `starts`.
    pub(crate) fn matching(&self, segment: &[u8], starts: &[StepId], visit: impl FnMut(NodeId)) {
        let mut scan =
            Scan { set: self, waiting: Default::default(), checked: Checked::default(), visit };
        starts.iter().for_each(|start| scan.reach(*start, 0));
        scan.run(segment);
    }
}

impl Edges {
    fn get(&self, piece: PieceId, kind: Kind) -> &[Edge] {
        let EdgesId(id) = EdgesId::new(piece, kind);
        let (start, end) =
            (*self.starts.at(EdgesId(id)) as usize, *self.starts.at(EdgesId(id + 1)) as usize);
        #[expect(
            clippy::indexing_slicing,
            reason = "as in `IdVec::at`: a missing edge could skip a `deny` rule"
        )]
        &self.sorted[start..end]
    }
}

struct Scan<'s, F> {
    set: &'s GlobSet,
    /// The waiting steps, by the kind of the piece that they wait for.
    waiting: [Waiting; 3],
    checked: Checked,
    visit: F,
}

impl<F: FnMut(NodeId)> Scan<'_, F> {
    fn run(&mut self, segment: &[u8]) {
        let set = self.set;
        let (mut at, mut read, mut state, mut has_jumped) = (0, 0, StateId::ROOT, false);
        // Whether all bytes so far are the beginning of a first piece that a step waits for.
        let mut may_be_first_piece = !self.waiting(Kind::First).is_empty();
        while at < segment.len() {
            let waits_for_middle = !self.waiting(Kind::Middle).is_empty();
            // Only last pieces are awaited: the scan jumps to the bytes in which they can stand.
            if !has_jumped && !waits_for_middle && !may_be_first_piece {
                has_jumped = true;
                let tail = tail(segment, set.last_piece_max);
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
                may_be_first_piece = false;
                continue;
            }
            let found = set.automaton.state(state);
            may_be_first_piece &= found.depth == read;
            if may_be_first_piece && found.whole != PieceId::NONE {
                let count = self.waiting(Kind::First).len();
                self.advance(found.whole, Kind::First, 0..count, at);
            }
            if waits_for_middle && found.longest_middle != PieceId::NONE {
                self.match_middle(found.longest_middle, at);
            }
        }
        self.match_last(set.automaton.state(state).longest_last, segment.len());
    }

    /// Matches a middle piece that ends at `at`, then the shorter pieces that end there, too. Stops
    /// at a piece that has been tried on all waiting steps. The shorter pieces end wherever this
    /// piece ends, so they have been tried on all waiting steps as well.
    fn match_middle(&mut self, mut id: PieceId, at: usize) {
        while id != PieceId::NONE {
            cost::add(1);
            let piece = self.set.automaton.piece(id);
            let waiting = self.waiting(Kind::Middle);
            let (count, until) = (waiting.len(), waiting.until(at - piece.length as usize));
            let checked = self.checked.count_mut(id);
            let from = *checked;
            if from == count {
                return;
            }
            if until > from {
                *checked = until;
                self.advance(id, Kind::Middle, from..until, at);
            }
            id = piece.shorter_middle;
        }
    }

    /// Matches the last piece with which the segment ends, and the shorter last pieces.
    fn match_last(&mut self, mut id: PieceId, at: usize) {
        while id != PieceId::NONE {
            cost::add(1);
            let piece = self.set.automaton.piece(id);
            let until = self.waiting(Kind::Last).until(at - piece.length as usize);
            self.advance(id, Kind::Last, 0..until, at);
            id = piece.shorter_last;
        }
    }

    /// Follows the edges of a piece that leave these waiting steps. Iterates over the edges or over
    /// the steps, whichever are fewer.
    fn advance(&mut self, piece: PieceId, kind: Kind, waiting: std::ops::Range<usize>, at: usize) {
        let edges = self.set.edges.get(piece, kind);
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
            Kind::Last => (self.visit)(NodeId(to)),
        }
    }

    /// Enters a step through a piece that ends at `at`.
    fn reach(&mut self, step: StepId, at: usize) {
        cost::add(1);
        let Step { accept, leaves } = *self.set.steps.at(step);
        if accept != NodeId::NONE {
            (self.visit)(accept);
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
    steps: SmallVec<[(StepId, usize); MAX_LINEAR]>,
    /// The index of each step in `steps`; filled once there are more than [`MAX_LINEAR`].
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
        if self.steps.len() == MAX_LINEAR + 1 {
            let places = self.steps.iter().enumerate().map(|(place, (step, _))| (*step, place));
            self.places.extend(places);
        } else if self.steps.len() > MAX_LINEAR {
            self.places.insert(step, self.steps.len() - 1);
        }
    }

    fn step(&self, place: usize) -> Option<StepId> {
        self.steps.get(place).map(|(step, _)| *step)
    }

    fn place(&self, step: StepId) -> Option<usize> {
        if self.places.is_empty() {
            return self.steps.iter().position(|(waiting, _)| *waiting == step);
        }
        self.places.get(&step).copied()
    }

    /// The number of steps reached at or before `start`. A piece that starts there may follow them.
    fn until(&self, start: usize) -> usize {
        match self.steps.last() {
            Some((_, at)) if *at > start => self.steps.partition_point(|(_, at)| *at <= start),
            _ => self.steps.len(),
        }
    }
}

/// For each middle piece in the segment, the number of waiting steps on which it has been tried.
#[derive(Default)]
struct Checked {
    few: SmallVec<[(PieceId, usize); MAX_LINEAR]>,
    /// Holds the entries once there are more than [`MAX_LINEAR`]: a linear search would then
    /// dominate the cost of each byte.
    many: HashMap<PieceId, usize, RandomState>,
}

impl Checked {
    fn count_mut(&mut self, piece: PieceId) -> &mut usize {
        let place = self.few.iter().position(|(checked, _)| *checked == piece);
        if place.is_none() && self.few.len() >= MAX_LINEAR {
            self.many.extend(self.few.drain(..));
        }
        if !self.many.is_empty() {
            return self.many.entry(piece).or_default();
        }
        let place = place.unwrap_or(self.few.len());
        if place == self.few.len() {
            self.few.push((piece, 0));
        }
        #[expect(clippy::indexing_slicing, reason = "the piece is at this place, perhaps just now")]
        &mut self.few[place].1
    }
}

/// The start of the bytes in which a last piece can be: the `longest` bytes at the end of the
/// segment, and up to two bytes before them, so that the start is not inside a triplet.
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

    /// The step to which this piece leads from `from`. It is added if there is none.
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

    /// The steps and the edges. The ids of all pieces are below `pieces`.
    pub(super) fn finish(self, pieces: PieceId) -> (IdVec<StepId, Step>, Edges) {
        let mut sorted: Vec<_> = self.edges.into_iter().collect();
        sorted.sort_unstable();
        let EdgesId(end) = EdgesId::new(pieces, Kind::First);
        let starts = (0..=end)
            .map(|id| {
                narrow(sorted.partition_point(|((piece, kind, _), _)| {
                    EdgesId::new(*piece, *kind) < EdgesId(id)
                }))
            })
            .collect();
        let edges = sorted.into_iter().map(|((_, _, from), to)| Edge { from, to }).collect();
        (self.steps, Edges { sorted: edges, starts })
    }
}
