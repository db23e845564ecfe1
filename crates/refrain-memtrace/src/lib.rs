//! Memory traces: the `.refrain` files that `refrain mem` writes, and how to read them.
//!
//! References one by one:
//!
//! ```
//! use refrain_memtrace::MemoryTrace;
//!
//! let trace = MemoryTrace::open("tests/golden/compiled-v2.refrain".as_ref())?;
//! let process = trace.process(0)?;
//! let mut references = 0;
//! for thread in process.trace.threads() {
//!     references += process.trace.references(thread).count() as u64;
//! }
//! assert_eq!(references, trace.facts().references());
//! # Ok::<(), refrain_memtrace::TraceError>(())
//! ```
//!
//! References of several threads in turns (the order between threads is not recorded), and a thread's references from the
//! middle on, without visiting those before:
//!
//! ```
//! use refrain_memory::Turns;
//! use refrain_memtrace::MemoryTrace;
//!
//! let trace = MemoryTrace::open("tests/golden/compiled-v2.refrain".as_ref())?.process(0)?.trace;
//! let threads = trace.threads();
//! let all = trace.interleaved(&threads, Turns::RoundRobin(1)).count();
//! let each = threads.iter().map(|thread| trace.references(*thread).count());
//! assert_eq!(all, each.sum::<usize>());
//!
//! let half = trace.references(0).count() as u64 / 2;
//! let mut references = trace.references(0);
//! assert_eq!(references.skip_ahead(half)?, half);
//! assert_eq!(references.count(), trace.references(0).skip(half as usize).count());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Loop nests, without expanding them: this counts the references with a stride of 8 bytes in their innermost loop.
//!
//! ```
//! use refrain_elastic::Affine;
//! use refrain_memory::structure::Leaf;
//! use refrain_memtrace::MemoryTrace;
//! use refrain_nest::Nest;
//!
//! fn unit_strides<C>(body: &[Nest<Leaf, C>]) -> usize {
//!     let node = |node: &Nest<Leaf, C>| match node {
//!         Nest::Loop { body, .. } => unit_strides(body),
//!         Nest::Leaf(Leaf::Reference(descriptor)) => {
//!             let innermost = descriptor.steps.last().and_then(|step| step.stride);
//!             usize::from(innermost == Some(Affine::Constant(8)))
//!         }
//!         _ => 0,
//!     };
//!     body.iter().map(node).sum()
//! }
//!
//! let trace = MemoryTrace::open("tests/golden/compiled-v2.refrain".as_ref())?;
//! let structures = trace.structures(|_| true)?.all()?;
//! assert!(structures.iter().map(|shared| unit_strides(&shared.structure.nest.body)).sum::<usize>() > 0);
//! # Ok::<(), refrain_memtrace::TraceError>(())
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
