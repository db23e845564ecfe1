//! Records the memory references of a program, in a process beside it.
//!
//! ```text
//!  program's process            compressor's process                  afterwards
//!  front end ─▶ rings, ledger ─▶ one Compressor per thread ─▶ parts ─▶ assemble ─▶ NAME.refrain
//!               (refrain_rings)  (refrain_memory)                                 (refrain_memtrace)
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`keeper`] | the process beside a rank that waits for processes to be recorded, and starts their compressors |
//! | [`compress`] | the compressor of one process |
//! | [`streams`] | the streams of its threads |
//! | [`tables`] | its code and segments, from the ledger |
//! | `implied` | removes calling contexts that follow from others |
//! | [`part`] | the files that a compressor writes |
//! | [`state`] | the state of a compressor, as bytes |
//! | [`assemble`] | makes one trace of the parts of all processes |
//!
//! Traces are read with `refrain-memtrace`, which does not depend on this crate.

pub mod assemble;
pub mod compress;
mod implied;
pub mod keeper;
pub mod part;
pub mod state;
pub mod streams;
pub mod tables;
