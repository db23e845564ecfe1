//! Completing calls: records which requests completed, and the match results of receives.

use crate::inside::memory::Statuses;
use refrain_order::{Call, Choice, Completed, Kind};
use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::super::files::unsupported;
use super::super::mpi;
use super::super::outcome::{self, Outcome, Room};
use super::super::role::{Hooked, Origin};
use super::{IN_COMPLETION, RECORDING, Receive, Recording, STATUSES_MATTER};

pub(super) fn arrive(call: &mut Hooked<'_>, origin: Origin) -> c_int {
    let result = call.forward();
    let found = call.output(call.role.flag) != Some(0);
    RECORDING.with(|own| match found {
        true => own.succeeded(origin, Kind::Parrived),
        false => {
            own.make_room(0);
            own.log.failed(origin.stream, Kind::Parrived, origin.site);
        }
    });
    result
}

/// Which requests those are is MPI's choice, and is not recorded.
const PARTLY: &str = "calls that completed some of their requests only, because of an error";

/// Whether a call frees the requests that it completes, or only inspects them.
#[inline]
pub fn consumes(kind: Kind) -> bool {
    !matches!(kind, Kind::GetStatus | Kind::GetStatusAll | Kind::GetStatusAny | Kind::GetStatusSome)
}

/// A completing call and its outcome.
#[derive(Clone, Copy)]
struct Done<'a> {
    origin: Origin,
    kind: Kind,
    /// Its requests, as they were.
    before: &'a [usize],
    outcome: Outcome<'a>,
    /// Where the statuses are, if there are any.
    statuses: Option<Statuses>,
}

#[inline(always)]
pub(super) fn complete(call: &mut Hooked<'_>, origin: Origin, kind: Kind, shared: bool) -> c_int {
    let requests = outcome::Requests::of(call, kind);
    let before = requests.all();
    let mut room = Room::new();
    let has_array = kind.has_array() && kind.choice() != Choice::One;
    let ignored = call.ignores_status(has_array);
    let status = match ignored && STATUSES_MATTER.load(Ordering::Relaxed) {
        true => room.make(if has_array { before.len() } else { 1 }),
        false => call.status(),
    };
    let taken = shared.then(|| take_out(before, consumes(kind)));
    let outer = IN_COMPLETION.load(Ordering::Relaxed);
    IN_COMPLETION.store(call.entry.stack, Ordering::Relaxed);
    let result = call.forward_with_status(status);
    IN_COMPLETION.store(outer, Ordering::Relaxed);
    let mut index = [0];
    let outcome = Outcome::of(call, kind, result, &mut index);
    let statuses = (status != call.status() || !ignored).then_some(status);
    let done = Done { origin, kind, before, outcome, statuses };
    match taken {
        None if result == 0 => {
            if let Some(mut own) = RECORDING.hold() {
                own.completed(&done);
            }
        }
        taken => complete_otherwise(&call.lent(), done, result, taken),
    }
    result
}

/// The slow path: after an error, or with `MPI_THREAD_MULTIPLE`.
#[inline(never)]
fn complete_otherwise(
    call: &Hooked<'_>,
    done: Done<'_>,
    result: c_int,
    taken: Option<Vec<Option<Receive>>>,
) {
    let Done { kind, before, outcome, statuses, .. } = done;
    RECORDING.with(|own| {
        let handle = |(index, at): (usize, usize)| {
            // After an error only what has become null is complete.
            let is_complete = result == 0 || is_gone(call, index);
            before.get(index).filter(|_| is_complete).map(|handle| (index, *handle, at))
        };
        let complete = || outcome.completed(before.len()).filter_map(handle);
        if let Some(taken) = &taken {
            put_back(own, before, taken, complete().map(|(index, ..)| index));
        }
        let is_left = |(index, handle): (usize, &usize)| {
            *handle != mpi::request_null() && !is_gone(call, index)
        };
        if result != 0 && kind.has_array() && consumes(kind) && kind.choice() == Choice::All {
            before.iter().enumerate().any(is_left).then(|| unsupported(PARTLY));
        }
        if outcome.is_of_several() && consumes(kind) {
            own.gone(complete().map(|(_, handle, _)| handle));
        }
        for (index, handle, at) in complete() {
            let receive = match &taken {
                Some(taken) => taken.get(index).copied().flatten(),
                None if consumes(kind) => own.requests.remove(handle),
                None => own.requests.get(handle).copied(),
            };
            if let Some(receive) = receive {
                own.settle((handle, receive), statuses, at, consumes(kind));
            }
        }
        own.note(&done);
    });
}

impl Recording {
    /// Logs a call. The match results of what it completed are logged before: a process that is killed in
    /// between has not returned from the call.
    #[inline(always)]
    fn note(&mut self, done: &Done<'_>) {
        let Done { origin, kind, before, outcome, .. } = *done;
        let Outcome::Completed(completed) = outcome else {
            self.make_room(0);
            self.log.failed(origin.stream, kind, origin.site);
            return;
        };
        let count = if kind.has_array() { before.len() as u32 } else { 0 };
        self.matched(origin.stream, &Call { kind, site: origin.site, count }, completed);
    }

