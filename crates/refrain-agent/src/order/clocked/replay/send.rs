//! Sends: in turn, after a note with the clock, and never blocking inside MPI.

use crate::inside::library::abi;
use crate::table;
use refrain_order::clock::Sending;
use refrain_order::{Envelope, Stop};
use std::ffi::c_int;

use super::super::super::mpi;
use super::super::super::role::{Hooked, Mode, Origin, Role};
use super::super::super::{split, turn_key};
use super::super::{Target, put_request, request_of};
use super::{Pending, REPLAYING, Replaying, ask, ask_until, await_request, name};

impl Replaying {
    /// Sends the note of a message if it is the thread's turn. Returns whether it was.
    fn try_send(&mut self, origin: Origin, target: Target) -> Result<bool, Stop> {
        let Target { comm, dest, tag } = target;
        let comm = self.comms.get(comm);
        let (communicator, source) = (comm.number, comm.rank);
        let Some(to) = comm.process(dest) else { return Ok(true) };
        let key = turn_key::of_sends_to(communicator, dest, tag);
        if !self.has_turn(origin, key) {
            return Ok(false);
        }
        let sending = Sending { to, communicator, source, tag };
        if self.replayer.send(origin.stream, &sending)?.is_none() {
            return Ok(false);
        }
        self.took_turn(key);
        if to == self.me {
            self.early_messages.announce(to, communicator, Envelope { source, tag });
        }
        self.send_notes();
        Ok(true)
    }
}

/// Waits for the thread's turn, sends the note, and calls `send`.
pub(super) fn in_turn(origin: Origin, target: Target, mut send: impl FnMut() -> c_int) -> c_int {
    let what = || format!("at {}, for its turn to send", name(origin));
    ask_until(origin.stream, what, |state| Ok(state.try_send(origin, target)?.then(&mut send)))
}

/// Replaces ready mode by standard mode: a replay holds receives back, so they are not posted before the send.
fn without_ready_mode(mode: Mode) -> Mode {
    if mode == Mode::Ready { Mode::Standard } else { mode }
}

pub(super) fn send(call: Hooked<'_>, origin: Origin, mode: Mode) -> c_int {
    let Some(target) = Target::of(&call) else { return call.forward() };
    let knows = |state: &mut Replaying| state.comms.get(target.comm).process(target.dest).is_some();
    if REPLAYING.with(knows) != Some(true) {
        // No note is sent. If the destination is invalid, the program's error handler may call MPI.
        return call.forward();
    }
    let mut request = 0;
    let result = in_turn(origin, target, || {
        split::isend(call.words, call.role.large, without_ready_mode(mode), &mut request)
    });
    if call.role.request != Role::ABSENT {
        put_request(&call, 0, mpi::handle(request));
        return result;
    }
    if result != 0 {
        return result;
    }
    let what = || format!("for a message to {} with tag {} to be sent", target.dest, target.tag);
    await_request(mpi::handle(request), what);
    split::wait(&mut request, mpi::status_ignore() as usize)
}

/// Makes a persistent send.
pub(super) fn init(call: Hooked<'_>) -> c_int {
    let plain = match call.role.function {
        table::MPI_Rsend_init => Some(table::MPI_Send_init),
        table::MPI_Rsend_init_c => Some(table::MPI_Send_init_c),
        _ => None,
    };
    let result = match plain {
        // SAFETY: the program's arguments, which are the same for both.
        Some(plain) => unsafe { mpi::call(plain, call.words) },
        None => call.forward(),
    };
    if let Some(target) = Target::of(&call).filter(|_| result == 0) {
        REPLAYING.with(|state| state.requests.add(request_of(&call), Pending::Send(target)));
    }
    result
}

/// Starts requests, one after the other.
pub(super) fn start_all(call: Hooked<'_>, origin: Origin) -> c_int {
    let (at, n) = call.requests();
    for i in 0..n {
        let address = at.wrapping_add(i * abi().handle_bytes) as usize;
        // SAFETY: the address of one of the program's requests.
        let start = || unsafe { mpi::call(table::MPI_Start, &[address]) };
        // SAFETY: by the interface table, the argument points to that many requests.
        let request = unsafe { mpi::handle_at(at, i) };
        let target = ask(origin.stream, |state| {
            Ok(match state.requests.get(request) {
                Some(Pending::Send(target)) => Some(*target),
                _ => None,
            })
        });
        let result = match target {
            Some(target) => in_turn(origin, target, start),
            None => {
                super::receive::restart(request, origin);
                start()
            }
        };
        if result != 0 {
            return result;
        }
    }
    0
}
