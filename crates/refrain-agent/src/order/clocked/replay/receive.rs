//! Receives and probes: held back, and given the messages of the record.

use crate::table;
use refrain_order::{Envelope, Kind, Post, Stamp, Ticket};
use std::ffi::c_int;

use super::super::super::error_field;
use super::super::super::mpi::{self, Status};
use super::super::super::role::{Hooked, Mode, Origin};
use super::super::super::{line, split, stop};
use super::super::{Target, is_from_somebody, put_request, request_of};
use super::early_messages::EarlyMessage;
use super::send::in_turn;
use super::{
    Decided, Held, Pending, REPLAYING, ask, ask_until, await_request, decide, name, outcome,
    put_right, raise,
};
use crate::inside::memory::Statuses;

/// A receive is posted, in its turn: its ticket.
fn in_line(origin: Origin, post: &Post) -> Ticket {
    let key = line::of_receives(post.communicator);
    let what = || format!("at {}, for its turn to receive", name(origin));
    ask_until(origin.stream, what, |own| {
        if !own.may(origin, key) {
            return Ok(None);
        }
        let ticket = own.replayer.receive(origin.stream, post)?;
        own.took(key);
        Ok(Some(ticket))
    })
}

/// The receive of a call, as it is held: nothing if there is nobody to receive from.
fn hold(call: &Hooked<'_>, origin: Origin, persistent: bool) -> Option<Held> {
    let post = ask(origin.stream, |own| Ok(own.wanted(call, origin)));
    let is_unsupported = ask(origin.stream, |own| Ok(own.comms.get(call.comm()).is_unsupported));
    if call.takes_known() || !is_from_somebody(&post) || is_unsupported {
        return None;
    }
    let ticket = if persistent { None } else { Some(in_line(origin, &post)) };
    let tag = ask(origin.stream, |own| Ok(own.redelivery.tag()));
    let (comm, room) = (call.comm(), room(call));
    Some(Held { ticket, post, comm, tag, room, got: None, persistent, sending: None })
}

/// How many bytes a receive has room for.
fn room(call: &Hooked<'_>) -> usize {
    let [_, count, datatype, ..] = split::received(call);
    let mut bytes: i64 = 0;
    // SAFETY: a datatype of the program, and room for a number.
    unsafe { mpi::call(table::MPI_Type_size_x, &[datatype, &raw mut bytes as usize]) };
    // What is above an `int` is noise.
    let count = if call.role.large { count } else { count as u32 as usize };
    usize::try_from(bytes).unwrap_or(0).saturating_mul(count)
}

/// The arguments of a receive that is held: where its message is handed to.
fn handed(call: &Hooked<'_>, held: &Held) -> [usize; 6] {
    let [buffer, count, datatype, ..] = split::received(call);
    let comm = ask(0, |own| Ok(own.redelivery.comm));
    [buffer, count, datatype, 0, held.tag as usize, comm]
}

/// The message of a stamp, as soon as it has come.
pub(super) fn fetch(origin: Origin, stamp: Stamp) -> (Envelope, EarlyMessage) {
    let Stamp { sender, sequence, .. } = stamp;
    let what = || {
        let state = REPLAYING.with(|own| own.early_messages.describe(&stamp)).unwrap_or_default();
        format!("at {}, for message {sequence} of rank {sender}{state}", name(origin))
    };
    ask_until(origin.stream, what, |own| Ok(own.early_messages.fetch(&stamp)))
}

/// The first message of what was decided.
fn first(decided: &Decided) -> Option<Stamp> {
    match decided {
        Decided::All(deliveries) | Decided::These(deliveries) => deliveries.first()?.message,
        Decided::Fail | Decided::Undefined => None,
    }
}

