//! Collective operations: entered when all are there, so that nobody waits in MPI for somebody who
//! waits for an answer.
//!
//! Whoever comes to one tells all others, with its clock. So everybody knows who is missing, and
//! which clock is the greatest.

use crate::inside::process;
use crate::table;
use refrain_order::Turn;
use refrain_order::clock::record::CLOCK_LINE;
use std::ffi::c_int;

use super::super::super::board::Inside;
use super::super::super::line;
use super::super::super::mpi;
use super::super::super::role::{self, Hooked, Origin, Role};
use super::super::collectives::{self, Gathering, Rule};
use super::super::request_of;
use super::super::wire::Word;
use super::{BegunCollective, Pending, REPLAYING, Replaying, ask, ask_until, name};

impl Replaying {
    /// Where threads share the clock: whether it is this one's turn.
    fn has_clock(&self, stream: u32) -> bool {
        !line::is_shared() || self.replayer.turn(stream, CLOCK_LINE) == Turn::Go
    }

    fn missing(&self, gathering: &Gathering, others: &[u32]) -> Vec<u32> {
        let key = (gathering.communicator, gathering.serial);
        let here = self.here.get(&key).map_or(&[][..], |here| &here[..]);
        let is_here = |other: &&u32| here.iter().any(|(from, _)| from == *other);
        others.iter().filter(|other| !is_here(other)).copied().collect()
    }

    /// A collective operation is done: the clock that follows from it.
    fn clock_behind(&mut self, gathering: &Gathering, started: &BegunCollective) -> Option<u64> {
        let key = (gathering.communicator, gathering.serial);
        let here = self.here.get(&key).cloned().unwrap_or_default();
        if self.missing(gathering, &started.others).is_empty() {
            self.here.remove(&key);
        }
        match gathering.rule {
            Rule::Is(clock) => Some(clock),
            Rule::Greatest => {
                let heard = here.iter().filter(|(from, _)| started.heard.contains(from));
                heard.map(|(_, clock)| *clock).chain([started.clock]).max()
            }
        }
    }
}

/// Comes to an operation, and tells the others.
fn begin(
    origin: Origin,
    comm: usize,
    synchronization: role::Synchronization,
) -> Option<(Gathering, BegunCollective)> {
    let what = || format!("at {}, for its turn", name(origin));
    ask_until(origin.stream, what, |own| {
        let rule = collectives::rule(own.comms.get(comm), synchronization);
        // Who looks for the greatest clock tells its own.
        let tells = rule == Some(Rule::Greatest);
        if tells && !own.has_clock(origin.stream) {
            return Ok(None);
        }
        let known = own.comms.get(comm);
        let Some(gathering) = collectives::begin(known, synchronization) else {
            return Ok(Some(None));
        };
        let others = known.others.clone();
        let heard = known.peers.iter().filter_map(|one| u32::try_from(*one).ok()).collect();
        if tells {
            own.took(CLOCK_LINE);
        }
        let clock = own.replayer.clock().now();
        let Gathering { communicator, serial, .. } = gathering;
        for other in &others {
            own.channel.tell(*other, Word::Here { communicator, serial, clock });
        }
        Ok(Some(Some((gathering, BegunCollective { clock, others, heard }))))
    })
}

impl Replaying {
    /// A request is complete: if it was to make a communicator, that is there now.
    pub(super) fn is_made(&mut self, request: usize) {
        if let Some((at, comm)) = self.unborn.remove(&request) {
            // SAFETY: the program's place for a communicator.
            self.comms.insert(unsafe { mpi::handle_at(at as *mut u8, 0) }, comm);
        }
    }

    /// A thread waits in an operation: others may be told who is missing.
    fn waits_in(&mut self, stream: u32, gathering: &Gathering, others: &[u32]) {
        if self.inside.get(&stream).is_none_or(|(known, _)| known != gathering) {
            self.inside.insert(stream, (*gathering, others.to_vec()));
            self.tell_missing(stream);
        }
    }

    /// Somebody has come to an operation. This is to be known before anything else that one has
    /// told: it answers as one who is there.
    pub(super) fn comes(&mut self, from: u32, (communicator, serial): (u32, u64), clock: u64) {
        self.here.entry((communicator, serial)).or_default().push((from, clock));
        let is_there = |(_, (gathering, _)): &(&u32, &(Gathering, Vec<u32>))| {
            (gathering.communicator, gathering.serial) == (communicator, serial)
        };
        let waiting: Vec<u32> =
            self.inside.iter().filter(is_there).map(|(stream, _)| *stream).collect();
        waiting.into_iter().for_each(|stream| self.tell_missing(stream));
    }

    fn tell_missing(&mut self, stream: u32) {
        if let Some((gathering, others)) = self.inside.get(&stream) {
            let missing = self.missing(gathering, others);
            let bound = gathering.bound();
            self.replayer.gathers(stream, &missing, bound);
        }
    }

    /// A thread waits in no operation any more.
    fn goes_on(&mut self, stream: u32) {
        self.inside.remove(&stream);
        self.replayer.goes_on(stream);
    }
}

