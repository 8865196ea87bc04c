//! A set of names of the inventory, in which single names are looked up often.

use std::ops::RangeInclusive;

use roaring::RoaringBitmap;

/// Names of the inventory, by their numbers. Never changed once it is made.
///
/// A bitmap keeps up to 4,096 of 65,536 numbers as an array and searches it: among 2,000 names a
/// look-up took 17 ns longer than among 2, a quarter of a decision (November 2026). The names of a
/// prefix follow each other, and small inventories need few bits, so most sets have a faster form,
/// too.
#[derive(Debug)]
pub(super) struct NameSet {
    names: RoaringBitmap,
    lookup: Lookup,
}

/// How to look a number up.
#[derive(Debug)]
enum Lookup {
    /// All numbers of this range, and no other.
    Range(RangeInclusive<u32>),
    /// A bit per number, from 0. Later numbers are not in the set.
    Bits(Box<[u64]>),
    Bitmap,
}

impl NameSet {
    pub(super) fn new(mut names: RoaringBitmap) -> Self {
        // A subset test against runs looks up each name, and against bits 64 at once.
        names.remove_run_compression();
        Self { lookup: Lookup::new(&names), names }
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        match &self.lookup {
            Lookup::Range(range) => range.contains(&number),
            Lookup::Bits(words) => {
                words.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
            }
            Lookup::Bitmap => self.names.contains(number),
        }
    }

    pub(super) const fn names(&self) -> &RoaringBitmap {
        &self.names
    }
}

impl Lookup {
    fn new(names: &RoaringBitmap) -> Self {
        let (Some(first), Some(last)) = (names.min(), names.max()) else { return Self::Bitmap };
        if u64::from(last - first) + 1 == names.len() {
            return Self::Range(first..=last);
        }
        // Not more memory than the bitmap's array of 16-bit numbers.
        if u64::from(last) / 8 > 2 * names.len() {
            return Self::Bitmap;
        }
        let mut words = vec![0; last as usize / 64 + 1];
        for number in names {
            if let Some(word) = words.get_mut(number as usize / 64) {
                *word |= 1 << (number % 64);
            }
        }
        Self::Bits(words.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_exactly_the_names_of_the_bitmap() {
        let sets: [(Vec<u32>, &str); 7] = [
            (vec![], "bitmap"),
            (vec![0], "range"),
            (vec![u32::MAX], "range"),
            ((70_000..72_000).collect(), "range"),
            ((0..200).filter(|number| number % 3 > 0).collect(), "bits"),
            (vec![63, 65], "bitmap"),
            (vec![1, 90_000, u32::MAX], "bitmap"),
        ];
        for (numbers, expected) in sets {
            let bitmap: RoaringBitmap = numbers.iter().copied().collect();
            let set = NameSet::new(bitmap.clone());
            let form = match set.lookup {
                Lookup::Range(_) => "range",
                Lookup::Bits(_) => "bits",
                Lookup::Bitmap => "bitmap",
            };
            assert_eq!(form, expected, "{numbers:?}");
            assert_eq!(set.names(), &bitmap);
            let near =
                numbers.iter().flat_map(|one| [one.wrapping_sub(1), *one, one.wrapping_add(1)]);
            for number in near.chain(0..300) {
                assert_eq!(
                    set.contains(number),
                    bitmap.contains(number),
                    "{number} in {numbers:?}"
                );
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
            for number in 0..1_300 {
                assert_eq!(set.contains(number), bitmap.contains(number), "{number} in {bitmap:?}");
            }
        }
    }
}
