//! Receives and probes: forwards and records them, with the clocks of their messages.

use crate::inside::library::error_class;
use crate::inside::memory::Statuses;
use crate::table;
use refrain_order::{Call, Completed, Finished, Kind, MatchResult, Post, Recording as _, Ticket};
use std::ffi::c_int;

use super::super::super::files::note_unsupported;
use super::super::super::mpi::{self, Status, status_ignore};
use super::super::super::role::{Hooked, Mode, Origin};
use super::super::super::{split, thread_level, turn_key};
use super::super::{Target, has_source, request_of};
use super::{Pending, RECORDING, Receive, Recording, match_result};

/// Whether MPI has filled the status in: on success, or after a truncation error.
fn has_status(result: c_int) -> bool {
    result == 0 || error_class(result) == mpi::layout().err_truncate
}

impl Recording {
    /// Records that a receive is about to be posted; `None` if it is not recorded.
    fn post(&mut self, call: &Hooked<'_>, origin: Origin) -> Option<(Ticket, Post)> {
        let post = self.post_of(call, origin);
        if call.receives_matched() || !has_source(&post) {
            return None;
        }
        if self.comms.get(call.comm()).is_unsupported {
            note_unsupported("messages of processes of other worlds");
            return None;
        }
        self.take_turn(origin, turn_key::of_receives(post.communicator));
        Some((self.recorder.post(origin.stream, &post), post))
    }
}

/// `MPI_Recv`, `MPI_Sendrecv`, `MPI_Sendrecv_replace` and `MPI_Mrecv`.
pub(super) fn receive(mut call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    if thread_level::is_multiple() && !call.receives_matched() {
        return receive_concurrent(call, origin, kind);
    }
    let posted = RECORDING.with(|state| {
        let posted = state.post(&call, origin);
        if let Some(target) = Target::of(&call) {
            state.stamp(origin, target);
        }
        posted
    });
    let Some(posted) = posted else { return call.forward() };
    let mut room = Status::new();
    let wild = posted.is_some_and(|(ticket, _)| ticket.wild);
    let ignored = wild && call.ignores_status(false);
    let status = if ignored { room.address() } else { call.status() };
    let result = call.forward_with_status(status);
    RECORDING.with(|state| state.received(origin, kind, posted, status, result));
    result
}

impl Recording {
    /// A blocking receive has returned.
    fn received(
        &mut self,
        origin: Origin,
        kind: Kind,
        posted: Option<(Ticket, Post)>,
        status: Statuses,
        result: c_int,
    ) {
        let finished = posted.and_then(|(ticket, post)| {
            let match_result = match post.is_wild() && !has_status(result) {
                true => MatchResult::Never,
                // SAFETY: MPI has filled the status in.
                false => unsafe { match_result(&post, false, Some(status)) },
            };
            self.finished(ticket, post.communicator, match_result)
        });
        let ticket = posted.map(|(ticket, _)| ticket);
        let call = Call { kind, site: origin.site, count: 0 };
        self.succeeded(origin, &call, &[ticket], Completed::All, finished.as_slice());
    }
}

/// A blocking receive with `MPI_THREAD_MULTIPLE`: it is posted in its turn under the lock, and tested under the lock,
/// since other threads may need its match result.
fn receive_concurrent(call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let (mut sending, mut receiving, mut packed) = (None, 0, Vec::new());
    let large = call.role.large;
    let sent = match kind {
        Kind::Sendrecv => split::sent(&call, &mut packed).map(Some),
        _ => Ok(None),
    };
    let begun = RECORDING.with(|state| {
        let posted = state.post(&call, origin);
        let result = split::irecv(&split::received(&call), large, &mut receiving);
        if let Some((ticket, _)) = posted {
            state.active.insert(ticket, mpi::handle(receiving));
        }
        if let Some(target) = Target::of(&call) {
            state.stamp(origin, target);
        }
        let begun = match (result, sent) {
            (0, Ok(Some(words))) => split::isend(&words, large, Mode::Standard, sending.insert(0)),
            (0, Ok(None)) => 0,
            (0, Err(error)) => error,
            (error, _) => error,
        };
        (posted, begun)
    });
    let posted = match begun {
        Some((posted, 0)) => posted,
        Some((_, error)) => return error,
        None => return call.forward(),
    };
    let mut room = Status::new();
    let ignored = call.ignores_status(false);
    let status = if ignored { room.address() } else { call.status() };
    let received = loop {
        let done = RECORDING.with(|state| {
            state.receive_notes();
            let mut flag: c_int = 0;
            let words = [&raw mut receiving as usize, &raw mut flag as usize, status as usize];
            // SAFETY: the agent's request, an int and a status.
            let result = unsafe { mpi::call(table::MPI_Test, &words) };
            let done = flag != 0 || result != 0;
            if done {
                state.received(origin, kind, posted, status, result);
            }
            done.then_some(result)
        });
        match done {
            Some(Some(result)) => break result,
            Some(None) => std::thread::yield_now(),
            None => break split::wait(&mut receiving, status as usize),
        }
    };
    let sent = sending.map_or(0, |mut request| split::wait(&mut request, status_ignore() as usize));
    if received != 0 { received } else { sent }
}

