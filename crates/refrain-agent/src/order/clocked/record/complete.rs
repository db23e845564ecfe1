//! Completing calls: records which requests completed, and the clocks of their messages.

use crate::inside::library::abi;
use crate::inside::memory::Statuses;
use refrain_order::{Call, Choice, Completed, Kind, Recording as _, Ticket};
use std::ffi::c_int;

use super::super::super::error_field::{self, Class};
use super::super::super::files::note_unsupported;
use super::super::super::outcome::{Outcome, Requests, StatusBuffer};
use super::super::super::record::consumes;
use super::super::super::role::{Hooked, Origin};
use super::super::super::{mpi, split, thread_level};
use super::super::{put_request, request_of};
use super::{Pending, RECORDING, Receive, Recording, match_result};

pub(super) fn arrive(call: Hooked<'_>, origin: Origin) -> c_int {
    let result = call.forward();
    let found = call.output(call.role.flag) != Some(0);
    RECORDING.with(|state| match found {
        true => {
            let call = Call { kind: Kind::Parrived, site: origin.site, count: 0 };
            state.succeeded(origin, &call, &[], Completed::All, &[]);
        }
        false => state.failed(origin, Kind::Parrived),
    });
    result
}

pub(super) fn complete(mut call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let requests = Requests::of(&call, kind);
    let before = requests.all();
    let mut room = StatusBuffer::new();
    let has_array = kind.has_array() && kind.choice() != Choice::One;
    let ignored = call.ignores_status(has_array);
    let needed = RECORDING.with(|state| before.iter().any(|handle| state.needs_status(*handle)));
    let status = match ignored && needed == Some(true) {
        true => room.reserve(if has_array { before.len() } else { 1 }),
        false => call.status(),
    };
    let statuses = (status != call.status() || !ignored).then_some(status);
    if !thread_level::is_multiple() {
        let result = call.forward_with_status(status);
        RECORDING.with(|state| state.record_outcome(&call, origin, kind, before, statuses, result));
        return result;
    }
    // With `MPI_THREAD_MULTIPLE`, requests are completed and looked up in one step under the lock: another thread may
    // get their handles.
    let several = if has_array { before.len() } else { 1 };
    let at = |n: usize| status.wrapping_add(n * abi().status_bytes);
    // A blocking call is replaced by a test, which may treat `MPI_ERROR` differently.
    let errors: Vec<Option<c_int>> = match kind.polls() || statuses.is_none() {
        true => Vec::new(),
        false => (0..several).map(|n| error_field::get(at(n))).collect(),
    };
    loop {
        let given = call.replace(call.role.status, status as usize);
        let result = RECORDING.with(|state| {
            state.receive_notes();
            let (result, found) = split::poll(&call, kind);
            if found && result == 0 && !errors.is_empty() {
                let mut index = [0];
                let outcome = Outcome::of(&call, kind, result, &mut index);
                for (index, n) in outcome.completed(before.len()) {
                    let class = state.class(before.get(index).copied());
                    error_field::correct(at(n), kind, class, errors.get(n).copied().flatten());
                }
            }
            if found || kind.polls() {
                state.record_outcome(&call, origin, kind, before, statuses, result);
            }
            (result, found || kind.polls())
        });
        call.replace(call.role.status, given);
        match result {
            None => return call.forward(),
            Some((result, true)) => return result,
            Some((_, false)) => std::thread::yield_now(),
        }
    }
}

impl Recording {
    fn needs_status(&self, handle: usize) -> bool {
        match self.requests.get(handle) {
            Some(Pending::Receive(receive)) => {
                receive.cancelled || receive.ticket.is_some_and(|ticket| ticket.wild)
            }
            _ => false,
        }
    }

    /// The state of a request.
    fn class(&self, handle: Option<usize>) -> Class {
        match handle {
            Some(handle) if handle == mpi::request_null() => Class::Null,
            Some(handle) if self.receive(handle).is_some_and(|state| state.ticket.is_none()) => {
                Class::Inactive
            }
            _ => Class::Active,
        }
    }

    fn receive(&self, handle: usize) -> Option<Receive> {
        match self.requests.get(handle) {
            Some(Pending::Receive(receive)) => Some(*receive),
            _ => None,
        }
    }

