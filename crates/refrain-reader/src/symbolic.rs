//! Values as functions of the rank: the numbers, objects and arrays among the arguments of a
//! [`Signature`](crate::Signature).

use crate::calls::Peer;
use crate::event::write_list;
use refrain_elastic::{Column, TextColumn};
use refrain_mpi::abi::Family;
use refrain_signature::array::Mode;
use std::fmt;

/// A number: a constant, or a function of the rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Num<'t> {
    /// The same on all ranks.
    Constant(i64),
    /// A function of the rank: [`Column::formula`] and [`Column::pieces`] say which.
    Over(&'t Column),
    /// Half of a function of the rank.
    Halved(&'t Column),
}

impl<'t> Num<'t> {
    /// Its value on a rank; none if the rank is not among those of the signature.
    pub fn on(&self, rank: u32) -> Option<i64> {
        match self {
            Num::Constant(value) => Some(*value),
            Num::Over(column) => column.eval(rank),
            Num::Halved(column) => column.eval(rank).map(|value| value / 2),
        }
    }

    /// Its value, if all ranks have the same.
    pub fn constant(&self) -> Option<i64> {
        match self {
            Num::Constant(value) => Some(*value),
            Num::Over(_) | Num::Halved(_) => None,
        }
    }
}

/// As a formula of the rank: `7`, `rank + 1`, `3: 0; else rank + 1`.
impl fmt::Display for Num<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Num::Constant(value) => value.fmt(f),
            Num::Over(column) => column.fmt(f),
            Num::Halved(column) => write!(f, "({column}) / 2"),
        }
    }
}

/// An array of numbers, by what it follows from ([`Mode`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Array<'t> {
    /// How many elements.
    pub length: usize,
    /// How the elements follow from the numbers.
    pub mode: Mode,
    /// The numbers.
    pub cells: Vec<Num<'t>>,
}

impl Array<'_> {
    /// The elements on a rank; `before` are those of the array of numbers before it among the arguments, if any.
    pub fn on(&self, rank: u32, before: &[i64]) -> Option<Vec<i64>> {
        let cells: Option<Vec<i64>> = self.cells.iter().map(|num| num.on(rank)).collect();
        match self.length {
            0 | 1 => cells,
            length => self.mode.elements(&cells?, length, before),
        }
    }
}

/// The elements, or the rule that gives them: `[rank, rank + 1]`, `4 x 100`, `4 from 0 in steps of 100`.
impl fmt::Display for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.length;
        match (self.mode, self.cells.as_slice()) {
            _ if length < 2 => write_list(f, &self.cells),
            (Mode::Constant, [value]) => write!(f, "{length} x {value}"),
            (Mode::Steps, [first, step]) => write!(f, "{length} from {first} in steps of {step}"),
            (Mode::Sums, [first, factor]) => {
                write!(f, "{length} from {first}, running sum of the array before")?;
                match factor.constant() {
                    Some(1) => Ok(()),
                    _ => write!(f, " times {factor}"),
                }
            }
            (Mode::Again, _) => f.write_str("the array before"),
            (Mode::Differences, cells) => {
                f.write_str("differences ")?;
                write_list(f, cells)
            }
            (_, cells) => write_list(f, cells),
        }
    }
}

