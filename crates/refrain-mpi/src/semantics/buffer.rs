//! Buffers: the memory that an operation reads or writes.

use crate::interface::{Function, Param};

/// Memory that an operation reads or writes. All fields are positions among the parameters; whether
/// it is read or written is the direction of the parameter at [`address`](Buffer::address).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The address.
    pub address: usize,
    /// Its size.
    pub amount: Amount,
    /// The datatype, or an array with one for each block; none: bytes, or unknown.
    pub datatype: Option<usize>,
    /// Significant at the root only.
    pub at_root: bool,
}

/// The size of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// The size in the call that began the operation; the call that ends it has none.
    Unknown,
    /// A constant number of elements.
    Constant(u32),
    /// A number of elements, or of bytes if there is no datatype: the parameter at this position.
    Count(usize),
    /// Several blocks of the same number of elements: the parameter at this position.
    Each(usize, Blocks),
    /// Consecutive blocks, with the counts in the array at this position.
    Counts(usize),
    /// One block: the caller's own entry of the array at this position.
    OwnCount(usize),
    /// Blocks with counts at displacements: the arrays at these positions.
    Displaced {
        /// The counts.
        counts: usize,
        /// The displacements: in elements, or in bytes where each block has a datatype of its own.
        displacements: usize,
    },
}

/// What each block of a buffer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Each process that the caller communicates with: of the remote group of an intercommunicator,
    /// else of the communicator.
    Peers,
    /// Each process of the communicator's local group.
    Size,
    /// Each neighbour that data come from.
    Sources,
    /// Each neighbour that data go to.
    Destinations,
    /// Each partition: the parameter at this position.
    Partitions(usize),
}

impl Buffer {
    /// The parameter that holds its address.
    #[expect(clippy::indexing_slicing, reason = "a position in the function's own list")]
    pub fn param<'f>(&self, function: &'f Function) -> &'f Param {
        &function.params[self.address]
    }
}
