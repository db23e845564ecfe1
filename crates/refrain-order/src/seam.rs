//! What a method of recording and replaying has to offer.
//!
//! An agent knows methods by these traits alone. A method of [`Recording`] is told what MPI has
//! decided. For replays there are two sorts: a method of [`Replaying`] knows what a receive will
//! get when it is posted, and lets MPI receive it. A method of [`Holding`] learns that only when
//! messages come: the agent holds receives back, and gives them their messages itself.
//!
//! The causal method of this crate needs to know nothing of messages but what MPI tells their
//! receivers. A method that puts a *stamp* of its own on every message, as Lamport clocks are, gets
//! it carried by the agent: it is asked for a stamp when a message is sent, and is told the stamp
//! of each message that was received.

use crate::record::Recorder;
use crate::replay::{Decision, Posting, Replayer, Stop};
use crate::turns::Turn;
use crate::vocabulary::{Call, Completed, Fate, Finished, Kind, Post, Stamp, Ticket};

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

    /// A matching call found what it was looking for: all that is known of it, at once. `tickets`
    /// are those of the requests that it was given (nothing for those that are inactive),
    /// `finished` the receives it completed, in the order reported.
    fn completed(
        &mut self,
        stream: u32,
        call: &Call,
        _tickets: &[Option<Ticket>],
        completed: Completed<'_>,
        finished: &[Finished],
    ) {
        self.matched(stream, call, completed);
        for Finished { ticket, fate, .. } in finished {
            self.resolve(*ticket, *fate);
        }
    }

    /// The program tries to cancel an operation.
    fn cancels(&mut self, _ticket: Ticket) {}

    /// An operation is a send to that process: the stamp that the message is to carry, if this
    /// method stamps messages.
    fn stamp(&mut self, _ticket: Ticket, _to: u32) -> Option<Stamp> {
        None
    }
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
}

/// What processes of a replay tell each other, by a way that keeps the order of what one tells
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A message is sent. Comes before or behind the message itself.
    Sent {
        /// The sender's clock; notes are in the order of messages, so numbers need not be told.
        clock: u64,
        /// The communicator, by the agent's number.
        communicator: u32,
        /// The sender's rank in it.
        source: i32,
        /// The tag.
        tag: i32,
    },
    /// Can anything still come from you that is not stamped later than this?
    Ask {
        /// Who wants to know.
        origin: u32,
        /// The how manieth question of that one.
        serial: u64,
        /// The clock.
        clock: u64,
    },
    /// No: nothing can. If `sure` that is so whatever happens; else if those who are asked
    /// for the same reason say so too.
    Nothing {
        /// Of the question.
        origin: u32,
        /// Of the question.
        serial: u64,
        /// All that comes is stamped at least so late.
        clock: u64,
        /// See above.
        sure: bool,
    },
    /// Things have changed: ask again.
    Again {
        /// Of the question.
        origin: u32,
        /// Of the question.
        serial: u64,
    },
}

/// A message being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// The process it goes to, by a number that is the same in every run.
    pub to: u32,
    /// The agent's number of the communicator.
    pub communicator: u32,
    /// The sender's rank in it: what the receiver will find in its status.
    pub source: i32,
    /// The tag.
    pub tag: i32,
}

/// Something that a matching call is to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The request's index in the call's array.
    pub index: u32,
    /// The message to be received by that request; nothing for other requests, and for receives
    /// that got their message before.
    pub message: Option<Stamp>,
    /// The receive was cancelled.
    pub cancelled: bool,
}

/// What a matching call is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// It is not known yet: let MPI make progress, pass on notes, and ask again.
    Later,
    /// Report that nothing was found, without looking; but let MPI make progress.
    Fail,
    /// Report that no request was active.
    Undefined,
    /// Complete everything it was given; receives get these messages.
    All(&'a [Delivery]),
    /// Complete exactly these, waiting for each, and report them in this order.
    These(&'a [Delivery]),
}

/// Forces one rank's receive order, and gives receives their messages when these are known.
pub trait Holding {
    /// The program posts a receive, which the agent holds back.
    fn receive(&mut self, stream: u32, post: &Post) -> Result<Ticket, Stop>;
    /// The program sends to a process: its stamp, which a note tells the receiver. Nothing if it
    /// has to wait for its turn.
    fn send(&mut self, stream: u32, sending: &Sending) -> Result<Option<Stamp>, Stop>;
    /// The program makes a matching call, with these requests (nothing for inactive ones and
    /// those that are no receives).
    fn call(
        &mut self,
        stream: u32,
        call: &Call,
        tickets: &[Option<Ticket>],
    ) -> Result<Answer<'_>, Stop>;
    /// The program tries to cancel a receive. False if it has to wait for its turn.
    fn cancels(&mut self, ticket: Ticket) -> bool;
    /// The program reads a clock or draws a random number.
    fn value(&mut self, stream: u32, which: u8) -> Result<u64, Stop>;
    /// An operation comes to a line.
    fn turn(&self, stream: u32, key: u64) -> Turn;
    /// An operation took its place in line.
    fn took_turn(&mut self, key: u64);
    /// The thread makes no more calls.
    fn over(&mut self, stream: u32);
    /// A note has come.
    fn hear(&mut self, from: u32, note: Note);
    /// A note that is to be sent to that process, in this order; to be asked for after every
    /// other call until there is none.
    fn say(&mut self) -> Option<(u32, Note)>;
    /// The program has ended.
    fn finish(self) -> Result<(), Stop>;
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
