//! Completing calls: records which requests completed, and the match results of receives.

use crate::inside::memory::Statuses;
use refrain_order::{Call, Choice, Completed, Kind};
use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::super::files::note_unsupported;
use super::super::mpi;
use super::super::outcome::{self, Outcome, StatusBuffer};
use super::super::role::{Hooked, Origin};
use super::{IN_COMPLETION, RECORDING, Receive, Recording, STATUSES_MATTER};

pub(super) fn arrive(call: &mut Hooked<'_>, origin: Origin) -> c_int {
    let result = call.forward();
    let found = call.output(call.role.flag) != Some(0);
    RECORDING.with(|state| match found {
        true => state.succeeded(origin, Kind::Parrived),
        false => {
            state.make_room(0);
            state.log.failed(origin.stream, Kind::Parrived, origin.site);
        }
    });
    result
}

/// MPI chooses which requests those are, and the choice is not recorded.
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
    /// The requests before the call.
    before: &'a [usize],
    outcome: Outcome<'a>,
    /// The statuses, unless there are none.
    statuses: Option<Statuses>,
}

#[inline(always)]
pub(super) fn complete(call: &mut Hooked<'_>, origin: Origin, kind: Kind, shared: bool) -> c_int {
    let requests = outcome::Requests::of(call, kind);
    let before = requests.all();
    let mut room = StatusBuffer::new();
    let has_array = kind.has_array() && kind.choice() != Choice::One;
    let ignored = call.ignores_status(has_array);
    let status = match ignored && STATUSES_MATTER.load(Ordering::Relaxed) {
        true => room.reserve(if has_array { before.len() } else { 1 }),
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
            if let Some(mut state) = RECORDING.lock() {
                state.completed(&done);
            }
        }
        taken => complete_otherwise(&call.reborrow(), done, result, taken),
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
    RECORDING.with(|state| {
        let handle = |(index, at): (usize, usize)| {
            // After an error, only requests that have become null are complete.
            let is_complete = result == 0 || is_gone(call, index);
            before.get(index).filter(|_| is_complete).map(|handle| (index, *handle, at))
        };
        let complete = || outcome.completed(before.len()).filter_map(handle);
        if let Some(taken) = &taken {
            put_back(state, before, taken, complete().map(|(index, ..)| index));
        }
        let is_left = |(index, handle): (usize, &usize)| {
            *handle != mpi::request_null() && !is_gone(call, index)
        };
        if result != 0 && kind.has_array() && consumes(kind) && kind.choice() == Choice::All {
            before.iter().enumerate().any(is_left).then(|| note_unsupported(PARTLY));
        }
        if outcome.is_of_several() && consumes(kind) {
            state.forget_unobserved(complete().map(|(_, handle, _)| handle));
        }
        for (index, handle, at) in complete() {
            let receive = match &taken {
                Some(taken) => taken.get(index).copied().flatten(),
                None if consumes(kind) => state.requests.remove(handle),
                None => state.requests.get(handle).copied(),
            };
            if let Some(receive) = receive {
                let request = consumes(kind).then_some(index as u32);
                state.settle((handle, receive), statuses, at, request);
            }
        }
        state.note(&done);
    });
}

impl Recording {
    /// Logs a call, after the match results of its requests. A process that is killed in between has not
    /// returned from the call.
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
        if !self.requests.is_empty() {
            self.settle_all(done);
        }
        self.note(done);
    }

    /// Records the match results of the receives that a call completed.
    #[inline(always)]
    fn settle_all(&mut self, done: &Done<'_>) {
        let Done { kind, before, outcome, statuses, .. } = *done;
        let handle = |index: &u32| before.get(*index as usize).copied();
        let request = |index: u32| consumes(kind).then_some(index);
        match outcome {
            Outcome::Completed(Completed::These([index])) => {
                if let Some(handle) = handle(index) {
                    self.settle_one(handle, statuses, 0, request(*index));
                }
            }
            Outcome::Completed(Completed::These(indices)) => {
                if consumes(kind) {
                    self.forget_unobserved(indices.iter().filter_map(handle));
                }
                for (at, index) in indices.iter().enumerate() {
                    if let Some(handle) = handle(index) {
                        self.settle_one(handle, statuses, at, request(*index));
                    }
                }
            }
            Outcome::Completed(Completed::All) => {
                if consumes(kind) && before.len() > 1 {
                    self.forget_unobserved(before.iter().copied());
                }
                for (at, handle) in before.iter().enumerate() {
                    self.settle_one(*handle, statuses, at, request(at as u32));
                }
            }
            Outcome::Completed(Completed::Undefined) | Outcome::Failed => {}
        }
    }

    /// Records the match result of one completed request, whose status is `statuses[at]`. `request` is its index
    /// in the call, if the call frees it.
    #[inline(never)]
    fn settle_one(
        &mut self,
        handle: usize,
        statuses: Option<Statuses>,
        at: usize,
        request: Option<u32>,
    ) {
        let receive = match request {
            Some(_) => self.requests.remove(handle),
            None => self.requests.get(handle).copied(),
        };
        if let Some(receive) = receive {
            self.settle((handle, receive), statuses, at, request);
        }
    }
}

/// Removes requests from the table before the call: other threads may get the handles of those that complete.
fn take_out(handles: &[usize], consumes: bool) -> Vec<Option<Receive>> {
    let taken = RECORDING.with(|state| {
        let take = |handle: &usize| match consumes {
            true => state.requests.remove(*handle),
            false => state.requests.get(*handle).copied(),
        };
        handles.iter().map(take).collect()
    });
    taken.unwrap_or_default()
}

/// Puts back requests that did not complete, or are persistent.
fn put_back(
    state: &mut Recording,
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
            state.requests.add(*handle, receive);
        }
    }
}

fn is_gone(call: &Hooked<'_>, index: usize) -> bool {
    let (at, n) = call.requests();
    // SAFETY: by the interface table, the argument points to that many requests.
    index < n && unsafe { mpi::handle_at(at, index) } == mpi::request_null()
}

pub(super) fn cancel(call: &mut Hooked<'_>) -> c_int {
    // SAFETY: by the interface table, the argument points to a request.
    let handle = unsafe { mpi::handle_at(call.word(call.role.request) as *mut u8, 0) };
    let is_receive = RECORDING.with(|state| {
        let receive = state.requests.get_mut(handle);
        receive.map(|receive| receive.cancelled = true).is_some()
    });
    STATUSES_MATTER.store(true, Ordering::Relaxed);
    if is_receive == Some(false) {
        note_unsupported("MPI_Cancel of an operation that is no receive");
    }
    call.forward()
}

pub(super) fn free(call: &mut Hooked<'_>) -> c_int {
    let at = call.word(call.role.request) as *mut u8;
    // SAFETY: by the interface table, the argument points to a request.
    let handle = unsafe { mpi::handle_at(at, 0) };
    let kept = RECORDING.with(|state| {
        state.send_keys.remove(&handle);
        let receive = state.requests.remove(handle)?;
        let ticket = receive.ticket.filter(|ticket| ticket.wild)?;
        state.orphans.push((handle, ticket, receive.posted));
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
    // SAFETY: by the interface table, the argument points to a communicator.
    let handle = unsafe { mpi::handle_at(call.word(call.role.comm) as *mut u8, 0) };
    let result = call.forward();
    if result == 0 {
        RECORDING.with(|state| state.comms.remove(handle));
    }
    result
}
