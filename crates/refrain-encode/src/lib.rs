//! The encoder turns the records of a process into signatures, grammars and outcomes.
//!
//! ```text
//!  records ─▶ encoder ─▶ signature (what the call is about) ─▶ grammar over signatures
//!                   └──▶ outcome   (what MPI decided)       ─▶ only what was not predicted
//! ```
//!
//! The same encoder runs inside the program, which feeds it whenever the log is full, and offline, on a kept log or on
//! the log of a killed program. [`refrain_signature`] defines signatures and outcomes. The decoder is in
//! `refrain-reader` and never runs inside a program.
//!
//! * [`encoder`]: records in, tasks out · [`call`]: the cells of one call
//! * [`objects`], [`segments`], [`slots`], [`pool`]: numbers for handles and addresses
//! * [`signature`], [`varying`], [`task`]: a task while it is recorded
//! * [`times`]: the times of every call, with `--timing`
//! * [`sealed`]: complete data that may move to a file
//! * `memo`: fast path for calls whose records equal those of an earlier call

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
