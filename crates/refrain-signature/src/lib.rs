//! Signatures and outcomes of calls: the coding that the encoder writes and the reader reads.
//!
//! A *signature* is a function with its inputs and the outputs that follow from them, as a flat list of numbers
//! ([`cells`]). An *outcome* is what MPI decided, in the same form. The encoder (inside the program), the merge over
//! ranks and the reader share these modules:
//!
//! * [`head`]: the first cells: function, whether the call returned, depth, call site
//! * [`plan`]: which values a function has, and whether they belong to the signature or to the outcome
//! * [`args`]: typed arguments, each number with the index of its cell
//! * [`codes`]: which cells stand for which value · [`array`]: arrays of numbers
//! * [`outcome`]: sequences of outcomes; only mispredicted ones are stored
//! * [`stats`], [`times`], [`setting`]: durations by signature, times of every call, and how exactly they are kept
//! * [`timekey`]: what statistics of durations are kept by in a file
//! * [`tasktrace`]: the trace of one task · [`notes`]: entries between calls

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod args;
pub mod array;
pub mod cells;
pub mod codes;
pub mod head;
pub mod notes;
pub mod outcome;
pub mod plan;
pub mod setting;
pub mod stats;
pub mod tasktrace;
pub mod timekey;
pub mod times;
