//! Actions at Init, Finalize and Abort, and when recording is switched off or on.

use crate::inside::library::library;
use crate::inside::modules;
use crate::inside::process::{self, Errno, Quiet};
use crate::trace::align::Moment;
use crate::trace::{align, device, filter, merge, thread_log};
use refrain_format::part::flags;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs an action with signals blocked, and catches panics.
#[cold]
fn safely(what: impl FnOnce() + std::panic::UnwindSafe) {
    let _quiet = Quiet::keep();
    // A panic is a defect of the agent; the log continues without this fact.
    let _ = std::panic::catch_unwind(what);
}

/// `MPI_Init` or `MPI_Init_thread` has returned.
pub fn initialized(result: c_int) {
    if result == 0 {
        safely(|| {
            // MPI may have loaded its plug-ins during Init.
            modules::refresh();
            device::prepare();
            process::set_initialized(true);
            if let Some((rank, size)) = library().world() {
                filter::set_rank(rank);
                process::update(|header| {
                    header.set_world(rank, size);
                    header.set_flags(flags::INITIALIZED);
                });
            }
            process::update_clock();
        });
        compare_clocks(result);
    }
}

/// `MPI_Init` or `MPI_Init_thread` has returned, recorded or not: ranks compare clocks.
pub fn compare_clocks(result: c_int) {
    static ONCE: AtomicBool = AtomicBool::new(false);
    if result == 0 && !ONCE.swap(true, Ordering::Relaxed) {
        // Signals are not blocked, as in `finalizing`.
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
    // Signals are not blocked: ranks wait for each other here, and signals must not be delayed
    // meanwhile.
    let _errno = Errno::keep();
    let _ = std::panic::catch_unwind(|| align::compare(Moment::End));
    let _ = std::panic::catch_unwind(merge::before_finalize);
    let _ = std::panic::catch_unwind(thread_log::settle);
}

/// `MPI_Finalize` has returned.
pub fn finalized(result: c_int) {
    if result == 0 {
        safely(|| {
            process::set_initialized(false);
            process::update(|header| header.set_flags(flags::FINALIZED));
            process::update_clock();
        });
    }
}

/// The program has switched recording off or on; `now` are the bits for the header.
pub fn paused(now: u32) {
    safely(move || process::update(|header| header.set_paused(now)));
}

/// `MPI_Abort` is about to be called.
pub fn aborting(code: c_int) {
    safely(move || {
        process::update(|header| header.set_aborted(code));
        process::update_clock();
    });
}
