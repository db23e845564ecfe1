//! What the recorder tells the encoder.

use crate::Stamp;
use crate::clock::chunk::{Left, TableKey, Value};
use crate::clock::table::Other;

/// What a thread did that needs no telling but how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Operations that were posted.
    pub posts: u32,
    /// Matching calls that have no row.
    pub calls: u32,
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A table is new: it has the next number.
    Table(TableKey),
    /// Polls failed.
    Failed {
        /// The call's table.
        table: u32,
        /// How many.
        polls: u64,
    },
    /// A message was received.
    Message {
        /// The thread.
        stream: u32,
        /// What else the thread has done since the last event that says so.
        done: Done,
        /// The call's table; nothing if there was no choice.
        table: Option<u32>,
        /// The message.
        stamp: Stamp,
        /// Communicator and tag.
        topic: (u32, i32),
        /// Whether the call's next row is of the same call.
        with_next: bool,
        /// See [`crate::clock::table::Table::claims`].
        claim: u32,
    },
    /// A row that is no message.
    Other {
        /// The call's table.
        table: u32,
        /// What it is.
        other: Other,
        /// Whether the call's next row is of the same call.
        with_next: bool,
    },
    /// A clock was read or a random number drawn.
    Value(Value),
    /// A thread took its place in a line.
    Turn {
        /// The thread.
        stream: u32,
        /// Which line.
        key: u64,
        /// How many times in a row.
        times: u64,
    },
    /// A thread has done things.
    Done {
        /// The thread.
        stream: u32,
        /// What.
        done: Done,
    },
    /// A call that completes all it is given has left a request, because of an error.
    Left(Left),
    /// Everything so far is to be written.
    Seal {
        /// That was all.
        last: bool,
    },
}

/// Where events go.
pub trait Sink {
    /// An event happened.
    fn put(&mut self, event: Event);
    /// Whether it would be good to seal now.
    fn is_full(&self) -> bool;
    /// Appends what was encoded since the last time, if it is kept here.
    fn drain(&mut self, out: &mut Vec<u8>);
}
