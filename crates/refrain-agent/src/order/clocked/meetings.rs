//! What collective operations do to clocks.
//!
//! Whoever hears of others by a collective operation must not be behind their clocks. On the world
//! that needs no messages: all count its operations alike, and who is done with the n-th has a clock
//! of at least n times 2^32, which nobody has who has not begun it. On other communicators, and where
//! not everybody hears of everybody, all get the greatest clock of all.
//!
//! This is the same when recording and when replaying; how the greatest clock is found is not.

use super::super::role::Meeting;
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
    /// Nothing.
    Stays,
}

/// An operation of a communicator begins; nothing if nobody else takes part.
pub fn begin(comm: &mut Comm, meeting: Meeting, root: i32) -> Option<Gathering> {
    if comm.others.is_empty() {
        return None;
    }
    comm.meetings += 1;
    let serial = comm.meetings;
    let rule = match meeting {
        Meeting::Everyone if comm.is_world => Rule::Is(serial << 32),
        Meeting::Root if comm.is_world && root == comm.rank => Rule::Is(serial << 32),
        Meeting::Root if comm.is_world => Rule::Stays,
        _ => Rule::Greatest,
    };
    Some(Gathering { communicator: comm.number, serial, rule })
}

impl Gathering {
    /// What is sent behind it is stamped at least so late, whoever is still missing.
    pub fn bound(&self) -> u64 {
        match self.rule {
            Rule::Is(clock) => clock,
            _ => 0,
        }
    }
}
