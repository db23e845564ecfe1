//! Who waits for whom: the calls that ranks are in, as a graph.
//!
//! ```text
//!  calls of a rank ─▶ observe ─▶ what it waits for, sent, took ─┐
//!  calls of a rank ─▶ observe ─▶ …                              ├─▶ graph ─▶ cycles, the missing
//!  calls of a rank ─▶ observe ─▶ …                             ─┘
//! ```
//!
//! A rank in `MPI_Recv` waits for its source only if the source has not sent yet, and a rank in
//! `MPI_Barrier` only for the members that have not called it yet. Both are known by counting:
//! messages between two ranks with one tag on one communicator are received in the order in which
//! they are sent, and all members call the collectives of a communicator in the same order. So the
//! third receive is served once three were sent, whatever became of the sender since.
//!
//! * [`roles`]: what a function may wait for · [`observe`]: what the calls of one rank come to
//! * [`position`]: where one process stands · [`graph`]: all ranks

mod call;
pub mod graph;
pub mod observe;
pub mod position;
pub mod roles;

use std::collections::HashMap;
use std::sync::Arc;

/// Processes that calls are about together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// All, as MPI begins and ends.
    Runtime,
    /// Those of a communicator.
    Communicator,
    /// Those of an intercommunicator.
    Intercommunicator,
    /// Those of a window.
    Window,
    /// Those that have a file open together.
    File,
}

/// A communicator, a window or a file, by what is the same on all its members.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// What it is.
    pub kind: Kind,
    /// Its members as ranks in `MPI_COMM_WORLD`, in increasing order.
    pub members: Arc<[i32]>,
    /// Which of those with the same members, in order of their making.
    pub nth: u32,
}

/// Whether a process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It does, or it stood where it stands when all ended.
    Here,
    /// It has called `MPI_Finalize`.
    Finished,
    /// It has ended otherwise.
    Died,
}

/// Messages of one kind: the number of a scope in [`Standing::scopes`], the other rank, the tag.
pub type Lane = (usize, i32, i64);

/// What one wait is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// That a message is received: the `nth` that was sent in its lane, from 1.
    Sent {
        /// The lane.
        lane: Lane,
        /// Which message.
        nth: u64,
    },
    /// That a message comes.
    Receipt(Receipt),
    /// That others make the same call: the `nth` collective of a scope, from 1.
    Together {
        /// The scope's number.
        scope: usize,
        /// Which collective.
        nth: u64,
        /// Only this rank is waited for.
        root: Option<i32>,
    },
    /// Something that this rank does.
    Act(i32),
    /// Something that any other member of the scope does.
    ActOfAny(usize),
}

/// A receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The scope's number.
    pub scope: usize,
    /// The source; none: any.
    pub source: Option<i32>,
    /// The tag; none: any.
    pub tag: Option<i64>,
    /// With both known: the how manieth such receive, from 1.
    pub nth: u64,
    /// How many receives the process had begun before.
    pub posted: u64,
}

/// What became of a message, as far as one process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A call began to send it.
    Sent(Lane),
    /// A call has received it.
    Got(Lane, Receipt),
    /// A receive is over, and what it got is not known.
    Lost(Receipt),
    /// Messages of the lane may have been sent, or not.
    Unsure(Lane),
}

/// How many needs have to be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// All of them.
    All,
    /// One of them.
    Any,
}

/// A call that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The thread that is in it.
    pub thread: u32,
    /// The function.
    pub function: String,
    /// What it needs, each with words for it: `MPI_Recv, source=1, tag=0`.
    pub needs: Vec<(Need, String)>,
    /// How many of them.
    pub until: Until,
}

/// What a rank has done, as far as others may wait for it, and what it waits for.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The rank in `MPI_COMM_WORLD`.
    pub rank: i32,
    /// Whether it goes on.
    pub life: Life,
    /// Scopes that it is in, and the collectives it has begun in each.
    pub scopes: Vec<(Scope, u64)>,
    /// Messages it has begun to send.
    pub sent: HashMap<Lane, u64>,
    /// Receives it has begun that name source and tag.
    pub named: HashMap<Lane, u64>,
    /// Messages that other receives have got.
    pub matched: HashMap<Lane, u64>,
    /// Other receives that have got none yet.
    pub open: Vec<Receipt>,
    /// The calls it is in; none: it waits for nobody.
    pub waits: Vec<Wait>,
}

impl Standing {
    /// A rank that has done nothing yet.
    pub fn new(rank: i32) -> Standing {
        Standing {
            rank,
            life: Life::Here,
            scopes: Vec::new(),
            sent: HashMap::new(),
            named: HashMap::new(),
            matched: HashMap::new(),
            open: Vec::new(),
            waits: Vec::new(),
        }
    }
}
