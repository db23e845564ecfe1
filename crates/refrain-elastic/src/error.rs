//! Why bytes are not a column.

use refrain_bytes::BytesError;
use std::fmt;

/// Why bytes could not be decoded as a ranklist, a formula or a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ElasticError {
    /// The bytes are truncated.
    Truncated,
    /// A number has more bits than its type.
    Overlong,
    /// A number or a set of ranks is out of range; the text names it.
    OutOfRange(&'static str),
    /// A tag is unknown in this version; the text names what it belongs to.
    Unknown(&'static str),
}

impl fmt::Display for ElasticError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("an elastic value is truncated"),
            Self::Overlong => f.write_str("a number in an elastic value is longer than 64 bits"),
            Self::OutOfRange(what) => write!(f, "an elastic value's {what} is out of range"),
            Self::Unknown(what) => write!(f, "an elastic value's {what} is of an unknown kind"),
        }
    }
}

impl std::error::Error for ElasticError {}

impl From<BytesError> for ElasticError {
    fn from(error: BytesError) -> Self {
        match error {
            BytesError::Truncated => Self::Truncated,
            BytesError::Overlong => Self::Overlong,
            BytesError::OutOfRange(what) => Self::OutOfRange(what),
        }
    }
}
