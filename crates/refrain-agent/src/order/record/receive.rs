//! Receives and probes: forwards and records them.

use crate::inside::library::{abi, error_class};
use crate::table;
use refrain_order::{Kind, Post};
use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::super::files::note_unsupported;
use super::super::mpi::{self, Status};
use super::super::role::{Hooked, Origin};
use super::super::thread_level;
use super::super::unobserved::Posted;
use super::{LAST, RECORDING, Receive, Recording, STATUSES_MATTER, concurrent};

/// Whether MPI has filled the status in: on success, or after a truncation error.
pub(super) fn has_status(result: c_int) -> bool {
    result == 0 || error_class(result) == mpi::layout().err_truncate
}

#[inline(always)]
pub(super) fn receive(call: &mut Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    // The send of a Sendrecv happens even if nothing is ever received.
    let sends = kind == Kind::Sendrecv;
    let record_post = |state: &mut Recording, call: &Hooked<'_>| {
        let post = state.post_of(call, origin);
        state.post(origin.stream, &post)
    };
    let before =
        if sends { RECORDING.lock().map(|mut state| record_post(&mut state, call)) } else { None };
    let wild = call.post(0, 0).is_wild();
    let mut room = Status::new();
    let ignored = wild && call.ignores_status(false);
    let status = if ignored { room.address() } else { call.status() };
    let result = call.forward_with_status(status);
    let Some(mut state) = RECORDING.lock() else { return result };
    let ticket = before.unwrap_or_else(|| record_post(&mut state, call));
    if wild && has_status(result) {
        let match_result = state.settle_status(ticket, false, status, None);
        let communicator = state.comms.number(call.comm());
        state.observed(LAST, communicator, match_result);
    } else {
        state.observed_named(call);
    }
    // Match results first: a process that is killed in between has not returned from the call.
    state.succeeded(origin, kind);
    result
}

#[inline(always)]
pub(super) fn post(call: &mut Hooked<'_>, origin: Origin, shared: bool) -> c_int {
    let is_plain = call.role.source == mpi::IRECV_SOURCE;
    let is_unknown = !is_plain && call.post(0, 0).is_wild() && !mpi::isendrecv_has_status();
    if is_unknown {
        note_unsupported("MPI_Isendrecv with a wildcard: this MPI does not tell what was received");
    }
    if shared {
        return post_in_turn(&call.reborrow(), origin, is_unknown);
    }
    let result = call.forward();
    if let Some(mut state) = RECORDING.lock() {
        state.posted(call, origin, result == 0 && !is_unknown);
    }
    result
}

#[inline(never)]
fn post_in_turn(call: &Hooked<'_>, origin: Origin, is_unknown: bool) -> c_int {
    concurrent::in_turn(call, origin, |state| {
        let result = call.forward();
        state.posted(call, origin, result == 0 && !is_unknown);
        result
    })
}

pub(super) fn init(call: &mut Hooked<'_>, origin: Origin) -> c_int {
    let result = call.forward();
    if result == 0 {
        RECORDING.with(|state| {
            let post = state.post_of(call, origin);
            let handle = call.request();
            let (ticket, persistent, cancelled) = (None, true, false);
            let receive = Receive { ticket, post, posted: Posted::NOT, persistent, cancelled };
            state.requests.add(handle, receive);
        });
    }
    result
}

/// Starts requests, one after the other if receives are among them: the order in which `MPI_Startall` posts
/// them is up to MPI.
pub(super) fn start_all(call: &mut Hooked<'_>, origin: Origin) -> c_int {
    let (at, n) = call.requests();
    // SAFETY: by the interface table, the argument points to that many requests.
    let handle = |i: usize| unsafe { mpi::handle_at(at, i) };
    let receives = RECORDING.with(|state| (0..n).any(|i| state.requests.get(handle(i)).is_some()));
    if thread_level::is_multiple() {
        return (0..n)
            .map(|i| concurrent::start_one(at, i, origin))
            .find(|error| *error != 0)
            .unwrap_or(0);
    }
    if receives != Some(true) {
        return call.forward();
    }
    for i in 0..n {
        let request = handle(i);
        let address = at.wrapping_add(i * abi().handle_bytes) as usize;
        // SAFETY: the address of one of the program's requests.
        let result = unsafe { mpi::call(table::MPI_Start, &[address]) };
        if result != 0 {
            return result;
        }
        RECORDING.with(|state| state.started(request, origin));
    }
    0
}

impl Recording {
    /// A receive was posted; `has_request` says whether it has a request that MPI can be asked about.
    #[inline(always)]
    fn posted(&mut self, call: &Hooked<'_>, origin: Origin, has_request: bool) {
        let post = self.post_of(call, origin);
        let ticket = self.post(origin.stream, &post);
        if ticket.wild {
            STATUSES_MATTER.store(true, Ordering::Relaxed);
        }
        if has_request {
            let handle = call.request();
            let posted = self.unobserved.posted(handle, ticket, &post);
            let (ticket, persistent, cancelled) = (Some(ticket), false, false);
            let receive = Receive { ticket, post, posted, persistent, cancelled };
            self.requests.add(handle, receive);
        }
    }

    /// A persistent request was started.
    pub(super) fn started(&mut self, request: usize, origin: Origin) {
        let Some(post) = self.requests.get(request).map(|receive| receive.post) else { return };
        let ticket = self.post(origin.stream, &Post { site: origin.site, ..post });
        if ticket.wild {
            STATUSES_MATTER.store(true, Ordering::Relaxed);
        }
        let posted = self.unobserved.posted(request, ticket, &post);
        if let Some(receive) = self.requests.get_mut(request) {
            (receive.ticket, receive.posted) = (Some(ticket), posted);
        }
    }
}

#[inline(always)]
pub(super) fn probe(call: &mut Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let wild = call.post(0, 0).is_wild();
    let mut room = Status::new();
    let ignored = wild && call.ignores_status(false);
    let status = if ignored { room.address() } else { call.status() };
    let result = call.forward_with_status(status);
    let found = !kind.polls() || call.output(call.role.flag) != Some(0);
    let Some(mut state) = RECORDING.lock() else { return result };
    if !found {
        state.make_room(0);
        state.log.failed(origin.stream, kind, origin.site);
        return result;
    }
    // The same order as in a replay, since a block may end between the two events.
    state.succeeded(origin, kind);
    let post = state.post_of(call, origin);
    let ticket = state.post(origin.stream, &post);
    if wild && result == 0 {
        let match_result = state.settle_status(ticket, false, status, None);
        state.observed(LAST, post.communicator, match_result);
    } else {
        state.observed_named(call);
    }
    result
}
