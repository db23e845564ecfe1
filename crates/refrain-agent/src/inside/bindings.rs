//! Calls out of Fortran's library: for the program, or on its own behalf?
//!
//! A procedure of Fortran ends in a call of the C function of its name, and that call is the
//! program's. On the way the library may need to know more: how many processes there are, to
//! convert an array with an element for each; how many dimensions a grid has; a datatype that
//! describes a section of an array. Nobody asked for those calls. What tells them apart is the
//! procedure that the call site lies in:
//!
//! * that of the function which is called: the program's call
//! * another one: the library's own
//! * none, but a helper without a symbol. Helpers are there to convert what Fortran passes in
//!   another form than C, buffers and strings: so a function that takes some of those is called
//!   for the program, any other is the library's own.
//!
//! A call site calls one function only, so what was found out about it once is kept.

use crate::inside::entry::Entry;
use crate::inside::modules::{Module, Verdict};
use crate::inside::next;
use crate::table;
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Call sites looked into, each in one of a few cells: its return address, doubled, plus one if
/// its calls are the program's. Single words, so that threads need no lock.
static KNOWN: [AtomicUsize; 1024] = [const { AtomicUsize::new(0) }; 1024];

/// How many cells may hold a call site.
const CELLS: usize = 4;

#[expect(clippy::indexing_slicing, reason = "a remainder of the length")]
fn cells(caller: usize) -> impl Iterator<Item = &'static AtomicUsize> {
    let first = caller ^ (caller >> 10);
    (first..first + CELLS).map(|cell| &KNOWN[cell % KNOWN.len()])
}

/// What was found out about a call site in Fortran's library.
#[inline]
pub fn known(caller: usize) -> Option<Verdict> {
    let found =
        cells(caller).map(|c| c.load(Ordering::Relaxed)).find(|word| word >> 1 == caller)?;
    Some(if found & 1 == 1 { Verdict::ByFortran } else { Verdict::Foreign })
}

fn keep(caller: usize, is_programs: bool) {
    let word = caller << 1 | usize::from(is_programs);
    let free = |c: &&AtomicUsize| {
        c.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    if cells(caller).find(free).is_none()
        && let Some(cell) = cells(caller).next()
    {
        cell.store(word, Ordering::Relaxed);
    }
}

/// Whose a call is that returns into Fortran's library.
pub fn judge(entry: &Entry) -> Verdict {
    let number = entry.slot / 2;
    let called = table::NAMES.get(number).copied().unwrap_or_default();
    let is_programs = match procedure_at(entry.caller) {
        Some(function) => function.eq_ignore_ascii_case(called),
        None => table::CONVERTED.get(number).copied().unwrap_or(true),
    };
    keep(entry.caller, is_programs);
    if is_programs { Verdict::ByFortran } else { Verdict::Foreign }
}

/// The function whose procedure a return address lies in.
fn procedure_at(caller: usize) -> Option<String> {
    // SAFETY: zeros are a valid Dl_info, which the loader fills in; names are its own.
    let symbol = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        // The call itself: a return address may be the first one of another function.
        let found = libc::dladdr((caller - 1) as *const _, &mut info) != 0;
        (found && !info.dli_sname.is_null()).then(|| CStr::from_ptr(info.dli_sname))?
    };
    refrain_mpi::fortran::function_of(symbol.to_str().ok()?)
}

/// Whether a module is a Fortran library: named like one of MPI's, it defines a procedure for
/// itself.
pub fn are_in(module: &Module) -> bool {
    let defines =
        |name| next::symbol_of(&module.path, name).is_some_and(|f| module.contains(f as usize));
    module.file_name().starts_with(b"libmpi")
        && (defines(c"mpi_init_") || defines(c"mpi_init_f08_"))
}
