//! Sets of roles, and the lookup that ends every decision: the lowest role that two sets share.
//!
//! A set is a two-level bitmap in a single allocation. Roles are divided into blocks of 64, and
//! blocks into parts of 64 blocks (4,096 roles). Each part has a word that says which of its blocks
//! are not empty, and only these are stored. So comparing two sets takes a step for each block that
//! both store: a single step for a subject with one role, at most 16 among 1,000 roles.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use policy::model::RoleId;
use smallvec::SmallVec;

/// All roles of a subject: granted roles, roles from its token, reserved roles, and the roles that
/// these extend. Cheap to clone. Precomputed sets are shared.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RoleSet {
    /// Invariant (layout): the number of parts; for each part, a bitmap of its stored blocks and
    /// the index of the first of them; then the blocks. Only [`pack`] writes this layout.
    words: Arc<[u64]>,
}

/// A buffer for the words of a set.
pub(crate) type Words = SmallVec<[u64; 64]>;

/// A set of roles with a value for each.
#[derive(Clone, Debug)]
pub(crate) struct RoleMap<T> {
    /// The set, in the layout of [`RoleSet`].
    words: Box<[u64]>,
    /// Parallel to `words`: for a word of a block, the number of roles in the blocks before it; 0
    /// for the words before the blocks.
    before: Box<[u32]>,
    /// The value of each role, in role order.
    values: Box<[T]>,
}

impl RoleSet {
    pub(crate) fn from_words(words: &[u64]) -> Self {
        Self { words: words.into() }
    }

    /// Its heap size in bytes. A precomputed set is shared by all its subjects.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        size_of_val(&*self.words) + 2 * size_of::<usize>()
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn contains(&self, role: RoleId) -> bool {
        contains(&self.words, role).unwrap_or(false)
    }

    /// The roles that are in both sets.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut words = Words::new();
        let common: Vec<RoleId> = self.iter().filter(|role| other.contains(*role)).collect();
        pack(common.iter().copied(), &mut words);
        Self::from_words(&words)
    }

    /// The ids of its roles, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RoleId> + use<> {
        let words = Arc::clone(&self.words);
        let parts = words.first().copied().unwrap_or(0);
        (0..parts).flat_map(move |part| {
            let words = Arc::clone(&words);
            let (blocks, first) = part_of(&words, to_usize(part)).unwrap_or((0, 0));
            bits(blocks).enumerate().flat_map(move |(nth, block)| {
                let base = part * 4096 + u64::from(block) * 64;
                let word = words.get(first + nth).copied().unwrap_or(0);
                bits(word).map(move |bit| RoleId(u32::try_from(base).unwrap_or(u32::MAX) + bit))
            })
        })
    }
}

/// Sets are looked up by their words.
impl Borrow<[u64]> for RoleSet {
    fn borrow(&self) -> &[u64] {
        &self.words
    }
}

impl fmt::Debug for RoleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<T: Copy> RoleMap<T> {
    /// Takes pairs sorted by role, without duplicate roles.
    pub(crate) fn new(roles: &[(RoleId, T)]) -> Self {
        let mut words = Words::new();
        pack(roles.iter().map(|(role, _)| *role), &mut words);
        let first_block = words.first().map_or(0, |parts| 1 + 2 * to_usize(*parts));
        let mut sum = 0;
        let before = words.iter().enumerate().map(|(place, word)| {
            let count = sum;
            sum += if place < first_block { 0 } else { word.count_ones() };
            count
        });
        let before = before.collect();
        Self {
            before,
            words: words.into_boxed_slice(),
            values: roles.iter().map(|(_, value)| *value).collect(),
        }
    }

    /// The value of the lowest role that is in both sets.
    ///
    /// A role's place in `values` is the number of roles before it in the set, a count of bits. So
    /// there is no entry for roles that the set does not have, and nothing is searched.
    pub(crate) fn lowest_common(&self, roles: &RoleSet) -> Option<T> {
        let (ours, theirs) = (&*self.words, roles.words());
        let parts = to_usize((*ours.first()?).min(*theirs.first()?));
        (0..parts).find_map(|part| self.lowest_in_part(theirs, part))
    }

    /// Calls `visit` with the value of each role that is in both sets, in role order.
    pub(crate) fn for_each_common(&self, roles: &RoleSet, mut visit: impl FnMut(T)) {
        let (Some(ours), Some(theirs)) = (self.words.first(), roles.words().first()) else {
            return;
        };
        for part in 0..to_usize(*ours.min(theirs)) {
            let parts = part_of(&self.words, part).zip(part_of(roles.words(), part));
            let Some(((our_blocks, our_first), (their_blocks, their_first))) = parts else {
                return;
            };
            for block in bits(our_blocks & their_blocks) {
                let below = (1_u64 << block) - 1;
                let place = our_first + rank(our_blocks & below);
                let theirs = roles.words().get(their_first + rank(their_blocks & below));
                let (Some(ours), Some(theirs)) = (self.words.get(place), theirs) else { return };
                let before = self.before.get(place).copied().unwrap_or(0) as usize;
                for bit in bits(ours & theirs) {
                    let nth = before + rank(ours & ((1_u64 << bit) - 1));
                    self.values.get(nth).copied().into_iter().for_each(&mut visit);
                }
            }
        }
    }