    /// Records what a call that has returned completed.
    fn record_outcome(
        &mut self,
        call: &Hooked<'_>,
        origin: Origin,
        kind: Kind,
        before: &[usize],
        statuses: Option<Statuses>,
        result: c_int,
    ) {
        let mut index = [0];
        let outcome = Outcome::of(call, kind, result, &mut index);
        let Outcome::Completed(completed) = outcome else {
            self.failed(origin, kind);
            return;
        };
        // After an error, only requests that have become null are complete.
        let is_complete = |index: usize| result == 0 || is_gone(call, index);
        let (complete, left): (Vec<_>, Vec<_>) = outcome
            .completed(before.len())
            .filter(|(index, _)| *index < before.len())
            .partition(|(index, _)| is_complete(*index));
        let is_persistent =
            |handle: &usize| self.receive(*handle).is_some_and(|receive| receive.persistent);
        if left.iter().any(|(index, _)| before.get(*index).is_some_and(is_persistent)) {
            note_unsupported("persistent receives that were left pending because of an error");
        }
        let is_reported =
            |index: usize| outcome.completed(before.len()).any(|(reported, _)| reported == index);
        let is_lost = |index: &usize| {
            let receive = before.get(*index).and_then(|handle| self.receive(*handle));
            receive.is_some() && is_gone(call, *index) && !is_reported(*index)
        };
        let lost: Vec<usize> = match result != 0 && consumes(kind) {
            true => (0..before.len()).filter(is_lost).collect(),
            false => Vec::new(),
        };
        if !lost.is_empty() {
            note_unsupported("receives that were lost when another one failed");
        }
        let these: Vec<u32> = complete.iter().map(|(index, _)| *index as u32).collect();
        let completed = match completed {
            Completed::All if !left.is_empty() => Completed::These(&these),
            completed => completed,
        };
        let tickets: Vec<Option<Ticket>> =
            before.iter().map(|handle| self.receive(*handle)?.ticket).collect();
        let mut match_results = Vec::new();
        for (index, at) in &complete {
            let Some(handle) = before.get(*index) else { continue };
            let Some(receive) = self.receive(*handle) else { continue };
            let Some(ticket) = receive.ticket else { continue };
            let bytes = abi().status_bytes;
            let status = statuses.map(|statuses| statuses.wrapping_add(at * bytes));
            // SAFETY: MPI has filled in the statuses of complete requests.
            let match_result = unsafe { match_result(&receive.post, receive.cancelled, status) };
            if self.recorder.is_open(ticket) {
                // The stamps of other receives may depend on this match, and MPI cannot be asked about it later.
                self.recorder.observe(ticket, match_result);
                match_results.push((ticket, receive.post.communicator, match_result));
            }
        }
        let mut finished = Vec::with_capacity(match_results.len());
        for (ticket, communicator, match_result) in match_results {
            finished.extend(self.finished(ticket, communicator, match_result));
        }
        let count = if kind.has_array() { before.len() as u32 } else { 0 };
        let made = Call { kind, site: origin.site, count };
        self.succeeded(origin, &made, &tickets, completed, &finished);
        if consumes(kind) {
            let gone = complete.iter().map(|(index, _)| index).chain(&lost);
            let gone = gone.filter_map(|index| before.get(*index));
            gone.for_each(|handle| self.consumed(origin, *handle));
        }
    }

    /// A request was completed and freed.
    fn consumed(&mut self, origin: Origin, handle: usize) {
        if let Some((at, comm)) = self.pending_comms.remove(&handle) {
            // SAFETY: the address of the program's new communicator.
            self.comms.insert(unsafe { mpi::handle_at(at as *mut u8, 0) }, comm);
        }
        match self.requests.get_mut(handle) {
            Some(Pending::Receive(receive)) => {
                let ticket = receive.ticket.take();
                receive.cancelled = false;
                let persistent = receive.persistent;
                ticket.map(|ticket| self.active.remove(&ticket));
                if !persistent {
                    self.requests.remove(handle);
                }
            }
            Some(Pending::Collective(..)) => {
                if let Some(Pending::Collective(collective, reduction)) =
                    self.requests.remove(handle)
                {
                    self.set_clock_after(origin, &collective, reduction);
                }
            }
            Some(Pending::Generalized) => drop(self.requests.remove(handle)),
            Some(Pending::Send(_)) | None => {}
        }
    }
}

fn is_gone(call: &Hooked<'_>, index: usize) -> bool {
    let (at, n) = call.requests();
    // SAFETY: by the interface table, the argument points to that many requests.
    index < n && unsafe { mpi::handle_at(at, index) } == mpi::request_null()
}

/// Cancels a receive. A send is not cancelled, which MPI permits: its note would remain without a message.
pub(super) fn cancel(call: Hooked<'_>) -> c_int {
    let handle = request_of(&call);
    let result = RECORDING.with(|state| match state.requests.get_mut(handle) {
        Some(Pending::Receive(receive)) => {
            receive.cancelled = true;
            if let Some(ticket) = receive.ticket {
                state.recorder.cancel(ticket);
            }
            call.forward()
        }
        Some(Pending::Generalized) => call.forward(),
        _ => 0,
    });
    result.unwrap_or_else(|| call.forward())
}

/// Makes a generalized request, which may be cancelled as usual.
pub(super) fn generalized(call: Hooked<'_>) -> c_int {
    let result = call.forward();
    if result == 0 {
        RECORDING.with(|state| state.requests.add(request_of(&call), Pending::Generalized));
    }
    result
}

/// Frees a request. The agent keeps an active receive, since its match result may be needed.
pub(super) fn free(call: Hooked<'_>) -> c_int {
    let handle = request_of(&call);
    let kept = RECORDING.with(|state| {
        let pending = state.requests.remove(handle);
        let Some(Pending::Receive(Receive { ticket: Some(ticket), .. })) = pending else {
            return false;
        };
        state.active.insert(ticket, handle);
        state.orphans.push(handle);
        true
    });
    if kept == Some(true) {
        note_unsupported("receives that were freed while they waited for messages");
        put_request(&call, 0, mpi::request_null());
        return 0;
    }
    call.forward()
}
