//! How much memory cached subjects take. The limits of the caches count it.
//!
//! Names, claims and header values come from callers, so a cache that is bounded only in number is
//! not bounded: 70,000 names of 1.5 KB took 225 MiB where passwords are not checked (November
//! 2026).

use std::sync::Arc;

use crate::{CachedSubject, Subject};

/// A value that knows how much heap memory it holds.
pub trait HeapSize {
    /// The bytes that it has allocated (see [`allocated`]), without its own size and without values
    /// that it shares with the policy. If the result is too small, a cache grows beyond its limit.
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

/// The memory that an allocation of this many bytes takes. Allocators round sizes up by as much as
/// an eighth, and keep some bytes of their own for each allocation.
#[must_use]
pub const fn allocated(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { bytes.saturating_add(bytes / 8).saturating_add(16) }
}

impl<T: HeapSize> CachedSubject<T> {
    /// The bytes of a cached subject behind its `Arc`. Its names count even if it shares them with
    /// the policy: then the result is a little too large.
    pub(crate) fn bytes(&self) -> usize {
        arc_size::<Self>() + self.subject.heap_size() + self.attached.heap_size()
    }
}

impl Subject {
    /// The claims are not counted: a cached subject has none.
    fn heap_size(&self) -> usize {
        let names = self.groups.iter().chain(&self.roles).chain([&self.user]);
        let lists = [self.groups.capacity(), self.roles.capacity()];
        let lists = lists.map(|capacity| allocated(capacity.saturating_mul(size_of::<Arc<str>>())));
        let actor = self.actor.iter().map(|actor| arc_size::<Self>() + actor.heap_size());
        names.map(|name| arc_str_size(name)).chain(lists).chain(actor).sum()
    }
}

/// The allocation of an `Arc<T>`: two counters and the value.
const fn arc_size<T>() -> usize {
    allocated(2 * size_of::<usize>() + size_of::<T>())
}

/// The allocation of an `Arc<str>`.
fn arc_str_size(name: &str) -> usize {
    allocated((2 * size_of::<usize>()).saturating_add(name.len()))
}
