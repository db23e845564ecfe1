//! Which rank waits for which: the open calls of all ranks as a graph.
//!
//! ```text
//!  items of a rank ─▶ position ─▶ what it waits for, has sent and received ─┐
//!  items of a rank ─▶ position ─▶ …                                         ├─▶ graph ─▶ cycles, missing ranks
//!  items of a rank ─▶ position ─▶ …                                        ─┘
//! ```
//!
//! A rank in `MPI_Recv` waits for its source only if the source has not sent yet, and a rank in
//! `MPI_Barrier` only for the members that have not called it yet. Both follow from counting
//! ([`crate::matching`]): the third receive of a lane has its message once three messages were sent, whatever the
//! sender has done since.
//!
//! * [`position`]: the open calls of one process · [`graph`]: all ranks

pub mod graph;
pub mod position;
mod words;

pub use crate::matching::{Kind, Lane, Lanes, Need, Operation, Receive, Scope, Until};

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Whether a process still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs, or it was in its last call when the whole job ended.
    Here,
    /// It has called `MPI_Finalize`.
    Finished,
    /// It has ended otherwise.
    Died,
}

/// A call that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The thread that made it.
    pub thread: u32,
    /// The function.
    pub function: String,
    /// What it needs, each with a description: `MPI_Recv, source=1, tag=0`.
    pub needs: Vec<(Need, String)>,
    /// How many needs must be met.
    pub until: Until,
}

/// So many of the last messages of a lane are known with the calls that sent them.
pub const KEPT_SENDS: usize = 8;

/// A call that sent a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SendingCall {
    /// Its number in its thread, if it is known.
    pub number: Option<u64>,
    /// The function.
    pub function: String,
    /// Its call site, if call sites were recorded.
    pub site: Option<Arc<str>>,
}

/// What a rank has done that others may wait for, and what the rank itself waits for.
#[derive(Clone, Debug)]
pub struct RankWaitState {
    /// The rank in `MPI_COMM_WORLD`.
    pub rank: i32,
    /// Whether it still runs.
    pub life: Life,
    /// Its scopes, with the number of collectives that it has begun on each.
    pub scopes: Vec<(Scope, u64)>,
    /// Messages that it has begun to send.
    pub sent: Lanes,
    /// The calls that sent the last messages of each lane, the very last first: at most [`KEPT_SENDS`].
    pub last_sent: HashMap<Lane, VecDeque<SendingCall>>,
    /// Receives without a wildcard that it has begun.
    pub named: Lanes,
    /// Messages that receives with a wildcard have matched.
    pub matched: Lanes,
    /// Receives with a wildcard that have not matched yet.
    pub open: Vec<Receive>,
    /// Its open calls; empty if it waits for no rank.
    pub waits: Vec<Wait>,
}

impl RankWaitState {
    /// A rank that has done nothing yet.
    pub fn new(rank: i32) -> RankWaitState {
        RankWaitState {
            rank,
            life: Life::Here,
            scopes: Vec::new(),
            sent: Lanes::default(),
            last_sent: HashMap::new(),
            named: Lanes::default(),
            matched: Lanes::default(),
            open: Vec::new(),
            waits: Vec::new(),
        }
    }
}
