//! Memory references as loop nests of affine sections.
//!
//! A program executes many loads and stores with little information in them: a matrix multiplication makes
//! hundreds of millions of them from three loops. This crate turns the stream of a thread into those loops
//! while the thread runs, without losing a reference. The space grows with the new information in the stream,
//! not with its length. The crate follows ScalaMemTrace and its EPRSDs
//! (extended power regular section descriptors): sections within a thread, then the threads of a
//! process as functions of the thread, then processes as functions of the rank.
//!
//! ```
//! use refrain_memory::{Blocks, Compressor, Kind, Merged, Reference, Segments, Trace};
//!
//! // The body of `for (i = 0; i < 1000; i++) a[i] = b[i];`
//! let mut blocks = Blocks::new();
//! let load = Reference { kind: Kind::Load, size: 8, pc: 0x401000 };
//! let store = Reference { kind: Kind::Store, size: 8, pc: 0x401004 };
//! let body = blocks.add(vec![load, store]).unwrap();
//!
//! // Thread 3 copies 1000 elements.
//! let segments = Segments::identity();
//! let mut compressor = Compressor::new();
//! for i in 0..1000 {
//!     compressor.push(body, &[0x10000 + 8 * i, 0x20000 + 8 * i], &blocks, &segments).unwrap();
//! }
//! let (_, chunk) = compressor.finish(&blocks);
//! assert!(chunk.to_bytes().len() < 40);
//!
//! let merged = Merged::merge(&[(3, chunk)]);
//! let trace = Trace { blocks, segments, merged, ..Trace::default() };
//! let references: Vec<_> = trace.references(3).map(Result::unwrap).collect();
//! assert_eq!(references.len(), 2000);
//! assert_eq!(references[1999].address, 0x20000 + 8 * 999);
//! ```
//!
//! # How a reference is predicted
//!
//! 1. The stream is matched against the *shape* of the nest it is in: a tree of loops over blocks,
//!    compiled to a short program. While it matches, nothing is searched.
//! 2. Each reference in the nest has, for each loop around it, a run of equal steps that it takes when that loop
//!    advances. The next address prolongs a run or begins a new one: a subtraction and a comparison, in a nest
//!    of any depth. Trip counts are stored in the same way, so a triangular loop is one run of ones.
//! 3. Bodies without inner loops are compared many iterations at once, as plain words.
//! 4. When the stream leaves the nest, the finished nest stays on a stack. When the top of the stack repeats
//!    what is below it, both become the first iterations of a loop around them.
//!
//! The stream need not be regular. A reference to irregular addresses has runs of length one, and long sequences of
//! such runs are packed as bulk. The other references of the nest remain sections.
//!
//! # Where things are
//!
//! | module | what it holds |
//! |---|---|
//! | [`block`], [`segment`], `segment_rows` | the tables: what blocks refer to, where memory lies |
//! | `runs`, `series` | numbers as runs; the values of a slot, level by level |
//! | [`shape`], `shapes` | the structure of a nest, compiled; the table of all structures |
//! | `item`, `follow`, `fast_path` | one execution of a nest; matching a stream against it, block by block or many iterations at once |
//! | [`compressor`] | the stack on which nests grow |
//! | [`chunk`], `parts`, `bulk` | a compressed stretch of a stream, and its bytes |
//! | [`irregular`] | stretches without loops, coded record by record |
//! | [`player`], [`records`], [`trace`] | decoding the stream; skipping what repeats itself |
//! | `interleave` | the references of several threads, in turns |
//! | [`thread_groups`], `reshape`, `align`, [`thread_numbers`] | merging the threads of a process |
//! | [`rank_groups`] | merging processes |
//! | [`outline`] | joins the sealed chunks of a thread, for its structure |
//! | [`structure`] | a group's loop nest over references, and as text |
//!
//! Nothing here panics on a damaged trace: decoders return a [`MemoryError`], and allocate no more than the input
//! and fixed bounds allow.

mod align;
pub mod block;
mod bulk;
pub mod chunk;
pub mod compressor;
mod error;
mod fast_path;
mod follow;
mod interleave;
pub mod irregular;
mod item;
pub mod outline;
mod parts;
pub mod player;
pub mod rank_groups;
pub mod records;
mod reshape;
mod runs;
pub mod segment;
mod segment_rows;
mod series;
pub mod shape;
mod shapes;
pub mod structure;
pub mod thread_groups;
pub mod thread_numbers;
pub mod trace;

pub use align::Substitutes;
pub use block::{Blocks, Kind, Reference, Signatures};
pub use chunk::{Chunk, Finished};
pub use compressor::Compressor;
pub use error::MemoryError;
pub use interleave::{Interleaved, Turns};
pub use outline::Outline;
pub use player::{Event, Mark, Player, Steady};
pub use rank_groups::{Processes, RankGroup};
pub use records::Records;
pub use runs::Runs;
pub use segment::{Addresses, Segment, SegmentKind, Segments, Stretch};
pub use structure::{Name, Structure, triples};
pub use thread_groups::{Group, Merged};
pub use trace::{Access, Chunks, References, Trace};

/// The version of the bytes that this crate writes. It also reads version 1, in which every thread is in
/// exactly one group.
pub const VERSION: u8 = 2;
