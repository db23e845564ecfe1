//! Errors of reading records.

use refrain_bytes::BytesError;
use std::fmt;

/// Why bytes could not be read as a part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderError {
    /// The bytes end in the middle of a block, as a killed process may leave them.
    Truncated,
    /// A block's checksum does not match its bytes.
    Damaged,
    /// A number is out of range; the text says which number.
    OutOfRange(&'static str),
    /// A tag is not known in this version; the text says what it stands for.
    Unknown(&'static str),
    /// A block of a stream is missing.
    Missing,
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the receive order ends in the middle of a block"),
            Self::Damaged => f.write_str("a block of the receive order is damaged"),
            Self::OutOfRange(what) => write!(f, "the receive order's {what} is out of range"),
            Self::Unknown(what) => write!(f, "the receive order's {what} is of an unknown kind"),
            Self::Missing => f.write_str("a block of the receive order is missing"),
        }
    }
}

impl std::error::Error for OrderError {}

impl From<BytesError> for OrderError {
    fn from(error: BytesError) -> Self {
        match error {
            BytesError::Truncated => Self::Truncated,
            BytesError::Overlong => Self::OutOfRange("number"),
            BytesError::OutOfRange(what) => Self::OutOfRange(what),
        }
    }
}
