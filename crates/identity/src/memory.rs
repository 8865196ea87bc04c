//! How much memory remembered subjects take: what the bounds of the caches count.
//!
//! Names, claims and header values come from callers, so a cache that is bounded in number alone is not bounded: 70,000
//! names of 1.5 KB took 225 MiB where passwords are not checked (November 2026).

use std::sync::Arc;

use crate::{Known, Subject};

/// What knows how much memory it holds on the heap.
pub trait HeapSize {
    /// The bytes that it has allocated, without its own size and without what it shares with the policy.
    ///
    /// [`allocated`] gives the bytes of one allocation. A value that is too small lets a cache grow beyond its bound.
    fn heap_size(&self) -> usize;
}

impl HeapSize for () {
    fn heap_size(&self) -> usize {
        0
    }
}

impl HeapSize for String {
    fn heap_size(&self) -> usize {
        allocated(self.capacity())
    }
}

/// What an allocation of so many bytes takes: allocators round sizes up by as much as an eighth, and keep some bytes of
/// their own for each.
#[must_use]
pub const fn allocated(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes.saturating_add(bytes / 8).saturating_add(16) }
}

/// Whose the names of a subject are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// The policy's: they are there whether the subject is remembered or not.
    OfPolicy,
    /// The subject's own, from a token or a header.
    OfCaller,
}

impl<T: HeapSize> Known<T> {
    /// The bytes of a known subject with all that it holds alone, behind its `Arc`.
    pub(crate) fn bytes(&self, names: Names) -> usize {
        counted::<Self>() + self.subject.heap_size(names) + self.attached.heap_size()
    }
}

impl Subject {
    /// The claims are not counted: what is remembered has none.
    fn heap_size(&self, names: Names) -> usize {
        let lists = [&self.groups, &self.roles];
        let lists_bytes = lists.map(|list| allocated(list.capacity().saturating_mul(size_of::<Arc<str>>())));
        let own = lists.into_iter().flatten().chain([&self.user]).map(|name| text(name));
        let own = if names == Names::OfCaller { own.sum() } else { 0 };
        own + lists_bytes.iter().sum::<usize>()
    }
}

/// The allocation of an `Arc<T>`: two counters and the value.
const fn counted<T>() -> usize {
    allocated(2 * size_of::<usize>() + size_of::<T>())
}

/// The allocation of an `Arc<str>`.
fn text(name: &str) -> usize {
    allocated((2 * size_of::<usize>()).saturating_add(name.len()))
}
