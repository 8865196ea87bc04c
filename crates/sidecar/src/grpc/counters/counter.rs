//! A counter that one thread writes. A load and a store suffice, so an update needs no locked instruction.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub(in super::super) struct Counter(AtomicU64);

impl Counter {
    pub(in super::super) fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    pub(in super::super) fn increment(&self) {
        self.add(1);
    }

    pub(in super::super) fn decrement(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    pub(in super::super) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
