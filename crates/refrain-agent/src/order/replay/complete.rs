//! Completing calls: completes exactly the recorded requests, with MPI's functions.

use crate::inside::library::abi;
use crate::inside::memory::Statuses;
use crate::table;
use refrain_order::{Choice, Kind};
use std::ffi::c_int;

use super::super::error_field::{self, Class};
use super::super::mpi::{self, Status};
use super::super::record;
use super::super::role::{Hooked, Origin};
use super::super::stop::{self, Waiting};
use super::receive::{describe, release};
use super::{Decided, ask, decide, put_request, request_of};

/// Waits until a request is complete, but does not free it: the call that frees it then reports errors as the
/// program's own call would.
pub(super) fn await_request(request: usize, what: impl Fn() -> String) {
    let ignore = mpi::status_ignore() as usize;
    let mut waiting = Waiting::new(what);
    loop {
        let mut flag: c_int = 0;
        let words = [request, &raw mut flag as usize, ignore];
        // SAFETY: a request, an int, and no status.
        let result = unsafe { mpi::call(table::MPI_Request_get_status, &words) };
        if flag != 0 || result != 0 {
            return;
        }
        waiting.again();
    }
}

pub(super) fn arrive(call: Hooked<'_>, origin: Origin) -> c_int {
    if let Decided::Fail = decide(origin, Kind::Parrived, 0) {
        stop::drive();
        call.set_output(call.role.flag, 0);
        return 0;
    }
    let name = || ask(|state| Ok(state.name(origin.site)));
    let mut waiting = Waiting::new(|| format!("Parrived at {} for a partition", name()));
    loop {
        let result = call.forward();
        if result != 0 || call.output(call.role.flag) != Some(0) {
            return result;
        }
        waiting.again();
    }
}

/// A failed poll.
fn fail(call: &Hooked<'_>, kind: Kind) -> c_int {
    stop::drive();
    call.set_output(call.role.flag, 0);
    match kind.choice() {
        Choice::One => call.set_output(call.role.index, mpi::layout().undefined),
        Choice::Some => call.set_output(call.role.outcount, 0),
        Choice::All => {}
    }
    0
}

pub(super) fn complete(call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let (_, n) = call.requests();
    let n = if kind == Kind::GetStatus { 1 } else { n };
    let count = if kind.has_array() { n as u32 } else { 0 };
    let indices = match decide(origin, kind, count) {
        Decided::Fail => return fail(&call, kind),
        // No request is active: MPI returns the same.
        Decided::Undefined => return call.forward(),
        Decided::All => (0..n as u32).collect(),
        Decided::These(indices) => indices,
    };
    let one = |(n, index): (usize, &u32)| {
        choose(&call, origin, kind, *index as usize, status_of(&call, kind, n))
    };
    let mut chosen: Vec<Chosen> = indices.iter().enumerate().map(one).collect();
    let result = match record::consumes(kind) {
        true => finish(&call, kind, &mut chosen),
        false => look_at(&call, kind, &chosen),
    };
    put_errors(&call, kind, result, &mut chosen);
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
    result
}

/// A request that a call is to complete.
struct Chosen {
    index: usize,
    /// The program's handle.
    handle: usize,
    /// The request in MPI.
    request: usize,
    /// The program's handle is that of a persistent receive, and stays valid.
    stays: bool,
    class: Class,
    /// `MPI_ERROR` of its status before the call.
    error_before: Option<c_int>,
    /// The status and result of a request that is no receive, which is completed already.
    completed: Option<(Status, c_int)>,
}