/// `MPI_Recv`, `MPI_Sendrecv`, `MPI_Sendrecv_replace` and `MPI_Mrecv`.
pub(super) fn receive(call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    if call.takes_known() {
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
    let held = hold(&call, origin, false);
    let (mut receiving, mut sending) = (0, None);
    let large = call.role.large;
    let words = held.as_ref().map_or_else(|| split::received(&call), |held| handed(&call, held));
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
    let mut got = None;
    if let (Some(held), Some(stamp)) = (&held, first(&decided)) {
        let (from, early) = fetch(origin, stamp);
        got = Some(held.got(from, early.bytes.len()));
        ask(origin.stream, |own| {
            own.redelivery.give(early, held.tag);
            Ok(())
        });
    }
    if got.is_none() {
        let what = || format!("{kind} at {}, for a message to be received", name(origin));
        await_request(mpi::handle(receiving), what);
    }
    let mut received = split::wait(&mut receiving, call.status() as usize);
    received = outcome(received, got, call.status());
    let nobody = || {
        let (source, tag) = (mpi::layout().proc_null, mpi::layout().any_tag);
        (!is_from_somebody(&call.post(0, 0))).then_some(Envelope { source, tag })
    };
    put_right(call.status(), got.map(|got| got.from).or_else(nobody));
    if let Some(held) = held {
        ask(origin.stream, |own| {
            own.redelivery.release(held.tag);
            Ok(())
        });
        received = raise(held.comm, received);
    }
    let Some(mut sending) = sending else { return received };
    await_request(mpi::handle(sending), || format!("{kind} at {}, its send", name(origin)));
    let sent = split::wait(&mut sending, mpi::status_ignore() as usize);
    if received != 0 { received } else { sent }
}

/// Receives a message that was handed to a probe.
fn receive_matched(call: &Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let from = matched(call, origin);
    decide(origin, kind, 0, &[]);
    let result = call.forward();
    put_right(call.status(), from);
    result
}

/// Where the message is from that a call receives.
fn matched(call: &Hooked<'_>, origin: Origin) -> Option<Envelope> {
    // SAFETY: the table says a message is there.
    let handle = unsafe { mpi::handle_at(call.word(call.role.message) as *mut u8, 0) };
    ask(origin.stream, |own| Ok(own.matched.remove(&handle)))
}

/// `MPI_Irecv`, `MPI_Isendrecv`, `MPI_Isendrecv_replace` and `MPI_Imrecv`.
pub(super) fn post(call: Hooked<'_>, origin: Origin) -> c_int {
    if call.takes_known() {
        let from = matched(&call, origin);
        let result = call.forward();
        if let Some(from) = from.filter(|_| result == 0) {
            REPLAYING.with(|own| own.requests.add(request_of(&call), Pending::Matched(from)));
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
    let Some(mut held) = hold(&call, origin, false) else {
        return match target {
            Some(target) => in_turn(origin, target, || call.forward()),
            None => call.forward(),
        };
    };
    let mut request = 0;
    let large = call.role.large;
    let mut result = split::irecv(&handed(&call, &held), large, &mut request);
    if let (Some(target), Some(words), 0) = (target, sent, result) {
        let mut sending = 0;
        result =
            in_turn(origin, target, || split::isend(&words, large, Mode::Standard, &mut sending));
        held.sending = Some((mpi::handle(sending), packed));
    }
    put_request(&call, 0, mpi::handle(request));
    if result == 0 {
        REPLAYING.with(|own| own.requests.add(mpi::handle(request), Pending::Receive(held)));
    }
    result
}

/// A receive that can be started.
pub(super) fn init(call: Hooked<'_>, origin: Origin) -> c_int {
    let Some(held) = hold(&call, origin, true) else { return call.forward() };
    let [buffer, count, datatype, source, tag, comm] = handed(&call, &held);
    let words = [buffer, count, datatype, source, tag, comm, call.word(call.role.request)];
    let function = if call.role.large { table::MPI_Recv_init_c } else { table::MPI_Recv_init };
    // SAFETY: the program's arguments, on a communicator of our own.
    let result = unsafe { mpi::call(function, &words) };
    if result == 0 {
        REPLAYING.with(|own| own.requests.add(request_of(&call), Pending::Receive(held)));
    }
    result
}

/// A receive is about to be started again, if that request is one.
pub(super) fn restart(request: usize, origin: Origin) {
    let post = ask(origin.stream, |own| {
        Ok(match own.requests.get(request) {
            Some(Pending::Receive(held)) => Some(Post { site: origin.site, ..held.post }),
            _ => None,
        })
    });
    let Some(post) = post else { return };
    let ticket = in_line(origin, &post);
    REPLAYING.with(|own| {
        if let Some(Pending::Receive(held)) = own.requests.get_mut(request) {
            (held.ticket, held.got) = (Some(ticket), None);
        }
    });
}

/// Reports what a probe found, and what it writes into `MPI_ERROR`.
fn report(status: Statuses, from: Envelope, bytes: usize, error: Option<c_int>) {
    let Some(before) = error_field::get(status) else { return };
    let address = status as usize;
    // SAFETY: a status of the program.
    unsafe {
        mpi::call(table::MPI_Status_set_elements_x, &[address, mpi::byte(), bytes]);
        mpi::call(table::MPI_Status_set_cancelled, &[address, 0]);
    }
    put_right(status, Some(from));
    error_field::put(status, error.unwrap_or(before));
}

pub(super) fn probe(call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let is_unsupported = ask(origin.stream, |own| Ok(own.comms.get(call.comm()).is_unsupported));
    if !is_from_somebody(&call.post(0, 0)) || is_unsupported {
        return call.forward();
    }
    let decided = decide(origin, kind, 0, &[]);
    let Some(stamp) = first(&decided) else {
        call.set_output(call.role.flag, 0);
        return 0;
    };
    if line::is_shared() {
        let what = || format!("{kind} at {}, for its turn", name(origin));
        ask_until(origin.stream, what, |own| {
            let communicator = own.comms.get(call.comm()).number;
            let key = line::of_receives(communicator);
            let may = own.may(origin, key);
            if may {
                own.took(key);
            }
            Ok(may.then_some(()))
        });
    }
    call.set_output(call.role.flag, 1);
    if matches!(kind, Kind::Probe | Kind::Iprobe) {
        let what = || format!("{kind} at {}, for its message", name(origin));
        let found = ask_until(origin.stream, what, |own| Ok(own.early_messages.look(&stamp)));
        let (from, bytes, error) = found;
        report(call.status(), from, bytes, error);
        return 0;
    }
    let (from, early) = fetch(origin, stamp);
    redeliver(&call, origin, from, early)
}

/// Gives the program a message that it can receive.
fn redeliver(call: &Hooked<'_>, origin: Origin, from: Envelope, early: EarlyMessage) -> c_int {
    let mut own_status = Status::new();
    own_status.copy_from(call.status());
    let error = early.error.or(error_field::get(call.status()));
    let message = call.word(call.role.message);
    let (comm, tag) = ask(origin.stream, |own| {
        let tag = own.redelivery.tag();
        own.redelivery.give(early, tag);
        Ok((own.redelivery.comm, tag))
    });
    let words = [0, tag as usize, comm, message, own_status.address() as usize];
    // SAFETY: room for a message, and a status. What is probed for was sent.
    let result = unsafe { mpi::call(table::MPI_Mprobe, &words) };
    put_right(own_status.address(), Some(from));
    own_status.copy_to(call.status());
    if let Some(error) = error.filter(|_| result == 0) {
        error_field::put(call.status(), error);
    }
    // SAFETY: the table says a message is there.
    let handle = unsafe { mpi::handle_at(message as *mut u8, 0) };
    ask(origin.stream, |own| {
        own.redelivery.release(tag);
        own.matched.insert(handle, from);
        Ok(())
    });
    result
}
