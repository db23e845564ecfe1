//! Collective operations, and functions that make or free communicators: exchanges clocks.

use crate::table;
use std::ffi::c_int;

use super::super::super::mpi::{self, status_ignore};
use super::super::super::role::{Hooked, Origin, Role, Synchronization};
use super::super::super::split;
use super::super::collectives::{self, Collective, Rule};
use super::super::request_of;
use super::{ClockReduction, Pending, RECORDING, Recording};

impl Recording {
    /// Begins the reduction for the maximum clock of a communicator.
    fn reduce_clock(&mut self, origin: Origin, comm: usize) -> Box<ClockReduction> {
        let clock = self.clock(origin.stream).now();
        let mut reduction = Box::new(ClockReduction { clock, maximum: clock, request: 0 });
        let (word, max) = (mpi::word(), mpi::greatest());
        let [from, to] = [&raw const reduction.clock as usize, &raw mut reduction.maximum as usize];
        let request = &raw mut reduction.request as usize;
        // SAFETY: a word and room for one, in a box that stays in place.
        unsafe { mpi::call(table::MPI_Iallreduce, &[from, to, 1, word, max, comm, request]) };
        reduction
    }

    /// Sets the clock after a collective operation.
    pub(super) fn set_clock_after(
        &mut self,
        origin: Origin,
        collective: &Collective,
        reduction: Option<Box<ClockReduction>>,
    ) {
        let clock = match (collective.rule, reduction) {
            (Rule::AtLeast(clock), _) => clock,
            (Rule::Maximum, None) => return,
            (Rule::Maximum, Some(mut reduction)) => {
                split::wait(&mut reduction.request, status_ignore() as usize);
                reduction.maximum
            }
        };
        self.clock(origin.stream).merge(clock);
    }

    /// Begins a collective operation.
    fn begin_collective(
        &mut self,
        origin: Origin,
        comm: usize,
        synchronization: Synchronization,
    ) -> Option<(Collective, Option<Box<ClockReduction>>)> {
        let collective = collectives::begin(self.comms.get(comm), synchronization)?;
        let reduces = collective.rule == Rule::Maximum;
        let reduction = reduces.then(|| self.reduce_clock(origin, comm));
        Some((collective, reduction))
    }
}

/// Begins an operation, forwards it, and sets the clock when it is complete.
fn forward_collective(
    call: &Hooked<'_>,
    origin: Origin,
    begin: impl FnOnce(&mut Recording) -> Option<(Collective, Option<Box<ClockReduction>>)>,
) -> c_int {
    let begun = RECORDING.with(begin).flatten();
    let result = call.forward();
    let Some((collective, mut reduction)) = begun else { return result };
    let later = call.role.request != Role::ABSENT && result == 0;
    if let Some(reduction) = reduction.as_mut().filter(|_| !later) {
        // Without the lock: another rank may be late.
        split::wait(&mut reduction.request, status_ignore() as usize);
    }
    RECORDING.with(|state| match later {
        true => state.requests.add(request_of(call), Pending::Collective(collective, reduction)),
        false => state.set_clock_after(origin, &collective, reduction),
    });
    result
}

/// A collective operation on a communicator.
pub(super) fn collective(
    call: Hooked<'_>,
    origin: Origin,
    synchronization: Synchronization,
) -> c_int {
    if collectives::exchanges_nothing(&call, synchronization) {
        return call.forward();
    }
    forward_collective(&call, origin, |state| {
        state.begin_collective(origin, call.comm(), synchronization)
    })
}

/// Makes a communicator.
pub(super) fn make_comm(call: Hooked<'_>, origin: Origin, parent: bool, new: bool) -> c_int {
    let old = call.comm();
    let at = call.word(call.role.newcomm);
    let later = call.role.request != Role::ABSENT;
    // Communicators are numbered in the order in which the program asks for them.
    let is_child = parent && !new;
    let child = RECORDING.with(|state| is_child.then(|| state.comms.next_child(old))).flatten();
    let described =
        later.then(|| RECORDING.with(|state| state.comms.describe(old, child))).flatten();
    let begin = |state: &mut Recording| {
        parent.then(|| state.begin_collective(origin, old, Synchronization::Partial))
    };
    let result = forward_collective(&call, origin, |state| begin(state).flatten());
    if result != 0 || at == 0 {
        return result;
    }
    if let Some(Some(comm)) = described {
        RECORDING.with(|state| state.pending_comms.insert(request_of(&call), (at, comm)));
        return result;
    }
    // SAFETY: by the interface table, the argument points to a communicator.
    let made = unsafe { mpi::handle_at(at as *mut u8, 0) };
    let begun = RECORDING.with(|state| {
        state.comms.add(made, child);
        if new { state.begin_collective(origin, made, Synchronization::Partial) } else { None }
    });
    if let Some(Some((collective, mut reduction))) = begun {
        if let Some(reduction) = &mut reduction {
            split::wait(&mut reduction.request, status_ignore() as usize);
        }
        RECORDING.with(|state| state.set_clock_after(origin, &collective, reduction));
    }
    result
}

pub(super) fn free_comm(call: Hooked<'_>) -> c_int {
    // SAFETY: by the interface table, the argument points to a communicator.
    let handle = unsafe { mpi::handle_at(call.word(call.role.comm) as *mut u8, 0) };
    let result = call.forward();
    if result == 0 {
        RECORDING.with(|state| state.comms.remove(handle));
    }
    result
}
