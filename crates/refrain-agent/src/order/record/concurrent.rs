//! Recording with `MPI_THREAD_MULTIPLE`: an operation that takes a turn is posted and recorded in one step under
//! the lock. Blocking calls are split, and wait without the lock.

use crate::inside::library::abi;
use crate::table;
use refrain_order::Kind;
use std::ffi::c_int;

use super::super::mpi::{self, Status};
use super::super::role::{Hooked, Mode, Origin, Role};
use super::super::{split, turn_key};
use super::receive::has_status;
use super::{RECORDING, Recording};

impl Recording {
    fn turn(&mut self, origin: Origin, key: u64) {
        self.make_room(0);
        self.log.turn(origin.stream, key);
    }

    /// Records the turns of a call: among sends and among receives with the same key.
    fn take_turns(&mut self, call: &Hooked<'_>, origin: Origin) {
        let communicator = self.comms.number(call.comm());
        if call.role.dest != Role::ABSENT {
            self.turn(origin, turn_key::of_sends(call, communicator));
        }
        if call.role.source != Role::ABSENT {
            self.turn(origin, turn_key::of_receives(communicator));
        }
    }
}

/// Performs a nonblocking operation in its turn.
pub(super) fn in_turn(
    call: &Hooked<'_>,
    origin: Origin,
    what: impl FnOnce(&mut Recording) -> c_int,
) -> c_int {
    let result = RECORDING.with(|state| {
        state.take_turns(call, origin);
        what(state)
    });
    result.unwrap_or_else(|| call.forward())
}

/// `MPI_Recv`, `MPI_Sendrecv` and `MPI_Sendrecv_replace`.
pub(super) fn receive(call: &mut Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let (mut sending, mut receiving) = (None, 0);
    let mut packed = Vec::new();
    let words = split::received(call);
    let large = call.role.large;
    let begun = RECORDING.with(|state| {
        let post = state.post_of(call, origin);
        state.take_turns(call, origin);
        let ticket = state.post(origin.stream, &post);
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
    let status = if ignored { room.address() } else { call.status() };
    if result == 0 {
        result = split::wait(&mut receiving, status as usize);
        if let Some(mut sending) = sending {
            let sent = split::wait(&mut sending, mpi::status_ignore() as usize);
            result = if result == 0 { sent } else { result };
        }
    }
    RECORDING.with(|state| {
        if ticket.wild && has_status(result) {
            state.settle_status(ticket, false, status, None);
        }
        state.succeeded(origin, kind);
    });
    result
}

/// Probes. Blocking ones poll, so that a message is recorded in the step that finds it.
pub(super) fn probe(call: &mut Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let mut room = Status::new();
    let wild = call.post(0, 0).is_wild();
    let status = match wild && call.ignores_status(false) {
        true => room.address(),
        false => call.status(),
    };
    loop {
        let result = RECORDING.with(|state| {
            let (result, found) = split::look(call, kind, status as usize);
            if !found {
                if kind.polls() {
                    state.make_room(0);
                    state.log.failed(origin.stream, kind, origin.site);
                }
                return (result, kind.polls());
            }
            state.succeeded(origin, kind);
            let post = state.post_of(call, origin);
            state.take_turns(call, origin);
            let ticket = state.post(origin.stream, &post);
            if wild && result == 0 {
                state.settle_status(ticket, false, status, None);
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

/// Sends. A blocking send waits without the lock.
pub(super) fn send(call: &mut Hooked<'_>, origin: Origin, mode: Mode) -> c_int {
    let blocks = call.role.request == Role::ABSENT;
    let mut request = 0;
    let result = in_turn(call, origin, |_| match blocks {
        true => split::isend(call.words, call.role.large, mode, &mut request),
        false => call.forward(),
    });
    match result == 0 && request != 0 {
        true => split::wait(&mut request, mpi::status_ignore() as usize),
        false => result,
    }
}

/// Makes a persistent send, and keeps its turn key.
pub(super) fn init_send(call: &mut Hooked<'_>) -> c_int {
    let result = call.forward();
    if result == 0 {
        // SAFETY: by the interface table, the argument points to a request.
        let handle = unsafe { mpi::handle_at(call.word(call.role.request) as *mut u8, 0) };
        RECORDING.with(|state| {
            let communicator = state.comms.number(call.comm());
            state.send_keys.insert(handle, turn_key::of_sends(call, communicator));
        });
    }
    result
}

/// Starts one request, in its turn.
pub(super) fn start_one(at: *mut u8, i: usize, origin: Origin) -> c_int {
    // SAFETY: by the interface table, the argument points to that many requests.
    let request = unsafe { mpi::handle_at(at, i) };
    let address = at.wrapping_add(i * abi().handle_bytes) as usize;
    // SAFETY: the address of one of the program's requests.
    let start = || unsafe { mpi::call(table::MPI_Start, &[address]) };
    let result = RECORDING.with(|state| {
        let receive = state.requests.get(request).map(|known| known.post.communicator);
        let key =
            receive.map(turn_key::of_receives).or_else(|| state.send_keys.get(&request).copied());
        if let Some(key) = key {
            state.turn(origin, key);
        }
        let result = start();
        if result == 0 {
            state.started(request, origin);
        }
        result
    });
    result.unwrap_or_else(start)
}
