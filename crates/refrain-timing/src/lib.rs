//! Times.
mod bins;
mod bits;
mod block;
mod bounds;
mod bytes;
mod cfg;
mod error;
mod floating;
mod hist;
mod loops;
mod lossless;
mod mode;
mod position;
mod quantum;
mod rans;
mod symbols;
mod weights;

pub use block::{Calls, MOST_CALLS, Scratch, Times, decode, encode, mode_of};
pub use bounds::{Bounds, MOST_RELATIVE};
pub use error::TimingError;
pub use mode::{Bound, Mode};
