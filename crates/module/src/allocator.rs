//! The library's memory allocator: Envoy's, except for large blocks. Those are mapped, so that the
//! system gets them back when they are freed.
//!
//! Envoy's allocator (tcmalloc) keeps freed memory: the 19 MiB of an argon2id hash, or a replaced
//! policy, stayed resident for ever. With `policies/people` the library added 23 MiB to Envoy, and
//! 19 of them were such freed memory (2026-11-22). With mimalloc 3 as the library's allocator, the
//! system got them back, but mimalloc took 12 MiB for itself.

#![expect(
    unsafe_code,
    reason = "an allocator is unsafe to define, and memory is mapped by C functions"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

/// The allocator: it maps large blocks, and leaves the others to Envoy's.
#[derive(Debug)]
pub(crate) struct LargeBlocks;

/// Blocks of at least this size are mapped, each by a system call. A request with cached
/// credentials never allocates so large a block.
const LARGE: usize = 1 << 20;
/// The minimum alignment of a mapping.
const PAGE: usize = 4096;

fn is_mapped(size: usize, align: usize) -> bool {
    size >= LARGE && align <= PAGE
}

// SAFETY: a block is mapped if its layout says so, and freed by the same rule: `Layout` is the same
// in all calls for a block. A mapping is aligned to a page, and unused by others.
unsafe impl GlobalAlloc for LargeBlocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout.size(), layout.align()) {
            return map(layout.size());
        }
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout.size(), layout.align()) {
            // New mappings are zero.
            return map(layout.size());
        }
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_mapped(layout.size(), layout.align()) {
            // SAFETY: it was mapped with this size, and the caller no longer uses it. Unmapping a
            // whole mapping cannot fail.
            unsafe { libc::munmap(block.cast(), layout.size()) };
            return;
        }
        // SAFETY: the caller's promise is the same, and `System` allocated it.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_mapped(layout.size(), layout.align()) && !is_mapped(size, layout.align()) {
            // SAFETY: the caller's promise is the same, and `System` allocated it.
            return unsafe { System.realloc(block, layout, size) };
        }
        // SAFETY: the caller promises that `size` rounded up to this alignment is at most
        // `isize::MAX`.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: `size` is not zero: the caller promises that.
        let to = unsafe { self.alloc(new) };
        if !to.is_null() {
            // SAFETY: both blocks have that many bytes, and are distinct.
            unsafe { ptr::copy_nonoverlapping(block, to, layout.size().min(size)) };
            // SAFETY: the caller no longer uses it.
            unsafe { self.dealloc(block, layout) };
        }
        to
    }
}

/// New memory; null if there is none.
fn map(size: usize) -> *mut u8 {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the system chooses an address that nothing uses.
    let mapped = unsafe { libc::mmap(ptr::null_mut(), size, access, kind, -1, 0) };
    if mapped == libc::MAP_FAILED { ptr::null_mut() } else { mapped.cast() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks keep their content while they grow and shrink across the limit.
    #[test]
    fn blocks_keep_their_content() {
        let sizes = [10, LARGE - 1, LARGE, 3 * LARGE + 5, 40 * LARGE, LARGE + 1, 100, 2 * LARGE, 1];
        for align in [1, 64, PAGE, 2 * PAGE] {
            let mut layout = Layout::from_size_align(16, align).unwrap();
            // SAFETY: the size is not zero.
            let mut block = unsafe { LargeBlocks.alloc_zeroed(layout) };
            for size in sizes {
                let kept = layout.size().min(size);
                // SAFETY: the block has this layout.
                unsafe { block.write(7) };
                // SAFETY: it is within the block.
                unsafe { block.wrapping_add(kept - 1).write(9) };
                // SAFETY: the block has this layout, and the size is not zero.
                block = unsafe { LargeBlocks.realloc(block, layout, size) };
                layout = Layout::from_size_align(size, align).unwrap();
                assert!(!block.is_null() && block.addr().is_multiple_of(align), "{size} {align}");
                // SAFETY: it is within the block.
                let first = unsafe { block.read() };
                // SAFETY: it is within the block.
                let last = unsafe { block.wrapping_add(kept - 1).read() };
                assert!((first == 7 || kept == 1) && last == 9, "{size} {align}");
            }
            // SAFETY: the block has this layout.
            unsafe { LargeBlocks.dealloc(block, layout) };
        }
    }

    #[test]
    fn what_cannot_be_had_is_null() {
        let all = Layout::from_size_align(usize::MAX / 4, 1).unwrap();
        // SAFETY: the size is not zero.
        assert!(unsafe { LargeBlocks.alloc(all) }.is_null());
    }
}
