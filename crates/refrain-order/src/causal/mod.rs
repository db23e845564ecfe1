//! The causal method: nothing is sent along with messages.
//!
//! Messages with the same source, tag and communicator do not overtake each other, and receives match in posting
//! order. So if every receive asks for its recorded source and tag, and receives are posted in the same order, each
//! gets the same message, whatever the network does. The record holds the matched source and tag of wildcard
//! receives, the indices that completing calls reported, counts of failed polls, and values of clocks.
//!
//! | module | contents |
//! |---|---|
//! | [`record`], [`replay`] | the recorder, and its mirror |
//! | [`log`] | the window of recent events, which survives a killed process |
//! | [`event`] | what a block of a record holds |
//! | [`frames`], [`codec`] | blocks as bytes |
//! | `calls`, `receives`, `completions`, `pool`, `set` | the models that [`codec`] feeds |
//! | [`read`], [`races`], [`mod@diff`], [`summary`], [`links`], [`mod@check`] | reading a record without replaying it |

mod calls;
pub mod check;
pub mod codec;
mod completions;
pub mod diff;
pub mod event;
pub mod frames;
pub mod links;
pub mod log;
mod pool;
pub mod races;
pub mod read;
mod receives;
pub mod record;
pub mod replay;
mod set;
pub mod summary;

pub use frames::Frames;
pub use log::Log;
pub use record::{Recorder, Sums};
pub use replay::{Decision, Posting, Replayer};
