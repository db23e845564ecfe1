//! Sends: their clocks go ahead of them.

use crate::inside::process;
use crate::table;
use refrain_order::{Post, Recording as _};
use std::ffi::c_int;

use super::super::super::mpi::{self, status_ignore};
use super::super::super::role::{Hooked, Mode, Origin, Role};
use super::super::super::{line, split};
use super::super::{Target, request_of};
use super::{Pending, RECORDING, Recording, is_from_somebody};

pub(super) fn send(call: Hooked<'_>, origin: Origin, mode: Mode) -> c_int {
    let Some(target) = Target::of(&call) else { return call.forward() };
    let blocks = call.role.request == Role::NOWHERE;
    if !line::is_shared() {
        RECORDING.with(|own| own.stamp(origin, target));
        return call.forward();
    }
    // Clock and message are one step, or another thread's might come in between.
    let mut request = 0;
    let result = RECORDING.with(|own| {
        own.stamp(origin, target);
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

/// A send that can be started.
pub(super) fn init(call: Hooked<'_>) -> c_int {
    let result = call.forward();
    if let Some(target) = Target::of(&call).filter(|_| result == 0) {
        RECORDING.with(|own| own.requests.add(request_of(&call), Pending::Send(target)));
    }
    result
}

/// Starts requests, one after the other: the order in which MPI would is its own.
pub(super) fn start_all(call: Hooked<'_>, origin: Origin) -> c_int {
    let (at, n) = call.requests();
    for i in 0..n {
        let address = at.wrapping_add(i * process::abi().handle_bytes) as usize;
        // SAFETY: the address of a request of the program.
        let start = || unsafe { mpi::call(table::MPI_Start, &[address]) };
        // SAFETY: the table says that so many requests are there.
        let request = unsafe { mpi::handle_at(at, i) };
        let started = RECORDING.with(|own| {
            own.starts(request, origin);
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
    fn starts(&mut self, request: usize, origin: Origin) {
        match self.requests.get(request) {
            Some(Pending::Send(target)) => {
                let target = *target;
                self.stamp(origin, target);
            }
            Some(Pending::Receive(receive)) if is_from_somebody(&receive.post) => {
                let post = Post { site: origin.site, ..receive.post };
                self.take_turn(origin, line::of_receives(post.communicator));
                let ticket = self.recorder.post(origin.stream, &post);
                self.asked.insert(ticket, request);
                if let Some(Pending::Receive(receive)) = self.requests.get_mut(request) {
                    receive.ticket = Some(ticket);
                }
            }
            _ => {}
        }
    }
}
