//! Message matching: turns the calls of one process into steps of MPI's protocol.
//!
//! ```text
//!  items of a process ─▶ Tracker ─▶ posted · matched · completed · entered · left
//!                           └─▶ what an open call waits for
//! ```
//!
//! A [`Tracker`] takes the [items](refrain_reader::Item) of a process in their order. It follows requests from the
//! call that creates them to the call that completes them, translates ranks to `MPI_COMM_WORLD`, and numbers messages
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

use refrain_bytes::table::Map;
use refrain_mpi::semantics::Argument;
use refrain_reader::Call;

/// Messages with the same envelope: the index of a scope, the other rank in `MPI_COMM_WORLD`, the tag.
pub type Lane = (usize, i32, i64);

/// Counts by lane.
pub type Lanes = Map<Lane, u64>;

/// A receive, or a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// The scope's index.
    pub scope: usize,
    /// The source; `None` is `MPI_ANY_SOURCE`.
    pub source: Option<i32>,
    /// The tag; `None` is `MPI_ANY_TAG`.
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
    /// A collective operation: the `nth` of its scope, from 1.
    Collective {
        /// The scope's index.
        scope: usize,
        /// Which collective.
        nth: u64,
        /// The root, if the operation depends on the root alone.
        root: Option<i32>,
    },
}

/// An operation of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The number of operations that the process had begun before.
    pub id: u64,
    /// The operation.
    pub what: Operation,
}

/// A step of MPI's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A send or receive begins.
    Posted(Op),
    /// A receive matched the next message of this lane. It is complete, and [`Step::Completed`] follows.
    Matched(Op, Lane),
    /// A send or receive is complete.
    Completed(Op),
    /// A send or receive has ended, and its outcome is unknown: the match of a receive, or whether a send that the
    /// program tried to cancel was sent.
    Unknown(Op),
    /// A receive without wildcards has ended that the program tried to cancel: it has matched a message, or was
    /// cancelled.
    Doubtful(Op),
    /// A receive was cancelled. Later receives of its lane match earlier messages than they would have.
    Cancelled(Op),
    /// A collective begins on this process.
    Entered(Op),
    /// A collective is complete on this process.
    Left(Op),
}

/// What a blocked call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The completion of an operation. A probe counts as the receive that would match its message.
    Operation(Operation),
    /// An action of this rank.
    Rank(i32),
    /// An action of any other member of the scope.
    AnyMember(usize),
}

/// How many needs must be met.
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
    /// How many of these must be met.
    pub until: Until,
}

/// The result of adding a call to a [`Tracker`].
#[derive(Clone, Debug)]
pub struct Progress<L> {
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// What the call waits for, if it has not returned and depends on other processes.
    pub blocked: Option<Blocked<L>>,
}

/// The side of a call that a label describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The message that it sends.
    Send,
    /// The message that it receives.
    Receive,
    /// All members of its communicator, window or file; or the message that it probes for.
    Whole,
    /// The rank of a window that it synchronizes with.
    Target,
}

/// Counts of the operations of a process so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Messages that it has begun to send.
    pub sent: Lanes,
    /// Receives without a wildcard that it has begun.
    pub named: Lanes,
    /// Messages that receives with a wildcard have matched.
    pub matched: Lanes,
}

/// Whether each call of this kind must be observed separately, even if it was repeated: receives with a wildcard may
/// match different messages, and communicators, windows and files are numbered in the order of their creation.
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
