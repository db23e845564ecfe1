//! Compresses the times of every call: when it began, and how long it took.
//!
//! A trace's grammar says *what* a thread called; this crate stores *when*. For each call it stores the
//! duration and the interval since the thread's previous call returned, both in ticks of a clock. It
//! knows nothing of MPI, files or threads: the encoder turns terminals (numbers of signatures) and
//! times into bytes; the decoder turns terminals and bytes back into times.
//!
//! Times are stored in independent blocks, with the exact start tick of the first call. A block may
//! end at any call, and is decoded without earlier blocks.
//!
//! | mode | error bound | how |
//! |---|---|---|
//! | [`Lossless`](Mode::Lossless) | exact | symbols and low bits, predicted by position in the loops |
//! | [`Loop`](Mode::Loop) | relative | wide bins, predicted by position in the loops: the smallest as a rule |
//! | [`Cfg`](Mode::Cfg) | relative | two grammars over bins (Pilgrim §2.3.2) |
//! | [`Hist`](Mode::Hist) | relative | the most frequent bins of each signature (Pilgrim §2.3.2) |
//! | [`Zfp`](Mode::Zfp), [`ZfpClustered`](Mode::ZfpClustered) | absolute | ZFP |
//!
//! ```
//! use refrain_timing::{Bounds, Calls, Mode, Scratch, decode, encode};
//!
//! let calls = Calls {
//!     before: &[],
//!     terminals: &[7, 8, 7, 8],
//!     gaps: &[0, 120, 5000, 118],
//!     durations: &[900, 31, 870, 30],
//!     start: 1_000_000,
//! };
//! let bounds = Bounds::relative(0.1)?;
//! let mut block = Vec::new();
//! encode(Mode::Loop, &bounds, &calls, &mut Scratch::default(), &mut block)?;
//! let times = decode(&block, &[], &[7, 8, 7, 8])?;
//! assert_eq!(times.start, 1_000_000);
//! assert!(times.durations[2].abs_diff(870) <= 87);
//! # Ok::<(), refrain_timing::TimingError>(())
//! ```
//!
//! This crate runs inside other people's programs. The exception is the feature `zfp`, for offline
//! use, which loads the ZFP library if it is installed. Blocks that earlier builds wrote with SZ3
//! ([`Sz`](Mode::Sz), [`SzClustered`](Mode::SzClustered)) are recognized and refused: the only Rust
//! binding of SZ3 is under GPL-3.0, and Refrain is not.
//!
//! [`LogHistogram`] is for statistics: the distribution of the times of all calls, in a few bytes.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod bins;
mod bits;
mod block;
mod bounds;
mod bytes;
mod cfg;
mod error;
pub mod floating;
#[cfg(feature = "zfp")]
#[allow(clippy::indexing_slicing, reason = "a feature that the agent is built without")]
mod foreign;
mod hist;
mod histogram;
mod loops;
mod lossless;
mod mode;
mod position;
mod quantum;
mod rans;
mod symbols;
mod weights;
#[cfg(feature = "zfp")]
mod zfp;

pub use block::{Calls, MOST_CALLS, Scratch, Times, decode, encode, mode_of};
pub use bounds::{Bounds, MOST_RELATIVE};
pub use error::TimingError;
pub use histogram::{BUCKETS, LogHistogram};
pub use mode::{Bound, Mode};
