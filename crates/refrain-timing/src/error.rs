//! What can be wrong with times, with a block's bytes, and with what was asked for.

use crate::Mode;

/// Why calls could not be encoded, or bytes not decoded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TimingError {
    /// The columns of a block differ in length.
    #[error("a block has {terminals} calls, {gaps} intervals and {durations} durations")]
    Uneven {
        /// Calls.
        terminals: usize,
        /// Intervals.
        gaps: usize,
        /// Durations.
        durations: usize,
    },
    /// A block has more calls than [`MOST_CALLS`](crate::MOST_CALLS).
    #[error("a block has {0} calls, and may have {most}", most = crate::MOST_CALLS)]
    TooLong(usize),
    /// The bytes end in the middle of something.
    #[error("the bytes of a timing block end too early")]
    Truncated,
    /// The bytes make no sense; the text names what does not.
    #[error("a timing block is damaged: {0}")]
    Damaged(&'static str),
    /// This build cannot read or write the mode.
    #[error("{}", unavailable(*.0))]
    Unavailable(Mode),
    /// A library failed.
    #[error("the {0} library could not do its work")]
    Library(&'static str),
    /// No mode has that name.
    #[error("`{0}` is no way to keep times: use {modes}", modes = Mode::words())]
    UnknownMode(String),
    /// A relative bound is out of range.
    #[error("{0} is no relative error: use one from 0.000001 to {most}, such as 0.1",
        most = crate::MOST_RELATIVE)]
    Relative(f64),
    /// A terminal is too large to have a bound of its own.
    #[error("signature {0} is too large a number to have an error bound of its own")]
    Terminal(u32),
    /// More different bounds than a block can name.
    #[error("more than {most} different error bounds", most = crate::bounds::MOST_LEVELS)]
    TooManyBounds,
}

fn unavailable(mode: Mode) -> String {
    match mode {
        Mode::Sz | Mode::SzClustered => format!(
            "`{mode}` needs the SZ3 library, whose Rust binding sz3-sys is under the GPL, version \
             3: this build is without it, to stay under MIT or Apache-2.0. Build with `--features \
             sz` to have it (the result is then under the GPL), or use `{}`",
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
