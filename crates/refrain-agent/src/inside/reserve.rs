//! Memory for when there is none left.
//!
//! Rust ends the process when a small allocation fails, which is not ours to do: a program may
//! live well at the limit of its memory. So what the system refuses comes out of a reserve,
//! which is never given back: enough to find out that a log cannot be opened, and to look up
//! the functions that calls are forwarded to. Large things are asked for with `try_reserve`,
//! and done without. Before work that allocates much in many pieces, [`has_memory`] is asked.

use crate::inside::arena::Arena;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Enough to go on until somebody asks [`has_memory`]. Pages that are never touched cost nothing.
const BYTES: usize = 8 << 20;

/// The most that is given at once: what is larger is asked for with `try_reserve`.
const LARGEST: usize = 1 << 20;

#[repr(align(64))]
struct Room(UnsafeCell<[u8; BYTES]>);

// SAFETY: handed out piece by piece, each once.
unsafe impl Sync for Room {}

static ROOM: Room = Room(UnsafeCell::new([0; BYTES]));
static TAKEN: AtomicUsize = AtomicUsize::new(0);

static ARENA: Arena = Arena::new();

/// The arena, and the reserve behind it.
struct WithReserve;

#[global_allocator]
static ALLOCATOR: WithReserve = WithReserve;

/// A piece of the reserve, all zeros; null when it is too small.
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
    let piece = ROOM.0.get().cast::<u8>().wrapping_add(start);
    piece.wrapping_add(piece.align_offset(layout.align()))
}

/// Whether so much memory could be had.
pub fn has_memory(bytes: usize) -> bool {
    Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
}

/// Whether a piece came out of the reserve.
pub fn is_reserve(at: *mut u8) -> bool {
    (at as usize).wrapping_sub(ROOM.0.get() as usize) < BYTES
}

/// How many bytes the reserve has from a piece of it on.
pub fn bytes_from(at: *mut u8) -> usize {
    BYTES - (at as usize).wrapping_sub(ROOM.0.get() as usize).min(BYTES)
}

// SAFETY: every piece of memory is the arena's, or a piece of the reserve given out once.
unsafe impl GlobalAlloc for WithReserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let at = ARENA.alloc(layout);
        if at.is_null() { take(layout) } else { at }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if !is_reserve(at) {
            // SAFETY: the caller's promise; it came from the arena.
            unsafe { ARENA.dealloc(at, layout) };
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise; what came from the arena goes back there, and both places
        // have room for what is copied.
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
