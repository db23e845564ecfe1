//! Which calls of concurrent threads compete, so that their order matters.
//!
//! With `MPI_THREAD_MULTIPLE`, several threads may post receives on one communicator, or send to the same
//! (destination, tag, communicator). The scheduler decides which of them is first. Such calls take turns
//! ([`refrain_order::turns`]): calls with the same key form one queue. The key must be the same in every
//! run. Two queues may share a key: their calls are then ordered more strictly than necessary.

use crate::inside::library::predefined;
use crate::table;
use refrain_bytes::stable;
use std::ffi::c_int;

use super::mpi;
use super::role::{Hooked, Role};

fn mix(key: u64, value: u64) -> u64 {
    stable::mix::<21, 30>(key, value)
}

/// A number for a communicator that is the same in every run, whichever thread uses the communicator
/// first. Communicators in which this rank and the size are the same share a number. `None` for
/// `MPI_COMM_NULL`.
pub fn communicator(comm: usize) -> Option<u32> {
    let null = predefined("MPI_COMM_NULL");
    if comm == 0 || null.is_none_or(|null| mpi::handle(null) == comm) {
        return None;
    }
    let ask = |function: usize| {
        let mut value: c_int = -1;
        // SAFETY: a communicator of the program, and room for an int.
        unsafe { mpi::call(function, &[comm, &raw mut value as usize]) };
        value as u64
    };
    let mixed = mix(ask(table::MPI_Comm_size), ask(table::MPI_Comm_rank));
    Some((mixed >> 8) as u32 >> 1)
}

/// The key of threads that acquire the program's locks.
pub fn of_locks() -> u64 {
    mix(3, 0)
}

/// The key of receives on a communicator.
pub fn of_receives(communicator: u32) -> u64 {
    mix(1, communicator.into())
}

/// The key of sends with the same destination, tag and communicator as this call.
pub fn of_sends(call: &Hooked<'_>, communicator: u32) -> u64 {
    let Role { dest, sendtag, .. } = *call.role;
    let [dest, tag] = [dest, sendtag].map(|index| call.word(index) as u32);
    of_sends_to(communicator, dest as c_int, tag as c_int)
}

/// The key of sends to a rank with a tag.
pub fn of_sends_to(communicator: u32, dest: c_int, tag: c_int) -> u64 {
    let [dest, tag] = [dest, tag].map(|value| u64::from(value as u32));
    mix(mix(mix(2, communicator.into()), dest), tag)
}
