//! Errors in a stream or in the bytes of a trace.

use refrain_bytes::BytesError;
use thiserror::Error;

/// Why a stream was refused, or why bytes are not a memory trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The bytes end in the middle of something.
    #[error("the bytes of a memory trace end too early")]
    Truncated,
    /// A number is out of its range; the text names the field.
    #[error("a memory trace's {0} is out of range")]
    OutOfRange(&'static str),
    /// The bytes were written by a version that this one does not know.
    #[error("the memory trace is of version {0}; this Refrain reads up to {VERSION}", VERSION = crate::VERSION)]
    Version(u8),
    /// A number over threads or processes is damaged.
    #[error("a number over threads or processes is damaged: {0}")]
    Elastic(refrain_elastic::ElasticError),
    /// Packed bytes do not unpack.
    #[error("a packed part of a memory trace is damaged: {0}")]
    Packed(String),
    /// A block that the table does not hold: register it before its first execution.
    #[error("block {0} is not in the table of blocks")]
    UnknownBlock(u64),
    /// The number of addresses differs from the block's number of references.
    #[error("block {block} has {expected} references, and came with {actual} addresses")]
    Addresses {
        /// The block.
        block: u32,
        /// How many references the table gives it.
        expected: usize,
        /// How many addresses were given.
        actual: usize,
    },
}

impl From<BytesError> for MemoryError {
    fn from(error: BytesError) -> Self {
        match error {
            BytesError::Truncated => Self::Truncated,
            BytesError::Overlong => Self::OutOfRange("number"),
            BytesError::OutOfRange(what) => Self::OutOfRange(what),
        }
    }
}
