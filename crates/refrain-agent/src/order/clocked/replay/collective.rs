//! Collective operations. MPI is called only after all participants have entered: a process that waited inside MPI
//! could not answer the queries of one that is missing.
//!
//! A process that enters an operation announces it to the other participants, with its clock. So every participant
//! knows which ones are missing, and the maximum of the clocks.

use crate::inside::library::predefined;
use crate::table;
use refrain_order::Turn;
use refrain_order::clock::record::CLOCK_KEY;
use std::ffi::c_int;

use super::super::super::board::Inside;
use super::super::super::mpi;
use super::super::super::role::{self, Hooked, Origin, Role};
use super::super::super::thread_level;
use super::super::collectives::{self, Collective, Rule};
use super::super::request_of;
use super::super::wire::Message;
use super::{Participation, Pending, REPLAYING, Replaying, ask, ask_until, name};

impl Replaying {
    /// Whether it is this thread's turn to set the clock; always, unless threads call MPI concurrently.
    fn has_clock_turn(&self, stream: u32) -> bool {
        !thread_level::is_multiple() || self.replayer.turn(stream, CLOCK_KEY) == Turn::Go
    }

    fn missing(&self, collective: &Collective, others: &[u32]) -> Vec<u32> {
        let key = (collective.communicator, collective.serial);
        let entered = self.entered.get(&key).map_or(&[][..], |entered| &entered[..]);
        let has_entered = |other: &&u32| entered.iter().any(|(from, _)| from == *other);
        others.iter().filter(|other| !has_entered(other)).copied().collect()
    }

    /// The clock after a collective operation.
    fn clock_after(
        &mut self,
        collective: &Collective,
        participation: &Participation,
    ) -> Option<u64> {
        let key = (collective.communicator, collective.serial);
        let entered = self.entered.get(&key).cloned().unwrap_or_default();
        if self.missing(collective, &participation.others).is_empty() {
            self.entered.remove(&key);
        }
        match collective.rule {
            Rule::AtLeast(clock) => Some(clock),
            Rule::Maximum => {
                let of_peers =
                    entered.iter().filter(|(from, _)| participation.peers.contains(from));
                of_peers.map(|(_, clock)| *clock).chain([participation.clock]).max()
            }
        }
    }
}

/// Enters an operation, and announces it to the other participants.
fn begin(
    origin: Origin,
    comm: usize,
    synchronization: role::Synchronization,
) -> Option<(Collective, Participation)> {
    let what = || format!("at {}, for its turn", name(origin));
    ask_until(origin.stream, what, |state| {
        let rule = collectives::rule(state.comms.get(comm), synchronization);
        // The clock is sent only if the maximum is needed.
        let exchanges = rule == Some(Rule::Maximum);
        if exchanges && !state.has_clock_turn(origin.stream) {
            return Ok(None);
        }
        let known = state.comms.get(comm);
        let Some(collective) = collectives::begin(known, synchronization) else {
            return Ok(Some(None));
        };
        let others = known.others.clone();
        let peers = known.peers.iter().filter_map(|one| u32::try_from(*one).ok()).collect();
        if exchanges {
            state.took_turn(CLOCK_KEY);
        }
        let clock = state.replayer.clock().now();
        let Collective { communicator, serial, .. } = collective;
        for other in &others {
            state.channel.send(*other, Message::Entered { communicator, serial, clock });
        }
        Ok(Some(Some((collective, Participation { clock, others, peers }))))
    })
}

impl Replaying {
    /// A request is complete: if it made a communicator, adds that.
    pub(super) fn register_comm(&mut self, request: usize) {
        if let Some((at, comm)) = self.pending_comms.remove(&request) {
            // SAFETY: the address of the program's new communicator.
            self.comms.insert(unsafe { mpi::handle_at(at as *mut u8, 0) }, comm);
        }
    }

    /// A thread waits in an operation: reports the missing participants to the replayer.
    fn waits_in(&mut self, stream: u32, collective: &Collective, others: &[u32]) {
        if self.waiting_in.get(&stream).is_none_or(|(known, _)| known != collective) {
            self.waiting_in.insert(stream, (*collective, others.to_vec()));
            self.report_missing(stream);
        }
    }

    /// A process has entered an operation. This has to be processed before its later notes: it answers queries as a
    /// process that has entered.
    pub(super) fn entered(&mut self, from: u32, (communicator, serial): (u32, u64), clock: u64) {
        self.entered.entry((communicator, serial)).or_default().push((from, clock));
        let is_same = |(_, (collective, _)): &(&u32, &(Collective, Vec<u32>))| {
            (collective.communicator, collective.serial) == (communicator, serial)
        };
        let waiting: Vec<u32> =
            self.waiting_in.iter().filter(is_same).map(|(stream, _)| *stream).collect();
        waiting.into_iter().for_each(|stream| self.report_missing(stream));
    }

    fn report_missing(&mut self, stream: u32) {
        if let Some((collective, others)) = self.waiting_in.get(&stream) {
            let missing = self.missing(collective, others);
            let bound = collective.bound();
            self.replayer.waits_in_collective(stream, &missing, bound);
        }
    }

    /// A thread has left its operation.
    fn leave_collective(&mut self, stream: u32) {
        self.waiting_in.remove(&stream);
        self.replayer.resumes(stream);
    }
}

/// Waits until all participants have entered.
fn await_all(origin: Origin, collective: &Collective, participation: &Participation) {
    let what = || {
        let missing = REPLAYING.with(|state| state.missing(collective, &participation.others));
        format!("in a collective operation, for ranks {:?}", missing.unwrap_or_default())
    };
    ask_until(origin.stream, what, |state| {
        if state.missing(collective, &participation.others).is_empty() {
            state.leave_collective(origin.stream);
            return Ok(Some(()));
        }
        state.waits_in(origin.stream, collective, &participation.others);
        Ok(None)
    });
}

