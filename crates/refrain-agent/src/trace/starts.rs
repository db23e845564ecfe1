//! A shadow map of the first addresses of the program's allocations.
//!
//! The map has one byte for every 16 bytes of address space, in chunks that are mapped on first use and
//! never unmapped. Recording an allocation is one store, removing it a load and a store. Bytes need
//! no atomic read-modify-write where threads share a word; bits would. An ordered map would cost ten
//! times as much, and a lock.
//!
//! The allocation that contains an address is found by a backward search for the nearest start. The
//! search is short, because allocations of [`LARGE`] bytes and more are also in a table
//! ([`crate::trace::regions`]).

use crate::inside::process::Errno;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// Allocations of so many bytes and more are large.
pub const LARGE: usize = 64 << 10;

/// How far back a start is searched: allocators round sizes up.
const FARTHEST: usize = LARGE + LARGE / 4;

/// No known allocation starts here.
pub const NONE: u8 = 0;
/// An allocation starts here.
pub const PLAIN: u8 = 1;
/// An allocation that some log has announced.
pub const USED: u8 = 2;
/// A large allocation.
pub const IS_LARGE: u8 = 3;
/// A large allocation that some log has announced.
pub const LARGE_USED: u8 = 4;

/// Bits of an address within 16 bytes, within a chunk, within a table of chunks.
const UNIT: u32 = 4;
const CHUNK: u32 = 24;
const TABLE: u32 = 36;
const ADDRESS: u32 = 47;

const UNITS: usize = 1 << (CHUNK - UNIT);
const CHUNKS: usize = 1 << (TABLE - CHUNK);
const TABLES: usize = 1 << (ADDRESS - TABLE);

type Chunk = [AtomicU8; UNITS];
type Table = [AtomicPtr<Chunk>; CHUNKS];

static DIRECTORY: [AtomicPtr<Table>; TABLES] = [const { AtomicPtr::new(null_mut()) }; TABLES];

/// The chunk for an address, if there is one.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "masked to the length")]
fn chunk(address: usize) -> Option<&'static Chunk> {
    let table = DIRECTORY.get(address >> TABLE)?.load(Ordering::Acquire);
    // SAFETY: null, or a table that is never unmapped.
    let table = unsafe { table.as_ref() }?;
    let chunk = table[address >> CHUNK & (CHUNKS - 1)].load(Ordering::Acquire);
    // SAFETY: null, or a chunk that is never unmapped.
    unsafe { chunk.as_ref() }
}

#[inline(always)]
fn unit(address: usize) -> usize {
    address >> UNIT & (UNITS - 1)
}

/// Records what starts at an address.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "`unit` is less than the length")]
pub fn set(address: usize, what: u8) {
    if let Some(chunk) = chunk(address).or_else(|| new_chunk(address)) {
        chunk[unit(address)].store(what, Ordering::Relaxed);
    }
}

/// What starts at an address.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "`unit` is less than the length")]
pub fn get(address: usize) -> u8 {
    chunk(address).map_or(NONE, |chunk| chunk[unit(address)].load(Ordering::Relaxed))
}

/// Removes and returns what starts at an address.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "`unit` is less than the length")]
pub fn take(address: usize) -> u8 {
    let Some(chunk) = chunk(address) else { return NONE };
    let cell = &chunk[unit(address)];
    let what = cell.load(Ordering::Relaxed);
    if what != NONE {
        cell.store(NONE, Ordering::Relaxed);
    }
    what
}

/// The nearest start at or before an address.
pub fn nearest(address: usize) -> Option<usize> {
    let lowest = address.saturating_sub(FARTHEST);
    let mut last = address;
    loop {
        let first = lowest.max(last >> CHUNK << CHUNK);
        if let Some(chunk) = chunk(last) {
            let units = chunk.get(unit(first)..=unit(last)).unwrap_or_default();
            let found = units.iter().rposition(|u| u.load(Ordering::Relaxed) != NONE);
            if let Some(found) = found {
                return Some(((first >> UNIT) + found) << UNIT);
            }
        }
        if first == lowest {
            return None;
        }
        last = first - 1;
    }
}

/// Maps the chunk for an address; none if there is no memory, and then nothing is recorded.
#[cold]
#[inline(never)]
#[expect(clippy::indexing_slicing, reason = "masked to the length")]
fn new_chunk(address: usize) -> Option<&'static Chunk> {
    let table = entry::<Table>(DIRECTORY.get(address >> TABLE)?)?;
    entry::<Chunk>(&table[address >> CHUNK & (CHUNKS - 1)])
}

/// What a cell points to; mapped now if the cell is null.
fn entry<T>(cell: &AtomicPtr<T>) -> Option<&'static T> {
    let old = cell.load(Ordering::Acquire);
    if !old.is_null() {
        // SAFETY: published once, never unmapped.
        return Some(unsafe { &*old });
    }
    let fresh = map_zeros(size_of::<T>())?.cast::<T>();
    match cell.compare_exchange(null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: zeros are a valid table and a valid chunk; never unmapped from here on.
        Ok(_) => Some(unsafe { &*fresh }),
        Err(other) => {
            // SAFETY: no other thread has this mapping; another thread has published one first.
            unsafe { libc::syscall(libc::SYS_munmap, fresh, size_of::<T>()) };
            // SAFETY: published once, never unmapped.
            Some(unsafe { &*other })
        }
    }
}

/// Zeroed pages, by a direct system call: `mmap` may be interposed, and is by the agent itself.
fn map_zeros(bytes: usize) -> Option<*mut u8> {
    let _errno = Errno::keep();
    // SAFETY: asks for new pages.
    let at = unsafe {
        libc::syscall(
            libc::SYS_mmap,
            0,
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    (at > 0).then_some(at as *mut u8)
}