/// Waits until all are there.
fn await_all(origin: Origin, gathering: &Gathering, started: &BegunCollective) {
    let what = || {
        let missing = REPLAYING.with(|own| own.missing(gathering, &started.others));
        format!("in a collective operation, for ranks {:?}", missing.unwrap_or_default())
    };
    ask_until(origin.stream, what, |own| {
        if own.missing(gathering, &started.others).is_empty() {
            own.goes_on(origin.stream);
            return Ok(Some(()));
        }
        own.waits_in(origin.stream, gathering, &started.others);
        Ok(None)
    });
}

/// Sets the clock.
fn met(origin: Origin, gathering: &Gathering, started: &BegunCollective) {
    let what = || format!("at {}, for its turn", name(origin));
    ask_until(origin.stream, what, |own| {
        if !own.has_clock(origin.stream) {
            return Ok(None);
        }
        own.took(CLOCK_LINE);
        if let Some(clock) = own.clock_behind(gathering, started) {
            own.replayer.clock().merge(clock);
        }
        own.goes_on(origin.stream);
        Ok(Some(()))
    });
}

/// Begins an operation, forwards it when all are there, and sets the clock when it is done.
fn through(
    call: &Hooked<'_>,
    origin: Origin,
    begun: Option<(Gathering, BegunCollective)>,
) -> c_int {
    let Some((gathering, started)) = begun else { return call.forward() };
    if call.role.request != Role::NOWHERE {
        let result = call.forward();
        if result == 0 {
            let pending = Pending::Collective(gathering, started);
            REPLAYING.with(|own| own.requests.add(request_of(call), pending));
        }
        return result;
    }
    await_all(origin, &gathering, &started);
    let result = {
        let _inside = Inside::of(call.role.function);
        call.forward()
    };
    met(origin, &gathering, &started);
    result
}

/// A collective operation on a communicator.
pub(super) fn collective(
    call: Hooked<'_>,
    origin: Origin,
    synchronization: role::Synchronization,
) -> c_int {
    if collectives::is_idle(&call, synchronization) {
        return call.forward();
    }
    through(&call, origin, begin(origin, call.comm(), synchronization))
}

/// Whoever waits for one that completes later can tell who is missing.
pub(super) fn still_in(origin: Origin, request: usize) {
    ask(origin.stream, |own| {
        own.pump();
        if let Some(Pending::Collective(gathering, started)) = own.requests.get(request) {
            let (gathering, others) = (*gathering, started.others.clone());
            own.waits_in(origin.stream, &gathering, &others);
        }
        Ok(())
    });
}

/// One that completes later is complete.
pub(super) fn is_done(origin: Origin, request: usize) {
    let pending = ask(origin.stream, |own| {
        own.is_made(request);
        Ok(own.requests.remove(request))
    });
    let Some(Pending::Collective(gathering, started)) = pending else { return };
    if gathering.rule == Rule::Greatest {
        await_all(origin, &gathering, &started);
    }
    met(origin, &gathering, &started);
}

/// What makes a communicator.
pub(super) fn make_comm(call: Hooked<'_>, origin: Origin, parent: bool, new: bool) -> c_int {
    let old = call.comm();
    let at = call.word(call.role.newcomm);
    let later = call.role.request != Role::NOWHERE;
    let is_child = parent && !new;
    let child = ask(origin.stream, |own| Ok(is_child.then(|| own.comms.next_child(old))));
    let describe = || ask(origin.stream, |own| Ok(own.comms.describe(old, child)));
    let described = if later { describe() } else { None };
    let begun = if parent { begin(origin, old, role::Synchronization::Partial) } else { None };
    let result = through(&call, origin, begun);
    if result != 0 || at == 0 {
        return result;
    }
    if let Some(comm) = described {
        REPLAYING.with(|own| own.unborn.insert(request_of(&call), (at, comm)));
        return result;
    }
    // SAFETY: the table says a communicator is there.
    let made = unsafe { mpi::handle_at(at as *mut u8, 0) };
    REPLAYING.with(|own| own.comms.add(made, child));
    if new && let Some((gathering, started)) = begin(origin, made, role::Synchronization::Partial) {
        await_all(origin, &gathering, &started);
        met(origin, &gathering, &started);
    }
    result
}

/// A communicator is let go of. While receives wait for messages on it, MPI keeps it: these are looked
/// for there.
pub(super) fn free_comm(call: Hooked<'_>) -> c_int {
    let at = call.word(call.role.comm) as *mut u8;
    // SAFETY: the table says a communicator is there.
    let handle = unsafe { mpi::handle_at(at, 0) };
    let null = process::predefined("MPI_COMM_NULL");
    let null = null.filter(|_| call.role.function == table::MPI_Comm_free);
    let is_kept = REPLAYING.with(|own| match null.is_some() && own.awaits_messages(handle) {
        true => {
            own.freed.push(handle);
            true
        }
        false => {
            // First, or somebody might look for messages on it.
            own.comms.remove(handle);
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

/// Frees communicators that the program has let go of and nothing is received on any more. They may have
/// attributes whose callbacks call MPI, so nothing is held meanwhile.
pub(super) fn free_unused() {
    let unused = || {
        REPLAYING.with(|own| {
            let at = own.freed.iter().position(|comm| !own.awaits_messages(*comm))?;
            let comm = own.freed.swap_remove(at);
            own.comms.remove(comm);
            Some(comm)
        })
    };
    while let Some(Some(mut comm)) = unused() {
        // SAFETY: a communicator that the program wanted to be freed.
        unsafe { mpi::call(table::MPI_Comm_free, &[&raw mut comm as usize]) };
    }
}