    /// The fast path: no error, and no other threads.
    #[inline(always)]
    fn completed(&mut self, done: &Done<'_>) {
        if !self.requests.are_none() {
            self.settle_all(done);
        }
        self.note(done);
    }

    /// Records the match results of the receives that a call completed.
    #[inline(always)]
    fn settle_all(&mut self, done: &Done<'_>) {
        let Done { kind, before, outcome, statuses, .. } = *done;
        let handle = |index: &u32| before.get(*index as usize).copied();
        match outcome {
            Outcome::Completed(Completed::These([index])) => {
                if let Some(handle) = handle(index) {
                    self.settle_one(handle, statuses, 0, consumes(kind));
                }
            }
            Outcome::Completed(Completed::These(indices)) => {
                if consumes(kind) {
                    self.gone(indices.iter().filter_map(handle));
                }
                for (at, handle) in indices.iter().map(handle).enumerate() {
                    if let Some(handle) = handle {
                        self.settle_one(handle, statuses, at, consumes(kind));
                    }
                }
            }
            Outcome::Completed(Completed::All) => {
                if consumes(kind) && before.len() > 1 {
                    self.gone(before.iter().copied());
                }
                for (at, handle) in before.iter().enumerate() {
                    self.settle_one(*handle, statuses, at, consumes(kind));
                }
            }
            Outcome::Completed(Completed::Undefined) | Outcome::Failed => {}
        }
    }

    /// Records the match result of one completed request, whose status is `statuses[at]`.
    #[inline(never)]
    fn settle_one(&mut self, handle: usize, statuses: Option<Statuses>, at: usize, consumed: bool) {
        let receive = match consumed {
            true => self.requests.remove(handle),
            false => self.requests.get(handle).copied(),
        };
        if let Some(receive) = receive {
            self.settle((handle, receive), statuses, at, consumed);
        }
    }
}

/// Removes requests from the table before the call: other threads may get the handles of those that complete.
fn take_out(handles: &[usize], consumes: bool) -> Vec<Option<Receive>> {
    let taken = RECORDING.with(|own| {
        let take = |handle: &usize| match consumes {
            true => own.requests.remove(*handle),
            false => own.requests.get(*handle).copied(),
        };
        handles.iter().map(take).collect()
    });
    taken.unwrap_or_default()
}

/// Puts back requests that did not complete, or are persistent.
fn put_back(
    own: &mut Recording,
    handles: &[usize],
    taken: &[Option<Receive>],
    complete: impl Iterator<Item = usize>,
) {
    let mut stays = vec![true; handles.len()];
    complete.for_each(|index| {
        if let Some(stays) = stays.get_mut(index) {
            *stays = false;
        }
    });
    for ((handle, receive), stays) in handles.iter().zip(taken).zip(stays) {
        if let Some(receive) = receive.filter(|receive| stays || receive.persistent) {
            own.requests.add(*handle, receive);
        }
    }
}

fn is_gone(call: &Hooked<'_>, index: usize) -> bool {
    let (at, n) = call.requests();
    // SAFETY: the table says that so many requests are there.
    index < n && unsafe { mpi::handle_at(at, index) } == mpi::request_null()
}

pub(super) fn cancel(call: &mut Hooked<'_>) -> c_int {
    // SAFETY: the table says a request is there.
    let handle = unsafe { mpi::handle_at(call.word(call.role.request) as *mut u8, 0) };
    let is_receive = RECORDING.with(|own| {
        let receive = own.requests.get_mut(handle);
        receive.map(|receive| receive.cancelled = true).is_some()
    });
    STATUSES_MATTER.store(true, Ordering::Relaxed);
    if is_receive == Some(false) {
        unsupported("MPI_Cancel of what is no receive");
    }
    call.forward()
}

pub(super) fn free(call: &mut Hooked<'_>) -> c_int {
    let at = call.word(call.role.request) as *mut u8;
    // SAFETY: the table says a request is there.
    let handle = unsafe { mpi::handle_at(at, 0) };
    let kept = RECORDING.with(|own| {
        own.lines.remove(&handle);
        let receive = own.requests.remove(handle)?;
        let ticket = receive.ticket.filter(|ticket| ticket.wild)?;
        own.orphans.push((handle, ticket, receive.posted));
        Some(())
    });
    if kept.flatten().is_some() {
        // SAFETY: as above.
        unsafe { mpi::put_handle(at, 0, mpi::request_null()) };
        return 0;
    }
    call.forward()
}

pub(super) fn free_comm(call: &mut Hooked<'_>) -> c_int {
    // SAFETY: the table says a communicator is there.
    let handle = unsafe { mpi::handle_at(call.word(call.role.comm) as *mut u8, 0) };
    let result = call.forward();
    if result == 0 {
        RECORDING.with(|own| own.comms.remove(handle));
    }
    result
}
