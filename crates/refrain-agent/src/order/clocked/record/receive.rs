//! Receives and probes: forwarded, and told with the clocks of what they got.

use crate::inside::memory;
use crate::inside::memory::Statuses;
use crate::table;
use refrain_order::{Call, Completed, Finished, Kind, MatchResult, Post, Recording as _, Ticket};
use std::ffi::c_int;

use super::super::super::files::unsupported;
use super::super::super::mpi::{self, Status, status_ignore};
use super::super::super::role::{Hooked, Mode, Origin};
use super::super::super::{line, split};
use super::super::{Target, is_from_somebody, request_of};
use super::{Pending, RECORDING, Receive, Recording, match_result};

/// Whether a status was filled in, although there was an error.
fn has_status(result: c_int) -> bool {
    result == 0 || memory::error_class(result) == mpi::layout().err_truncate
}

impl Recording {
    /// A receive is about to be posted; nothing if there is nobody to receive from.
    fn posts(&mut self, call: &Hooked<'_>, origin: Origin) -> Option<(Ticket, Post)> {
        let post = self.wanted(call, origin);
        if call.takes_known() || !is_from_somebody(&post) {
            return None;
        }
        if self.comms.get(call.comm()).is_unsupported {
            unsupported("messages of processes of other worlds");
            return None;
        }
        self.take_turn(origin, line::of_receives(post.communicator));
        Some((self.recorder.post(origin.stream, &post), post))
    }
}

/// `MPI_Recv`, `MPI_Sendrecv`, `MPI_Sendrecv_replace` and `MPI_Mrecv`.
pub(super) fn receive(mut call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    if line::is_shared() && !call.takes_known() {
        return in_parts(call, origin, kind);
    }
    let posted = RECORDING.with(|own| {
        let posted = own.posts(&call, origin);
        if let Some(target) = Target::of(&call) {
            own.stamp(origin, target);
        }
        posted
    });
    let Some(posted) = posted else { return call.forward() };
    let mut room = Status::new();
    let wild = posted.is_some_and(|(ticket, _)| ticket.wild);
    let ignored = wild && call.ignores_status(false);
    let status = if ignored { room.address() } else { call.status() };
    let result = call.forward_with_status(status);
    RECORDING.with(|own| own.received(origin, kind, posted, status, result));
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

/// A receive where threads share MPI: what takes a place in line is done under the lock, and the
/// receive is looked at under it, since others may ask what it got.
fn in_parts(call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let (mut sending, mut receiving, mut packed) = (None, 0, Vec::new());
    let large = call.role.large;
    let sent = match kind {
        Kind::Sendrecv => split::sent(&call, &mut packed).map(Some),
        _ => Ok(None),
    };
    let begun = RECORDING.with(|own| {
        let posted = own.posts(&call, origin);
        let result = split::irecv(&split::received(&call), large, &mut receiving);
        if let Some((ticket, _)) = posted {
            own.asked.insert(ticket, mpi::handle(receiving));
        }
        if let Some(target) = Target::of(&call) {
            own.stamp(origin, target);
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
        let done = RECORDING.with(|own| {
            own.listen();
            let mut flag: c_int = 0;
            let words = [&raw mut receiving as usize, &raw mut flag as usize, status as usize];
            // SAFETY: a request of our own, an int and a status.
            let result = unsafe { mpi::call(table::MPI_Test, &words) };
            let done = flag != 0 || result != 0;
            if done {
                own.received(origin, kind, posted, status, result);
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
        unsupported("MPI_Isendrecv with a wildcard: this MPI does not tell what was received");
    }
    let result = RECORDING.with(|own| {
        let posted = own.posts(&call, origin);
        if let Some(target) = Target::of(&call) {
            own.stamp(origin, target);
        }
        let result = call.forward();
        if let Some((ticket, post)) = posted.filter(|_| result == 0 && !is_unknown) {
            let request = request_of(&call);
            own.asked.insert(ticket, request);
            let (ticket, persistent, cancelled) = (Some(ticket), false, false);
            let receive = Receive { ticket, post, persistent, cancelled };
            own.requests.add(request, Pending::Receive(receive));
        }
        result
    });
    result.unwrap_or_else(|| call.forward())
}

/// A receive that can be started.
pub(super) fn init(call: Hooked<'_>, origin: Origin) -> c_int {
    let result = call.forward();
    if result == 0 {
        RECORDING.with(|own| {
            let post = own.wanted(&call, origin);
            let receive = Receive { ticket: None, post, persistent: true, cancelled: false };
            own.requests.add(request_of(&call), Pending::Receive(receive));
        });
    }
    result
}

/// Probes; where threads share MPI, those that block ask again and again, so that what is found
/// is told at once.
pub(super) fn probe(mut call: Hooked<'_>, origin: Origin, kind: Kind) -> c_int {
    let is_unsupported = RECORDING.with(|own| own.comms.get(call.comm()).is_unsupported);
    if !is_from_somebody(&call.post(0, 0)) || is_unsupported == Some(true) {
        return call.forward();
    }
    let mut room = Status::new();
    let ignored = call.post(0, 0).is_wild() && call.ignores_status(false);
    let status = if ignored { room.address() } else { call.status() };
    if !line::is_shared() {
        let result = call.forward_with_status(status);
        let found = !kind.polls() || call.output(call.role.flag) != Some(0);
        RECORDING
            .with(|own| own.probed(&call, origin, kind, (found && result == 0).then_some(status)));
        return result;
    }
    loop {
        let result = RECORDING.with(|own| {
            let (result, found) = split::look(&mut call, kind, status as usize);
            if found || kind.polls() {
                own.probed(&call, origin, kind, (found && result == 0).then_some(status));
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
    /// A probe has found what the status says, or nothing.
    fn probed(&mut self, call: &Hooked<'_>, origin: Origin, kind: Kind, found: Option<Statuses>) {
        let Some(status) = found else {
            self.failed(origin, kind);
            return;
        };
        let post = self.wanted(call, origin);
        self.take_turn(origin, line::of_receives(post.communicator));
        // SAFETY: MPI has filled the status in, if it is wanted.
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
