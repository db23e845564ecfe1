//! Which rank waits for which: the calls that ranks are in, as a graph.
//!
//! ```text
//!  items of a rank ─▶ position ─▶ what it waits for, has sent and received ─┐
//!  items of a rank ─▶ position ─▶ …                                         ├─▶ graph ─▶ cycles, missing ranks
//!  items of a rank ─▶ position ─▶ …                                        ─┘
//! ```
//!
//! A rank in `MPI_Recv` waits for its source only if the source has not sent yet, and a rank in
//! `MPI_Barrier` only for the members that have not called it yet. Both follow from counting
//! ([`crate::matching`]): the third receive of a lane is served once three messages were sent, whatever became of
//! the sender since.
//!
//! * [`position`]: the calls that one process is in · [`graph`]: all ranks

pub mod graph;
pub mod position;
mod words;

pub use crate::matching::{Kind, Lane, Need, Operation, Receive, Scope, Until};

use std::collections::HashMap;

/// Whether a process still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs, or it was in its last call when all processes ended.
    Here,
    /// It has called `MPI_Finalize`.
    Finished,
    /// It has ended otherwise.
    Died,
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

/// What a rank has done that others may wait for, and what it waits for itself.
#[derive(Clone, Debug)]
pub struct RankWaitState {
    /// The rank in `MPI_COMM_WORLD`.
    pub rank: i32,
    /// Whether it still runs.
    pub life: Life,
    /// Scopes that it is in, and the collectives it has begun in each.
    pub scopes: Vec<(Scope, u64)>,
    /// Messages that it has begun to send.
    pub sent: HashMap<Lane, u64>,
    /// Receives without a wildcard that it has begun.
    pub named: HashMap<Lane, u64>,
    /// Messages that receives with a wildcard have got.
    pub matched: HashMap<Lane, u64>,
    /// Receives with a wildcard that have got none yet.
    pub open: Vec<Receive>,
    /// The calls that it is in; none if it waits for no rank.
    pub waits: Vec<Wait>,
}

impl RankWaitState {
    /// A rank that has done nothing yet.
    pub fn new(rank: i32) -> RankWaitState {
        RankWaitState {
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
