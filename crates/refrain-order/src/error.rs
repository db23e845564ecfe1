//! Why bytes are not a record.

use refrain_bytes::BytesError;
use std::fmt;

/// Why bytes could not be read as a part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderError {
    /// The bytes end in the middle of a block: what a killed process leaves behind.
    Truncated,
    /// A block's checksum does not fit its bytes.
    Damaged,
    /// A number lies outside what its place allows; the text names the place.
    OutOfRange(&'static str),
    /// A tag has no meaning in this version; the text names what it should have said.
    Unknown(&'static str),
    /// The blocks of a stream do not follow one another.
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
