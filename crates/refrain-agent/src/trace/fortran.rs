//! Fortran procedures with wrappers of their own.
//!
//! Most Fortran procedures call the C function of the same name, whose wrapper records the call.
//! Procedures that some Fortran bindings implement without that call are listed in `refrain-mpi`'s
//! `fortran.txt`, and their wrappers are generated from the same table as those in C. This module
//! has what those wrappers need: conversions from Fortran's arguments to C's, and a way not to
//! record a call twice if the bindings do call C.

use crate::inside::entry::Entry;
use crate::inside::library::abi;
use crate::inside::memory::{self, Ints, Longs};
use crate::inside::process::{self, Errno, Quiet};
use crate::inside::{modules, next};
use crate::table;
use crate::trace::call::Call;
use crate::trace::thread_log::Forwarded;
use refrain_mpi::abi::Family;
use refrain_mpi::names::constant_name;
use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, Ordering};

/// By index in the table of symbols: the procedure to forward to.
static NEXT: [AtomicPtr<()>; table::FORTRAN.len()] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; table::FORTRAN.len()];

/// The procedure to forward a call to: the next definition of the same name. `symbols` are the
/// indices of the wrapper's names in the table; `name` says which of them was called.
pub fn next(symbols: Range<usize>, name: usize) -> *const () {
    let index = symbols.start + name.min(symbols.len() - 1);
    match NEXT.get(index).map(|f| f.load(Ordering::Relaxed)) {
        Some(f) if !f.is_null() => f,
        _ => resolve(index),
    }
}

#[cold]
fn resolve(index: usize) -> *const () {
    let _quiet = Quiet::keep();
    let found = std::panic::catch_unwind(|| next::lookup(table::FORTRAN.get(index)?));
    match (found.ok().flatten(), NEXT.get(index)) {
        (Some(f), Some(cell)) => {
            cell.store(f.cast(), Ordering::Relaxed);
            f.cast_const().cast()
        }
        _ => missing as *const (),
    }
}

/// Replaces a procedure that this MPI does not have. Without the agent, such a program would not
/// have started.
unsafe extern "C" fn missing() {
    process::note_missing();
}

/// Begins to record a call of a procedure, unless the Fortran bindings made it.
pub fn begin(entry: Entry) -> Option<Call> {
    let from_fortran = || {
        let _errno = Errno::keep();
        std::panic::catch_unwind(|| modules::is_from_fortran(entry.caller)).unwrap_or(true)
    };
    if from_fortran() { None } else { entry.begin() }
}

/// The address for the error code: the program's, or `local` if the program omitted the argument.
pub fn or_local(ierror: Ints, local: &mut c_int) -> Ints {
    if ierror.is_null() { local } else { ierror }
}

/// A handle in C's form; `f2c` is the number of MPI's conversion function.
///
/// # Safety
/// The address of an integer.
pub unsafe fn handle(f2c: usize, at: Ints) -> usize {
    // SAFETY: the caller's promise.
    let number = unsafe { int(at) };
    if abi().handle_bytes == 4 {
        // MPICH's handles are the same integers in both languages.
        return number as u32 as usize;
    }
    next::mpi(f2c).map_or(0, |f2c| {
        // SAFETY: conversions have this form in every MPI with handles of this size.
        unsafe {
            let f2c: unsafe extern "C" fn(c_int) -> usize = std::mem::transmute(f2c);
            f2c(number)
        }
    })
}

/// An integer.
///
/// # Safety
/// Null, or the address of an integer.
pub unsafe fn int(at: Ints) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { memory::int(at) }.unwrap_or(0)
}

/// A logical, whichever number the compiler uses for true.
///
/// # Safety
/// Null, or the address of a logical.
pub unsafe fn logical(at: Ints) -> c_int {
    // SAFETY: the caller's promise.
    c_int::from(unsafe { int(at) } != 0)
}

/// The key of an attribute. MPICH numbers Fortran's predefined keys one above those of C.
///
/// # Safety
/// Null, or the address of an integer.
pub unsafe fn keyval(at: Ints) -> c_int {
    // SAFETY: the caller's promise.
    let key = unsafe { int(at) };
    let in_c = key.wrapping_sub(1);
    match abi().family {
        Family::Mpich if constant_name(Family::Mpich, "keyval", in_c.into()).is_some() => in_c,
        _ => key,
    }
}

/// The length of a string buffer, plus the closing NUL that C needs and Fortran does not.
///
/// # Safety
/// Null, or the address of an integer.
pub unsafe fn with_nul(at: Ints) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { int(at) } {
        0 => 0,
        n => n.saturating_add(1),
    }
}

/// An integer of kind `MPI_ADDRESS_KIND`.
///
/// # Safety
/// Null, or the address of such an integer.
pub unsafe fn long(at: Longs) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { memory::long(at) }.unwrap_or(0)
}

/// The same if C has an address.
///
/// # Safety
/// Null, or the address of such an integer.
pub unsafe fn address(at: Longs) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { long(at) as *mut c_void }
}

/// An integer if C has an address.
///
/// # Safety
/// Null, or the address of an integer.
pub unsafe fn short_address(at: Ints) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { int(at) as isize as *mut c_void }
}

impl Call {
    /// A string of `length` characters, without leading and trailing blanks.
    ///
    /// # Safety
    /// The address of `length` characters. (A compiler may set only the lower 32 bits of `length`.)
    pub unsafe fn text(&mut self, at: *const c_char, length: usize) {
        let length = length as u32 as usize;
        // SAFETY: the caller's promise.
        let text = unsafe { memory::bytes(at, length) };
        let is_text = |byte: &u8| *byte != b' ';
        let end = text.iter().rposition(is_text).map_or(0, |last| last + 1);
        let text = text.get(..end).unwrap_or_default();
        let start = text.iter().position(is_text).unwrap_or(0);
        self.string(at.wrapping_add(start), end - start);
    }

    /// The call is about to be forwarded. Calls that the Fortran bindings make for it are not
    /// recorded again. Returns the value to pass to [`Self::forwarded`].
    pub fn forwarding(&mut self) -> Forwarded {
        let this =
            Forwarded { function: self.entry.slot / 2, stack: self.entry.stack, inner: (0, 0) };
        // SAFETY: a log belongs to its thread.
        std::mem::replace(unsafe { &mut (*self.log).forwarded }, this)
    }

    /// The call has returned.
    pub fn forwarded(&mut self, outer: Forwarded) {
        // SAFETY: as in `forwarding`.
        unsafe { (*self.log).forwarded = outer };
    }
}
