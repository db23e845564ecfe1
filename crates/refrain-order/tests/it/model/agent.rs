//! What recording and replaying agents of both methods share.

use crate::model::mpi::{Message, Mpi, Request, Wanted};
use crate::model::program::Operation;
use crate::model::world::World;
use refrain_order::{Choice, Envelope, Kind, Post, Stop, Ticket};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The operation returned.
    Done,
    /// Something happened, but it has not returned.
    Went,
    /// Nothing happened.
    Blocked,
    /// The thread can never continue.
    Stopped,
}

pub trait Agent {
    /// Continues a thread's operation.
    fn attempt(&mut self, world: &mut World, thread: usize) -> Step;
}

/// A posted request of a recording.
#[derive(Clone, Copy)]
pub struct PostedRequest {
    pub request: usize,
    /// Identifies it to the recorder.
    pub ticket: Ticket,
    pub receive: bool,
}

/// Why an operation of a replay has not returned.
pub enum Unfinished {
    /// It has to wait.
    NotYet,
    /// The replay of the thread has ended.
    Stop(Stop),
}

impl From<Stop> for Unfinished {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

pub fn post(wanted: &Wanted, site: u64) -> Post {
    let Wanted { communicator, source, tag } = *wanted;
    Post { site, communicator, source, tag }
}

pub fn envelope(message: &Message) -> Envelope {
    Envelope { source: message.source as i32, tag: message.tag }
}

/// The turn key of receives.
pub fn receive_key(wanted: &Wanted) -> u64 {
    1 << 32 | u64::from(wanted.communicator)
}

/// The turn key of sends.
pub fn send_key(to: usize, communicator: u32, tag: i32) -> u64 {
    2 << 32 | (to as u64) << 16 | u64::from(communicator) << 8 | tag as u64
}

/// Whether a call frees the requests that it completes, or only inspects them.
pub fn consumes(kind: Kind) -> bool {
    !matches!(kind, Kind::GetStatus | Kind::GetStatusAll | Kind::GetStatusAny | Kind::GetStatusSome)
}

/// The message of a request that has been matched.
pub fn message_of(mpi: &Mpi, rank: usize, request: usize) -> Option<Message> {
    match mpi.state(rank, request) {
        Request::Posted => None,
        Request::Moving(message) => Some(message),
        Request::Done(message) => message,
    }
}

/// MPI's outcome of a completing call. `active` says for each request whether it is complete, `None` if it is inactive.
/// Returns `None` if the call fails; otherwise whether any request was active, and the completed indices.
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

/// A probe has found a message; the program may receive it next.
pub fn probed(world: &mut World, thread: usize, message: Message, takes: bool) {
    let caller = &mut world.threads[thread];
    caller.observe_message(2, Some(&message));
    let Message { source, communicator, tag, .. } = message;
    let named = Wanted { communicator, source: Some(source as i32), tag: Some(tag) };
    if takes {
        caller.forced = Some(Operation::ReceiveMatched { message, site: 60 });
    } else if caller.digest.is_multiple_of(2) {
        caller.forced = Some(Operation::Blocking { wanted: named, site: 61 });
    }
}
