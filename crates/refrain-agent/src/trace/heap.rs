//! Tracks the program's allocations.
//!
//! The agent exports the functions that allocate memory. Each forwards to the next definition in
//! the loader's order, so that another allocator, linked or preloaded, keeps its position, and
//! records where the allocation begins ([`starts`]). A program with a built-in allocator bypasses
//! these functions.
//!
//! The loader calls these functions before any code of this library has run, and so does the search
//! for the next definition. Allocations at that time come from the [`reserve`].

use crate::inside::locked::Lazy;
use crate::inside::process::Errno;
use crate::inside::{memory, next, reserve};
use crate::trace::regions::{Region, Regions};
use crate::trace::segments;
use crate::trace::starts::{self, IS_LARGE, LARGE, LARGE_USED, NONE, PLAIN, USED};
use refrain_format::record::segment;
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The next definition of a function.
pub struct Next<F> {
    at: AtomicPtr<c_void>,
    name: &'static CStr,
    /// Whether modules with local scope are searched too.
    anywhere: bool,
    form: PhantomData<F>,
}

// SAFETY: holds the address of a function, which any thread may call.
unsafe impl<F> Sync for Next<F> {}

impl<F: Copy> Next<F> {
    /// The function of that name, which must have type `F`.
    pub const fn new(name: &'static CStr) -> Next<F> {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
        Next { at: AtomicPtr::new(null_mut()), name, anywhere: false, form: PhantomData }
    }

    /// The same for a function that may be in a module with local scope.
    pub const fn anywhere(name: &'static CStr) -> Next<F> {
        Next { anywhere: true, ..Next::new(name) }
    }

    /// The function; `None` if it does not exist, or while it is being searched.
    #[inline(always)]
    pub fn get(&self) -> Option<F> {
        let at = self.at.load(Ordering::Relaxed);
        let at = if at.is_null() { self.find() } else { at };
        // SAFETY: `new` requires that the function of that name has type `F`.
        (!at.is_null()).then(|| unsafe { std::mem::transmute_copy(&at) })
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        static IS_SEARCHING: AtomicBool = AtomicBool::new(false);
        if IS_SEARCHING.swap(true, Ordering::Acquire) {
            return null_mut();
        }
        let _errno = Errno::keep();
        // SAFETY: dlsym with a valid name; RTLD_NEXT searches behind this library.
        let mut at = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if at.is_null() && self.anywhere {
            let found = std::panic::catch_unwind(|| next::in_modules(self.name));
            at = found.ok().flatten().unwrap_or(null_mut());
        }
        self.at.store(at, Ordering::Relaxed);
        IS_SEARCHING.store(false, Ordering::Release);
        at
    }
}

type Allocate = unsafe extern "C" fn(usize) -> *mut c_void;
type AllocateTwo = unsafe extern "C" fn(usize, usize) -> *mut c_void;
type Reallocate = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
type AllocateAligned = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int;

static MALLOC: Next<Allocate> = Next::new(c"malloc");
static CALLOC: Next<AllocateTwo> = Next::new(c"calloc");
static REALLOC: Next<Reallocate> = Next::new(c"realloc");
static FREE: Next<unsafe extern "C" fn(*mut c_void)> = Next::new(c"free");
static POSIX_MEMALIGN: Next<AllocateAligned> = Next::new(c"posix_memalign");
static ALIGNED_ALLOC: Next<AllocateTwo> = Next::new(c"aligned_alloc");
static MEMALIGN: Next<AllocateTwo> = Next::new(c"memalign");
static VALLOC: Next<Allocate> = Next::new(c"valloc");
static PVALLOC: Next<Allocate> = Next::new(c"pvalloc");
static USABLE: Next<unsafe extern "C" fn(*mut c_void) -> usize> = Next::new(c"malloc_usable_size");

/// Live large allocations.
static LARGE_ONES: Regions<16384> = Regions::new();

/// Resolves the functions early, at a time when a search is safe.
pub fn prepare() {
    MALLOC.get();
    CALLOC.get();
    REALLOC.get();
    FREE.get();
    POSIX_MEMALIGN.get();
    ALIGNED_ALLOC.get();
    MEMALIGN.get();
    USABLE.get();
}

/// Records an allocation.
#[inline(always)]
fn record(at: *mut c_void, bytes: usize) {
    if bytes >= LARGE {
        record_large(at, bytes);
    } else if !at.is_null() {
        starts::set(at as usize, PLAIN);
    }
}

#[cold]
#[inline(never)]
fn record_large(at: *mut c_void, bytes: usize) {
    if !at.is_null() {
        let at = at as usize;
        let range = at..at.saturating_add(bytes);
        LARGE_ONES.add(&Region { range, kind: segment::HEAP, detail: 0, used: false });
        starts::set(at, IS_LARGE);
    }
}

/// Removes an allocation that is about to be freed. Returns the bytes of a large one, 0 for others,
/// and `None` if the allocation is unknown.
#[inline(always)]
fn forget(at: *mut c_void) -> Option<usize> {
    match starts::take(at as usize) {
        PLAIN => Some(0),
        NONE => None,
        what => Some(forget_slow(at as usize, what)),
    }
}

#[cold]
#[inline(never)]
fn forget_slow(at: usize, what: u8) -> usize {
    if what == USED || what == LARGE_USED {
        segments::released(at);
    }
    let large = if what == USED { None } else { LARGE_ONES.take(at) };
    large.map_or(0, |region| region.range.len())
}