/// Waits until a request is complete. Receives are not freed yet. Other requests are freed, since not every MPI
/// makes progress with all kinds of requests in `MPI_Request_get_status`.
fn choose(call: &Hooked<'_>, origin: Origin, kind: Kind, index: usize, status: Statuses) -> Chosen {
    let (at, _) = call.requests();
    let handle = match kind {
        Kind::GetStatus => mpi::handle(call.word(call.role.request)),
        // SAFETY: by the interface table, the argument points to that many requests.
        _ => unsafe { mpi::handle_at(at, index) },
    };
    let known = ask(|state| Ok(state.requests.get(handle).map(|known| (known.active, known.from))));
    let mut request = known.and_then(|(active, _)| active).unwrap_or(handle);
    let what = || {
        let name = ask(|state| Ok(state.name(origin.site)));
        let what = match known {
            Some((_, from)) => describe(from),
            None => "an operation that is no receive".to_owned(),
        };
        format!("{kind} at {name} for request {index}, {what}")
    };
    let mut class = match known {
        _ if handle == mpi::request_null() => Class::Null,
        Some((None, _)) => Class::Inactive,
        _ => Class::Active,
    };
    let error_before = error_field::get(status);
    let mut completed = None;
    if known.is_some() || !record::consumes(kind) {
        await_request(request, what);
    } else {
        let mut found = Status::new();
        // SAFETY: a status of the program, unless it ignores statuses.
        unsafe { found.copy_from(abi(), status) };
        error_field::mark(&mut found);
        let result = complete_other(&mut request, found.address(), what);
        if class == Class::Active && error_field::was_inactive(&mut found) {
            class = Class::Inactive;
        }
        completed = Some((found, result));
    }
    Chosen { index, handle, request, stays: false, class, error_before, completed }
}

/// Completes a request that is no receive.
fn complete_other(request: &mut usize, status: Statuses, what: impl Fn() -> String) -> c_int {
    let mut waiting = Waiting::new(what);
    loop {
        let mut flag: c_int = 0;
        let words = [&raw mut *request as usize, &raw mut flag as usize, status as usize];
        // SAFETY: a request, an int and a status.
        let result = unsafe { mpi::call(table::MPI_Test, &words) };
        if flag != 0 || result != 0 {
            *request = mpi::handle(*request);
            return result;
        }
        waiting.again();
    }
}

/// Whether a call has a status for each request.
fn has_several(kind: Kind) -> bool {
    kind.has_array() && kind.choice() != Choice::One
}

/// Sets `MPI_ERROR` of the statuses to what the program's function leaves there. After an error, calls with
/// several statuses have an error code in each; MPI has already written those of receives.
fn put_errors(call: &Hooked<'_>, kind: Kind, result: c_int, chosen: &mut [Chosen]) {
    for (n, one) in chosen.iter_mut().enumerate() {
        let status = status_of(call, kind, n);
        match &one.completed {
            _ if result == 0 => {
                error_field::correct(status, kind, one.class, one.error_before);
            }
            Some((_, error)) if has_several(kind) => error_field::put(status, *error),
            Some(_) => drop(one.error_before.map(|before| error_field::put(status, before))),
            None => {}
        }
    }
}

/// The status of the n-th completed request, if the program wants one.
fn status_of(call: &Hooked<'_>, kind: Kind, n: usize) -> Statuses {
    let has_array = has_several(kind);
    let offset = if has_array { n * abi().status_bytes } else { 0 };
    match call.ignores_status(has_array) {
        true => mpi::status_ignore(),
        false => call.status().wrapping_add(offset),
    }
}

