//! Message matching: from the calls of one process to the steps of MPI's protocol.
//!
//! ```text
//!  items of a process ─▶ Tracker ─▶ posted · matched · completed · entered · left
//!                           └─▶ what a call that has not returned is blocked on
//! ```
//!
//! A [`Tracker`] takes the [items](refrain_reader::Item) of a process in their order. It follows requests from the
//! call that makes them to the call that completes them, translates ranks to `MPI_COMM_WORLD`, and numbers messages
//! and collectives so that the steps of several processes can be joined:
//!
//! * Messages from one rank to another with one tag on one communicator (a [`Lane`]) are received in the order in
//!   which they are sent. So the `n`th [`Step::Posted`] send of a lane is the message of its `n`th
//!   [`Step::Matched`], with receives in the order in which they were posted.
//! * All members of a communicator, window or file (a [`Scope`]) call its collectives in the same order. So the
//!   `n`th collective of a scope is the same operation on all of them.
//!
//! What each function does comes from [`refrain_mpi::semantics`] ([`Action`]).
//!
//! ```
//! use refrain_analysis::matching::{Operation, Step, Tracker};
//! use refrain_reader::{Source, open};
//! use std::path::Path;
//!
//! let path = Path::new("../refrain/tests/golden/stencil.refrain");
//! let trace = open(path)?.calls().expect("a trace of calls");
//! let (mut sent, mut received) = (0, 0);
//! for process in trace.processes() {
//!     let mut tracker = Tracker::new(process.rank(), trace.run().ranks());
//!     for item in process.items(Source::Compressed)? {
//!         let (_task, item) = item?;
//!         for step in tracker.item(&item) {
//!             match step {
//!                 Step::Posted(op) if matches!(op.what, Operation::Send { .. }) => sent += 1,
//!                 Step::Matched(..) => received += 1,
//!                 _ => {}
//!             }
//!         }
//!     }
//! }
//! assert!(sent > 0);
//! assert_eq!(sent, received);
//! # Ok::<(), refrain_reader::TraceError>(())
//! ```

mod action;
mod origin;
mod scopes;
#[cfg(test)]
mod tests;
mod tracker;

pub use action::Action;
pub use origin::Origin;
pub use scopes::{Kind, Scope};
pub use tracker::Tracker;

use refrain_mpi::semantics::Argument;
use refrain_reader::Call;
use std::collections::HashMap;

/// Messages of one kind: the index of a scope, the other rank in `MPI_COMM_WORLD`, the tag.
pub type Lane = (usize, i32, i64);

/// A receive, or a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// The scope's index.
    pub scope: usize,
    /// The source; none: any.
    pub source: Option<i32>,
    /// The tag; none: any.
    pub tag: Option<i64>,
    /// Which receive of its lane, from 1; 0 if the source or the tag is a wildcard.
    pub nth: u64,
}

impl Receive {
    /// The lane, unless the source or the tag is a wildcard.
    pub fn lane(&self) -> Option<Lane> {
        Some((self.scope, self.source?, self.tag?))
    }
}

/// An operation in which several processes take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A message is sent: the `nth` of its lane, from 1.
    Send {
        /// The lane.
        lane: Lane,
        /// Which message.
        nth: u64,
    },
    /// A message is received.
    Receive(Receive),
    /// The members of a scope do something together: the `nth` collective of the scope, from 1.
    Collective {
        /// The scope's index.
        scope: usize,
        /// Which collective.
        nth: u64,
        /// The only rank that this one depends on: the root, where data come from it alone.
        root: Option<i32>,
    },
}

/// An operation of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// How many operations the process had begun before.
    pub id: u64,
    /// What it is.
    pub what: Operation,
}

/// A step of MPI's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A send or receive begins.
    Posted(Op),
    /// A receive got the next message of this lane. It is complete, and [`Step::Completed`] follows.
    Matched(Op, Lane),
    /// A send or receive is complete.
    Completed(Op),
    /// A send or receive is over, and its outcome is unknown: which message a receive got, or whether a send that the
    /// program tried to cancel was sent.
    Unknown(Op),
    /// A receive was cancelled.
    Cancelled(Op),
    /// A collective begins on this process.
    Entered(Op),
    /// A collective is complete on this process.
    Left(Op),
}

/// What a blocked call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// That an operation completes. A probe counts as the receive that would take its message.
    Operation(Operation),
    /// Something that this rank does.
    Rank(i32),
    /// Something that any other member of the scope does.
    AnyMember(usize),
}

/// How many needs have to be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// All of them.
    All,
    /// One of them.
    Any,
}

/// A call that has not returned. Each need has the label that it got when its operation began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked<L> {
    /// What it waits for.
    pub needs: Vec<(Need, L)>,
    /// How many of these.
    pub until: Until,
}

/// What follows from a call.
#[derive(Clone, Debug)]
pub struct Progress<L> {
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// What the call waits for, if it has not returned and depends on other processes.
    pub blocked: Option<Blocked<L>>,
}

/// The side of a call that a label is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The message that it sends.
    Send,
    /// The message that it receives.
    Receive,
    /// All members of its communicator, window or file; or the message that it looks for.
    Whole,
    /// The rank of a window that it synchronizes with.
    Target,
}

/// What a process has done so far, in numbers.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Messages that it has begun to send.
    pub sent: HashMap<Lane, u64>,
    /// Receives without a wildcard that it has begun.
    pub named: HashMap<Lane, u64>,
    /// Messages that receives with a wildcard have got.
    pub matched: HashMap<Lane, u64>,
}

/// Whether only single calls of this kind say what they did: those that receive from any source or with any tag, and
/// those that make communicators, windows or files, which are numbered in the order of their making.
pub fn is_unique(call: &Call) -> bool {
    call.mpi().is_some_and(|function| origin::making(function).is_some()) || has_wildcard(call)
}

/// Whether a call receives from any source or with any tag.
fn has_wildcard(call: &Call) -> bool {
    let receives = matches!(
        call.mpi().map(Action::of),
        Some(Action::Receive | Action::SendReceive | Action::MatchedProbe)
    );
    let (arguments, layout) = (call.arguments(), call.layout());
    receives
        && (arguments.int(Argument::Source) == Some(layout.any_source.into())
            || arguments.int(Argument::Tag) == Some(layout.any_tag.into()))
}
