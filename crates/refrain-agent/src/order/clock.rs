//! `MPI_Wtime`, which is recorded because programs make decisions by it.

use crate::inside::entry::{Entry, export};
use crate::inside::next;
use crate::table;

use super::{Task, record_value, recorded_value, task, thread};
use refrain_order::source::WTIME;
use std::sync::OnceLock;

/// Whether the clock is recorded. `refrain record --no-clock` sets the variable, and so does the replay of such
/// a record.
fn is_recorded() -> bool {
    static IS_RECORDED: OnceLock<bool> = OnceLock::new();
    // SAFETY: getenv gives null or a string.
    *IS_RECORDED.get_or_init(|| unsafe { libc::getenv(c"REFRAIN_NO_CLOCK".as_ptr()).is_null() })
}

/// # Safety
/// As for `MPI_Wtime`.
unsafe extern "C-unwind" fn wtime() -> f64 {
    let entry = Entry::new(table::MPI_Wtime);
    // SAFETY: the function has this signature in every MPI.
    let read = || unsafe {
        let f: unsafe extern "C-unwind" fn() -> f64 =
            std::mem::transmute(next::function(entry.slot));
        f()
    };
    match task() {
        _ if !is_recorded() => read(),
        Task::Record => {
            let now = read();
            if let Some(thread) = thread::of_call(&entry) {
                record_value(thread, WTIME, now.to_bits());
            }
            now
        }
        Task::Replay => {
            let thread = thread::of_call(&entry);
            let recorded = thread.and_then(|thread| recorded_value(thread, WTIME));
            recorded.map_or_else(read, f64::from_bits)
        }
        Task::Off => read(),
    }
}

export!(MPI_Wtime, 0, wtime);
export!(PMPI_Wtime, 1, wtime);
