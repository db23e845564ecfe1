//! Completion: of exactly the recorded requests, with the messages of the record.

use crate::inside::memory::Statuses;
use crate::inside::process;
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
    Decided, Got, Pending, REPLAYING, Replaying, ask, ask_until, await_request, collective, decide,
    name, outcome, pump, put_right, raise,
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

/// Reports that nothing was found.
pub(super) fn fail(call: &Hooked<'_>, kind: Kind) -> c_int {
    call.set_output(call.role.flag, 0);
    match kind.choice() {
        Choice::One => call.set_output(call.role.index, mpi::layout().undefined),
        Choice::Some => call.set_output(call.role.outcount, 0),
        Choice::All => {}
    }
    0
}

/// Reports that there is nothing to be completed.
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
    let (tickets, left): (Vec<Option<Ticket>>, Vec<u32>) = ask(origin.stream, |own| {
        let ticket = |handle: &usize| match own.requests.get(*handle) {
            Some(Pending::Receive(held)) => held.ticket,
            _ => None,
        };
        Ok((handles.iter().map(ticket).collect(), own.replayer.leaves(origin.stream)))
    });
    let is_left = |index: &usize| left.contains(&(*index as u32));
    let count = if kind.has_array() { handles.len() as u32 } else { 0 };
    let (indices, deliveries): (Vec<usize>, _) = match decide(origin, kind, count, &tickets) {
        Decided::Fail => return fail(&call, kind),
        // Nothing is active: MPI says so itself. Unless an error has taken receives along.
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
        false => look_at(&call, kind, &chosen),
    };
    put_errors(&call, kind, result, &chosen);
    for index in left.iter().filter(|_| kind.choice() == Choice::All) {
        error_field::put(status_of(&call, kind, *index as usize), mpi::layout().err_pending);
    }
    report(&call, kind, &indices);
    result
}

/// Says which requests are complete.
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

/// A receive gets its message, or is cancelled.
fn deliver(origin: Origin, request: usize, delivery: &Delivery) {
    if delivery.cancelled {
        let mut request = request;
        // SAFETY: a receive of ours, to which nothing was sent.
        unsafe { mpi::call(table::MPI_Cancel, &[&raw mut request as usize]) };
        return;
    }
    let Some(stamp) = delivery.message else { return };
    let (from, early) = fetch(origin, stamp);
    ask(origin.stream, |own| {
        if let Some(Pending::Receive(held)) = own.requests.get_mut(request) {
            held.got = Some(held.got(from, early.bytes.len()));
            own.redelivery.give(early, held.tag);
        }
        Ok(())
    });
}

/// A request that a call is to complete.
struct Chosen {
    index: usize,
    /// The place of its status.
    slot: usize,
    handle: usize,
    /// As MPI has it when it is complete.
    request: usize,
    what: What,
    class: Class,
    /// `MPI_ERROR` of its status before the call.
    error_before: Option<c_int>,
    /// What went wrong with it, when it is completed.
    error: c_int,
    /// What is no receive was completed already, with that status and result.
    completed: Option<(Status, c_int)>,
}

/// What a request is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// A receive that was held back, of a communicator, and its message.
    Held(usize, Option<Got>),
    /// It receives a message that was matched before.
    Matched(Envelope),
    /// A collective operation.
    Collective,
    Other,
}

impl What {
    fn from(self) -> Option<Envelope> {
        match self {
            What::Held(_, got) => got.map(|got| got.from),
            What::Matched(from) => Some(from),
            What::Collective | What::Other => None,
        }
    }
}

/// Waits until a request is complete. Receives are left so; others are completed, since not every
/// MPI makes progress with all sorts of them when it is only asked.
fn choose(
    origin: Origin,
    kind: Kind,
    (index, slot): (usize, usize),
    handle: usize,
    status: Statuses,
) -> Chosen {
    let (what, mut class) = ask(origin.stream, |own| {
        let mut class = Class::Active;
        let what = match own.requests.get(handle) {
            Some(Pending::Receive(held)) => {
                if held.ticket.is_none() {
                    class = Class::Inactive;
                }
                What::Held(held.comm, held.got)
            }
            Some(Pending::Matched(from)) => What::Matched(*from),
            Some(Pending::Collective(..)) => What::Collective,
            Some(Pending::Send(_) | Pending::Generalized) | None => What::Other,
        };
        Ok((what, if handle == mpi::request_null() { Class::Null } else { class }))
    });
    let error_before = error_field::get(status);
    let told = || format!("{kind} at {} for request {index}", name(origin));
    let (mut request, mut completed) = (handle, None);
    if let What::Held(_, Some(_)) = what
        && consumes(kind)
    {
        // Its message was handed over: it is complete, or will be without anybody else. It is
        // not asked whether it is, since MPICH ends the job if the message was truncated.
    } else if matches!(what, What::Held(..)) || !consumes(kind) {
        await_request(request, told);
    } else {
        let mut own = Status::new();
        own.copy_from(status);
        error_field::mark(&mut own);
        let mut waiting = Waiting::new(told);
        let result = loop {
            let mut flag: c_int = 0;
            let address = &raw mut request as usize;
            let words = [address, &raw mut flag as usize, own.address() as usize];
            // SAFETY: a request, an int and a status.
            let result = unsafe { mpi::call(table::MPI_Test, &words) };
            if flag != 0 || result != 0 {
                break result;
            }
            match what {
                What::Collective => collective::still_in(origin, handle),
                _ => pump(),
            }
            waiting.again();
        };
        request = mpi::handle(request);
        if class == Class::Active && error_field::was_inactive(&mut own) {
            class = Class::Inactive;
        }
        completed = Some((own, result));
    }
    if what == What::Collective && consumes(kind) {
        collective::is_done(origin, handle);
    }
    Chosen { index, slot, handle, request, what, class, error_before, error: 0, completed }
}

