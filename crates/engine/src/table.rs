//! A vector with 32-bit indices.

/// A vector whose indices are 32-bit integers: half the size of a `usize` in every node of the index.
#[derive(Clone, Debug)]
pub(crate) struct Table<T>(Vec<T>);

impl<T> Table<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends an item and returns its index.
    pub(crate) fn push(&mut self, item: T) -> u32 {
        let number = number(self.0.len());
        self.0.push(item);
        number
    }

    pub(crate) fn at(&self, number: u32) -> &T {
        #[expect(
            clippy::indexing_slicing,
            reason = "every number in the index was given by `push`; should one be wrong, the request must end without \
                      an answer, for to go on would be to pass over a `deny` rule"
        )]
        &self.0[number as usize]
    }

    pub(crate) fn at_mut(&mut self, number: u32) -> &mut T {
        #[expect(
            clippy::indexing_slicing,
            reason = "as in `at`; a policy that cannot be compiled is not used"
        )]
        &mut self.0[number as usize]
    }

    /// The items from this index on.
    pub(crate) fn from(&self, number: u32) -> &[T] {
        #[expect(clippy::indexing_slicing, reason = "as in `at`")]
        &self.0[number as usize..]
    }

    pub(crate) fn len(&self) -> u32 {
        number(self.0.len())
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = T> {
        self.0.into_iter()
    }

    /// Frees the spare capacity left from growing.
    pub(crate) fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> FromIterator<T> for Table<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

/// A size as a 32-bit integer.
pub(crate) fn number(size: usize) -> u32 {
    #[expect(clippy::expect_used, reason = "a policy of this size is not used at all: failing closed")]
    u32::try_from(size).expect("a policy has fewer than 2^32 of anything")
}

/// An index that means "none", where an `Option` would double the size.
pub(crate) const NONE: u32 = u32::MAX;
