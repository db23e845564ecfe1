//! The encoder: from the records of a process to signatures, grammars and outcomes.
//!
//! ```text
//!  records ─▶ encoder ─▶ signature (what the call is about) ─▶ grammar over signatures
//!                   └──▶ outcome   (what MPI decided)       ─▶ only what was not predicted
//! ```
//!
//! The same encoder runs inside the program, where it empties the log whenever that is full, and offline, over a log
//! that was kept or that a dead program left. What signatures and outcomes look like is in [`refrain_signature`]; the
//! decoder is in `refrain-reader`, and never inside a program.
//!
//! * [`encoder`]: records in, tasks out · [`call`]: the cells of one call
//! * [`objects`], [`segments`], [`slots`], [`pool`]: numbers for handles and addresses
//! * [`signature`], [`varying`], [`task`]: what a task consists of while it is recorded
//! * [`times`]: the times of every call, where they are asked for
//! * [`sealed`]: what is complete, and may be written to a file
//! * `memo`: calls that look exactly like one before

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod call;
pub mod encoder;
mod memo;
pub mod objects;
pub mod pool;
pub mod sealed;
pub mod segments;
pub mod signature;
pub mod slots;
pub mod task;
pub mod times;
pub mod varying;
