//! What collective operations do to clocks.
//!
//! Whoever hears of others by a collective operation must not be behind their clocks. Where nobody
//! is done before all have begun, on the world, that needs no messages: all count its operations
//! alike, and who is done with the n-th has a clock of at least n times 2^32, which nobody has who
//! has not begun it. Otherwise all get the greatest clock of all, and so nobody is done before all
//! have begun.
//!
//! A broadcast is no exception, although everybody hears of nobody but the root: it may come by
//! way of others, and then what a process does behind it follows from what those have received.
//!
//! This is the same when recording and when replaying; how the greatest clock is found is not.

use crate::inside::process::abi;

use super::super::mpi;
use super::super::role::{Hooked, Role, Synchronization};
use super::comms::Comm;

/// A collective operation, as a process takes part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathering {
    /// The communicator's number.
    pub communicator: u32,
    /// The how manieth operation of the communicator.
    pub serial: u64,
    /// What becomes of the clock.
    pub rule: Rule,
}

/// What becomes of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It is this, at least.
    Is(u64),
    /// It is the greatest of all, at least.
    Greatest,
}

/// Whether nobody hears of anybody in what is for everyone of the world: nothing is exchanged, and
/// MPI need not wait for others. (Elsewhere all are waited for anyway, and counts may matter to
/// some only.)
pub fn is_idle(call: &Hooked<'_>, synchronization: Synchronization) -> bool {
    if synchronization != Synchronization::All || call.comm() != mpi::handle(abi().comm_world) {
        return false;
    }
    let count = call.word(call.role.count);
    // What is above an `int` is noise.
    let is_none = if call.role.large { count == 0 } else { count as u32 == 0 };
    call.role.count != Role::NOWHERE && is_none
}

/// What an operation of a communicator is to be; nothing if nobody else takes part.
pub fn rule(comm: &Comm, synchronization: Synchronization) -> Option<Rule> {
    let next = comm.collectives + 1;
    match synchronization {
        _ if comm.others.is_empty() || comm.is_unsupported => None,
        Synchronization::All if comm.is_world => Some(Rule::Is(next << 32)),
        _ => Some(Rule::Greatest),
    }
}

/// An operation of a communicator begins; nothing if nobody else takes part.
pub fn begin(comm: &mut Comm, synchronization: Synchronization) -> Option<Gathering> {
    let rule = rule(comm, synchronization)?;
    comm.collectives += 1;
    Some(Gathering { communicator: comm.number, serial: comm.collectives, rule })
}

impl Gathering {
    /// What is sent behind it is stamped at least so late, whoever is still missing.
    pub fn bound(&self) -> u64 {
        match self.rule {
            Rule::Is(clock) => clock,
            Rule::Greatest => 0,
        }
    }
}
