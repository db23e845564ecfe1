//! Recording memory references beside a program, and the traces made of them.
//!
//! ```text
//!  program's process            compressor's process              afterwards
//!  front end ─▶ rings, ledger ─▶ one compressor a thread ─▶ parts ─▶ assemble ─▶ NAME.refrain
//!                 (refrain_rings)      (refrain_memory)                             │
//!                                                             show, info, verify ◀─ MemoryTrace
//! ```
//!
//! * [`keeper`]: waits beside a rank for the processes that want to be recorded
//! * [`compress`]: the compressor of one process · [`streams`]: its threads' streams · [`tables`]:
//!   what its ledger told
//! * `implied`: what of these need not be told
//! * [`part`]: what a compressor leaves in the folder of parts · [`state`]: all that is known of a
//!   process, as bytes
//! * [`assemble`]: one trace of all processes · [`trace`]: reading it · [`verify`]: comparing it with
//!   the raw records
//!
//! # Sections of a trace
//!
//! | section | holds |
//! |---|---|
//! | `memory` | facts about the run and each process ([`trace::Facts`]) |
//! | `code` | modules, contexts and blocks; once for all processes that share them ([`tables::Code`]) |
//! | `segments/N` | where the segments of process N were ([`refrain_memory::Segments::encode`]) |
//! | `threads` | the last chunks of all threads of all processes ([`refrain_memory::Processes::encode`]) |
//! | `sealed/N` | the full chunks of process N: thread, length, bytes |
//! | `numbers/N` | if there are sealed chunks or raw words: the numbers in `code` of the blocks of process N, by the numbers they had while it was recorded |
//! | `raw/N` | with `--raw`, the words that came out of the rings of process N: thread (`u32`), number of words (`u32`), words (`u64` each), again and again |
//!
//! Numbers are varints (LEB128, signed ones zigzag), texts have their length in front.

pub mod assemble;
mod bytes;
pub mod compress;
mod error;
mod implied;
pub mod keeper;
pub mod part;
pub mod state;
pub mod streams;
pub mod tables;
pub mod trace;
pub mod verify;

pub use error::TraceError;
pub use trace::MemoryTrace;
