//! Reading memory that belongs to the program or to MPI.
//!
//! Everything here turns an address that the interface table vouches for into a plain value,
//! and nothing outside this module follows such an address.

use crate::inside::next;
use crate::inside::process::{Errno, abi};
use crate::table;
use refrain_mpi::abi::{Family, read_handle};
use std::ffi::{CStr, c_char, c_int};

/// The address of one or more ints.
pub type Ints = *mut c_int;
/// The address of one or more 64-bit numbers.
pub type Longs = *mut i64;
/// The address of one or more pointers.
pub type Words = *mut usize;
/// The address of one or more handles, whatever their size.
pub type Handles = *mut u8;
/// The address of one or more statuses, whatever their size.
pub type Statuses = *mut u8;

/// # Safety
/// Null, or the address of an int.
#[inline(always)]
pub unsafe fn int(at: Ints) -> Option<c_int> {
    // SAFETY: the caller's promise.
    (!at.is_null()).then(|| unsafe { at.read_unaligned() })
}

/// # Safety
/// Null, or the address of a 64-bit number.
#[inline(always)]
pub unsafe fn long(at: Longs) -> Option<i64> {
    // SAFETY: the caller's promise.
    (!at.is_null()).then(|| unsafe { at.read_unaligned() })
}

/// # Safety
/// Null, or the address of a pointer.
#[inline(always)]
pub unsafe fn word(at: Words) -> Option<usize> {
    // SAFETY: the caller's promise.
    (!at.is_null()).then(|| unsafe { at.read_unaligned() })
}

/// # Safety
/// Null, or the address of more than `index` handles of `bytes` bytes.
#[inline(always)]
pub unsafe fn handle(at: Handles, index: usize, bytes: usize) -> Option<usize> {
    // SAFETY: the caller's promise.
    (!at.is_null()).then(|| unsafe { read_handle(bytes, at.cast(), index) })
}

/// The word at an address; nothing if there is no memory. The kernel knows: it looks at a new
/// signal mask before it looks at what it is asked to do with it, here nothing.
pub fn word_at(address: usize) -> Option<usize> {
    const NOTHING: c_int = -1;
    let _errno = Errno::keep();
    // SAFETY: the system call fails in any case, and changes nothing; what the kernel could
    // read, we can.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, NOTHING, address, 0, size_of::<usize>());
        let is_there = *libc::__errno_location() != libc::EFAULT;
        is_there.then(|| (address as *const usize).read_unaligned())
    }
}

/// A number of elements that the program gives; a negative one means none.
#[inline(always)]
pub fn count(n: impl Into<i64>) -> usize {
    usize::try_from(n.into()).unwrap_or(0)
}

/// A number of elements by address.
///
/// # Safety
/// Null, or the address of an int.
#[inline(always)]
pub unsafe fn count_at(at: Ints) -> usize {
    // SAFETY: the caller's promise.
    unsafe { int(at) }.map_or(0, count)
}

/// The sum of an array: how long an array is that holds so many for each.
///
/// # Safety
/// Null, or the address of `n` ints.
pub unsafe fn sum(at: Ints, n: usize) -> usize {
    if at.is_null() || n >= isize::MAX as usize {
        return 0;
    }
    // SAFETY: the caller's promise.
    (0..n).map(|i| count(unsafe { at.add(i).read_unaligned() })).sum()
}

/// The last element of an array.
///
/// # Safety
/// Null, or the address of `n` ints.
pub unsafe fn last(at: Ints, n: usize) -> usize {
    if at.is_null() || n == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    count(unsafe { at.add(n - 1).read_unaligned() })
}

/// # Safety
/// Null, or the address of so many characters, to be looked at at once.
pub unsafe fn bytes<'a>(at: *const c_char, length: usize) -> &'a [u8] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at.cast(), length) }
}

/// Whether a string is that one.
///
/// # Safety
/// Null, or a string.
pub unsafe fn is_text(at: *const c_char, text: &CStr) -> bool {
    // SAFETY: the caller's promise.
    !at.is_null() && unsafe { libc::strcmp(at, text.as_ptr()) } == 0
}

/// # Safety
/// The address of strings, closed by NULL.
pub unsafe fn argv_length(at: *const *const c_char) -> usize {
    // SAFETY: the caller's promise; arguments of a program are never this many.
    (0..1 << 20).take_while(|&i| unsafe { !(*at.add(i)).is_null() }).count()
}

/// A limit of this MPI, such as `MPI_MAX_PORT_NAME`.
#[cold]
pub fn limit(name: &str) -> usize {
    refrain_mpi::names::constant_value(abi().family, name).map_or(0, count)
}

/// The class of an error code.
///
/// Not every code may be asked about: Open MPI takes a code that a callback of the program made
/// up for an error of the question, and calls the error handler; and before MPI_Init and after
/// MPI_Finalize it lets nobody ask. Its own codes are their classes, so nothing is lost.
#[cold]
pub fn error_class(code: c_int) -> c_int {
    if abi().family == Family::OpenMpi {
        return code;
    }
    let mut class = code;
    if let Some(f) = next::mpi(table::MPI_Error_class) {
        // SAFETY: a local function of this form in every MPI.
        unsafe {
            let f: unsafe extern "C" fn(c_int, *mut c_int) -> c_int = std::mem::transmute(f);
            f(code, &mut class);
        }
    }
    class
}

/// What `MPI_Get_library_version` says; it may be asked at any time.
pub fn library_version() -> String {
    let Some(f) = next::mpi(table::MPI_Get_library_version) else {
        return String::new();
    };
    // MPI_MAX_LIBRARY_VERSION_STRING is at most 8192 in the MPIs there are.
    let mut text = vec![0u8; 16384];
    let mut length: c_int = 0;
    // SAFETY: the buffer is longer than any MPI writes, and zeros close it.
    unsafe {
        let f: unsafe extern "C" fn(*mut u8, *mut c_int) -> c_int = std::mem::transmute(f);
        f(text.as_mut_ptr(), &mut length);
    }
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    text.to_string_lossy().trim().to_owned()
}

/// The rank in and the size of `MPI_COMM_WORLD`, once MPI is initialised.
pub fn world() -> Option<(c_int, c_int)> {
    let (rank, size) = (next::mpi(table::MPI_Comm_rank)?, next::mpi(table::MPI_Comm_size)?);
    // SAFETY: local functions of this form in every MPI, on a handle that is valid now.
    unsafe {
        let ask = |f| {
            let f: unsafe extern "C" fn(usize, *mut c_int) -> c_int = std::mem::transmute(f);
            let mut value = -1;
            (f(abi().comm_world, &mut value) == 0).then_some(value)
        };
        Some((ask(rank)?, ask(size)?))
    }
}
