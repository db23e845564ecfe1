//! Why bytes could not be decoded.

use std::fmt;

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytesError {
    /// The bytes end in the middle of something.
    Truncated,
    /// A number takes more than 64 bits.
    Overlong,
    /// A number is larger than its field allows; the text names the field.
    OutOfRange(&'static str),
}

impl fmt::Display for BytesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the data end too early"),
            Self::Overlong => f.write_str("a number is longer than 64 bits"),
            Self::OutOfRange(what) => write!(f, "the {what} is out of range"),
        }
    }
}

impl std::error::Error for BytesError {}
