//! Memory traces: the `.refrain` files that `refrain mem` writes, and how to read them.
//!
//! ```no_run
//! # fn main() -> Result<(), refrain_memtrace::TraceError> {
//! use refrain_memtrace::MemoryTrace;
//!
//! let trace = MemoryTrace::open("matmul.refrain".as_ref())?;
//! let process = trace.process(0)?;
//! for thread in process.trace.threads() {
//!     let loads = process.trace.references(thread).count();
//!     println!("thread {thread}: {loads} references");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`trace`] | [`MemoryTrace`]: a trace to be read, process by process; facts about the run |
//! | [`process`] | facts about one process |
//! | [`code`] | modules, calling contexts and blocks of a process |
//! | [`sealed`] | the bytes of sealed chunks |
//! | [`structures`] | the loop nests of all processes |
//! | [`verify`] | compares a trace with the raw words that it was made of |
//!
//! The recorder is another crate, `refrain-memrecord`. Nothing here forks, opens sockets or shares memory.
//!
//! # Sections of a trace
//!
//! | section | holds |
//! |---|---|
//! | `memory` | facts about the run and each process ([`trace::Facts`]) |
//! | `code` | modules, contexts and blocks, once for all processes that share them ([`code::Code`]) |
//! | `segments/N` | the segments of process N ([`refrain_memory::Segments::encode`]) |
//! | `threads` | the last chunks of all threads of all processes ([`refrain_memory::Processes::encode`]) |
//! | `sealed/N` | the sealed chunks of process N ([`sealed`]) |
//! | `numbers/N` | present with `sealed/N` or `raw/N`: for each block number used in these, its number in `code` |
//! | `raw/N` | with `--raw`, the words of the rings of process N: thread (`u32`), number of words (`u32`), words (`u64` each), repeated |
//!
//! Numbers are varints (LEB128, signed ones zigzag). Texts are preceded by their length.

mod bytes;
pub mod code;
pub mod error;
pub mod process;
pub mod sealed;
pub mod sections;
pub mod structures;
pub mod trace;
pub mod verify;

pub use error::TraceError;
pub use structures::{SharedStructure, Structures};
pub use trace::MemoryTrace;
