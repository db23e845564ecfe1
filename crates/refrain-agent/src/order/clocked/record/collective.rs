//! Collective operations, and what makes and frees communicators: clocks go along.

use crate::table;
use std::ffi::c_int;

use super::super::super::mpi::{self, status_ignore};
use super::super::super::role::{Hooked, Origin, Role, Synchronization};
use super::super::super::split;
use super::super::collectives::{self, Gathering, Rule};
use super::super::request_of;
use super::{Pending, RECORDING, Recording, Search};

impl Recording {
    /// Begins to search for the greatest clock of a communicator.
    fn search(&mut self, origin: Origin, comm: usize) -> Box<Search> {
        let own = self.clock(origin.stream).now();
        let mut search = Box::new(Search { own, greatest: own, request: 0 });
        let (word, max) = (mpi::word(), mpi::greatest());
        let [from, to] = [&raw const search.own as usize, &raw mut search.greatest as usize];
        let request = &raw mut search.request as usize;
        // SAFETY: a word and room for one, which stay where they are.
        unsafe { mpi::call(table::MPI_Iallreduce, &[from, to, 1, word, max, comm, request]) };
        search
    }

    /// A collective operation is done: the clock is set.
    pub(super) fn met(
        &mut self,
        origin: Origin,
        gathering: &Gathering,
        search: Option<Box<Search>>,
    ) {
        let clock = match (gathering.rule, search) {
            (Rule::Is(clock), _) => clock,
            (Rule::Greatest, None) => return,
            (Rule::Greatest, Some(mut search)) => {
                split::wait(&mut search.request, status_ignore() as usize);
                search.greatest
            }
        };
        self.clock(origin.stream).merge(clock);
    }

    /// An operation of a communicator begins.
    fn gather(
        &mut self,
        origin: Origin,
        comm: usize,
        synchronization: Synchronization,
    ) -> Option<(Gathering, Option<Box<Search>>)> {
        let gathering = collectives::begin(self.comms.get(comm), synchronization)?;
        let searches = gathering.rule == Rule::Greatest;
        let search = searches.then(|| self.search(origin, comm));
        Some((gathering, search))
    }
}

/// Begins an operation, forwards it, and sets the clock when it is done.
fn through(
    call: &Hooked<'_>,
    origin: Origin,
    gather: impl FnOnce(&mut Recording) -> Option<(Gathering, Option<Box<Search>>)>,
) -> c_int {
    let begun = RECORDING.with(gather).flatten();
    let result = call.forward();
    let Some((gathering, mut search)) = begun else { return result };
    let later = call.role.request != Role::NOWHERE && result == 0;
    if let Some(search) = search.as_mut().filter(|_| !later) {
        // Outside of the lock: somebody may come late.
        split::wait(&mut search.request, status_ignore() as usize);
    }
    RECORDING.with(|own| match later {
        true => own.requests.add(request_of(call), Pending::Collective(gathering, search)),
        false => own.met(origin, &gathering, search),
    });
    result
}

/// A collective operation on a communicator.
pub(super) fn collective(
    call: Hooked<'_>,
    origin: Origin,
    synchronization: Synchronization,
) -> c_int {
    if collectives::is_idle(&call, synchronization) {
        return call.forward();
    }
    through(&call, origin, |own| own.gather(origin, call.comm(), synchronization))
}

/// What makes a communicator.
pub(super) fn make_comm(call: Hooked<'_>, origin: Origin, parent: bool, new: bool) -> c_int {
    let old = call.comm();
    let at = call.word(call.role.newcomm);
    let later = call.role.request != Role::NOWHERE;
    // Communicators are numbered in the order they are asked for.
    let is_child = parent && !new;
    let child = RECORDING.with(|own| is_child.then(|| own.comms.next_child(old))).flatten();
    let described = later.then(|| RECORDING.with(|own| own.comms.describe(old, child))).flatten();
    let gather =
        |own: &mut Recording| parent.then(|| own.gather(origin, old, Synchronization::Partial));
    let result = through(&call, origin, |own| gather(own).flatten());
    if result != 0 || at == 0 {
        return result;
    }
    if let Some(Some(comm)) = described {
        RECORDING.with(|own| own.unborn.insert(request_of(&call), (at, comm)));
        return result;
    }
    // SAFETY: the table says a communicator is there.
    let made = unsafe { mpi::handle_at(at as *mut u8, 0) };
    let begun = RECORDING.with(|own| {
        own.comms.add(made, child);
        if new { own.gather(origin, made, Synchronization::Partial) } else { None }
    });
    if let Some(Some((gathering, mut search))) = begun {
        if let Some(search) = &mut search {
            split::wait(&mut search.request, status_ignore() as usize);
        }
        RECORDING.with(|own| own.met(origin, &gathering, search));
    }
    result
}

pub(super) fn free_comm(call: Hooked<'_>) -> c_int {
    // SAFETY: the table says a communicator is there.
    let handle = unsafe { mpi::handle_at(call.word(call.role.comm) as *mut u8, 0) };
    let result = call.forward();
    if result == 0 {
        RECORDING.with(|own| own.comms.remove(handle));
    }
    result
}
