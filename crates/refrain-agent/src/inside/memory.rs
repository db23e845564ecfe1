//! Reading memory that belongs to the program or to MPI.
//!
//! Each function turns an address that the interface table vouches for into a plain value. No other
//! module follows such an address.

use crate::inside::library::abi;
use crate::inside::process::Errno;
use refrain_mpi::abi::read_handle;
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

/// The word at an address; `None` if no memory is mapped there. The kernel decides:
/// `rt_sigprocmask` reads the new signal mask before it rejects the invalid operation that it is
/// asked for here.
pub fn word_at(address: usize) -> Option<usize> {
    const INVALID: c_int = -1;
    let _errno = Errno::keep();
    // SAFETY: the system call always fails and changes nothing; memory that the kernel could read
    // is readable.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, INVALID, address, 0, size_of::<usize>());
        let is_mapped = *libc::__errno_location() != libc::EFAULT;
        is_mapped.then(|| (address as *const usize).read_unaligned())
    }
}

/// A number of elements that the program passed; 0 if it is negative.
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

/// The sum of an array of counts: the length of the array that they describe.
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
/// Null, or the address of `length` characters that stay valid while the slice is used.
pub unsafe fn bytes<'a>(at: *const c_char, length: usize) -> &'a [u8] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at.cast(), length) }
}

/// Whether the string at an address equals `text`.
///
/// # Safety
/// Null, or a string.
pub unsafe fn is_text(at: *const c_char, text: &CStr) -> bool {
    // SAFETY: the caller's promise.
    !at.is_null() && unsafe { libc::strcmp(at, text.as_ptr()) } == 0
}

/// # Safety
/// The address of an array of strings that ends with NULL.
pub unsafe fn argv_length(at: *const *const c_char) -> usize {
    // SAFETY: the caller's promise; no program has this many arguments.
    (0..1 << 20).take_while(|&i| unsafe { !(*at.add(i)).is_null() }).count()
}

/// A limit of this MPI, such as `MPI_MAX_PORT_NAME`.
#[cold]
pub fn limit(name: &str) -> usize {
    refrain_mpi::names::constant_value(abi().family, name).map_or(0, count)
}
