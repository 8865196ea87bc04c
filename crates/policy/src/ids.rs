//! Typed ids, and the dense table that they index.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// An index into an [`IdVec`]. Each kind of thing has an id type of its own, so that ids cannot be
/// mixed up. An id has 32 bits, which is half the size of a `usize`.
pub trait Id: Copy {
    /// The id with this index.
    ///
    /// # Panics
    /// If the index is 2³² - 1 or more. A policy of this size is not used at all: that fails
    /// closed.
    fn from_index(index: usize) -> Self;

    /// The index of this id.
    fn index(self) -> usize;
}

/// Defines id types.
#[macro_export]
macro_rules! id_types {
    ($($(#[$attribute:meta])* $visibility:vis struct $name:ident;)+) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        $visibility struct $name($visibility u32);

        impl $crate::ids::Id for $name {
            #[inline]
            fn from_index(index: usize) -> Self {
                Self($crate::ids::narrow(index))
            }

            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )+};
}

pub use id_types;

id_types! {
    /// A role, by its position in the policy.
    pub struct RoleId;

    /// A rule. Rules are counted from 0 over all roles in order; in each role, `allow` comes before
    /// `deny`.
    pub struct RuleId;

    /// An identity source: Basic is 0, and the issuers follow in the order of the policy. API keys
    /// and certificates have the last numbers.
    pub struct SourceId;
}

impl SourceId {
    /// HTTP Basic.
    pub const BASIC: Self = Self(0);
    /// API keys. No issuer has this id: `from_index` panics instead of returning it.
    pub const API_KEYS: Self = Self(u32::MAX);
    /// Client certificates. No policy has so many issuers.
    pub const CERTIFICATES: Self = Self(u32::MAX - 1);

    /// The issuer with this index in the policy.
    #[must_use]
    pub fn from_issuer(index: usize) -> Self {
        Self::from_index(index.saturating_add(1))
    }
}

/// A vector that is indexed by ids of one type. It derefs to `Vec` for access by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdVec<I, T> {
    items: Vec<T>,
    id: PhantomData<fn(I) -> I>,
}

impl<I: Id, T> IdVec<I, T> {
    /// An empty vector.
    #[must_use]
    pub const fn new() -> Self {
        Self { items: Vec::new(), id: PhantomData }
    }

    /// Appends an item and returns its id.
    pub fn push(&mut self, item: T) -> I {
        let id = self.next_id();
        self.items.push(item);
        id
    }

    /// The id that the next item will have.
    #[must_use]
    pub fn next_id(&self) -> I {
        I::from_index(self.items.len())
    }

    /// All ids, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.items.len()).map(I::from_index)
    }

    /// All items with their ids, in order.
    pub fn entries(&self) -> impl Iterator<Item = (I, &T)> {
        self.ids().zip(&self.items)
    }

    /// The item with this id.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    #[must_use]
    pub fn at(&self, id: I) -> &T {
        #[expect(
            clippy::indexing_slicing,
            reason = "every id is from `push`; with a wrong id the request must fail, because \
                      to continue could skip a `deny` rule"
        )]
        &self.items[id.index()]
    }

    /// The item with this id.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn at_mut(&mut self, id: I) -> &mut T {
        #[expect(
            clippy::indexing_slicing,
            reason = "as in `at`; a policy that cannot be compiled is not used"
        )]
        &mut self.items[id.index()]
    }

    /// The items from this id on.
    ///
    /// # Panics
    /// If the id is greater than [`Self::next_id`].
    #[inline]
    #[must_use]
    pub fn from(&self, id: I) -> &[T] {
        #[expect(clippy::indexing_slicing, reason = "as in `at`")]
        &self.items[id.index()..]
    }

    /// Frees the spare capacity.
    pub fn shrink(&mut self) {
        self.items.shrink_to_fit();
    }
}

/// A size or an index as a 32-bit integer.
///
/// # Panics
/// If it is 2³² - 1 or more. The highest 32-bit number is reserved: some tables store it for
/// "none", because an `Option` would double their size.
#[inline]
#[must_use]
pub fn narrow(size: usize) -> u32 {
    let narrow = u32::try_from(size).ok().filter(|narrow| *narrow != u32::MAX);
    #[expect(
        clippy::expect_used,
        reason = "a policy of this size is not used at all: failing closed"
    )]
    narrow.expect("a policy has fewer than 2^32 - 1 of anything")
}

impl<I, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<I, T> From<Vec<T>> for IdVec<I, T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, id: PhantomData }
    }
}

impl<I, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(items: A) -> Self {
        Vec::from_iter(items).into()
    }
}

impl<I, T> IntoIterator for IdVec<I, T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'v, I, T> IntoIterator for &'v IdVec<I, T> {
    type Item = &'v T;
    type IntoIter = std::slice::Iter<'v, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

impl<I, T> Deref for IdVec<I, T> {
    type Target = Vec<T>;

    #[inline]
    fn deref(&self) -> &Vec<T> {
        &self.items
    }
}

impl<I, T> DerefMut for IdVec<I, T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.items
    }
}
