//! Completing calls: completes exactly the recorded requests, with the recorded messages.

use crate::inside::library::abi;
use crate::inside::memory::Statuses;
use crate::table;
use refrain_order::clock::Delivery;
use refrain_order::{Choice, Envelope, Kind, Ticket};
use std::ffi::c_int;

use super::super::super::error_field::{self, Class};
use super::super::super::mpi::{self, Status};
use super::super::super::outcome::Requests;
use super::super::super::record::consumes;
use super::super::super::role::{Hooked, Origin};
use super::super::super::split;
use super::super::super::stop::Waiting;
use super::super::{put_request, request_of};
use super::receive::fetch;
use super::{
    Decided, Delivered, Pending, REPLAYING, Replaying, ask, ask_until, await_request,
    call_errhandler, collective, decide, name, outcome, pump, set_envelope,
};

pub(super) fn arrive(call: Hooked<'_>, origin: Origin) -> c_int {
    if let Decided::Fail = decide(origin, Kind::Parrived, 0, &[]) {
        call.set_output(call.role.flag, 0);
        return 0;
    }
    let mut waiting = Waiting::new(|| format!("Parrived at {} for a partition", name(origin)));
    loop {
        let result = call.forward();
        if result != 0 || call.output(call.role.flag) != Some(0) {
            return result;
        }
        pump();
        waiting.again();
    }
}

/// A failed poll.
pub(super) fn fail(call: &Hooked<'_>, kind: Kind) -> c_int {
    call.set_output(call.role.flag, 0);
    match kind.choice() {
        Choice::One => call.set_output(call.role.index, mpi::layout().undefined),
        Choice::Some => call.set_output(call.role.outcount, 0),
        Choice::All => {}
    }
    0
}

/// Reports that no request is active.
fn nothing(call: &Hooked<'_>, kind: Kind) -> c_int {
    fail(call, kind);
    call.set_output(call.role.flag, 1);
    if kind.choice() == Choice::Some {
        call.set_output(call.role.outcount, mpi::layout().undefined);
    }
    0
}

pub(super) fn complete(call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let result = complete_some(call, origin, kind);
    collective::free_unused();
    result
}

fn complete_some(call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let requests = Requests::of(&call, kind);
    let handles = requests.all();
    let (tickets, left): (Vec<Option<Ticket>>, Vec<u32>) = ask(origin.stream, |state| {
        let ticket = |handle: &usize| match state.requests.get(*handle) {
            Some(Pending::Receive(held)) => held.ticket,
            _ => None,
        };
        Ok((handles.iter().map(ticket).collect(), state.replayer.left_pending(origin.stream)))
    });
    let is_left = |index: &usize| left.contains(&(*index as u32));
    let count = if kind.has_array() { handles.len() as u32 } else { 0 };
    let (indices, deliveries): (Vec<usize>, _) = match decide(origin, kind, count, &tickets) {
        Decided::Fail => return fail(&call, kind),
        // No request is active, as MPI itself reports; unless an error has lost receives in the recorded run.
        Decided::Undefined if tickets.iter().any(Option::is_some) => return nothing(&call, kind),
        Decided::Undefined => return call.forward(),
        Decided::All(deliveries) => {
            ((0..handles.len()).filter(|index| !is_left(index)).collect(), deliveries)
        }
        Decided::These(deliveries) => {
            (deliveries.iter().map(|one| one.index as usize).collect(), deliveries)
        }
    };
    for delivery in &deliveries {
        if let Some(handle) = handles.get(delivery.index as usize) {
            deliver(origin, *handle, delivery);
        }
    }
    let one = |(n, index): (usize, &usize)| {
        let handle = handles.get(*index).copied()?;
        let slot = if kind.choice() == Choice::All { *index } else { n };
        Some(choose(origin, kind, (*index, slot), handle, status_of(&call, kind, slot)))
    };
    let mut chosen: Vec<Chosen> = indices.iter().enumerate().filter_map(one).collect();
    let result = match consumes(kind) {
        true => finish(&call, origin, kind, &mut chosen),
        false => inspect(&call, kind, &chosen),
    };
    put_errors(&call, kind, result, &chosen);
    for index in left.iter().filter(|_| kind.choice() == Choice::All) {
        error_field::put(status_of(&call, kind, *index as usize), mpi::layout().err_pending);
    }
    report(&call, kind, &indices);
    result
}

/// Sets the outputs of a call that completed these indices.
fn report(call: &Hooked<'_>, kind: Kind, indices: &[usize]) {
    call.set_output(call.role.flag, 1);
    match kind.choice() {
        Choice::One => call.set_output(call.role.index, indices.first().map_or(0, |i| *i as c_int)),
        Choice::Some => {
            call.set_output(call.role.outcount, indices.len() as c_int);
            let at = call.word(call.role.index) as *mut c_int;
            for (n, index) in indices.iter().enumerate() {
                // SAFETY: there is room for as many indices as requests.
                unsafe { at.add(n).write_unaligned(*index as c_int) };
            }
        }
        Choice::All => {}
    }
}

