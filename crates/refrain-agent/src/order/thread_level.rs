//! The thread level of MPI: whether several threads may call it, and whether concurrently.

use crate::table;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use super::mpi;

static MULTIPLE: AtomicBool = AtomicBool::new(false);
static SEVERAL: AtomicBool = AtomicBool::new(false);

/// Asks MPI for its thread level. Called once, after MPI is initialized.
pub fn query() {
    let mut level: c_int = 0;
    // SAFETY: room for an int.
    let result = unsafe { mpi::call(table::MPI_Query_thread, &[&raw mut level as usize]) };
    let layout = mpi::layout();
    let multiple = result == 0 && level == layout.thread_multiple;
    MULTIPLE.store(multiple, Ordering::Relaxed);
    let several = multiple || (result == 0 && level == layout.thread_serialized);
    SEVERAL.store(several, Ordering::Relaxed);
}

/// Whether several threads may call MPI, concurrently or one after the other.
#[inline]
pub fn has_several() -> bool {
    SEVERAL.load(Ordering::Relaxed)
}

/// Whether threads may call MPI concurrently (`MPI_THREAD_MULTIPLE`).
#[inline]
pub fn is_multiple() -> bool {
    MULTIPLE.load(Ordering::Relaxed)
}
