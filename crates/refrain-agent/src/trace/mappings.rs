//! Interposed `mmap`, `mremap` and `munmap`: which mappings the program has made.
//!
//! The kernel merges adjacent mappings with the same properties, so its answer depends on what else was
//! mapped, and when. What the program mapped by one call is the same in every run. The C library's
//! allocator does not go through these functions: it calls its own `mmap` directly.

use crate::trace::heap::Next;
use crate::trace::regions::{Region, Regions};
use crate::trace::segments;
use refrain_format::record::segment;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::null_mut;

type Map =
    unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, libc::off_t) -> *mut c_void;
type Remap = unsafe extern "C" fn(*mut c_void, usize, usize, c_int, *mut c_void) -> *mut c_void;
type Unmap = unsafe extern "C" fn(*mut c_void, usize) -> c_int;

static MMAP: Next<Map> = Next::new(c"mmap");
static MREMAP: Next<Remap> = Next::new(c"mremap");
static MUNMAP: Next<Unmap> = Next::new(c"munmap");

/// Mappings that are live.
static MAPPINGS: Regions<1024> = Regions::new();

/// The mapping that contains an address; marks it as announced by a log.
pub fn find(address: usize) -> Option<Range<usize>> {
    MAPPINGS.find(address, true).map(|region| region.range)
}

/// Remembers a mapping that the kernel was asked about, and that a log announces.
pub fn note_used(range: Range<usize>) {
    MAPPINGS.add(&Region { range, kind: segment::MAPPED, detail: 0, used: true });
}

fn pages(at: *mut c_void, bytes: usize) -> Range<usize> {
    let start = at as usize;
    start..start.saturating_add(bytes.saturating_add(0xfff) & !0xfff)
}

fn record(at: *mut c_void, bytes: usize) {
    if at != libc::MAP_FAILED {
        forget(at, bytes);
        let range = at as usize..(at as usize).saturating_add(bytes);
        MAPPINGS.add(&Region { range, kind: segment::MAPPED, detail: 0, used: false });
    }
}

fn forget(at: *mut c_void, bytes: usize) {
    MAPPINGS.cut(&pages(at, bytes), |region| {
        if region.used {
            segments::released(region.range.start);
        }
    });
}

fn failed() -> *mut c_void {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    libc::MAP_FAILED
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    let Some(next) = MMAP.get() else { return failed() };
    // SAFETY: the caller's promise.
    let at = unsafe { next(at, bytes, protection, flags, file, offset) };
    record(at, bytes);
    at
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    at: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // SAFETY: the caller's promise; offsets have 64 bits on this machine in any case.
    unsafe { mmap(at, bytes, protection, flags, file, offset) }
}

/// # Safety
/// As for the C function; the last argument exists only with some flags.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    old: *mut c_void,
    old_bytes: usize,
    bytes: usize,
    flags: c_int,
    at: *mut c_void,
) -> *mut c_void {
    let Some(next) = MREMAP.get() else { return failed() };
    let at = if flags & libc::MREMAP_FIXED != 0 { at } else { null_mut() };
    // SAFETY: the caller's promise.
    let new = unsafe { next(old, old_bytes, bytes, flags, at) };
    if new != libc::MAP_FAILED {
        forget(old, old_bytes);
        record(new, bytes);
    }
    new
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(at: *mut c_void, bytes: usize) -> c_int {
    let Some(next) = MUNMAP.get() else {
        failed();
        return -1;
    };
    // Before the call: afterwards another thread may map the same addresses.
    forget(at, bytes);
    // SAFETY: the caller's promise.
    unsafe { next(at, bytes) }
}