/// An object over ranks.
#[derive(Clone, Debug, PartialEq)]
pub enum Object<'t> {
    /// One that MPI defines: `MPI_COMM_WORLD`, `MPI_INT`.
    Predefined(&'t str),
    /// One that the task made: the smallest number of its kind that was free.
    Own(Num<'t>),
    /// One that another thread of the process made.
    Foreign {
        /// That thread.
        thread: Num<'t>,
        /// The number.
        number: Num<'t>,
    },
    /// A request, by the signature that made it.
    Request {
        /// The signature.
        signature: u32,
        /// Its number among the requests of that signature that were active at once.
        number: Num<'t>,
    },
    /// The request that this signature makes.
    Made {
        /// Its number among the requests of this signature that are active at once.
        number: Num<'t>,
    },
}

/// `MPI_COMM_WORLD`, `object 1`, `object 1 of thread 0`, `request 0 of signature 12`, `new request 0`.
impl fmt::Display for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Predefined(name) => f.pad(name),
            Object::Own(number) => write!(f, "object {number}"),
            Object::Foreign { thread, number } => write!(f, "object {number} of thread {thread}"),
            Object::Request { signature, number } => {
                write!(f, "request {number} of signature {signature}")
            }
            Object::Made { number } => write!(f, "new request {number}"),
        }
    }
}

/// An argument over ranks.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg<'t> {
    /// A number: count, rank, tag, displacement.
    Int(Num<'t>),
    /// A communicator, datatype, request ….
    Handle(Object<'t>),
    /// An address: a segment of memory and an offset in it.
    Address {
        /// The segment.
        segment: Num<'t>,
        /// Bytes from its beginning.
        offset: Num<'t>,
    },
    /// A string.
    Text(&'t TextColumn),
    /// An array of numbers.
    Numbers(Array<'t>),
    /// An array of objects: numbers above 0 are the task's own, `-1 - n` is the n-th predefined one.
    Handles(Array<'t>),
    /// An array of requests: the signature that made each, plus 1 (below 0: predefined), and its number.
    Requests {
        /// Signatures.
        signatures: Array<'t>,
        /// Numbers.
        numbers: Array<'t>,
    },
    /// An array of strings, or of objects and addresses of several threads.
    List(Vec<Arg<'t>>),
    /// A named address: `MPI_IN_PLACE`.
    Named(&'t str),
    /// A null address.
    Null,
    /// MPI did not set it.
    Unset,
    /// Not significant on these ranks.
    Insignificant,
    /// A status that the program ignored.
    Ignored,
    /// The ranks differ in more than numbers: decode each rank.
    PerRank,
}

impl<'t> Arg<'t> {
    /// The peer on a rank, if the argument is one (`dest`, `source`, `root`, `target_rank`), in an MPI of that family
    /// ([`CallTrace::family`](crate::CallTrace::family)). Its rank is one of the call's communicator;
    /// [`Arguments::world_rank_on`](crate::Arguments::world_rank_on) gives the rank in `MPI_COMM_WORLD`.
    pub fn peer_on(&self, rank: u32, family: Family) -> Option<Peer> {
        Peer::of(self.int()?.on(rank)?, family)
    }

    /// The number, if it is one.
    pub fn int(&self) -> Option<Num<'t>> {
        match self {
            Arg::Int(num) => Some(*num),
            _ => None,
        }
    }
}

/// Numbers as formulas of the rank: `rank + 1`, `MPI_COMM_WORLD`, `segment 2 + 64 bytes`, `[1, 2]`.
impl fmt::Display for Arg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Int(num) => num.fmt(f),
            Arg::Handle(object) => object.fmt(f),
            Arg::Address { segment, offset } => write!(f, "segment {segment} + {offset} bytes"),
            Arg::Text(text) => match text.constant() {
                Some(text) => write!(f, "{:?}", String::from_utf8_lossy(text)),
                None => f.pad("text that differs by rank"),
            },
            Arg::Numbers(array) => array.fmt(f),
            Arg::Handles(array) => write!(f, "objects {array}"),
            Arg::Requests { signatures, .. } => write!(f, "{} requests", signatures.length),
            Arg::List(all) => write_list(f, all),
            Arg::Named(name) => f.pad(name),
            Arg::Null => f.pad("NULL"),
            Arg::Unset => f.pad("unset"),
            Arg::Insignificant => f.pad("insignificant"),
            Arg::Ignored => f.pad("ignored"),
            Arg::PerRank => f.pad("differs by rank"),
        }
    }
}
