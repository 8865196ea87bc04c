//! A counter that one thread writes. A load and a store suffice, so an update needs no locked instruction.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Subtracts one.
    pub fn decrement(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    /// The current value.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
