//! Replaying with `MPI_THREAD_MULTIPLE`: a thread waits for its recorded turn.

use refrain_order::{Kind, Turn};
use std::ffi::c_int;

use super::super::role::{Hooked, Mode, Origin, Role};
use super::super::stop::{self, Waiting};
use super::super::{mpi, split, thread_level, turn_key};
use super::complete::await_request;
use super::receive::{describe, from, narrow, recorded_post};
use super::{ask, decide, request_of};

/// The turns that this thread has; they pass on to the next thread when this is dropped.
pub(super) struct Turns {
    keys: [Option<u64>; 2],
}

impl Turns {
    /// Waits for the turns of a call: to send, and to receive.
    pub(super) fn of_call(call: &Hooked<'_>, origin: Origin) -> Turns {
        let mut turns = Turns { keys: [None; 2] };
        if thread_level::is_multiple() {
            let communicator = ask(|state| Ok(state.comms.number(call.comm())));
            if call.role.dest != Role::ABSENT {
                turns.take(0, turn_key::of_sends(call, communicator), origin);
            }
            if call.role.source != Role::ABSENT {
                turns.take(1, turn_key::of_receives(communicator), origin);
            }
        }
        turns
    }

    /// Waits for one turn.
    pub(super) fn one(key: u64, origin: Origin) -> Turns {
        let mut turns = Turns { keys: [None; 2] };
        if thread_level::is_multiple() {
            turns.take(0, key, origin);
        }
        turns
    }

    fn take(&mut self, which: usize, key: u64, origin: Origin) {
        let name = || ask(|state| Ok(state.name(origin.site)));
        let turn = || ask(|state| Ok(state.replayer.turn(origin.stream, key)));
        let mut waiting = Waiting::new(|| match turn() {
            Turn::After(thread) => format!("at {}, until thread {thread} has gone", name()),
            Turn::Go => format!("at {}, for its turn", name()),
        });
        while turn() != Turn::Go {
            stop::drive();
            waiting.again();
        }
        if let Some(slot) = self.keys.get_mut(which) {
            *slot = Some(key);
        }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        for key in self.keys.into_iter().flatten() {
            ask(|state| {
                state.replayer.took_turn(key);
                Ok(())
            });
        }
    }
}

/// `MPI_Recv`, `MPI_Sendrecv` and `MPI_Sendrecv_replace`.
pub(super) fn receive(call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let turns = Turns::of_call(&call, origin);
    let (post, posting) = recorded_post(&call, origin);
    narrow(call.words, call.role.source, call.role.tag, posting);
    let large = call.role.large;
    let (mut sending, mut receiving, mut packed) = (None, 0, Vec::new());
    let mut result = 0;
    if kind == Kind::Sendrecv {
        let send = |words: [usize; 6]| {
            let request = sending.insert(0);
            split::isend(&words, large, Mode::Standard, request)
        };
        result = split::sent(&call, &mut packed).map_or_else(|error| error, send);
    }
    if result == 0 {
        result = split::irecv(&split::received(&call), large, &mut receiving);
    }
    drop(turns);
    decide(origin, kind, 0);
    if result != 0 {
        return result;
    }
    let name = || ask(|state| Ok(state.name(origin.site)));
    let what = || format!("{kind} at {} for {}", name(), describe(from(&post, posting)));
    await_request(mpi::handle(receiving), what);
    result = split::wait(&mut receiving, call.status() as usize);
    if let Some(mut sending) = sending {
        await_request(mpi::handle(sending), || format!("{}, its send", what()));
        let sent = split::wait(&mut sending, mpi::status_ignore() as usize);
        result = if result == 0 { sent } else { result };
    }
    result
}

/// Sends in its turn. A blocking send waits after the turn has passed on.
pub(super) fn send(call: Hooked<'_>, origin: Origin, mode: Mode) -> c_int {
    let turns = Turns::of_call(&call, origin);
    if call.role.request != Role::ABSENT {
        return call.forward();
    }
    let mut request = 0;
    let result = split::isend(call.words, call.role.large, mode, &mut request);
    drop(turns);
    if result != 0 {
        return result;
    }
    let name = || ask(|state| Ok(state.name(origin.site)));
    await_request(mpi::handle(request), || format!("at {}, to be sent", name()));
    split::wait(&mut request, mpi::status_ignore() as usize)
}

/// Makes a persistent send, and keeps its turn key.
pub(super) fn init_send(call: Hooked<'_>) -> c_int {
    let result = call.forward();
    if result == 0 {
        let handle = request_of(&call);
        ask(|state| {
            let communicator = state.comms.number(call.comm());
            state.send_keys.insert(handle, turn_key::of_sends(&call, communicator));
            Ok(())
        });
    }
    result
}
