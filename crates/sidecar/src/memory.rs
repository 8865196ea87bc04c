//! Memory that was freed goes back to the system.
//!
//! mimalloc 3 keeps what is freed for a second, in case it is wanted again, and gives it back when something of the size
//! of its pages is freed later. A server that only answers frees nothing of that size. So what one argon2id hash had
//! taken (19 MiB), or a policy that was replaced, stayed resident for ever: 43 MiB in place of 23 after one password
//! (2026-11-21).

use std::hint::black_box;

/// Large enough for a page of its own; no byte of it is touched.
const ENOUGH: usize = 1 << 20;

/// Lets the allocator give back what was freed more than a second ago. Takes some microseconds.
pub(crate) fn give_back() {
    drop(black_box(Vec::<u8>::with_capacity(ENOUGH)));
}
