//! Receives and probes: holds receives back, and gives them the recorded messages.

use crate::table;
use refrain_order::{Envelope, Kind, Post, Stamp, Ticket};
use std::ffi::c_int;

use super::super::super::error_field;
use super::super::super::mpi::{self, Status};
use super::super::super::role::{Hooked, Mode, Origin};
use super::super::super::{split, stop, thread_level, turn_key};
use super::super::{Target, has_source, put_request, request_of};
use super::early_messages::EarlyMessage;
use super::send::in_turn;
use super::{
    Decided, HeldReceive, Pending, REPLAYING, ask, ask_until, await_request, call_errhandler,
    decide, name, outcome, set_envelope,
};
use crate::inside::memory::Statuses;

/// Posts a receive to the replayer, in its turn. Returns its ticket.
fn post_in_turn(origin: Origin, post: &Post) -> Ticket {
    let key = turn_key::of_receives(post.communicator);
    let what = || format!("at {}, for its turn to receive", name(origin));
    ask_until(origin.stream, what, |state| {
        if !state.has_turn(origin, key) {
            return Ok(None);
        }
        let ticket = state.replayer.receive(origin.stream, post)?;
        state.took_turn(key);
        Ok(Some(ticket))
    })
}

/// Holds the receive of a call back; `None` if it is left to MPI.
fn hold_back(call: &Hooked<'_>, origin: Origin, persistent: bool) -> Option<HeldReceive> {
    let post = ask(origin.stream, |state| Ok(state.post_of(call, origin)));
    let is_unsupported =
        ask(origin.stream, |state| Ok(state.comms.get(call.comm()).is_unsupported));
    if call.receives_matched() || !has_source(&post) || is_unsupported {
        return None;
    }
    let ticket = if persistent { None } else { Some(post_in_turn(origin, &post)) };
    let tag = ask(origin.stream, |state| Ok(state.redelivery.tag()));
    let (comm, capacity) = (call.comm(), capacity(call));
    Some(HeldReceive {
        ticket,
        post,
        comm,
        tag,
        capacity,
        delivered: None,
        persistent,
        sending: None,
    })
}

/// How many bytes the buffer of a receive holds.
fn capacity(call: &Hooked<'_>) -> usize {
    let [_, count, datatype, ..] = split::received(call);
    let mut bytes: i64 = 0;
    // SAFETY: a datatype of the program, and room for a number.
    unsafe { mpi::call(table::MPI_Type_size_x, &[datatype, &raw mut bytes as usize]) };
    // The bits above an `int` are undefined.
    let count = if call.role.large { count } else { count as u32 as usize };
    usize::try_from(bytes).unwrap_or(0).saturating_mul(count)
}

/// The arguments of `MPI_Irecv` for a receive that is held back: on the communicator of [`super::Redelivery`].
fn redelivery_args(call: &Hooked<'_>, held: &HeldReceive) -> [usize; 6] {
    let [buffer, count, datatype, ..] = split::received(call);
    let comm = ask(0, |state| Ok(state.redelivery.comm));
    [buffer, count, datatype, 0, held.tag as usize, comm]
}

/// Waits for the message with this stamp.
pub(super) fn fetch(origin: Origin, stamp: Stamp) -> (Envelope, EarlyMessage) {
    let Stamp { sender, sequence, .. } = stamp;
    let what = || {
        let arrival =
            REPLAYING.with(|state| state.early_messages.describe(&stamp)).unwrap_or_default();
        format!("at {}, for message {sequence} of rank {sender}{arrival}", name(origin))
    };
    ask_until(origin.stream, what, |state| Ok(state.early_messages.fetch(&stamp)))
}

/// The stamp of the first message of an outcome.
fn first(decided: &Decided) -> Option<Stamp> {
    match decided {
        Decided::All(deliveries) | Decided::These(deliveries) => deliveries.first()?.message,
        Decided::Fail | Decided::Undefined => None,
    }
}