/// `MPI_Irecv`, `MPI_Isendrecv`, `MPI_Isendrecv_replace` and `MPI_Imrecv`.
pub(super) fn post(call: Hooked<'_>, origin: Origin) -> c_int {
    let is_plain = call.role.source == mpi::IRECV_SOURCE;
    let is_unknown = !is_plain && call.post(0, 0).is_wild() && !mpi::isendrecv_has_status();
    if is_unknown {
        note_unsupported("MPI_Isendrecv with a wildcard: this MPI does not tell what was received");
    }
    let result = RECORDING.with(|state| {
        let posted = state.post(&call, origin);
        if let Some(target) = Target::of(&call) {
            state.stamp(origin, target);
        }
        let result = call.forward();
        if let Some((ticket, post)) = posted.filter(|_| result == 0 && !is_unknown) {
            let request = request_of(&call);
            state.active.insert(ticket, request);
            let (ticket, persistent, cancelled) = (Some(ticket), false, false);
            let receive = Receive { ticket, post, persistent, cancelled };
            state.requests.add(request, Pending::Receive(receive));
        }
        result
    });
    result.unwrap_or_else(|| call.forward())
}

/// Makes a persistent receive.
pub(super) fn init(call: Hooked<'_>, origin: Origin) -> c_int {
    let result = call.forward();
    if result == 0 {
        RECORDING.with(|state| {
            let post = state.post_of(&call, origin);
            let receive = Receive { ticket: None, post, persistent: true, cancelled: false };
            state.requests.add(request_of(&call), Pending::Receive(receive));
        });
    }
    result
}

/// Probes. With `MPI_THREAD_MULTIPLE`, a blocking probe polls, so that a message is recorded in the step that finds it.
pub(super) fn probe(mut call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let is_unsupported = RECORDING.with(|state| state.comms.get(call.comm()).is_unsupported);
    if !has_source(&call.post(0, 0)) || is_unsupported == Some(true) {
        return call.forward();
    }
    let mut room = Status::new();
    let ignored = call.post(0, 0).is_wild() && call.ignores_status(false);
    let status = if ignored { room.address() } else { call.status() };
    if !thread_level::is_multiple() {
        let result = call.forward_with_status(status);
        let found = !kind.polls() || call.output(call.role.flag) != Some(0);
        RECORDING.with(|state| {
            state.probed(&call, origin, kind, (found && result == 0).then_some(status))
        });
        return result;
    }
    loop {
        let result = RECORDING.with(|state| {
            let (result, found) = split::look(&mut call, kind, status as usize);
            if found || kind.polls() {
                state.probed(&call, origin, kind, (found && result == 0).then_some(status));
            }
            (result, found || kind.polls())
        });
        match result {
            None => return call.forward(),
            Some((result, true)) => return result,
            Some((_, false)) => std::thread::yield_now(),
        }
    }
}

impl Recording {
    /// A probe has returned: `found` is the status of the message, if there is one.
    fn probed(&mut self, call: &Hooked<'_>, origin: Origin, kind: Kind, found: Option<Statuses>) {
        let Some(status) = found else {
            self.failed(origin, kind);
            return;
        };
        let post = self.post_of(call, origin);
        self.take_turn(origin, turn_key::of_receives(post.communicator));
        // SAFETY: MPI has filled the status in, if it is not ignored.
        let MatchResult::Matched(from) = (unsafe { match_result(&post, false, Some(status)) })
        else {
            return;
        };
        let stamp = self.stamp_of(None, post.communicator, from);
        let ticket = self.recorder.post(origin.stream, &post);
        let finished = [Finished { ticket, match_result: MatchResult::Matched(from), stamp }];
        let call = Call { kind, site: origin.site, count: 0 };
        self.sums.receives += u64::from(ticket.wild);
        self.succeeded(origin, &call, &[], Completed::All, &finished);
    }
}
