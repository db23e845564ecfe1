//! What a method of recording and replaying has to offer.
//!
//! The agent knows methods by these two traits alone. The causal method of this crate needs to
//! know nothing of messages but what MPI tells their receivers. A method that puts a *stamp* of
//! its own on every message, as Lamport clocks are, gets it carried by the agent: it is asked for
//! a stamp when a message is sent, and is told the stamp of each message that was received.

use crate::record::Recorder;
use crate::replay::{Decision, Posting, Replayer, Stop};
use crate::turns::Turn;
use crate::vocabulary::{Call, Completed, Fate, Kind, Post, Ticket};

/// Records one rank's receive order. See [`Recorder`] for what each part means.
pub trait Recording {
    /// An operation was posted.
    fn post(&mut self, stream: u32, post: &Post) -> Ticket;
    /// What became of it.
    fn resolve(&mut self, ticket: Ticket, fate: Fate);
    /// A matching call found nothing.
    fn failed(&mut self, stream: u32, kind: Kind, site: u64);
    /// A matching call found what it was looking for.
    fn matched(&mut self, stream: u32, call: &Call, completed: Completed<'_>);
    /// A clock was read or a random number drawn.
    fn value(&mut self, stream: u32, which: u8, bits: u64);
    /// An operation took its place in line.
    fn turn(&mut self, stream: u32, key: u64);
    /// Whether it is time to seal.
    fn is_full(&self, stream: u32) -> bool;
    /// Appends everything known so far.
    fn seal(&mut self, out: &mut Vec<u8>);
    /// Appends what is left.
    fn finish(self, out: &mut Vec<u8>);

    /// The stamp that a message being sent is to carry, if this method stamps messages.
    fn stamp(&mut self, _stream: u32) -> Option<u64> {
        None
    }

    /// The stamp of the message that an operation received; comes before its fate.
    fn stamped(&mut self, _ticket: Ticket, _stamp: u64) {}
}

/// Forces one rank's receive order. See [`Replayer`] for what each part means.
pub trait Replaying {
    /// The program posts an operation.
    fn post(&mut self, stream: u32, post: &Post) -> Result<Posting, Stop>;
    /// The program makes a matching call.
    fn call(&mut self, stream: u32, call: &Call) -> Result<Decision<'_>, Stop>;
    /// The program reads a clock or draws a random number.
    fn value(&mut self, stream: u32, which: u8) -> Result<u64, Stop>;
    /// An operation comes to a line.
    fn turn(&self, stream: u32, key: u64) -> Turn;
    /// An operation took its place in line.
    fn took_turn(&mut self, key: u64);
    /// How many matching calls of the thread have succeeded so far.
    fn position(&self, stream: u32) -> u64;
    /// The program has ended.
    fn finish(self) -> Result<(), Stop>;

    /// The stamp that a message being sent is to carry, if this method stamps messages.
    fn stamp(&mut self, _stream: u32) -> Option<u64> {
        None
    }

    /// The stamp of the message that an operation received.
    fn stamped(&mut self, _ticket: Ticket, _stamp: u64) {}
}

impl Recording for Recorder {
    fn post(&mut self, stream: u32, post: &Post) -> Ticket {
        Recorder::post(self, stream, post)
    }

    fn resolve(&mut self, ticket: Ticket, fate: Fate) {
        Recorder::resolve(self, ticket, fate);
    }

    fn failed(&mut self, stream: u32, kind: Kind, site: u64) {
        Recorder::failed(self, stream, kind, site);
    }

    fn matched(&mut self, stream: u32, call: &Call, completed: Completed<'_>) {
        Recorder::matched(self, stream, call, completed);
    }

    fn value(&mut self, stream: u32, which: u8, bits: u64) {
        Recorder::value(self, stream, which, bits);
    }

    fn turn(&mut self, stream: u32, key: u64) {
        Recorder::turn(self, stream, key);
    }

    fn is_full(&self, stream: u32) -> bool {
        Recorder::is_full(self, stream)
    }

    fn seal(&mut self, out: &mut Vec<u8>) {
        Recorder::seal(self, out);
    }

    fn finish(self, out: &mut Vec<u8>) {
        Recorder::finish(self, out);
    }
}

impl Replaying for Replayer {
    fn post(&mut self, stream: u32, post: &Post) -> Result<Posting, Stop> {
        Replayer::post(self, stream, post)
    }

    fn call(&mut self, stream: u32, call: &Call) -> Result<Decision<'_>, Stop> {
        Replayer::call(self, stream, call)
    }

    fn value(&mut self, stream: u32, which: u8) -> Result<u64, Stop> {
        Replayer::value(self, stream, which)
    }

    fn turn(&self, stream: u32, key: u64) -> Turn {
        Replayer::turn(self, stream, key)
    }

    fn took_turn(&mut self, key: u64) {
        Replayer::took_turn(self, key);
    }

    fn position(&self, stream: u32) -> u64 {
        Replayer::position(self, stream)
    }

    fn finish(self) -> Result<(), Stop> {
        Replayer::finish(self)
    }
}