/// `MPI_Recv`, `MPI_Sendrecv`, `MPI_Sendrecv_replace` and `MPI_Mrecv`.
pub(super) fn receive(call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    if call.receives_matched() {
        return receive_matched(&call, origin, kind);
    }
    let mut packed = Vec::new();
    let sent = match kind {
        Kind::Sendrecv => split::sent(&call, &mut packed).map(Some),
        _ => Ok(None),
    };
    let sent = match sent {
        Ok(sent) => sent,
        Err(error) => return error,
    };
    let held = hold_back(&call, origin, false);
    let (mut receiving, mut sending) = (0, None);
    let large = call.role.large;
    let words =
        held.as_ref().map_or_else(|| split::received(&call), |held| redelivery_args(&call, held));
    let mut result = split::irecv(&words, large, &mut receiving);
    if let (Some(target), Some(words), 0) = (Target::of(&call), sent, result) {
        result = in_turn(origin, target, || {
            split::isend(&words, large, Mode::Standard, sending.insert(0))
        });
    }
    let ticket = held.as_ref().and_then(|held| held.ticket);
    let decided = decide(origin, kind, 0, &[ticket]);
    if result != 0 {
        return result;
    }
    let mut delivered = None;
    if let (Some(held), Some(stamp)) = (&held, first(&decided)) {
        let (from, early) = fetch(origin, stamp);
        delivered = Some(held.delivered(from, early.bytes.len()));
        ask(origin.stream, |state| {
            state.redelivery.send(early, held.tag);
            Ok(())
        });
    }
    if delivered.is_none() {
        let what = || format!("{kind} at {}, for a message to be received", name(origin));
        await_request(mpi::handle(receiving), what);
    }
    let mut received = split::wait(&mut receiving, call.status() as usize);
    received = outcome(received, delivered, call.status());
    let proc_null = || {
        let (source, tag) = (mpi::layout().proc_null, mpi::layout().any_tag);
        (!has_source(&call.post(0, 0))).then_some(Envelope { source, tag })
    };
    set_envelope(call.status(), delivered.map(|delivered| delivered.from).or_else(proc_null));
    if let Some(held) = held {
        ask(origin.stream, |state| {
            state.redelivery.release(held.tag);
            Ok(())
        });
        received = call_errhandler(held.comm, received);
    }
    let Some(mut sending) = sending else { return received };
    await_request(mpi::handle(sending), || format!("{kind} at {}, its send", name(origin)));
    let sent = split::wait(&mut sending, mpi::status_ignore() as usize);
    if received != 0 { received } else { sent }
}

/// Receives a message that a matched probe has found.
fn receive_matched(call: &Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let from = matched(call, origin);
    decide(origin, kind, 0, &[]);
    let result = call.forward();
    set_envelope(call.status(), from);
    result
}

/// The envelope of the matched message that a call receives.
fn matched(call: &Hooked<'_>, origin: Origin) -> Option<Envelope> {
    // SAFETY: by the interface table, the argument points to a message handle.
    let handle = unsafe { mpi::handle_at(call.word(call.role.message) as *mut u8, 0) };
    ask(origin.stream, |state| Ok(state.matched.remove(&handle)))
}

/// `MPI_Irecv`, `MPI_Isendrecv`, `MPI_Isendrecv_replace` and `MPI_Imrecv`.
pub(super) fn post(call: Hooked<'_>, origin: Origin) -> c_int {
    if call.receives_matched() {
        let from = matched(&call, origin);
        let result = call.forward();
        if let Some(from) = from.filter(|_| result == 0) {
            REPLAYING.with(|state| state.requests.add(request_of(&call), Pending::Matched(from)));
        }
        return result;
    }
    let is_plain = call.role.source == mpi::IRECV_SOURCE;
    if !is_plain && call.post(0, 0).is_wild() && !mpi::isendrecv_has_status() {
        let text = "MPI_Isendrecv with a wildcard: this MPI did not tell what was received";
        stop::abort(stop::NO_RECORD, text);
    }
    let target = Target::of(&call);
    let mut packed = Vec::new();
    let sent = match target {
        Some(_) => split::sent(&call, &mut packed).map(Some),
        None => Ok(None),
    };
    let sent = match sent {
        Ok(sent) => sent,
        Err(error) => return error,
    };
    let Some(mut held) = hold_back(&call, origin, false) else {
        return match target {
            Some(target) => in_turn(origin, target, || call.forward()),
            None => call.forward(),
        };
    };
    let mut request = 0;
    let large = call.role.large;
    let mut result = split::irecv(&redelivery_args(&call, &held), large, &mut request);
    if let (Some(target), Some(words), 0) = (target, sent, result) {
        let mut sending = 0;
        result =
            in_turn(origin, target, || split::isend(&words, large, Mode::Standard, &mut sending));
        held.sending = Some((mpi::handle(sending), packed));
    }
    put_request(&call, 0, mpi::handle(request));
    if result == 0 {
        REPLAYING.with(|state| state.requests.add(mpi::handle(request), Pending::Receive(held)));
    }
    result
}

