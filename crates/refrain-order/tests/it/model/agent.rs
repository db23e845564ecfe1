//! What stands between program and MPI: the same in both modes, but for who decides.

use crate::model::mpi::{Message, Mpi, Request, Wanted};
use crate::model::program::Operation;
use crate::model::world::World;
use refrain_order::{Choice, Kind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The operation returned.
    Done,
    /// Something happened, but it has not returned.
    Went,
    /// Nothing happened.
    Blocked,
    /// The thread can never go on.
    Stopped,
}

pub trait Agent {
    /// Goes on with a thread's operation.
    fn attempt(&mut self, world: &mut World, thread: usize) -> Step;
}

pub fn receive_key(wanted: &Wanted) -> u64 {
    1 << 32 | u64::from(wanted.communicator)
}

pub fn send_key(to: usize, communicator: u32, tag: i32) -> u64 {
    2 << 32 | (to as u64) << 16 | u64::from(communicator) << 8 | tag as u64
}

/// Whether a call hands requests back, or only looks at them.
pub fn consumes(kind: Kind) -> bool {
    !matches!(kind, Kind::GetStatus | Kind::GetStatusAll | Kind::GetStatusAny | Kind::GetStatusSome)
}

/// The message of a request that is done or about to be.
pub fn message_of(mpi: &Mpi, rank: usize, request: usize) -> Option<Message> {
    match mpi.state(rank, request) {
        Request::Posted => None,
        Request::Moving(message) => Some(message),
        Request::Done(message) => message,
    }
}

/// What MPI finds when a completion call looks at its requests, of which `active` says for each
/// whether it is active and complete: nothing, if it finds nothing; else whether any was active,
/// and which complete.
pub fn look(world: &mut World, kind: Kind, active: &[Option<bool>]) -> Option<(bool, Vec<u32>)> {
    let done = |(n, done): (usize, &Option<bool>)| (*done == Some(true)).then_some(n as u32);
    let mut complete: Vec<u32> = active.iter().enumerate().filter_map(done).collect();
    let pending = active.iter().flatten().count();
    let random = &mut world.schedule;
    if kind.choice() == Choice::All {
        return (complete.len() == pending
            && !(kind.polls() && pending > 0 && random.chance(1, 5)))
        .then_some((true, complete));
    }
    if pending == 0 {
        return Some((false, Vec::new()));
    }
    if complete.is_empty() || (kind.polls() && random.chance(1, 5)) {
        return None;
    }
    // MPI may report any of them, in any order.
    if random.chance(1, 2) {
        for n in (1..complete.len()).rev() {
            complete.swap(n, random.below(n + 1));
        }
    }
    let most = if kind.choice() == Choice::One { 1 } else { complete.len() };
    complete.truncate(1 + random.below(most));
    Some((true, complete))
}

/// What a probe found, and what the program does about it.
pub fn probed(world: &mut World, thread: usize, message: Message, takes: bool) {
    let own = &mut world.threads[thread];
    own.tell_message(2, Some(&message));
    let Message { source, communicator, tag, .. } = message;
    let named = Wanted { communicator, source: Some(source as i32), tag: Some(tag) };
    if takes {
        own.forced = Some(Operation::ReceiveMatched { message, site: 60 });
    } else if own.digest.is_multiple_of(2) {
        own.forced = Some(Operation::Blocking { wanted: named, site: 61 });
    }
}
