//! Receives and probes: forwarded, and recorded.

use crate::inside::memory;
use crate::inside::process;
use crate::table;
use refrain_order::{Kind, Post};
use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::super::files::unsupported;
use super::super::line;
use super::super::mpi::{self, Status};
use super::super::role::{Hooked, Origin};
use super::super::unseen::Posted;
use super::{LAST, RECORDING, Receive, Recording, STATUSES_MATTER, shared};

/// Whether a status was filled in, although there was an error.
pub(super) fn has_status(result: c_int) -> bool {
    result == 0 || memory::error_class(result) == mpi::layout().err_truncate
}

#[inline(always)]
pub(super) fn receive(call: &mut Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    // The send of a Sendrecv happens even if nothing is ever received.
    let sends = kind == Kind::Sendrecv;
    let record_post = |own: &mut Recording, call: &Hooked<'_>| {
        let wanted = own.wanted(call, origin);
        own.post(origin.stream, &wanted)
    };
    let before =
        if sends { RECORDING.hold().map(|mut own| record_post(&mut own, call)) } else { None };
    let wild = call.post(0, 0).is_wild();
    let mut room = Status::new();
    let ignored = wild && call.ignores_status(false);
    let status = if ignored { room.address() } else { call.status() };
    let result = call.forward_with_status(status);
    let Some(mut own) = RECORDING.hold() else { return result };
    let ticket = before.unwrap_or_else(|| record_post(&mut own, call));
    if wild && has_status(result) {
        let match_result = own.settle_status(ticket, false, status);
        let communicator = own.comms.number(call.comm());
        own.seen(LAST, communicator, match_result);
    } else {
        own.seen_named(call);
    }
    // Match results first: a process that is killed in between has not returned from the call.
    own.succeeded(origin, kind);
    result
}

#[inline(always)]
pub(super) fn post(call: &mut Hooked<'_>, origin: Origin, shared: bool) -> c_int {
    let is_plain = call.role.source == mpi::IRECV_SOURCE;
    let is_unknown = !is_plain && call.post(0, 0).is_wild() && !mpi::isendrecv_has_status();
    if is_unknown {
        unsupported("MPI_Isendrecv with a wildcard: this MPI does not tell what was received");
    }
    if shared {
        return post_in_turn(&call.lent(), origin, is_unknown);
    }
    let result = call.forward();
    if let Some(mut own) = RECORDING.hold() {
        own.posted(call, origin, result == 0 && !is_unknown);
    }
    result
}

#[inline(never)]
fn post_in_turn(call: &Hooked<'_>, origin: Origin, is_unknown: bool) -> c_int {
    shared::in_turn(call, origin, |own| {
        let result = call.forward();
        own.posted(call, origin, result == 0 && !is_unknown);
        result
    })
}

pub(super) fn init(call: &mut Hooked<'_>, origin: Origin) -> c_int {
    let result = call.forward();
    if result == 0 {
        RECORDING.with(|own| {
            let post = own.wanted(call, origin);
            let handle = call.request();
            let (ticket, persistent, cancelled) = (None, true, false);
            let receive = Receive { ticket, post, posted: Posted::NOT, persistent, cancelled };
            own.requests.add(handle, receive);
        });
    }
    result
}

/// Starts requests, one after the other if receives are among them: the order in which `MPI_Startall` posts
/// them is up to MPI.
pub(super) fn start_all(call: &mut Hooked<'_>, origin: Origin) -> c_int {
    let (at, n) = call.requests();
    // SAFETY: the table says that so many requests are there.
    let handle = |i: usize| unsafe { mpi::handle_at(at, i) };
    let receives = RECORDING.with(|own| (0..n).any(|i| own.requests.get(handle(i)).is_some()));
    if line::is_shared() {
        return (0..n)
            .map(|i| shared::start_one(at, i, origin))
            .find(|error| *error != 0)
            .unwrap_or(0);
    }
    if receives != Some(true) {
        return call.forward();
    }
    for i in 0..n {
        let request = handle(i);
        let address = at.wrapping_add(i * process::abi().handle_bytes) as usize;
        // SAFETY: the address of a request of the program.
        let result = unsafe { mpi::call(table::MPI_Start, &[address]) };
        if result != 0 {
            return result;
        }
        RECORDING.with(|own| own.started(request, origin));
    }
    0
}

impl Recording {
    /// A receive was posted; `has_request` says whether it has a request that can be looked at.
    #[inline(always)]
    fn posted(&mut self, call: &Hooked<'_>, origin: Origin, has_request: bool) {
        let wanted = self.wanted(call, origin);
        let ticket = self.post(origin.stream, &wanted);
        if ticket.wild {
            STATUSES_MATTER.store(true, Ordering::Relaxed);
        }
        if has_request {
            let handle = call.request();
            let posted = self.unseen.posted(handle, ticket, &wanted);
            let (ticket, persistent, cancelled) = (Some(ticket), false, false);
            let receive = Receive { ticket, post: wanted, posted, persistent, cancelled };
            self.requests.add(handle, receive);
        }
    }

    /// A persistent request was started.
    pub(super) fn started(&mut self, request: usize, origin: Origin) {
        let Some(wanted) = self.requests.get(request).map(|receive| receive.post) else { return };
        let ticket = self.post(origin.stream, &Post { site: origin.site, ..wanted });
        if ticket.wild {
            STATUSES_MATTER.store(true, Ordering::Relaxed);
        }
        let posted = self.unseen.posted(request, ticket, &wanted);
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
    let Some(mut own) = RECORDING.hold() else { return result };
    if !found {
        own.make_room(0);
        own.log.failed(origin.stream, kind, origin.site);
        return result;
    }
    // In the order in which a replay asks: a block may end in between.
    own.succeeded(origin, kind);
    let wanted = own.wanted(call, origin);
    let ticket = own.post(origin.stream, &wanted);
    if wild && result == 0 {
        let match_result = own.settle_status(ticket, false, status);
        own.seen(LAST, wanted.communicator, match_result);
    } else {
        own.seen_named(call);
    }
    result
}
