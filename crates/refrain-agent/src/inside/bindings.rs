//! Calls from the Fortran bindings: made for the program, or on the library's own behalf?
//!
//! A Fortran procedure calls the C function of the same name, and that call is the program's. But
//! it may call MPI for its own purposes first: it asks for the number of processes to convert an
//! array with one element for each, or for the number of dimensions of a grid, or it creates a
//! datatype that describes an array section. The program did not make those calls. The Fortran
//! procedure that contains the call site distinguishes them:
//!
//! * The procedure of the called function: the call is the program's.
//! * Another procedure: the call is the library's own.
//! * No procedure, but a helper without a symbol. Helpers convert arguments that Fortran passes in
//!   a different form than C, such as buffers and strings. So a call of a function with such
//!   arguments is the program's, any other call is the library's own.
//!
//! A call site always calls the same function, so the result is kept by call site.

use crate::inside::entry::Entry;
use crate::inside::modules::{Module, Verdict};
use crate::inside::next;
use crate::table;
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Judged call sites, each in one of a few cells: twice its return address, plus one if its calls
/// are the program's. A cell is a single word, so threads need no lock.
static KNOWN: [AtomicUsize; 1024] = [const { AtomicUsize::new(0) }; 1024];

/// Number of cells that may hold a given call site.
const CELLS: usize = 4;

#[expect(clippy::indexing_slicing, reason = "the index is reduced modulo the length")]
fn cells(caller: usize) -> impl Iterator<Item = &'static AtomicUsize> {
    let first = caller ^ (caller >> 10);
    (first..first + CELLS).map(|cell| &KNOWN[cell % KNOWN.len()])
}

/// The verdict on a call site in the Fortran bindings, if it was judged before.
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

/// Judges a call that returns into the Fortran bindings.
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

/// The MPI function whose Fortran procedure contains a return address.
fn procedure_at(caller: usize) -> Option<String> {
    // SAFETY: zeros are a valid Dl_info, which the loader fills in; the loader owns the names.
    let symbol = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        // The call instruction, because the return address may be the first one of the next
        // function.
        let found = libc::dladdr((caller - 1) as *const _, &mut info) != 0;
        (found && !info.dli_sname.is_null()).then(|| CStr::from_ptr(info.dli_sname))?
    };
    refrain_mpi::fortran::function_of(symbol.to_str().ok()?)
}

/// Whether a module is a library of Fortran bindings: its file name is like that of an MPI library,
/// and it defines an MPI procedure of Fortran.
pub fn is_bindings(module: &Module) -> bool {
    let defines =
        |name| next::symbol_of(&module.path, name).is_some_and(|f| module.contains(f as usize));
    module.file_name().starts_with(b"libmpi")
        && (defines(c"mpi_init_") || defines(c"mpi_init_f08_"))
}