/// Makes a persistent receive.
pub(super) fn init(call: Hooked<'_>, origin: Origin) -> c_int {
    let Some(held) = hold_back(&call, origin, true) else { return call.forward() };
    let [buffer, count, datatype, source, tag, comm] = redelivery_args(&call, &held);
    let words = [buffer, count, datatype, source, tag, comm, call.word(call.role.request)];
    let function = if call.role.large { table::MPI_Recv_init_c } else { table::MPI_Recv_init };
    // SAFETY: the program's arguments, on the agent's communicator.
    let result = unsafe { mpi::call(function, &words) };
    if result == 0 {
        REPLAYING.with(|state| state.requests.add(request_of(&call), Pending::Receive(held)));
    }
    result
}

/// Posts a persistent receive to the replayer before it is started; does nothing for other requests.
pub(super) fn restart(request: usize, origin: Origin) {
    let post = ask(origin.stream, |state| {
        Ok(match state.requests.get(request) {
            Some(Pending::Receive(held)) => Some(Post { site: origin.site, ..held.post }),
            _ => None,
        })
    });
    let Some(post) = post else { return };
    let ticket = post_in_turn(origin, &post);
    REPLAYING.with(|state| {
        if let Some(Pending::Receive(held)) = state.requests.get_mut(request) {
            (held.ticket, held.delivered) = (Some(ticket), None);
        }
    });
}

/// Fills in the status of a probe; `error` is what MPI writes to `MPI_ERROR`, if it does.
fn report(status: Statuses, from: Envelope, bytes: usize, error: Option<c_int>) {
    let Some(before) = error_field::get(status) else { return };
    let address = status as usize;
    // SAFETY: a status of the program.
    unsafe {
        mpi::call(table::MPI_Status_set_elements_x, &[address, mpi::byte(), bytes]);
        mpi::call(table::MPI_Status_set_cancelled, &[address, 0]);
    }
    set_envelope(status, Some(from));
    error_field::put(status, error.unwrap_or(before));
}

pub(super) fn probe(call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let is_unsupported =
        ask(origin.stream, |state| Ok(state.comms.get(call.comm()).is_unsupported));
    if !has_source(&call.post(0, 0)) || is_unsupported {
        return call.forward();
    }
    let decided = decide(origin, kind, 0, &[]);
    let Some(stamp) = first(&decided) else {
        call.set_output(call.role.flag, 0);
        return 0;
    };
    if thread_level::is_multiple() {
        let what = || format!("{kind} at {}, for its turn", name(origin));
        ask_until(origin.stream, what, |state| {
            let communicator = state.comms.get(call.comm()).number;
            let key = turn_key::of_receives(communicator);
            let may = state.has_turn(origin, key);
            if may {
                state.took_turn(key);
            }
            Ok(may.then_some(()))
        });
    }
    call.set_output(call.role.flag, 1);
    if matches!(kind, Kind::Probe | Kind::Iprobe) {
        let what = || format!("{kind} at {}, for its message", name(origin));
        let found = ask_until(origin.stream, what, |state| Ok(state.early_messages.look(&stamp)));
        let (from, bytes, error) = found;
        report(call.status(), from, bytes, error);
        return 0;
    }
    let (from, early) = fetch(origin, stamp);
    redeliver(&call, origin, from, early)
}

/// Sends an early message to this process, so that the program gets a handle to receive it (`MPI_Mprobe`).
fn redeliver(call: &Hooked<'_>, origin: Origin, from: Envelope, early: EarlyMessage) -> c_int {
    let mut own_status = Status::new();
    // SAFETY: a status of the program, unless it ignores the status.
    unsafe { own_status.copy_from(call.abi, call.status()) };
    let error = early.error.or(error_field::get(call.status()));
    let message = call.word(call.role.message);
    let (comm, tag) = ask(origin.stream, |state| {
        let tag = state.redelivery.tag();
        state.redelivery.send(early, tag);
        Ok((state.redelivery.comm, tag))
    });
    let words = [0, tag as usize, comm, message, own_status.address() as usize];
    // SAFETY: room for a message handle, and a status. The message was sent above, so this does not block.
    let result = unsafe { mpi::call(table::MPI_Mprobe, &words) };
    set_envelope(own_status.address(), Some(from));
    // SAFETY: as above.
    unsafe { own_status.copy_to(call.abi, call.status()) };
    if let Some(error) = error.filter(|_| result == 0) {
        error_field::put(call.status(), error);
    }
    // SAFETY: by the interface table, the argument points to a message handle.
    let handle = unsafe { mpi::handle_at(message as *mut u8, 0) };
    ask(origin.stream, |state| {
        state.redelivery.release(tag);
        state.matched.insert(handle, from);
        Ok(())
    });
    result
}
