//! Completion: what MPI found complete, and which clocks it had.

use crate::inside::memory::Statuses;
use crate::inside::process;
use refrain_order::{Call, Choice, Completed, Kind, Recording as _, Ticket};
use std::ffi::c_int;

use super::super::super::error_field::{self, Class};
use super::super::super::files::unsupported;
use super::super::super::outcome::{Outcome, Requests, Room};
use super::super::super::record::consumes;
use super::super::super::role::{Hooked, Origin};
use super::super::super::{line, mpi, split};
use super::super::{put_request, request_of};
use super::{Pending, RECORDING, Receive, Recording, match_result};

pub(super) fn arrive(call: Hooked<'_>, origin: Origin) -> c_int {
    let result = call.forward();
    let found = call.output(call.role.flag) != Some(0);
    RECORDING.with(|own| match found {
        true => {
            let call = Call { kind: Kind::Parrived, site: origin.site, count: 0 };
            own.succeeded(origin, &call, &[], Completed::All, &[]);
        }
        false => own.failed(origin, Kind::Parrived),
    });
    result
}

pub(super) fn complete(mut call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let requests = Requests::of(&call, kind);
    let before = requests.all();
    let mut room = Room::new();
    let has_array = kind.has_array() && kind.choice() != Choice::One;
    let ignored = call.ignores_status(has_array);
    let needed = RECORDING.with(|own| before.iter().any(|handle| own.needs_status(*handle)));
    let status = match ignored && needed == Some(true) {
        true => room.make(if has_array { before.len() } else { 1 }),
        false => call.status(),
    };
    let statuses = (status != call.status() || !ignored).then_some(status);
    if !line::is_shared() {
        let result = call.forward_with_status(status);
        RECORDING.with(|own| own.record_outcome(&call, origin, kind, before, statuses, result));
        return result;
    }
    // Where threads share MPI, requests are completed and looked up in one step: others may get
    // their handles.
    let several = if has_array { before.len() } else { 1 };
    let at = |n: usize| status.wrapping_add(n * process::abi().status_bytes);
    // Of calls that block another function is called, which may treat `MPI_ERROR` differently.
    let errors: Vec<Option<c_int>> = match kind.polls() || statuses.is_none() {
        true => Vec::new(),
        false => (0..several).map(|n| error_field::get(at(n))).collect(),
    };
    loop {
        let given = call.replace(call.role.status, status as usize);
        let result = RECORDING.with(|own| {
            own.listen();
            let (result, found) = split::poll(&call, kind);
            if found && result == 0 && !errors.is_empty() {
                let mut index = [0];
                let outcome = Outcome::of(&call, kind, result, &mut index);
                for (index, n) in outcome.completed(before.len()) {
                    let class = own.class(before.get(index).copied());
                    error_field::put_right(at(n), kind, class, errors.get(n).copied().flatten());
                }
            }
            if found || kind.polls() {
                own.record_outcome(&call, origin, kind, before, statuses, result);
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
            Some(handle) if self.receive(handle).is_some_and(|own| own.ticket.is_none()) => {
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
        // After an error only what has become null is complete.
        let is_complete = |index: usize| result == 0 || is_gone(call, index);
        let (complete, left): (Vec<_>, Vec<_>) = outcome
            .completed(before.len())
            .filter(|(index, _)| *index < before.len())
            .partition(|(index, _)| is_complete(*index));
        let is_persistent =
            |handle: &usize| self.receive(*handle).is_some_and(|receive| receive.persistent);
        if left.iter().any(|(index, _)| before.get(*index).is_some_and(is_persistent)) {
            unsupported("receives that can be started again and were left because of an error");
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
            unsupported("receives that were lost when another one failed");
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
            let bytes = process::abi().status_bytes;
            let status = statuses.map(|statuses| statuses.wrapping_add(at * bytes));
            // SAFETY: MPI has filled the statuses of what is complete in.
            let match_result = unsafe { match_result(&receive.post, receive.cancelled, status) };
            if self.recorder.is_open(ticket) {
                // Of others it may matter what this one got, and it cannot be asked any more.
                self.recorder.learn(ticket, match_result);
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

    /// A request was handed back.
    fn consumed(&mut self, origin: Origin, handle: usize) {
        if let Some((at, comm)) = self.unborn.remove(&handle) {
            // SAFETY: the program's place for a communicator, which is there now.
            self.comms.insert(unsafe { mpi::handle_at(at as *mut u8, 0) }, comm);
        }
        match self.requests.get_mut(handle) {
            Some(Pending::Receive(receive)) => {
                let ticket = receive.ticket.take();
                receive.cancelled = false;
                let persistent = receive.persistent;
                ticket.map(|ticket| self.asked.remove(&ticket));
                if !persistent {
                    self.requests.remove(handle);
                }
            }
            Some(Pending::Collective(..)) => {
                if let Some(Pending::Collective(gathering, search)) = self.requests.remove(handle) {
                    self.met(origin, &gathering, search);
                }
            }
            Some(Pending::Generalized) => drop(self.requests.remove(handle)),
            Some(Pending::Send(_)) | None => {}
        }
    }
}

fn is_gone(call: &Hooked<'_>, index: usize) -> bool {
    let (at, n) = call.requests();
    // SAFETY: the table says that so many requests are there.
    index < n && unsafe { mpi::handle_at(at, index) } == mpi::request_null()
}

/// Receives are cancelled by MPI. A send would leave its clock behind: MPI need not cancel it.
pub(super) fn cancel(call: Hooked<'_>) -> c_int {
    let handle = request_of(&call);
    let result = RECORDING.with(|own| match own.requests.get_mut(handle) {
        Some(Pending::Receive(receive)) => {
            receive.cancelled = true;
            if let Some(ticket) = receive.ticket {
                own.recorder.cancels(ticket);
            }
            call.forward()
        }
        Some(Pending::Generalized) => call.forward(),
        _ => 0,
    });
    result.unwrap_or_else(|| call.forward())
}

/// A request that the program completes itself: it may be cancelled as ever.
pub(super) fn generalized(call: Hooked<'_>) -> c_int {
    let result = call.forward();
    if result == 0 {
        RECORDING.with(|own| own.requests.add(request_of(&call), Pending::Generalized));
    }
    result
}

/// A receive that is under way is kept: what it takes may have to be asked for.
pub(super) fn free(call: Hooked<'_>) -> c_int {
    let handle = request_of(&call);
    let kept = RECORDING.with(|own| {
        let pending = own.requests.remove(handle);
        let Some(Pending::Receive(Receive { ticket: Some(ticket), .. })) = pending else {
            return false;
        };
        own.asked.insert(ticket, handle);
        own.orphans.push(handle);
        true
    });
    if kept == Some(true) {
        unsupported("receives that were freed while they waited for messages");
        put_request(&call, 0, mpi::request_null());
        return 0;
    }
    call.forward()
}
