//! What processes tell each other, and what a replay tells the agent.

use crate::vocabulary::Stamp;

/// A note from one process to another. Notes between two processes arrive in the order they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A message is sent: its stamp. Arrives before or after the message itself.
    Sent {
        /// The sender's clock. Notes are in the order of messages, so sequence numbers are implied.
        clock: u64,
        /// The communicator, by the agent's number.
        communicator: u32,
        /// The sender's rank in it.
        source: i32,
        /// The tag.
        tag: i32,
    },
    /// A question: can you still send anything that is not stamped later than this?
    Ask {
        /// Who asks.
        origin: u32,
        /// The number of the question among those of `origin`.
        serial: u64,
        /// The clock.
        clock: u64,
    },
    /// The answer: no. If `sure`, that holds whatever happens; otherwise it holds if all who were asked
    /// for the same reason answer so, too.
    Nothing {
        /// Of the question.
        origin: u32,
        /// Of the question.
        serial: u64,
        /// A lower bound of the stamps of all messages still to come.
        clock: u64,
        /// See above.
        sure: bool,
    },
    /// The answer that was given no longer holds: ask again.
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
