//! Where threads call MPI at the same time: what takes a place in line is told in the same step, under
//! the lock, and blocking calls wait outside of it.

use crate::inside::process;
use crate::table;
use refrain_order::Kind;
use std::ffi::c_int;

use super::super::mpi::{self, Status};
use super::super::role::{Hooked, Mode, Place, Role};
use super::super::{line, split};
use super::receive::has_status;
use super::{RECORDING, Recording};

impl Recording {
    fn turn(&mut self, place: Place, key: u64) {
        self.make_room(0);
        self.log.turn(place.stream, key);
    }

    /// A call takes its place among those that send and receive likewise.
    fn take_turns(&mut self, call: &Hooked<'_>, place: Place) {
        let communicator = self.comms.number(call.comm());
        if call.role.dest != Role::NOWHERE {
            self.turn(place, line::of_sends(call, communicator));
        }
        if call.role.source != Role::NOWHERE {
            self.turn(place, line::of_receives(communicator));
        }
    }
}

/// Does something that does not block, in its turn.
pub(super) fn in_turn(
    call: &Hooked<'_>,
    place: Place,
    what: impl FnOnce(&mut Recording) -> c_int,
) -> c_int {
    let result = RECORDING.with(|own| {
        own.take_turns(call, place);
        what(own)
    });
    result.unwrap_or_else(|| call.forward())
}

/// `MPI_Recv`, `MPI_Sendrecv` and `MPI_Sendrecv_replace`.
pub(super) fn receive(call: &mut Hooked<'_>, place: Place, kind: Kind) -> c_int {
    let (mut sending, mut receiving) = (None, 0);
    let mut packed = Vec::new();
    let words = split::received(call);
    let large = call.role.large;
    let begun = RECORDING.with(|own| {
        let wanted = own.wanted(call, place);
        own.take_turns(call, place);
        let ticket = own.post(place.stream, &wanted);
        let mut result = 0;
        if kind == Kind::Sendrecv {
            let send = |words: [usize; 6]| {
                let request = sending.insert(0);
                split::isend(&words, large, Mode::Standard, request)
            };
            result = split::sent(call, &mut packed).map_or_else(|error| error, send);
        }
        if result == 0 {
            result = split::irecv(&words, large, &mut receiving);
        }
        (result, ticket)
    });
    let Some((mut result, ticket)) = begun else { return call.forward() };
    let mut room = Status::new();
    let ignored = ticket.wild && call.ignores_status(false);
    let status = if ignored { room.place() } else { call.status() };
    if result == 0 {
        result = split::wait(&mut receiving, status as usize);
        if let Some(mut sending) = sending {
            let sent = split::wait(&mut sending, mpi::status_ignore() as usize);
            result = if result == 0 { sent } else { result };
        }
    }
    RECORDING.with(|own| {
        if ticket.wild && has_status(result) {
            own.settle_status(ticket, false, status);
        }
        own.succeeded(place, kind);
    });
    result
}

/// Probes; those that block ask again and again, so that what is found is told at once.
pub(super) fn probe(call: &mut Hooked<'_>, place: Place, kind: Kind) -> c_int {
    let mut room = Status::new();
    let wild = call.post(0, 0).is_wild();
    let status = match wild && call.ignores_status(false) {
        true => room.place(),
        false => call.status(),
    };
    loop {
        let result = RECORDING.with(|own| {
            let (result, found) = split::look(call, kind, status as usize);
            if !found {
                if kind.polls() {
                    own.make_room(0);
                    own.log.failed(place.stream, kind, place.site);
                }
                return (result, kind.polls());
            }
            own.succeeded(place, kind);
            let wanted = own.wanted(call, place);
            own.take_turns(call, place);
            let ticket = own.post(place.stream, &wanted);
            if wild && result == 0 {
                own.settle_status(ticket, false, status);
            }
            (result, true)
        });
        match result {
            None => return call.forward(),
            Some((result, true)) => return result,
            Some((_, false)) => std::thread::yield_now(),
        }
    }
}

/// Sends; what blocks does so outside of the lock.
pub(super) fn send(call: &mut Hooked<'_>, place: Place, mode: Mode) -> c_int {
    let blocks = call.role.request == Role::NOWHERE;
    let mut request = 0;
    let result = in_turn(call, place, |_| match blocks {
        true => split::isend(call.words, call.role.large, mode, &mut request),
        false => call.forward(),
    });
    match result == 0 && request != 0 {
        true => split::wait(&mut request, mpi::status_ignore() as usize),
        false => result,
    }
}

/// A send that can be started: its line is kept.
pub(super) fn init_send(call: &mut Hooked<'_>) -> c_int {
    let result = call.forward();
    if result == 0 {
        // SAFETY: the table says a request is there.
        let handle = unsafe { mpi::handle_at(call.word(call.role.request) as *mut u8, 0) };
        RECORDING.with(|own| {
            let communicator = own.comms.number(call.comm());
            own.lines.insert(handle, line::of_sends(call, communicator));
        });
    }
    result
}

/// Starts one of several requests, in its turn.
pub(super) fn start_one(at: *mut u8, i: usize, place: Place) -> c_int {
    // SAFETY: the table says that so many requests are there.
    let request = unsafe { mpi::handle_at(at, i) };
    let address = at.wrapping_add(i * process::abi().handle_bytes) as usize;
    // SAFETY: the address of a request of the program.
    let start = || unsafe { mpi::call(table::MPI_Start, &[address]) };
    let result = RECORDING.with(|own| {
        let receive = own.requests.get(request).map(|known| known.post.communicator);
        let key = receive.map(line::of_receives).or_else(|| own.lines.get(&request).copied());
        if let Some(key) = key {
            own.turn(place, key);
        }
        let result = start();
        if result == 0 {
            own.started(request, place);
        }
        result
    });
    result.unwrap_or_else(start)
}