    fn lowest_in_part(&self, theirs: &[u64], part: usize) -> Option<T> {
        let (our_blocks, our_first) = part_of(&self.words, part)?;
        let (their_blocks, their_first) = part_of(theirs, part)?;
        let mut shared = our_blocks & their_blocks;
        while shared != 0 {
            let below = (shared & shared.wrapping_neg()) - 1;
            let place = our_first + rank(our_blocks & below);
            let ours = *self.words.get(place)?;
            let common = ours & *theirs.get(their_first + rank(their_blocks & below))?;
            if common != 0 {
                let lower = (common & common.wrapping_neg()) - 1;
                let nth = *self.before.get(place)? as usize + rank(ours & lower);
                return self.values.get(nth).copied();
            }
            shared &= shared - 1;
        }
        None
    }
}

/// Writes a set in the layout of [`RoleSet`]. The roles are sorted and distinct.
pub(crate) fn pack(roles: impl Iterator<Item = RoleId> + Clone, words: &mut Words) {
    words.clear();
    let parts = roles.clone().last().map_or(0, |highest| u64::from(highest.0 / 4096) + 1);
    words.push(parts);
    words.resize(1 + 2 * to_usize(parts), 0);
    let mut last_block = None;
    for RoleId(role) in roles {
        let block = role / 64;
        if last_block.replace(block) != Some(block) {
            let part_start = 1 + 2 * (role / 4096) as usize;
            let index = words.len() as u64;
            if let Some([blocks, first]) = words.get_mut(part_start..part_start + 2) {
                *first = if *blocks == 0 { index } else { *first };
                *blocks |= 1 << (block % 64);
            }
            words.push(0);
        }
        if let Some(word) = words.last_mut() {
            *word |= 1 << (role % 64);
        }
    }
}

/// The bitmap of a part's stored blocks, and the index of the first of them.
fn part_of(words: &[u64], part: usize) -> Option<(u64, usize)> {
    match words.get(1 + 2 * part..3 + 2 * part)? {
        [blocks, first] => Some((*blocks, to_usize(*first))),
        _ => None,
    }
}

fn contains(words: &[u64], RoleId(role): RoleId) -> Option<bool> {
    let part = (role / 4096) as usize;
    if part >= to_usize(*words.first()?) {
        return Some(false);
    }
    let (blocks, first) = part_of(words, part)?;
    let block = 1 << (role / 64 % 64);
    if blocks & block == 0 {
        return Some(false);
    }
    let word = words.get(first + rank(blocks & (block - 1)))?;
    Some(word >> (role % 64) & 1 == 1)
}

/// The positions of the set bits, from the lowest.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lowest = (word != 0).then(|| word.trailing_zeros());
        word &= word.wrapping_sub(1);
        lowest
    })
}

fn rank(bits_below: u64) -> usize {
    bits_below.count_ones() as usize
}

fn to_usize(word: u64) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use policy::model::RuleId;

    use super::*;

    fn set(roles: &[u32]) -> RoleSet {
        let mut words = Words::new();
        pack(roles.iter().copied().map(RoleId), &mut words);
        RoleSet::from_words(&words)
    }

    const SETS: &[&[u32]] = &[
        &[],
        &[0],
        &[63],
        &[64],
        &[0, 63, 64, 127, 128],
        &[4095],
        &[4096],
        &[5, 4095, 4096, 8191, 8192, 99_999],
        &[1, 2, 3, 64, 65, 4160, 99_999],
        &[99_998],
    ];

    #[test]
    fn a_set_has_what_was_put_in_and_nothing_else() {
        for roles in SETS {
            let set = set(roles);
            assert_eq!(set.iter().map(|role| role.0).collect::<Vec<_>>(), *roles);
            for role in (0..9000).chain(99_000..101_000) {
                assert_eq!(
                    set.contains(RoleId(role)),
                    roles.contains(&role),
                    "{role} in {roles:?}"
                );
            }
        }
    }

    #[test]
    fn the_lowest_common_role_of_any_two_sets_gives_its_value() {
        for ours in SETS {
            let pairs: Vec<_> =
                ours.iter().map(|role| (RoleId(*role), RuleId(role * 3 + 1))).collect();
            let rules = RoleMap::new(&pairs);
            for theirs in SETS {
                let wanted =
                    ours.iter().find(|role| theirs.contains(role)).map(|role| RuleId(role * 3 + 1));
                assert_eq!(rules.lowest_common(&set(theirs)), wanted, "{ours:?} and {theirs:?}");
            }
        }
    }

    #[test]
    fn an_intersection_has_the_roles_of_both_sets() {
        for ours in SETS {
            for theirs in SETS {
                let both: Vec<u32> =
                    ours.iter().copied().filter(|role| theirs.contains(role)).collect();
                assert_eq!(set(ours).intersection(&set(theirs)), set(&both));
            }
        }
    }

    #[test]
    fn a_set_takes_room_only_for_the_blocks_it_has() {
        assert_eq!(set(&[]).words().len(), 1);
        assert_eq!(set(&[1, 2, 3]).words().len(), 4);
        assert_eq!(set(&[4000]).words().len(), 4);
    }
}
