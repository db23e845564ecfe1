//! How collective operations change clocks.
//!
//! A process that depends on others through a collective operation must have at least their clocks afterwards. On
//! `MPI_COMM_WORLD`, if no process completes the operation before all have begun it, that needs no messages: all
//! processes count these operations, and after the n-th a clock is at least n · 2^32. No process that has not begun
//! the n-th operation has such a clock. Otherwise all processes get the maximum of their clocks, so none completes the
//! operation before all have begun it.
//!
//! A broadcast is no exception, although only the root contributes data: other processes may forward the data, so what
//! happens after the broadcast may depend on what they have received.
//!
//! The rules are the same when recording and when replaying; how the maximum is found differs.

use super::super::mpi;
use super::super::role::{Hooked, Role, Synchronization};
use super::comms::Comm;
use crate::inside::library::abi;

/// A collective operation in which this process takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collective {
    /// The communicator's number.
    pub communicator: u32,
    /// The number of the operation among those of the communicator.
    pub serial: u64,
    /// How it changes the clock.
    pub rule: Rule,
}

/// How a collective operation changes the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It becomes at least this.
    AtLeast(u64),
    /// It becomes at least the maximum of all participants.
    Maximum,
}

/// Whether an operation on `MPI_COMM_WORLD` exchanges no data: then no process depends on another, and MPI need not wait.
/// (On other communicators all processes wait for the clocks anyway, and counts may be significant on some ranks only.)
pub fn exchanges_nothing(call: &Hooked<'_>, synchronization: Synchronization) -> bool {
    if synchronization != Synchronization::All || call.comm() != mpi::handle(abi().comm_world) {
        return false;
    }
    let count = call.word(call.role.count);
    // The bits above an `int` are undefined.
    let is_none = if call.role.large { count == 0 } else { count as u32 == 0 };
    call.role.count != Role::ABSENT && is_none
}

/// The rule of an operation; `None` if no other process takes part.
pub fn rule(comm: &Comm, synchronization: Synchronization) -> Option<Rule> {
    let next = comm.collectives + 1;
    match synchronization {
        _ if comm.others.is_empty() || comm.is_unsupported => None,
        Synchronization::All if comm.is_world => Some(Rule::AtLeast(next << 32)),
        _ => Some(Rule::Maximum),
    }
}

/// Begins an operation; `None` if no other process takes part.
pub fn begin(comm: &mut Comm, synchronization: Synchronization) -> Option<Collective> {
    let rule = rule(comm, synchronization)?;
    comm.collectives += 1;
    Some(Collective { communicator: comm.number, serial: comm.collectives, rule })
}

impl Collective {
    /// A lower bound of the stamps of messages that are sent after the operation, whichever processes are missing.
    pub fn bound(&self) -> u64 {
        match self.rule {
            Rule::AtLeast(clock) => clock,
            Rule::Maximum => 0,
        }
    }
}
