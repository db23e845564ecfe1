//! What each MPI function does, read from `semantics.txt`.
//!
//! Every part of Refrain that asks "does this call send, complete a request, make a communicator,
//! wait for others?" asks here: the agent when it is built, and all analyses. The answers are typed
//! accessors on [`Function`]:
//!
//! ```
//! use refrain_mpi::interface::function;
//! use refrain_mpi::semantics::{Argument, Collective, Form, Op, Over};
//!
//! let ibcast = function("MPI_Ibcast").unwrap();
//! assert_eq!(ibcast.op(), Op::Collective(Collective::Bcast));
//! assert_eq!(ibcast.form(), Form::Nonblocking);
//! assert_eq!(ibcast.over(), Some(Over::Comm));
//! assert!(ibcast.is_local(), "it returns immediately");
//!
//! let buffer = &ibcast.buffers()[0];
//! assert_eq!(ibcast.params[buffer.address].name, "buffer");
//! assert_eq!(ibcast.params[buffer.datatype.unwrap()].name, "datatype");
//!
//! let recv = function("MPI_Recv").unwrap();
//! assert_eq!(recv.position(Argument::Source), Some(3));
//! ```
//!
//! * [`Op`]: what is done, with [`Collective`], [`Mode`], [`Rma`] … for the details
//! * [`Form`]: blocking, nonblocking, persistent …
//! * [`Over`]: which processes have to make the call together
//! * [`Buffer`]: the memory it reads or writes · [`Argument`]: the arguments that have one meaning in
//!   many functions · [`Meaning`]: what a parameter's number stands for

mod arguments;
mod buffer;
mod collective;
mod op;
mod parse;

pub use arguments::{Argument, Meaning};
pub use buffer::{Amount, Blocks, Buffer};
pub use collective::{Collective, Pattern, Root};
pub use op::{Access, Choice, Io, Mode, Object, Op, Pointer, Rma, Sync};

use crate::interface::{Direction, Function};
use crate::kind::Class;
use std::fmt;

pub(crate) use parse::{Line, table};

/// When a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// When its operation is complete; also where the distinction does not arise.
    Blocking,
    /// Immediately: with a request, or with the answer that nothing is there yet.
    Nonblocking,
    /// With a request that `MPI_Start` starts, any number of times.
    Persistent,
    /// The same, and the program passes the message in partitions.
    Partitioned,
    /// First half of a split collective.
    SplitBegin,
    /// Second half of a split collective.
    SplitEnd,
}

/// The processes that have to call a function together, in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Over {
    /// All processes of `MPI_COMM_WORLD`.
    World,
    /// All processes that have the session.
    Session,
    /// The members of the communicator that is passed.
    Comm,
    /// The members of the communicator, and processes at the other end that it does not contain.
    CommAndRemote,
    /// The members of the group that is passed. The call has no position among the collectives of
    /// the communicator: others of its members do not make it.
    Group,
    /// The processes of the window.
    Window,
    /// The processes that have opened the file together.
    File,
}

/// One line of the table, with its arguments resolved against one function's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semantics {
    pub(crate) op: Op,
    pub(crate) form: Form,
    pub(crate) is_local: bool,
    pub(crate) over: Option<Over>,
    pub(crate) buffers: Vec<Buffer>,
}

/// What the function of that name does and when it returns, from its row of the table alone.
///
/// Unlike [`interface::function`](crate::interface::function), this does not parse the tables of all functions.
pub fn op_and_form(name: &str) -> Option<(Op, Form)> {
    parse::lookup(name)
}

/// Whether a function asks if something has happened, and returns in any case: a poll.
pub fn polls(op: Op, form: Form) -> bool {
    let asks = matches!(
        op,
        Op::Probe
            | Op::MatchedProbe
            | Op::Complete(_)
            | Op::Inspect(_)
            | Op::Arrived
            | Op::Sync(Sync::Wait)
    );
    asks && form == Form::Nonblocking
}

impl Function {
    /// What it does.
    pub fn op(&self) -> Op {
        self.semantics.op
    }

    /// When it returns.
    pub fn form(&self) -> Form {
        self.semantics.form
    }

    /// Whether it returns whatever other processes do (the standard's *local*).
    pub fn is_local(&self) -> bool {
        self.semantics.is_local
    }

    /// The processes that have to call it together; none if it is not collective.
    pub fn over(&self) -> Option<Over> {
        self.semantics.over
    }

    /// Whether it is collective, over whatever processes.
    pub fn is_collective(&self) -> bool {
        self.semantics.over.is_some()
    }

    /// Whether its result depends on an order among processes that is not the order of messages:
    /// accumulates, locks, shared file pointers, and other jobs.
    pub fn depends_on_other_order(&self) -> bool {
        match self.op() {
            Op::Rma(access) => access.depends_on_order(),
            Op::Sync(Sync::Lock) | Op::Connect => true,
            Op::Io(_, Pointer::Shared) => !self.is_collective(),
            _ => false,
        }
    }

    /// Whether it may wait for something that no process of the job does: a file system, or another job.
    pub fn waits_beyond_job(&self) -> bool {
        match self.op() {
            Op::Connect | Op::Io(..) => true,
            Op::Make(object) | Op::Free(object) | Op::Change(object) | Op::Query(object) => {
                object == Object::File
            }
            _ => false,
        }
    }

    /// The memory that its operation reads or writes, in the order of the parameters.
    pub fn buffers(&self) -> &[Buffer] {
        &self.semantics.buffers
    }

    /// The positions of handles that the call gives to the program, to be freed or completed by it.
    pub fn creates(&self) -> impl Iterator<Item = usize> {
        let gives = !matches!(self.op(), Op::Query(_) | Op::Convert(_));
        self.handles(Direction::Out).filter(move |_| gives)
    }

    /// The positions of handles that are invalid after the call, or set to null.
    pub fn frees(&self) -> impl Iterator<Item = usize> {
        let takes = matches!(self.op(), Op::Free(_) | Op::End | Op::MatchedReceive);
        self.handles(Direction::InOut).filter(move |_| takes)
    }

    fn handles(&self, direction: Direction) -> impl Iterator<Item = usize> {
        let is_it = move |(_, p): &(usize, &crate::interface::Param)| {
            p.class == Class::Handle && p.direction == direction
        };
        self.params.iter().enumerate().filter(is_it).map(|(i, _)| i)
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Blocking => "blocking",
            Form::Nonblocking => "nonblocking",
            Form::Persistent => "persistent",
            Form::Partitioned => "partitioned",
            Form::SplitBegin => "split-begin",
            Form::SplitEnd => "split-end",
        })
    }
}
