//! Events that the recorder passes to the encoder.

use crate::Stamp;
use crate::clock::chunk::{Left, TableKey, Value};
use crate::clock::table::Other;

/// Operations of a thread of which only the number is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Posted operations.
    pub posts: u32,
    /// Completing calls without a row.
    pub calls: u32,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new table; it has the next number.
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
        /// The thread's tally since the last event with one.
        tally: Tally,
        /// The call's table; `None` if the receive had no choice.
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
    /// A thread took its turn.
    Turn {
        /// The thread.
        stream: u32,
        /// The key of the turn.
        key: u64,
        /// How many times in a row.
        times: u64,
    },
    /// The tally of a thread since the last event with one.
    Tally {
        /// The thread.
        stream: u32,
        /// The tally.
        tally: Tally,
    },
    /// A call that completes all of its requests left this one pending, because of an error.
    Left(Left),
    /// Write everything so far.
    Seal {
        /// The record ends.
        last: bool,
    },
}

/// A consumer of events.
pub trait Sink {
    /// Takes an event.
    fn put(&mut self, event: Event);
    /// Whether there are encoded bytes to drain.
    fn is_full(&self) -> bool;
    /// Appends the bytes encoded since the last call, if the sink holds them.
    fn drain(&mut self, out: &mut Vec<u8>);
}
