//! Which calls of several threads compete for the same messages, so that their order matters.
//!
//! Where a program asked for `MPI_THREAD_MULTIPLE`, threads may post receives on one communicator,
//! or send to one (destination, tag, communicator), and which is first is the scheduler's choice.
//! Such calls stand in line ([`refrain_order::turns`]). A call's line is told by a key, which has to
//! be the same in every run; that two lines share one is no harm.

use crate::inside::process;
use crate::table;
use refrain_bytes::stable;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use super::mpi;
use super::role::{Hooked, Role};

static SHARED: AtomicBool = AtomicBool::new(false);
static THREADS: AtomicBool = AtomicBool::new(false);

/// MPI has begun: which threads may call it?
pub fn start() {
    let mut level: c_int = 0;
    // SAFETY: room for an int.
    let result = unsafe { mpi::call(table::MPI_Query_thread, &[&raw mut level as usize]) };
    let layout = mpi::layout();
    let shared = result == 0 && level == layout.thread_multiple;
    SHARED.store(shared, Ordering::Relaxed);
    let threads = shared || (result == 0 && level == layout.thread_serialized);
    THREADS.store(threads, Ordering::Relaxed);
}

/// Whether several threads may call MPI, at the same time or one after the other.
#[inline]
pub fn has_threads() -> bool {
    THREADS.load(Ordering::Relaxed)
}

/// Whether threads may call MPI at the same time.
#[inline]
pub fn is_shared() -> bool {
    SHARED.load(Ordering::Relaxed)
}

fn mix(key: u64, value: u64) -> u64 {
    stable::mix::<21, 30>(key, value)
}

/// A number for a communicator that is the same in every run, whichever thread uses it first:
/// communicators with as many members share one. Nothing for no communicator.
pub fn communicator(comm: usize) -> Option<u32> {
    let null = process::predefined("MPI_COMM_NULL");
    if comm == 0 || null.is_none_or(|null| mpi::handle(null) == comm) {
        return None;
    }
    let ask = |function: usize| {
        let mut value: c_int = -1;
        // SAFETY: a communicator of the program, and room for an int.
        unsafe { mpi::call(function, &[comm, &raw mut value as usize]) };
        value as u64
    };
    let own = mix(ask(table::MPI_Comm_size), ask(table::MPI_Comm_rank));
    Some((own >> 8) as u32 >> 1)
}

/// The line of those that get locks of the program's own.
pub fn of_locks() -> u64 {
    mix(3, 0)
}

/// The line of receives on a communicator.
pub fn of_receives(communicator: u32) -> u64 {
    mix(1, communicator.into())
}

/// The line of messages that go where this call's does.
pub fn of_sends(call: &Hooked<'_>, communicator: u32) -> u64 {
    let Role { dest, sendtag, .. } = *call.role;
    let [dest, tag] = [dest, sendtag].map(|index| call.word(index) as u32);
    key_of_sends(communicator, dest as c_int, tag as c_int)
}

/// The line of messages to a rank with a tag.
pub fn key_of_sends(communicator: u32, dest: c_int, tag: c_int) -> u64 {
    let [dest, tag] = [dest, tag].map(|value| u64::from(value as u32));
    mix(mix(mix(2, communicator.into()), dest), tag)
}
