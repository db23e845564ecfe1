//! Milestones in the life of an MPI process: Init, Finalize, Abort; recording off and on.

use crate::inside::process::{self, Errno, Quiet};
use crate::inside::{memory, modules};
use crate::trace::align::Moment;
use crate::trace::{align, device, filter, merge};
use refrain_format::part::flags;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs what a milestone asks for, without harm to the program whatever happens.
#[cold]
fn safely(what: impl FnOnce() + std::panic::UnwindSafe) {
    let _quiet = Quiet::keep();
    // A panic here would be a defect of ours, not the program's: the log goes on without.
    let _ = std::panic::catch_unwind(what);
}

/// `MPI_Init` or `MPI_Init_thread` has returned.
pub fn initialized(result: c_int) {
    if result == 0 {
        safely(|| {
            // MPI may just have loaded its plug-ins.
            modules::refresh();
            device::prepare();
            process::set_initialized(true);
            if let Some((rank, size)) = memory::world() {
                filter::set_rank(rank);
                process::update(|header| {
                    (header.rank, header.size) = (rank, size);
                    header.flags |= flags::INITIALIZED;
                });
            }
            process::update_clock();
        });
        agreeing(result);
    }
}

/// `MPI_Init` or `MPI_Init_thread` has returned, recorded or not: ranks compare clocks.
pub fn agreeing(result: c_int) {
    static ONCE: AtomicBool = AtomicBool::new(false);
    if result == 0 && !ONCE.swap(true, Ordering::Relaxed) {
        // Not in quiet, as below.
        let _errno = Errno::keep();
        let _ = std::panic::catch_unwind(|| align::compare(Moment::Beginning));
    }
}

/// `MPI_Finalize` is about to be called, recorded or not.
pub fn finalizing() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    if ONCE.swap(true, Ordering::Relaxed) {
        return;
    }
    // Not in quiet: ranks wait for each other here, and signals must not.
    let _errno = Errno::keep();
    let _ = std::panic::catch_unwind(|| align::compare(Moment::End));
    let _ = std::panic::catch_unwind(merge::before_finalize);
}

/// `MPI_Finalize` has returned.
pub fn finalized(result: c_int) {
    if result == 0 {
        safely(|| {
            process::set_initialized(false);
            process::update(|header| header.flags |= flags::FINALIZED);
            process::update_clock();
        });
    }
}

/// The program has switched recording off or on; `now` are the bits that say so.
pub fn paused(now: u32) {
    safely(move || {
        process::update(|header| header.flags = header.flags & !flags::PAUSED | now);
    });
}

/// `MPI_Abort` is about to be called.
pub fn aborting(code: c_int) {
    safely(move || {
        process::update(|header| {
            header.flags |= flags::ABORTED;
            header.abort_code = code;
        });
        process::update_clock();
    });
}