/// The status of the n-th completed request, if the program wants one.
fn status_of(call: &Hooked<'_>, kind: Kind, n: usize) -> Statuses {
    let has_array = kind.has_array() && kind.choice() != Choice::One;
    let offset = if has_array { n * process::abi().status_bytes } else { 0 };
    match call.ignores_status(has_array) {
        true => mpi::status_ignore(),
        false => call.status().wrapping_add(offset),
    }
}

/// Completes requests that are complete in MPI, one by one.
fn finish(call: &Hooked<'_>, origin: Origin, kind: Kind, chosen: &mut [Chosen]) -> c_int {
    let mut result = 0;
    let many = kind.has_array() && kind.choice() != Choice::One;
    for one in chosen.iter_mut() {
        let status = status_of(call, kind, one.slot);
        // Before it is complete: another thread may get its handle then.
        let persistent = let_go(origin, one.handle);
        let error = match &mut one.completed {
            Some((own, error)) => {
                own.copy_to(status);
                *error
            }
            None => {
                let error = split::wait(&mut one.request, status as usize);
                one.request = mpi::handle(one.request);
                match one.what {
                    What::Held(comm, got) => raise(comm, outcome(error, got, status)),
                    _ => error,
                }
            }
        };
        put_right(status, one.what.from());
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

/// Leaves in `MPI_ERROR` of the statuses what the program's function leaves there. After an error, calls
/// with several statuses say in each what went wrong.
fn put_errors(call: &Hooked<'_>, kind: Kind, result: c_int, chosen: &[Chosen]) {
    let many = kind.has_array() && kind.choice() != Choice::One;
    for one in chosen {
        let status = status_of(call, kind, one.slot);
        match one.error_before {
            before if result == 0 => error_field::put_right(status, kind, one.class, before),
            _ if many => error_field::put(status, one.error),
            Some(before) => error_field::put(status, before),
            None => {}
        }
    }
}

/// A request is handed back; says whether it can be started again.
fn let_go(origin: Origin, handle: usize) -> bool {
    let sending = ask(origin.stream, |own| {
        own.is_made(handle);
        let (persistent, sending) = match own.requests.get_mut(handle) {
            Some(Pending::Receive(held)) => {
                (held.ticket, held.got) = (None, None);
                (held.persistent, held.sending.take())
            }
            Some(Pending::Send(_)) => (true, None),
            _ => (false, None),
        };
        if !persistent && let Some(Pending::Receive(held)) = own.requests.remove(handle) {
            own.redelivery.release(held.tag);
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

/// Gives the statuses of requests that are complete, and leaves them.
fn look_at(call: &Hooked<'_>, kind: Kind, chosen: &[Chosen]) -> c_int {
    let mut result = 0;
    for one in chosen {
        let status = status_of(call, kind, one.slot);
        let mut flag: c_int = 0;
        let words = [one.request, &raw mut flag as usize, status as usize];
        // SAFETY: a request, an int, and a status of the program or none.
        let error = unsafe { mpi::call(table::MPI_Request_get_status, &words) };
        put_right(status, one.what.from());
        result = if result == 0 { error } else { result };
    }
    result
}

/// What was cancelled in the record is cancelled when it completes. Nothing else is.
pub(super) fn cancel(call: Hooked<'_>, origin: Origin) -> c_int {
    let handle = request_of(&call);
    let is_generalized =
        |own: &mut Replaying| matches!(own.requests.get(handle), Some(Pending::Generalized));
    if REPLAYING.with(is_generalized) == Some(true) {
        return call.forward();
    }
    let what = || format!("at {}, for its turn to cancel", name(origin));
    ask_until(origin.stream, what, |own| {
        let ticket = match own.requests.get(handle) {
            Some(Pending::Receive(held)) => held.ticket,
            _ => None,
        };
        Ok(ticket.is_none_or(|ticket| own.replayer.cancels(ticket)).then_some(()))
    });
    0
}

/// A request that the program completes itself: it may be cancelled as ever.
pub(super) fn generalized(call: Hooked<'_>) -> c_int {
    let result = call.forward();
    if result == 0 {
        REPLAYING.with(|own| own.requests.add(request_of(&call), Pending::Generalized));
    }
    result
}

/// A receive that the program lets go of gets nothing: what it took stays with us.
pub(super) fn free(call: Hooked<'_>) -> c_int {
    let handle = request_of(&call);
    let active = REPLAYING.with(|own| match own.requests.remove(handle) {
        Some(Pending::Receive(held)) if held.ticket.is_none() => {
            own.redelivery.release(held.tag);
            false
        }
        // Its tag stays its own: nothing must ever be sent to it.
        Some(Pending::Receive(_)) => true,
        _ => false,
    });
    if active == Some(true) {
        let mut request = handle;
        // SAFETY: a receive on a communicator of our own.
        unsafe { mpi::call(table::MPI_Cancel, &[&raw mut request as usize]) };
    }
    call.forward()
}