/// Gives a receive its message, or cancels it.
fn deliver(origin: Origin, request: usize, delivery: &Delivery) {
    if delivery.cancelled {
        let mut request = request;
        // SAFETY: a receive on the agent's communicator, to which nothing was sent.
        unsafe { mpi::call(table::MPI_Cancel, &[&raw mut request as usize]) };
        return;
    }
    let Some(stamp) = delivery.message else { return };
    let (from, early) = fetch(origin, stamp);
    ask(origin.stream, |state| {
        if let Some(Pending::Receive(held)) = state.requests.get_mut(request) {
            held.delivered = Some(held.delivered(from, early.bytes.len()));
            state.redelivery.send(early, held.tag);
        }
        Ok(())
    });
}

/// A request that a call is to complete.
struct Chosen {
    index: usize,
    /// The index of its status.
    slot: usize,
    handle: usize,
    /// The handle after completion.
    request: usize,
    what: What,
    class: Class,
    /// `MPI_ERROR` of its status before the call.
    error_before: Option<c_int>,
    /// Its error code, when it is completed.
    error: c_int,
    /// The status and result of a request that is no receive, which is completed already.
    completed: Option<(Status, c_int)>,
}

/// The kind of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// A receive that is held back: its communicator, and its message.
    HeldReceive(usize, Option<Delivered>),
    /// It receives a message that a probe has matched.
    Matched(Envelope),
    /// A collective operation.
    Collective,
    Other,
}

impl What {
    fn from(self) -> Option<Envelope> {
        match self {
            What::HeldReceive(_, delivered) => delivered.map(|delivered| delivered.from),
            What::Matched(from) => Some(from),
            What::Collective | What::Other => None,
        }
    }
}

/// Waits until a request is complete. Receives are not freed yet. Other requests are freed, since not every MPI
/// makes progress with all kinds of requests in `MPI_Request_get_status`.
fn choose(
    origin: Origin,
    kind: Kind,
    (index, slot): (usize, usize),
    handle: usize,
    status: Statuses,
) -> Chosen {
    let (what, mut class) = ask(origin.stream, |state| {
        let mut class = Class::Active;
        let what = match state.requests.get(handle) {
            Some(Pending::Receive(held)) => {
                if held.ticket.is_none() {
                    class = Class::Inactive;
                }
                What::HeldReceive(held.comm, held.delivered)
            }
            Some(Pending::Matched(from)) => What::Matched(*from),
            Some(Pending::Collective(..)) => What::Collective,
            Some(Pending::Send(_) | Pending::Generalized) | None => What::Other,
        };
        Ok((what, if handle == mpi::request_null() { Class::Null } else { class }))
    });
    let error_before = error_field::get(status);
    let what_for = || format!("{kind} at {} for request {index}", name(origin));
    let (mut request, mut completed) = (handle, None);
    if let What::HeldReceive(_, Some(_)) = what
        && consumes(kind)
    {
        // Its message was delivered, so it completes without other processes. `MPI_Request_get_status` must not be
        // called: MPICH aborts the job if the message was truncated.
    } else if matches!(what, What::HeldReceive(..)) || !consumes(kind) {
        await_request(request, what_for);
    } else {
        let mut agent_status = Status::new();
        // SAFETY: a status of the program, unless it ignores statuses.
        unsafe { agent_status.copy_from(abi(), status) };
        error_field::mark(&mut agent_status);
        let mut waiting = Waiting::new(what_for);
        let result = loop {
            let mut flag: c_int = 0;
            let address = &raw mut request as usize;
            let words = [address, &raw mut flag as usize, agent_status.address() as usize];
            // SAFETY: a request, an int and a status.
            let result = unsafe { mpi::call(table::MPI_Test, &words) };
            if flag != 0 || result != 0 {
                break result;
            }
            match what {
                What::Collective => collective::report_waiting(origin, handle),
                _ => pump(),
            }
            waiting.again();
        };
        request = mpi::handle(request);
        if class == Class::Active && error_field::was_inactive(&mut agent_status) {
            class = Class::Inactive;
        }
        completed = Some((agent_status, result));
    }
    if what == What::Collective && consumes(kind) {
        collective::is_done(origin, handle);
    }
    Chosen { index, slot, handle, request, what, class, error_before, error: 0, completed }
}

/// The status of the n-th completed request, if the program wants one.
fn status_of(call: &Hooked<'_>, kind: Kind, n: usize) -> Statuses {
    let has_array = kind.has_array() && kind.choice() != Choice::One;
    let offset = if has_array { n * abi().status_bytes } else { 0 };
    match call.ignores_status(has_array) {
        true => mpi::status_ignore(),
        false => call.status().wrapping_add(offset),
    }
}