/// The allocation that contains an address; marks it as announced by a log.
pub fn find(address: usize) -> Option<std::ops::Range<usize>> {
    if let Some(start) = starts::nearest(address)
        && let what @ (PLAIN | USED) = starts::get(start)
    {
        let range = start..start + usable(start)?;
        if range.contains(&address) {
            if what == PLAIN {
                starts::set(start, USED);
            }
            return Some(range);
        }
    }
    let region = LARGE_ONES.find(address, true)?;
    starts::set(region.range.start, LARGE_USED);
    Some(region.range)
}

/// The size of a live allocation, according to its allocator.
fn usable(start: usize) -> Option<usize> {
    if !is_sizing_safe() {
        return None;
    }
    // The word before an allocation belongs to its allocator. It may be unmapped if the allocation
    // was freed without the agent's knowledge.
    memory::word_at(start - size_of::<usize>())?;
    // SAFETY: the same allocator has made the allocation.
    USABLE.get().map(|f| unsafe { f(start as *mut c_void) })
}

/// Whether `malloc_usable_size` belongs to the same allocator as `malloc` and `free`, and the
/// program has replaced neither of these.
fn is_sizing_safe() -> bool {
    static SAFE: Lazy<bool> = Lazy::new();
    *SAFE.get_or_make(|| {
        let module = |at: *mut c_void| {
            // SAFETY: zeros are a valid Dl_info, which the loader fills in.
            unsafe {
                let mut info: libc::Dl_info = std::mem::zeroed();
                (libc::dladdr(at, &mut info) != 0).then_some(info.dli_fbase)
            }
        };
        // SAFETY: dlsym with valid names.
        let first = |name: &CStr| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        let found = |next: *mut c_void| if next.is_null() { None } else { module(next) };
        let home = found(MALLOC.at.load(Ordering::Relaxed));
        home.is_some()
            && found(FREE.at.load(Ordering::Relaxed)) == home
            && found(USABLE.at.load(Ordering::Relaxed)) == home
            && first(c"malloc") == malloc as *mut c_void
            && first(c"free") == free as *mut c_void
    })
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    let Some(next) = MALLOC.get() else { return reserved(bytes, 16) };
    // SAFETY: the caller's promise.
    let at = unsafe { next(bytes) };
    record(at, bytes);
    at
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    let Some(next) = CALLOC.get() else { return reserved(count.saturating_mul(bytes), 16) };
    // SAFETY: the caller's promise.
    let at = unsafe { next(count, bytes) };
    record(at, count.wrapping_mul(bytes));
    at
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(at: *mut c_void) {
    if at.is_null() || (forget(at).is_none() && reserve::is_reserve(at.cast())) {
        return;
    }
    if let Some(next) = FREE.get() {
        // SAFETY: the caller's promise.
        unsafe { next(at) };
    }
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(at: *mut c_void, bytes: usize) -> *mut c_void {
    if at.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { malloc(bytes) };
    }
    let old = forget(at);
    if old.is_none() && reserve::is_reserve(at.cast()) {
        // SAFETY: the reserve is readable up to its end; the new piece has the room.
        return unsafe {
            let new = malloc(bytes);
            if !new.is_null() {
                new.copy_from(at, bytes.min(reserve::bytes_from(at.cast())));
            }
            new
        };
    }
    let Some(next) = REALLOC.get() else { return null_mut() };
    // SAFETY: the caller's promise.
    let new = unsafe { next(at, bytes) };
    if !new.is_null() {
        record(new, bytes);
    } else if let (Some(old), true) = (old, bytes != 0) {
        // It has failed, and the old allocation still exists.
        record(at, old);
    }
    new
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(at: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
    match count.checked_mul(bytes) {
        // SAFETY: the caller's promise.
        Some(bytes) => unsafe { realloc(at, bytes) },
        None => {
            // SAFETY: errno is this thread's own.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            null_mut()
        }
    }
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    out: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    let Some(next) = POSIX_MEMALIGN.get() else { return libc::ENOMEM };
    // SAFETY: the caller's promise; on success `*out` holds the address.
    unsafe {
        let error = next(out, alignment, bytes);
        if error == 0 {
            record(*out, bytes);
        }
        error
    }
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    let Some(next) = ALIGNED_ALLOC.get() else { return reserved(bytes, alignment) };
    // SAFETY: the caller's promise.
    let at = unsafe { next(alignment, bytes) };
    record(at, bytes);
    at
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    let Some(next) = MEMALIGN.get() else { return reserved(bytes, alignment) };
    // SAFETY: the caller's promise.
    let at = unsafe { next(alignment, bytes) };
    record(at, bytes);
    at
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(bytes: usize) -> *mut c_void {
    let Some(next) = VALLOC.get() else { return reserved(bytes, 4096) };
    // SAFETY: the caller's promise.
    let at = unsafe { next(bytes) };
    record(at, bytes);
    at
}

/// # Safety
/// As for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    let Some(next) = PVALLOC.get() else { return reserved(bytes, 4096) };
    // SAFETY: the caller's promise.
    let at = unsafe { next(bytes) };
    record(at, bytes);
    at
}

/// Memory from the reserve while there is no allocator.
#[cold]
fn reserved(bytes: usize, alignment: usize) -> *mut c_void {
    let layout = std::alloc::Layout::from_size_align(bytes.max(1), alignment.max(16));
    let at = layout.map_or(null_mut(), reserve::take);
    if at.is_null() {
        // SAFETY: errno is this thread's own.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
    }
    at.cast()
}
