//! Memory for when the system has none left.
//!
//! Rust aborts the process when a small allocation fails. The agent must not do that to a program
//! that runs at the limit of its memory. So an allocation that the system refuses comes from a
//! reserve, which is never refilled: enough to notice that a log cannot be opened, and to look up
//! the functions that calls are forwarded to. Large allocations use `try_reserve` and may fail.
//! Work that allocates much in many pieces first asks [`has_memory`].

use crate::inside::arena::Arena;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Enough to continue until the next check of [`has_memory`]. Untouched pages cost nothing.
const BYTES: usize = 8 << 20;

/// The largest allocation from the reserve. Larger ones use `try_reserve`.
const LARGEST: usize = 1 << 20;

#[repr(align(64))]
struct Reserve(UnsafeCell<[u8; BYTES]>);

// SAFETY: each piece is handed out once.
unsafe impl Sync for Reserve {}

static RESERVE: Reserve = Reserve(UnsafeCell::new([0; BYTES]));
static TAKEN: AtomicUsize = AtomicUsize::new(0);

static ARENA: Arena = Arena::new();

/// The arena, with the reserve as a fallback.
struct WithReserve;

#[global_allocator]
static ALLOCATOR: WithReserve = WithReserve;

/// A piece of the reserve, filled with zeros; null if the reserve is exhausted.
#[cold]
pub fn take(layout: Layout) -> *mut u8 {
    let room = layout.size() + layout.align();
    if room > LARGEST {
        return std::ptr::null_mut();
    }
    let start = TAKEN.fetch_add(room, Ordering::Relaxed);
    if start.saturating_add(room) > BYTES {
        TAKEN.store(BYTES, Ordering::Relaxed);
        return std::ptr::null_mut();
    }
    let piece = RESERVE.0.get().cast::<u8>().wrapping_add(start);
    piece.wrapping_add(piece.align_offset(layout.align()))
}

/// Whether this many bytes can be allocated now.
pub fn has_memory(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// Whether an address lies in the reserve.
pub fn is_reserve(at: *mut u8) -> bool {
    (at as usize).wrapping_sub(RESERVE.0.get() as usize) < BYTES
}

/// The number of bytes from an address to the end of the reserve.
pub fn bytes_from(at: *mut u8) -> usize {
    BYTES - (at as usize).wrapping_sub(RESERVE.0.get() as usize).min(BYTES)
}

// SAFETY: every allocation comes from the arena, or is a piece of the reserve that was handed out
// once.
unsafe impl GlobalAlloc for WithReserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let at = ARENA.alloc(layout);
        if at.is_null() { take(layout) } else { at }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise; the block has that size.
        unsafe {
            let at = self.alloc(layout);
            // The kernel fills mappings with zeros, page by page when they are first used: to do it here would
            // take long for a large one.
            if !at.is_null() && !Arena::is_mapping(&layout) {
                at.write_bytes(0, layout.size());
            }
            at
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if !is_reserve(at) {
            // SAFETY: the caller's promise; it came from the arena.
            unsafe { ARENA.dealloc(at, layout) };
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise; memory of the arena is returned to it, and both allocations
        // are large enough for the copy.
        unsafe {
            if !is_reserve(at) {
                let moved = ARENA.remap(at, layout, size);
                if !moved.is_null() {
                    return moved;
                }
            }
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(at, layout.size().min(size));
                self.dealloc(at, layout);
            }
            new
        }
    }
}
