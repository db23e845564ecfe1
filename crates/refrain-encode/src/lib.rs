//! From the records of a process to signatures, grammars and outcomes, and back.
//!
//! ```text
//!  records ─▶ encoder ─▶ signature (what the call is about) ─▶ grammar over signatures
//!                   └──▶ outcome   (what MPI decided)       ─▶ only what was not predicted
//! ```
//!
//! The same encoder runs inside the program, where it empties the log whenever that is full,
//! and offline, over a log that was kept or that a dead program left.
//!
//! * [`encoder`]: records in, tasks out · [`plan`]: which value goes where
//! * [`objects`], [`segments`], [`slots`], [`pool`]: names for handles and addresses
//! * [`signature`], [`outcome`], [`stats`], [`task`]: what a task consists of
//! * [`times`]: the times of every call, where they are asked for
//! * [`sealed`]: what is complete, and may be put away in a file
//! * `memo`: calls that look exactly like one before
//! * [`cells`], [`array`]: numbers as bytes

pub mod array;
pub mod call;
pub mod cells;
pub mod encoder;
mod hash;
mod memo;
pub mod notes;
pub mod objects;
pub mod outcome;
pub mod plan;
pub mod pool;
pub mod sealed;
pub mod segments;
pub mod signature;
pub mod slots;
pub mod stats;
pub mod task;
pub mod tasktrace;
pub mod times;

#[cfg(feature = "decode")]
pub mod decoder;
