//! Fortran procedures with wrappers of their own.
//!
//! Most procedures come by way of C: Fortran's library calls the C function of the same name,
//! with arguments in C's form, and its wrapper does the rest. Those that some library carries
//! out by itself stand in `refrain-mpi`'s `fortran.txt`, and their wrappers are generated from
//! the same table as those in C. What those wrappers need stands here: Fortran's arguments in
//! C's form, and the means not to write a call down twice where the library does call C.

use crate::inside::entry::Entry;
use crate::inside::memory::{self, Ints, Longs};
use crate::inside::process::{self, Errno, Quiet, abi};
use crate::inside::{modules, next};
use crate::table;
use crate::trace::call::Call;
use crate::trace::stream::Forwarded;
use refrain_mpi::abi::Family;
use refrain_mpi::names::constant_name;
use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, Ordering};

/// By place in the table of symbols: the procedure to forward to.
static NEXT: [AtomicPtr<()>; table::FORTRAN.len()] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; table::FORTRAN.len()];

/// The procedure to forward a call to: the next of the same name. `symbols` are the places of
/// the wrapper's names in the table, of which `name` was called.
pub fn next(symbols: Range<usize>, name: usize) -> *const () {
    let place = symbols.start + name.min(symbols.len() - 1);
    match NEXT.get(place).map(|f| f.load(Ordering::Relaxed)) {
        Some(f) if !f.is_null() => f,
        _ => resolve(place),
    }
}

#[cold]
fn resolve(place: usize) -> *const () {
    let _quiet = Quiet::keep();
    let found = std::panic::catch_unwind(|| next::lookup(table::FORTRAN.get(place)?));
    match (found.ok().flatten(), NEXT.get(place)) {
        (Some(f), Some(cell)) => {
            cell.store(f.cast(), Ordering::Relaxed);
            f.cast_const().cast()
        }
        _ => missing as *const (),
    }
}

/// Stands in for a procedure that this MPI does not have; without the agent such a program
/// would not have started.
unsafe extern "C" fn missing() {
    process::note_missing();
}

/// Begins to write a call of a procedure down, unless it comes from Fortran's library itself.
pub fn begin(entry: Entry) -> Option<Call> {
    let from_fortran = || {
        let _errno = Errno::keep();
        std::panic::catch_unwind(|| modules::is_from_fortran(entry.caller)).unwrap_or(true)
    };
    if from_fortran() { None } else { entry.begin() }
}

/// The place for an error code: the program's, or ours where the program left it out.
pub fn or_own(ierror: Ints, own: &mut c_int) -> Ints {
    if ierror.is_null() { own } else { ierror }
}

/// A handle as C has it; `f2c` is the number of MPI's conversion.
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

/// A logical, whichever number the compiler has for true.
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

/// The room for a string, with the closing NUL that C needs and Fortran does not.
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

/// An integer of the kind for addresses.
///
/// # Safety
/// Null, or the address of such an integer.
pub unsafe fn long(at: Longs) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { memory::long(at) }.unwrap_or(0)
}

/// The same where C has an address.
///
/// # Safety
/// Null, or the address of such an integer.
pub unsafe fn address(at: Longs) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { long(at) as *mut c_void }
}

/// An integer where C has an address.
///
/// # Safety
/// Null, or the address of an integer.
pub unsafe fn short_address(at: Ints) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { int(at) as isize as *mut c_void }
}

impl Call {
    /// A string of that many characters; blanks around it are not part of it.
    ///
    /// # Safety
    /// The address of so many characters. (Their number may be 32 bits wide, with noise above.)
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

    /// The call is about to be forwarded. What Fortran's library calls for it is not to be
    /// written down once more. Gives what [`Self::forwarded`] wants back.
    pub fn forwarding(&mut self) -> Forwarded {
        let this =
            Forwarded { function: self.entry.slot / 2, stack: self.entry.stack, inner: (0, 0) };
        // SAFETY: a stream belongs to its thread alone.
        std::mem::replace(unsafe { &mut (*self.stream).forwarded }, this)
    }

    /// The call has returned.
    pub fn forwarded(&mut self, outer: Forwarded) {
        // SAFETY: as in `forwarding`.
        unsafe { (*self.stream).forwarded = outer };
    }
}
