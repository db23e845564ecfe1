//! The MPI library of this process, as [`refrain_mpilib`] knows it.

use crate::inside::locked::Lazy;
use crate::inside::{next, process};
use refrain_mpi::abi::Source;
use refrain_mpi::names;
use refrain_mpilib::{Abi, Library, Symbols};
use std::ffi::c_int;
use std::fmt::Write;

/// The symbols of the libraries behind this one.
pub struct Behind;

// SAFETY: `next` finds functions and variables of MPI by their names, and keeps the library loaded.
unsafe impl Symbols for Behind {
    #[inline]
    fn function(&self, number: usize) -> Option<*const ()> {
        next::mpi(number)
    }

    fn variable(&self, name: &str) -> Option<usize> {
        next::data(name).map(|at| at as usize)
    }
}

/// The MPI library of this process. Its ABI is detected at the first call.
#[inline]
pub fn library() -> &'static Library<Behind> {
    static LIBRARY: Lazy<Library<Behind>> = Lazy::new();
    LIBRARY.get_or_make(detect)
}

#[cold]
fn detect() -> Library<Behind> {
    Library::from_loaded(Behind)
}

/// The values of its binary interface.
#[inline]
pub fn abi() -> &'static Abi {
    library().abi()
}

/// A predefined handle by its name.
pub fn predefined(name: &str) -> Option<usize> {
    library().predefined(name)
}

/// The class of an error code.
#[cold]
pub fn error_class(code: c_int) -> c_int {
    library().error_class(code)
}

/// A communicator of the agent's own.
///
/// It exists only right after `MPI_Init` and right before `MPI_Finalize`, so nothing that the program can
/// see changes while it runs.
pub type Comm = refrain_mpilib::Comm<'static, Behind>;

/// A communicator of the agent's own, of all ranks of `MPI_COMM_WORLD`. All ranks take part. There is none
/// if a rank is known to run without the agent.
pub fn comm_of_world() -> Option<Comm> {
    if process::has_rank_without_agent() { None } else { Comm::of_world(library()) }
}

/// Lines for the log with what only this process knows: predefined handles that are addresses, and named
/// addresses.
pub fn handle_names() -> String {
    let mut text = String::new();
    for (kind, name, source) in names::predefined_handles(abi().family) {
        if matches!(source, Source::Value(_)) {
            continue;
        }
        let address = library().resolve(source).unwrap_or(0);
        if address != 0 {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{kind} {address:x} {name}");
        }
    }
    let [unweighted, empty, errcodes] = abi().special;
    let _ = writeln!(text, "address {unweighted:x} MPI_UNWEIGHTED");
    let _ = writeln!(text, "address {empty:x} MPI_WEIGHTS_EMPTY");
    let _ = writeln!(text, "address {errcodes:x} MPI_ERRCODES_IGNORE");
    text
}
