//! Sends: a note with the clock goes ahead of each message.

use crate::inside::library::abi;
use crate::table;
use refrain_order::{Post, Recording as _};
use std::ffi::c_int;

use super::super::super::mpi::{self, status_ignore};
use super::super::super::role::{Hooked, Mode, Origin, Role};
use super::super::super::{split, thread_level, turn_key};
use super::super::{Target, request_of};
use super::{Pending, RECORDING, Recording, has_source};

pub(super) fn send(call: Hooked<'_>, origin: Origin, mode: Mode) -> c_int {
    let Some(target) = Target::of(&call) else { return call.forward() };
    let blocks = call.role.request == Role::ABSENT;
    if !thread_level::is_multiple() {
        RECORDING.with(|state| state.stamp(origin, target));
        return call.forward();
    }
    // Note and message are sent in one step under the lock, so that no other thread's send comes in between.
    let mut request = 0;
    let result = RECORDING.with(|state| {
        state.stamp(origin, target);
        match blocks {
            true => split::isend(call.words, call.role.large, mode, &mut request),
            false => call.forward(),
        }
    });
    match result {
        None => call.forward(),
        Some(0) if request != 0 => split::wait(&mut request, status_ignore() as usize),
        Some(result) => result,
    }
}

/// Makes a persistent send.
pub(super) fn init(call: Hooked<'_>) -> c_int {
    let result = call.forward();
    if let Some(target) = Target::of(&call).filter(|_| result == 0) {
        RECORDING.with(|state| state.requests.add(request_of(&call), Pending::Send(target)));
    }
    result
}

/// Starts requests, one after the other: the order in which `MPI_Startall` starts them is up to MPI.
pub(super) fn start_all(call: Hooked<'_>, origin: Origin) -> c_int {
    let (at, n) = call.requests();
    for i in 0..n {
        let address = at.wrapping_add(i * abi().handle_bytes) as usize;
        // SAFETY: the address of one of the program's requests.
        let start = || unsafe { mpi::call(table::MPI_Start, &[address]) };
        // SAFETY: by the interface table, the argument points to that many requests.
        let request = unsafe { mpi::handle_at(at, i) };
        let started = RECORDING.with(|state| {
            state.start(request, origin);
            start()
        });
        let result = started.unwrap_or_else(start);
        if result != 0 {
            return result;
        }
    }
    0
}

impl Recording {
    /// A request is about to be started.
    fn start(&mut self, request: usize, origin: Origin) {
        match self.requests.get(request) {
            Some(Pending::Send(target)) => {
                let target = *target;
                self.stamp(origin, target);
            }
            Some(Pending::Receive(receive)) if has_source(&receive.post) => {
                let post = Post { site: origin.site, ..receive.post };
                self.take_turn(origin, turn_key::of_receives(post.communicator));
                let ticket = self.recorder.post(origin.stream, &post);
                self.active.insert(ticket, request);
                if let Some(Pending::Receive(receive)) = self.requests.get_mut(request) {
                    receive.ticket = Some(ticket);
                }
            }
            _ => {}
        }
    }
}