/// Sets the clock after an operation.
fn set_clock_after(origin: Origin, collective: &Collective, participation: &Participation) {
    let what = || format!("at {}, for its turn", name(origin));
    ask_until(origin.stream, what, |state| {
        if !state.has_clock_turn(origin.stream) {
            return Ok(None);
        }
        state.took_turn(CLOCK_KEY);
        if let Some(clock) = state.clock_after(collective, participation) {
            state.replayer.clock().merge(clock);
        }
        state.leave_collective(origin.stream);
        Ok(Some(()))
    });
}

/// Forwards an operation when all participants have entered, and sets the clock when it is complete.
fn forward_collective(
    call: &Hooked<'_>,
    origin: Origin,
    begun: Option<(Collective, Participation)>,
) -> c_int {
    let Some((collective, participation)) = begun else { return call.forward() };
    if call.role.request != Role::ABSENT {
        let result = call.forward();
        if result == 0 {
            let pending = Pending::Collective(collective, participation);
            REPLAYING.with(|state| state.requests.add(request_of(call), pending));
        }
        return result;
    }
    await_all(origin, &collective, &participation);
    let result = {
        let _inside = Inside::of(call.role.function);
        call.forward()
    };
    set_clock_after(origin, &collective, &participation);
    result
}

/// A collective operation on a communicator.
pub(super) fn collective(
    call: Hooked<'_>,
    origin: Origin,
    synchronization: role::Synchronization,
) -> c_int {
    if collectives::exchanges_nothing(&call, synchronization) {
        return call.forward();
    }
    forward_collective(&call, origin, begin(origin, call.comm(), synchronization))
}

/// A thread waits for a nonblocking operation: reports the missing participants to the replayer.
pub(super) fn report_waiting(origin: Origin, request: usize) {
    ask(origin.stream, |state| {
        state.pump();
        if let Some(Pending::Collective(collective, participation)) = state.requests.get(request) {
            let (collective, others) = (*collective, participation.others.clone());
            state.waits_in(origin.stream, &collective, &others);
        }
        Ok(())
    });
}

/// A nonblocking operation is complete: sets the clock.
pub(super) fn is_done(origin: Origin, request: usize) {
    let pending = ask(origin.stream, |state| {
        state.register_comm(request);
        Ok(state.requests.remove(request))
    });
    let Some(Pending::Collective(collective, participation)) = pending else { return };
    if collective.rule == Rule::Maximum {
        await_all(origin, &collective, &participation);
    }
    set_clock_after(origin, &collective, &participation);
}

/// Makes a communicator.
pub(super) fn make_comm(call: Hooked<'_>, origin: Origin, parent: bool, new: bool) -> c_int {
    let old = call.comm();
    let at = call.word(call.role.newcomm);
    let later = call.role.request != Role::ABSENT;
    let is_child = parent && !new;
    let child = ask(origin.stream, |state| Ok(is_child.then(|| state.comms.next_child(old))));
    let describe = || ask(origin.stream, |state| Ok(state.comms.describe(old, child)));
    let described = if later { describe() } else { None };
    let begun = if parent { begin(origin, old, role::Synchronization::Partial) } else { None };
    let result = forward_collective(&call, origin, begun);
    if result != 0 || at == 0 {
        return result;
    }
    if let Some(comm) = described {
        REPLAYING.with(|state| state.pending_comms.insert(request_of(&call), (at, comm)));
        return result;
    }
    // SAFETY: by the interface table, the argument points to a communicator.
    let made = unsafe { mpi::handle_at(at as *mut u8, 0) };
    REPLAYING.with(|state| state.comms.add(made, child));
    if new
        && let Some((collective, participation)) =
            begin(origin, made, role::Synchronization::Partial)
    {
        await_all(origin, &collective, &participation);
        set_clock_after(origin, &collective, &participation);
    }
    result
}

/// Frees a communicator. If receives still wait for messages on it, the agent keeps it until they are complete: the
/// messages arrive there.
pub(super) fn free_comm(call: Hooked<'_>) -> c_int {
    let at = call.word(call.role.comm) as *mut u8;
    // SAFETY: by the interface table, the argument points to a communicator.
    let handle = unsafe { mpi::handle_at(at, 0) };
    let null = predefined("MPI_COMM_NULL");
    let null = null.filter(|_| call.role.function == table::MPI_Comm_free);
    let is_kept = REPLAYING.with(|state| match null.is_some() && state.awaits_messages(handle) {
        true => {
            state.freed.push(handle);
            true
        }
        false => {
            // Removed first, so that no thread looks for messages on it.
            state.comms.remove(handle);
            false
        }
    });
    match null {
        Some(null) if is_kept == Some(true) => {
            // SAFETY: as above.
            unsafe { mpi::put_handle(at, 0, null) };
            0
        }
        _ => call.forward(),
    }
}

/// Frees communicators that the program has freed and on which no receive waits. Their attributes may have callbacks
/// that call MPI, so no lock is held meanwhile.
pub(super) fn free_unused() {
    let unused = || {
        REPLAYING.with(|state| {
            let at = state.freed.iter().position(|comm| !state.awaits_messages(*comm))?;
            let comm = state.freed.swap_remove(at);
            state.comms.remove(comm);
            Some(comm)
        })
    };
    while let Some(Some(mut comm)) = unused() {
        // SAFETY: a communicator that the program has freed.
        unsafe { mpi::call(table::MPI_Comm_free, &[&raw mut comm as usize]) };
    }
}
