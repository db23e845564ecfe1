//! When calls were made, and how long they took: every time, in few bytes.
//!
//! A trace's grammar says *what* a thread called. This crate keeps *when*: for each call its
//! duration, and the interval since the thread's call before returned, both in ticks of a clock. It
//! knows nothing of MPI, files or threads: terminals (numbers of signatures) and times go in, bytes
//! come out, and given the terminals again, the times.
//!
//! Times are kept in blocks, each complete in itself, with the exact tick at which its first call
//! began. A block may end at any call, and is decoded without those before it.
//!
//! | mode | keeps | how |
//! |---|---|---|
//! | [`Lossless`](Mode::Lossless) | exact times | symbols and open bits, by position in the loops |
//! | [`Loop`](Mode::Loop) | a relative bound | wide bins, by position in the loops: the best of these |
//! | [`Cfg`](Mode::Cfg) | a relative bound | bins as two grammars (Pilgrim §2.3.2) |
//! | [`Hist`](Mode::Hist) | a relative bound | frequent bins of each signature (Pilgrim §2.3.2) |
//! | [`Zfp`](Mode::Zfp), [`ZfpClustered`](Mode::ZfpClustered) | an absolute bound | by ZFP |
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
//! All of it is Rust, and runs inside other people's programs, but for the feature `zfp`: for
//! offline use, it loads the ZFP library if it is installed. Blocks that earlier builds wrote by
//! SZ3 ([`Sz`](Mode::Sz), [`SzClustered`](Mode::SzClustered)) are recognized and refused: the only
//! Rust binding of SZ3 is under GPL-3.0, and Refrain is not.
//!
//! [`LogHistogram`] is the other end: how times are spread, in a few bytes for all calls.

mod bins;
mod bits;
mod block;
mod bounds;
mod bytes;
mod cfg;
mod error;
mod floating;
#[cfg(feature = "zfp")]
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
pub use histogram::LogHistogram;
pub use mode::{Bound, Mode};
