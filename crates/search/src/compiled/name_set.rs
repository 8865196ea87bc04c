//! A set of names of the inventory, in which single names are looked up often.

use roaring::RoaringBitmap;

/// Names of the inventory, by their ids. Never changed once it is made.
///
/// A bitmap keeps up to 4,096 of 65,536 numbers as an array and searches it: among 2,000 names a
/// look-up took 17 ns longer than among 2, a quarter of a decision (November 2026). The names of a
/// prefix follow each other, and small inventories need few bits, so most sets also have [`Bits`].
#[derive(Debug)]
pub(super) struct NameSet {
    names: RoaringBitmap,
    bits: Option<Bits>,
}

/// A bit per id.
#[derive(Debug)]
struct Bits {
    words: Box<[u64]>,
    /// The first id divided by 64.
    first: u32,
}

impl NameSet {
    pub(super) fn new(mut names: RoaringBitmap) -> Self {
        // A subset test against runs looks up each name, and against bits 64 at once.
        names.remove_run_compression();
        Self { bits: Bits::new(&names), names }
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        let Some(Bits { words, first }) = &self.bits else { return self.names.contains(id) };
        let word = (id / 64).checked_sub(*first).and_then(|word| words.get(word as usize));
        word.is_some_and(|word| word >> (id % 64) & 1 == 1)
    }

    pub(super) const fn names(&self) -> &RoaringBitmap {
        &self.names
    }
}

impl Bits {
    /// `None` if they would take more memory than the bitmap's array of 16-bit numbers.
    fn new(names: &RoaringBitmap) -> Option<Self> {
        let (first, last) = (names.min()? / 64, names.max()? / 64);
        if u64::from(last - first) * 8 > 2 * names.len() {
            return None;
        }
        let mut words = vec![0; (last - first) as usize + 1];
        for id in names {
            *words.get_mut((id / 64 - first) as usize)? |= 1 << (id % 64);
        }
        Some(Self { words: words.into(), first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_exactly_the_names_of_the_bitmap() {
        let sets: [(Vec<u32>, bool); 7] = [
            (vec![], false),
            (vec![0], true),
            (vec![u32::MAX], true),
            ((70_000..72_000).collect(), true),
            ((0..200).filter(|id| id % 3 > 0).collect(), true),
            (vec![63, 65], false),
            (vec![1, 90_000, u32::MAX], false),
        ];
        for (numbers, has_bits) in sets {
            let bitmap: RoaringBitmap = numbers.iter().copied().collect();
            let set = NameSet::new(bitmap.clone());
            assert_eq!(set.bits.is_some(), has_bits, "{numbers:?}");
            assert_eq!(set.names(), &bitmap);
            let near =
                numbers.iter().flat_map(|one| [one.wrapping_sub(1), *one, one.wrapping_add(1)]);
            for id in near.chain(0..300) {
                assert_eq!(set.contains(id), bitmap.contains(id), "{id} in {numbers:?}");
            }
        }
    }

    #[test]
    fn look_ups_agree_with_the_bitmap() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..500 {
            let (count, below) = (random.usize(..400), random.u32(1..600));
            let bitmap: RoaringBitmap = (0..count).map(|_| random.u32(..below)).collect();
            let set = NameSet::new(bitmap.clone());
            for id in 0..1_300 {
                assert_eq!(set.contains(id), bitmap.contains(id), "{id} in {bitmap:?}");
            }
        }
    }
}
