//! What a call of one process means for the others.

use crate::collectives::Entry;
use crate::finding::Place;
use crate::rma::{Access, Shape};
use crate::typemap::Elements;
use refrain_analysis::matching::{Blocked, Lane, Op};
use refrain_mpi::semantics::Mode;
use std::sync::Arc;

/// The part of an operation that one process has.
#[derive(Clone, Debug)]
pub enum Part {
    /// A message is sent.
    Send(Mode, Option<Elements>),
    /// A message is received.
    Receive(Option<Elements>),
    /// A collective.
    Collective(Arc<Entry>),
}

/// An operation that begins.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The operation.
    pub op: Op,
    /// The call that begins it.
    pub place: Arc<Place>,
    /// What is sent or received.
    pub part: Part,
}

/// An operation that ends in a call.
#[derive(Clone, Debug)]
pub struct End {
    /// How it began.
    pub begun: Arc<Begun>,
    /// The lane of the message that a receive matched.
    pub lane: Option<Lane>,
    /// Whether the call returns only once it is complete.
    pub is_awaited: bool,
}

/// What a call means for other processes.
#[derive(Debug)]
pub struct Turn {
    /// The call.
    pub place: Arc<Place>,
    /// Operations that begin.
    pub begun: Vec<Arc<Begun>>,
    /// Operations that end.
    pub ends: Vec<End>,
    /// Operations whose outcome is not known.
    pub lost: Vec<Op>,
    /// Whether another run may complete other operations here, and go on differently.
    pub may_differ: bool,
    /// What a call that has not returned waits for.
    pub open: Option<Blocked<Arc<Place>>>,
    /// Accesses to windows.
    pub accesses: Vec<Access>,
    /// Windows whose earlier accesses by this process, or to a rank, are complete: identity and target.
    pub synchronized: Vec<(u64, Option<i32>)>,
    /// Whether communicators, windows or files may be new.
    pub has_new_scopes: bool,
    /// A window whose accesses are put in order by other means than those that are followed.
    pub unordered: Option<Unordered>,
    /// A window that this process makes: identity, and what it gives to it.
    pub window: Option<(u64, Shape)>,
}

/// Windows whose conflicts are not looked for.
#[derive(Clone, Copy, Debug)]
pub enum Unordered {
    /// This one: `MPI_Win_post` and `MPI_Win_start` order accesses between some of its ranks.
    One(u64),
    /// All: atomic operations may protect the memory of any.
    All,
}

impl Turn {
    /// A call that means nothing yet.
    pub fn new(place: Arc<Place>) -> Turn {
        Turn {
            place,
            begun: Vec::new(),
            ends: Vec::new(),
            lost: Vec::new(),
            may_differ: false,
            open: None,
            accesses: Vec::new(),
            synchronized: Vec::new(),
            has_new_scopes: false,
            unordered: None,
            window: None,
        }
    }
}
