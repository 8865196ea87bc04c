//! A set of names of the inventory, in which single names are looked up often.

use std::ops::RangeInclusive;

use roaring::RoaringBitmap;

/// Names of the inventory, by their ids. Never changed once it is made.
///
/// A bitmap keeps up to 4,096 of 65,536 numbers as an array and searches it. Among 2,000 names a
/// look-up took 17 ns longer than among 2: a quarter of the time of a decision (November 2026). So
/// most sets have a faster form beside the bitmap. It can be a range, because names with the same
/// prefix have consecutive ids. Or it can be bits, of which a small inventory needs few.
#[derive(Debug)]
pub(super) struct NameSet {
    names: RoaringBitmap,
    look_up: LookUp,
}

/// How to look an id up.
#[derive(Debug)]
enum LookUp {
    /// The ids of this range, and no other id.
    Range(RangeInclusive<u32>),
    /// A bit per id. The first bit stands for the id that is 64 times the second field.
    Bits(Box<[u64]>, u32),
    Bitmap,
}

impl NameSet {
    pub(super) fn new(mut names: RoaringBitmap) -> Self {
        // A subset test looks up names one by one if the bitmap has runs. Otherwise it can compare
        // 64 bits at once.
        names.remove_run_compression();
        Self { look_up: LookUp::new(&names).unwrap_or(LookUp::Bitmap), names }
    }

    pub(super) fn contains(&self, id: u32) -> bool {
        match &self.look_up {
            LookUp::Range(range) => range.contains(&id),
            LookUp::Bits(words, first) => {
                let word = (id / 64).checked_sub(*first).and_then(|word| words.get(word as usize));
                word.is_some_and(|word| word >> (id % 64) & 1 == 1)
            }
            LookUp::Bitmap => self.names.contains(id),
        }
    }

    /// Whether it contains all of these names.
    pub(super) fn contains_all(&self, names: &RoaringBitmap) -> bool {
        match &self.look_up {
            LookUp::Range(range) => {
                [names.min(), names.max()].into_iter().flatten().all(|id| range.contains(&id))
            }
            LookUp::Bits(..) | LookUp::Bitmap => names.is_subset(&self.names),
        }
    }

    pub(super) const fn names(&self) -> &RoaringBitmap {
        &self.names
    }
}

impl LookUp {
    /// `None` if bits would take more memory than the bitmap's array of 16-bit numbers.
    fn new(names: &RoaringBitmap) -> Option<Self> {
        let (first, last) = (names.min()?, names.max()?);
        if u64::from(last - first) + 1 == names.len() {
            return Some(Self::Range(first..=last));
        }
        let (first, last) = (first / 64, last / 64);
        if u64::from(last - first) * 8 > 2 * names.len() {
            return None;
        }
        let mut words = vec![0; (last - first) as usize + 1];
        for id in names {
            *words.get_mut((id / 64 - first) as usize)? |= 1 << (id % 64);
        }
        Some(Self::Bits(words.into(), first))
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
            ((70_000..70_200).filter(|id| id % 3 > 0).collect(), "bits"),
            (vec![63, 65], "bitmap"),
            (vec![1, 90_000, u32::MAX], "bitmap"),
        ];
        for (numbers, form) in sets {
            let bitmap: RoaringBitmap = numbers.iter().copied().collect();
            let set = NameSet::new(bitmap.clone());
            let actual = match set.look_up {
                LookUp::Range(_) => "range",
                LookUp::Bits(..) => "bits",
                LookUp::Bitmap => "bitmap",
            };
            assert_eq!(actual, form, "{numbers:?}");
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
            let (start, count) = (random.u32(..below), random.u32(..20));
            let mut names = RoaringBitmap::from_iter(start..start + count);
            names.optimize();
            assert_eq!(
                set.contains_all(&names),
                names.is_subset(&bitmap),
                "{names:?} in {bitmap:?}"
            );
        }
    }
}