/// Frees requests that are complete: with one call if it has several statuses.
fn finish(call: &Hooked<'_>, kind: Kind, chosen: &mut [Chosen]) -> c_int {
    let status = call.status() as usize;
    let bytes = abi().handle_bytes;
    let mut result = 0;
    // They are removed first: once freed, another thread may get their handles.
    ask(|state| {
        for one in chosen.iter_mut() {
            match state.requests.get_mut(one.handle).filter(|known| known.persistent.is_some()) {
                Some(persistent) => (persistent.active, one.stays) = (None, true),
                None => drop(state.requests.remove(one.handle)),
            }
        }
        Ok(())
    });
    if has_several(kind) {
        let mut requests = vec![0u8; chosen.len() * bytes];
        for (n, one) in chosen.iter().enumerate() {
            // SAFETY: there is room for all of them.
            unsafe { mpi::put_handle(requests.as_mut_ptr(), n, one.request) };
        }
        let at = requests.as_mut_ptr();
        if chosen.iter().any(|one| one.completed.is_none()) {
            // SAFETY: requests, and statuses of the program or none.
            result = unsafe { mpi::call(table::MPI_Waitall, &[chosen.len(), at as usize, status]) };
        }
        for (n, one) in chosen.iter_mut().enumerate() {
            // SAFETY: as above.
            one.request = unsafe { mpi::handle_at(at, n) };
        }
    } else if let Some(one) = chosen.first_mut().filter(|one| one.completed.is_none()) {
        let address = &raw mut one.request as usize;
        // SAFETY: a request, and a status of the program or none.
        result = unsafe { mpi::call(table::MPI_Wait, &[address, status]) };
        one.request = mpi::handle(one.request);
    }
    for (n, one) in chosen.iter_mut().enumerate() {
        if let Some((found, error)) = &mut one.completed {
            // SAFETY: as above.
            unsafe { found.copy_to(abi(), status_of(call, kind, n)) };
            if *error != 0 && result == 0 {
                result = if has_several(kind) { mpi::layout().err_in_status } else { *error };
            }
        }
    }
    for one in chosen.iter().filter(|one| !one.stays) {
        put_request(call, one.index, one.request);
    }
    result
}

/// Gives the statuses of complete requests without freeing them.
fn look_at(call: &Hooked<'_>, kind: Kind, chosen: &[Chosen]) -> c_int {
    let mut result = 0;
    for (n, one) in chosen.iter().enumerate() {
        let status = status_of(call, kind, n);
        let mut flag: c_int = 0;
        let words = [one.request, &raw mut flag as usize, status as usize];
        // SAFETY: a request, an int, and a status of the program or none.
        let error = unsafe { mpi::call(table::MPI_Request_get_status, &words) };
        result = if result == 0 { error } else { result };
    }
    result
}

/// Cancels a request. A receive that was cancelled in the recorded run is withheld, and its substitute is
/// cancelled. A receive that was not cancelled there must not be cancelled now.
pub(super) fn cancel(call: Hooked<'_>) -> c_int {
    let handle = request_of(&call);
    let known = ask(|state| {
        Ok(state.requests.get_mut(handle).map(|known| {
            let again = std::mem::replace(&mut known.cancelled, true);
            known.active.filter(|_| known.withheld && !again)
        }))
    });
    match known {
        Some(Some(mut request)) => {
            // SAFETY: the agent's request.
            unsafe { mpi::call(table::MPI_Cancel, &[&raw mut request as usize]) }
        }
        Some(None) => 0,
        None => call.forward(),
    }
}

pub(super) fn free(call: Hooked<'_>) -> c_int {
    let handle = request_of(&call);
    let known = ask(|state| {
        state.send_keys.remove(&handle);
        Ok(state.requests.remove(handle))
    });
    known.iter().filter_map(|known| known.persistent.as_ref()).for_each(release);
    if let Some(known) = known
        && let Some(mut request) = known.active
    {
        let address = &raw mut request as usize;
        // SAFETY: the agent's request, or the one that the program frees.
        unsafe {
            if known.withheld && !known.cancelled {
                mpi::call(table::MPI_Cancel, &[address]);
            }
            let result = mpi::call(table::MPI_Request_free, &[address]);
            if known.persistent.is_none() {
                put_request(&call, 0, request);
                return result;
            }
        }
    }
    call.forward()
}

pub(super) fn free_comm(call: Hooked<'_>) -> c_int {
    // SAFETY: by the interface table, the argument points to a communicator.
    let handle = unsafe { mpi::handle_at(call.word(call.role.comm) as *mut u8, 0) };
    let result = call.forward();
    if result == 0 {
        ask(|state| {
            state.comms.remove(handle);
            Ok(())
        });
    }
    result
}