/// Frees requests that are complete, one by one.
fn finish(call: &Hooked<'_>, origin: Origin, kind: Kind, chosen: &mut [Chosen]) -> c_int {
    let mut result = 0;
    let many = kind.has_array() && kind.choice() != Choice::One;
    for one in chosen.iter_mut() {
        let status = status_of(call, kind, one.slot);
        // It is removed first: once freed, another thread may get its handle.
        let persistent = release_request(origin, one.handle);
        let error = match &mut one.completed {
            Some((agent_status, error)) => {
                // SAFETY: as above.
                unsafe { agent_status.copy_to(abi(), status) };
                *error
            }
            None => {
                let error = split::wait(&mut one.request, status as usize);
                one.request = mpi::handle(one.request);
                match one.what {
                    What::HeldReceive(comm, delivered) => {
                        call_errhandler(comm, outcome(error, delivered, status))
                    }
                    _ => error,
                }
            }
        };
        set_envelope(status, one.what.from());
        one.error = error;
        if error != 0 && result == 0 {
            result = if many { mpi::layout().err_in_status } else { error };
        }
        if !persistent {
            put_request(call, one.index, one.request);
        }
    }
    result
}

/// Sets `MPI_ERROR` of the statuses to what the program's function leaves there. After an error, calls with several
/// statuses have an error code in each.
fn put_errors(call: &Hooked<'_>, kind: Kind, result: c_int, chosen: &[Chosen]) {
    let many = kind.has_array() && kind.choice() != Choice::One;
    for one in chosen {
        let status = status_of(call, kind, one.slot);
        match one.error_before {
            before if result == 0 => error_field::correct(status, kind, one.class, before),
            _ if many => error_field::put(status, one.error),
            Some(before) => error_field::put(status, before),
            None => {}
        }
    }
}

/// Removes a completed request. Returns whether it is persistent.
fn release_request(origin: Origin, handle: usize) -> bool {
    let sending = ask(origin.stream, |state| {
        state.register_comm(handle);
        let (persistent, sending) = match state.requests.get_mut(handle) {
            Some(Pending::Receive(held)) => {
                (held.ticket, held.delivered) = (None, None);
                (held.persistent, held.sending.take())
            }
            Some(Pending::Send(_)) => (true, None),
            _ => (false, None),
        };
        if !persistent && let Some(Pending::Receive(held)) = state.requests.remove(handle) {
            state.redelivery.release(held.tag);
        }
        Ok((persistent, sending))
    });
    let (persistent, sending) = sending;
    if let Some((mut request, packed)) = sending {
        await_request(request, || format!("at {}, what was sent along", name(origin)));
        split::wait(&mut request, mpi::status_ignore() as usize);
        drop(packed);
    }
    persistent
}

/// Gives the statuses of complete requests without freeing them.
fn inspect(call: &Hooked<'_>, kind: Kind, chosen: &[Chosen]) -> c_int {
    let mut result = 0;
    for one in chosen {
        let status = status_of(call, kind, one.slot);
        let mut flag: c_int = 0;
        let words = [one.request, &raw mut flag as usize, status as usize];
        // SAFETY: a request, an int, and a status of the program or none.
        let error = unsafe { mpi::call(table::MPI_Request_get_status, &words) };
        set_envelope(status, one.what.from());
        result = if result == 0 { error } else { result };
    }
    result
}

/// Cancels a request. A receive that was cancelled in the recorded run is cancelled when it completes; other requests
/// are not cancelled.
pub(super) fn cancel(call: Hooked<'_>, origin: Origin) -> c_int {
    let handle = request_of(&call);
    let is_generalized =
        |state: &mut Replaying| matches!(state.requests.get(handle), Some(Pending::Generalized));
    if REPLAYING.with(is_generalized) == Some(true) {
        return call.forward();
    }
    let what = || format!("at {}, for its turn to cancel", name(origin));
    ask_until(origin.stream, what, |state| {
        let ticket = match state.requests.get(handle) {
            Some(Pending::Receive(held)) => held.ticket,
            _ => None,
        };
        Ok(ticket.is_none_or(|ticket| state.replayer.cancel(ticket)).then_some(()))
    });
    0
}

/// Makes a generalized request, which may be cancelled as usual.
pub(super) fn generalized(call: Hooked<'_>) -> c_int {
    let result = call.forward();
    if result == 0 {
        REPLAYING.with(|state| state.requests.add(request_of(&call), Pending::Generalized));
    }
    result
}

/// Frees a request. An active receive gets no message: the agent keeps the message.
pub(super) fn free(call: Hooked<'_>) -> c_int {
    let handle = request_of(&call);
    let active = REPLAYING.with(|state| match state.requests.remove(handle) {
        Some(Pending::Receive(held)) if held.ticket.is_none() => {
            state.redelivery.release(held.tag);
            false
        }
        // Its tag is not reused: nothing may ever be sent to it.
        Some(Pending::Receive(_)) => true,
        _ => false,
    });
    if active == Some(true) {
        let mut request = handle;
        // SAFETY: a receive on the agent's communicator.
        unsafe { mpi::call(table::MPI_Cancel, &[&raw mut request as usize]) };
    }
    call.forward()
}
