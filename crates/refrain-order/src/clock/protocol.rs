//! Notes between processes, and the replayer's answers to the agent.

use crate::vocabulary::Stamp;

/// A note from one process to another. Notes between two processes arrive in the order they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The stamp of a message. The note may arrive before or after the message.
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
    /// A query: can you still send a message whose stamp is not later than this clock?
    Query {
        /// The process that began the query.
        origin: u32,
        /// The number of the query among those of `origin`.
        serial: u64,
        /// The clock.
        clock: u64,
    },
    /// The answer to a query: no. If `sure`, it holds unconditionally; otherwise it holds if all processes that
    /// the query reached answer the same.
    Bound {
        /// Of the query.
        origin: u32,
        /// Of the query.
        serial: u64,
        /// A lower bound of the stamps of all future messages.
        clock: u64,
        /// Whether the answer is unconditional.
        sure: bool,
    },
    /// An answer that was given no longer holds: query again.
    Retry {
        /// Of the query.
        origin: u32,
        /// Of the query.
        serial: u64,
    },
}

/// A message being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// The destination: a number of the process that is the same in every run.
    pub to: u32,
    /// The agent's number of the communicator.
    pub communicator: u32,
    /// The sender's rank in it, which the receiver finds in its status.
    pub source: i32,
    /// The tag.
    pub tag: i32,
}

/// A request that a completing call must complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The request's index in the call's array.
    pub index: u32,
    /// The message that the request receives; `None` for requests that are no receives, and for receives that
    /// already got their message.
    pub message: Option<Stamp>,
    /// The receive was cancelled.
    pub cancelled: bool,
}

/// What a completing call must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Not known yet: let MPI make progress, exchange notes, and ask again.
    Later,
    /// Report a failed poll without asking MPI, but let MPI make progress.
    Fail,
    /// Report that no request was active.
    Undefined,
    /// Complete all requests of the call; receives get these messages.
    All(&'a [Delivery]),
    /// Complete exactly these, waiting for each, and report them in this order.
    These(&'a [Delivery]),
}
