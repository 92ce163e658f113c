//! The allocator of the fuzzers: the system's, with a count of what the thread holds. A parser that believes a length it read
//! shows here long before the machine runs out of memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

#[derive(Debug)]
pub(crate) struct Counting;

/// Begins anew; [`peak`] counts from here.
pub(crate) fn begin() {
    HELD.set(0);
    PEAK.set(0);
}

/// The most bytes this thread has held at once since [`begin`].
pub(crate) fn peak() -> usize {
    PEAK.get()
}

fn add(bytes: usize) {
    // A thread that is ending has no cells any more.
    let _ = HELD.try_with(|held| {
        let now = held.get().saturating_add(bytes);
        held.set(now);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
    });
}

/// What was allocated before [`begin`] may be freed after it.
fn subtract(bytes: usize) {
    let _ = HELD.try_with(|held| held.set(held.get().saturating_sub(bytes)));
}

// SAFETY: every call is the system allocator's with the same arguments; counting allocates nothing, as the cells have
// constant initial values and no destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        subtract(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        subtract(layout.size());
        add(size);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_the_most_that_was_held_at_once() {
        begin();
        for _ in 0..10 {
            drop(std::hint::black_box(vec![0u8; 1 << 20]));
        }
        assert!((1 << 20..2 << 20).contains(&peak()), "{}", peak());
        let both = [vec![0u8; 1 << 20], vec![0u8; 1 << 20]];
        assert!(peak() >= 2 << 20 && both.len() == 2);
    }
}
