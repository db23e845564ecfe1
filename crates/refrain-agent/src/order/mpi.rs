//! MPI as it is called for receive orders: every argument a word.

use crate::inside::library::{abi, library, predefined};
use crate::inside::locked::Lazy;
use crate::inside::memory::{Handles, Statuses};
use crate::table;
use refrain_mpi::abi::{Layout, write_handle};
use refrain_mpi::status::StatusFields;
pub use refrain_mpilib::Status;
use refrain_mpilib::words;
use refrain_order::Envelope;
use std::ffi::c_int;

/// Calls a function.
///
/// # Safety
/// It must be one of MPI's that takes so many arguments, all of them integers, handles or
/// addresses, and returns an error code.
#[inline(always)]
pub unsafe fn invoke(f: *const (), words: &[usize]) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { words::invoke(f, words) }.unwrap_or_else(|| layout().err_other)
}

/// Calls MPI's own function of that number, past tools.
///
/// # Safety
/// As for [`invoke`].
pub unsafe fn call(function: usize, words: &[usize]) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { library().call_words(function, words) }
}

/// What this MPI's binary interface fixes.
#[inline]
pub fn layout() -> &'static Layout {
    abi().layout()
}

/// The bits of a handle that mean something.
#[inline]
pub fn handle(word: usize) -> usize {
    abi().handle(word)
}

/// A handle in an array of the program.
///
/// # Safety
/// The array must have more than `index` handles.
#[inline]
pub unsafe fn handle_at(at: Handles, index: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { crate::inside::memory::handle(at, index, abi().handle_bytes) }.unwrap_or(0)
}

/// Puts a handle into an array of the program.
///
/// # Safety
/// The array must have more than `index` handles.
pub unsafe fn put_handle(at: Handles, index: usize, handle: usize) {
    // SAFETY: the caller's promise.
    unsafe { write_handle(abi().handle_bytes, at.cast(), index, handle) };
}

/// `MPI_REQUEST_NULL`.
#[inline]
pub fn request_null() -> usize {
    abi().request_null
}

macro_rules! handles {
    ($($(#[$doc:meta])* $function:ident = $name:literal;)*) => {
        $($(#[$doc])* pub fn $function() -> usize {
            static HANDLE: Lazy<usize> = Lazy::new();
            *HANDLE.get_or_make(|| predefined($name).unwrap_or(0))
        })*
    };
}

handles! {
    /// `MPI_BYTE`.
    byte = "MPI_BYTE";
    /// `MPI_PACKED`: such messages may be received as anything, and anything as such.
    packed = "MPI_PACKED";
    /// `MPI_UINT64_T`.
    word = "MPI_UINT64_T";
    /// `MPI_MAX`.
    greatest = "MPI_MAX";
}

/// What a status says.
///
/// # Safety
/// The array must have more than `index` statuses.
pub unsafe fn status_fields(at: Statuses, index: usize) -> Option<StatusFields> {
    let status = &layout().status;
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(at.add(index * status.bytes), status.bytes) };
    status.status_fields(bytes)
}

/// The envelope in a status.
///
/// # Safety
/// The address of a status.
#[inline]
pub unsafe fn envelope(at: Statuses) -> Option<Envelope> {
    let status = &layout().status;
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(at, status.bytes) };
    status.envelope(bytes).map(|(source, tag)| Envelope { source, tag })
}

/// Whether what a status tells of was cancelled.
///
/// # Safety
/// The address of a status that MPI has filled in.
pub unsafe fn is_cancelled(status: Statuses) -> bool {
    let mut flag: c_int = 0;
    // SAFETY: a status and an int.
    unsafe {
        call(table::MPI_Test_cancelled, &[status as usize, &raw mut flag as usize]);
    }
    flag != 0
}

/// Where `MPI_Irecv` has its source; others that post receives have it elsewhere.
pub const IRECV_SOURCE: usize = 3;

/// Whether the status of an `MPI_Isendrecv` tells what was received. MPICH's, up to 5.0 at least,
/// says nothing of it: found out once, by a message to ourselves.
pub fn isendrecv_has_status() -> bool {
    static HAS: Lazy<bool> = Lazy::new();
    *HAS.get_or_make(|| {
        const TAG: usize = 3;
        let own = predefined("MPI_COMM_SELF").unwrap_or(0);
        let byte = predefined("MPI_BYTE").unwrap_or(0);
        let (mut comm, mut request, mut status) = (0usize, 0usize, Status::new());
        let any = layout().any_tag as u32 as usize;
        // SAFETY: a message of no bytes to ourselves, on a communicator of our own.
        unsafe {
            if call(table::MPI_Comm_dup, &[own, &raw mut comm as usize]) != 0 {
                return false;
            }
            let address = &raw mut request as usize;
            let words = [0, 0, byte, 0, TAG, 0, 0, byte, 0, any, comm, address];
            let result = match call(table::MPI_Isendrecv, &words) {
                0 => call(table::MPI_Wait, &[address, status.address() as usize]),
                error => error,
            };
            call(table::MPI_Comm_free, &[&raw mut comm as usize]);
            let fields = status_fields(status.address(), 0);
            result == 0 && fields.is_some_and(|fields| fields.tag as usize == TAG)
        }
    })
}

/// `MPI_STATUS_IGNORE`.
pub fn status_ignore() -> Statuses {
    abi().status_ignore as Statuses
}
