//! Errors of encoding, decoding and settings.

use crate::bounds::MOST_LEVELS;
use crate::{MOST_CALLS, MOST_RELATIVE, Mode};
use refrain_bytes::BytesError;
use std::fmt;

/// Why calls could not be encoded, or bytes could not be decoded.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TimingError {
    /// The columns of a block differ in length.
    Uneven {
        /// Number of calls.
        terminals: usize,
        /// Number of intervals.
        gaps: usize,
        /// Number of durations.
        durations: usize,
    },
    /// A block has more calls than [`MOST_CALLS`](crate::MOST_CALLS).
    TooLong(usize),
    /// The bytes are truncated.
    Truncated,
    /// The bytes are malformed; the text says how.
    Damaged(&'static str),
    /// This build cannot read or write the mode.
    Unavailable(Mode),
    /// A library failed.
    Library(&'static str),
    /// No mode has that name.
    UnknownMode(String),
    /// A relative bound is out of range.
    Relative(f64),
    /// A terminal is too large to have an individual bound.
    Terminal(u32),
    /// There are more different bounds than a block can encode.
    TooManyBounds,
}

impl std::error::Error for TimingError {}

impl From<BytesError> for TimingError {
    fn from(error: BytesError) -> Self {
        match error {
            BytesError::Truncated => Self::Truncated,
            BytesError::Overlong => Self::Damaged("a number of more than 64 bits"),
            BytesError::OutOfRange(what) => Self::Damaged(what),
        }
    }
}

// Written by hand: this crate is part of the agent, which has no other dependencies.
impl fmt::Display for TimingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uneven { terminals, gaps, durations } => {
                write!(
                    f,
                    "a block has {terminals} calls, {gaps} intervals and {durations} durations"
                )
            }
            Self::TooLong(calls) => {
                write!(f, "a block has {calls} calls; at most {MOST_CALLS} are possible")
            }
            Self::Truncated => f.write_str("a timing block is truncated"),
            Self::Damaged(what) => write!(f, "malformed timing block: {what}"),
            Self::Unavailable(mode) => f.write_str(&unavailable(*mode)),
            Self::Library(name) => write!(f, "the {name} library failed"),
            Self::UnknownMode(word) => {
                write!(f, "`{word}` is not a timing mode: use {}", Mode::words())
            }
            Self::Relative(fraction) => write!(
                f,
                "{fraction} is not a valid relative error: use one from 0.000001 to {MOST_RELATIVE}, such as 0.1"
            ),
            Self::Terminal(terminal) => {
                write!(
                    f,
                    "the number of signature {terminal} is too large for an individual error bound"
                )
            }
            Self::TooManyBounds => write!(f, "more than {MOST_LEVELS} different error bounds"),
        }
    }
}

fn unavailable(mode: Mode) -> String {
    match mode {
        Mode::Sz | Mode::SzClustered => format!(
            "`{mode}` needs SZ3, whose Rust binding is under GPL-3.0: this Refrain neither reads nor \
             writes it. Such times can be read by the Refrain that wrote them, built with \
             `--features sz`; for new traces use `{}`",
            Mode::Loop
        ),
        _ if cfg!(feature = "zfp") => format!(
            "`{mode}` needs the ZFP library, libzfp.so.1, which is not here: install it (Debian's \
             package is libzfp1), or use `{}`",
            Mode::Loop
        ),
        _ => format!(
            "`{mode}` needs the ZFP library, for which this build was not made: build with \
             `--features zfp`, or use `{}`",
            Mode::Loop
        ),
    }
}
