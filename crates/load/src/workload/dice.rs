//! Reproducible randomness: SplitMix64 (Steele, Lea, Flood 2014), which is good enough to mix requests.

/// A random number generator.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Equal seeds give equal numbers.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A random number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if `limit` is 0. The bias of the remainder is negligible for 64 bits.
    pub(crate) const fn below(&mut self, limit: u64) -> u64 {
        match self.next().checked_rem(limit) {
            Some(number) => number,
            None => 0,
        }
    }
}
