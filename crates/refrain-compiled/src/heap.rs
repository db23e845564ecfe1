//! The program's allocations: each is a segment of its own.
//!
//! This library interposes the allocator's functions. Frees are not recorded: a segment lives until another
//! one overlaps it. An allocation at the address, of the size and by the thread of an earlier one is not
//! recorded again.

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use refrain_rings::record::Record;

use crate::access::{enter, leave};
use crate::copies;
use crate::next::Next;
use crate::process::{self, Locked, is_recording};

const HEAP: u32 = 1;
const MAPPING: u32 = 3;

type Allocate = unsafe extern "C" fn(usize) -> *mut c_void;
type AllocateTwo = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Reallocate = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type AllocateAligned = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;
type Map = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void;

static MALLOC: Next<Allocate> = Next::new(c"malloc");
static CALLOC: Next<AllocateTwo> = Next::new(c"calloc");
static REALLOC: Next<Reallocate> = Next::new(c"realloc");
static POSIX_MEMALIGN: Next<AllocateAligned> = Next::new(c"posix_memalign");
static ALIGNED_ALLOC: Next<AllocateTwo> = Next::new(c"aligned_alloc");
static MEMALIGN: Next<AllocateTwo> = Next::new(c"memalign");
static MMAP: Next<Map> = Next::new(c"mmap");

// These serve the loader's allocations while the next definitions are looked up.
unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(at: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, bytes: usize) -> *mut c_void;
}

/// Recently recorded segments, by their base: a hash of base, size and owner.
static RECORDED: [AtomicU64; 1 << 14] = [const { AtomicU64::new(0) }; 1 << 14];

/// Looks up all functions early, while the process has one thread.
pub fn prepare() {
    copies::prepare();
    MALLOC.get();
    CALLOC.get();
    REALLOC.get();
    POSIX_MEMALIGN.get();
    ALIGNED_ALLOC.get();
    MEMALIGN.get();
    MMAP.get();
}

/// Forgets the recorded segments.
pub fn forget() {
    RECORDED.iter().for_each(|hash| hash.store(0, Relaxed));
}

/// Records an allocation.
#[inline(always)]
fn record(kind: u32, at: *mut c_void, bytes: usize) -> *mut c_void {
    if is_recording() && !at.is_null() {
        record_slow(kind, at as u64, bytes as u64);
    }
    at
}

#[cold]
#[inline(never)]
#[expect(clippy::indexing_slicing, reason = "the index is reduced modulo the length")]
fn record_slow(kind: u32, base: u64, size: u64) {
    let Some((block, thread)) = enter() else { return };
    let (owner, size) = (thread.number, size.max(1));
    let hash = (base ^ size.rotate_left(20) ^ (u64::from(owner) << 48) | 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let known = &RECORDED[(base >> 4) as usize % RECORDED.len()];
    if known.swap(hash, Relaxed) != hash {
        // Earlier references of the thread belong to the earlier segment.
        if let Some(ledger) = process::ledger()
            && let Err(gone) = thread.ring.publish(&ledger)
        {
            process::lost(gone);
        }
        if let Some(shared) = Locked::new().shared() {
            shared.append(&Record::Segment { kind, owner, base, size });
        }
    }
    leave(block);
}

/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let at = unsafe { MALLOC.get().unwrap_or(__libc_malloc)(bytes) };
    record(HEAP, at, bytes)
}

/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let at = unsafe { CALLOC.get().unwrap_or(__libc_calloc)(count, bytes) };
    record(HEAP, at, count.wrapping_mul(bytes))
}

/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(old: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let at = unsafe { REALLOC.get().unwrap_or(__libc_realloc)(old, bytes) };
    record(HEAP, at, bytes)
}

/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    at: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    let Some(next) = POSIX_MEMALIGN.get() else { return libc::ENOMEM };
    // SAFETY: the caller's promise.
    unsafe {
        let result = next(at, alignment, bytes);
        if result == 0 {
            record(HEAP, *at, bytes);
        }
        result
    }
}

/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let at = unsafe { ALIGNED_ALLOC.get().unwrap_or(__libc_memalign)(alignment, bytes) };
    record(HEAP, at, bytes)
}

/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    let at = unsafe { MEMALIGN.get().unwrap_or(__libc_memalign)(alignment, bytes) };
    record(HEAP, at, bytes)
}

/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(next) = MMAP.get() else {
            let all = (libc::SYS_mmap, address, bytes, protection, flags, file, offset);
            return libc::syscall(all.0, all.1, all.2, all.3, all.4, all.5, all.6) as *mut c_void;
        };
        let at = next(address, bytes, protection, flags, file, offset);
        if at == libc::MAP_FAILED || protection & libc::PROT_WRITE == 0 {
            return at;
        }
        record(MAPPING, at, bytes)
    }
}

/// As in the C library; another name of `mmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { mmap(address, bytes, protection, flags, file, offset) }
}
