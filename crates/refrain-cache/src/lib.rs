//! Caches simulated on compressed memory traces.
//!
//! A trace of loop nests is a program: its references need not be visited one by one. [`simulate`] returns
//! exactly what a simulation of every reference would: accesses and misses by level, by [kind](Miss) and by
//! [site](Site), which is a reference of the program, the segment that it refers to, and the loop around it.
//!
//! ```
//! use refrain_cache::{Geometry, Options, Policy, simulate};
//! use refrain_memory::{Blocks, Compressor, Kind, Merged, Reference, Segments, Trace};
//!
//! // `for (i = 0; i < 1000; i++) sum += a[i];`, 100 times.
//! let mut blocks = Blocks::new();
//! let body = blocks.add(vec![Reference { kind: Kind::Load, size: 8, pc: 0x401000 }]).unwrap();
//! let segments = Segments::identity();
//! let mut compressor = Compressor::new();
//! for i in (0..100).flat_map(|_| 0..1000) {
//!     compressor.push(body, &[0x10000 + 8 * i], &blocks, &segments).unwrap();
//! }
//! let (_, chunk) = compressor.finish(&blocks);
//! let trace = Trace { blocks, segments, merged: Merged::merge(&[(0, chunk)]), ..Trace::default() };
//!
//! let levels = vec!["4k:4".parse()?, "1m:16".parse()?];
//! let geometry = Geometry::new(levels, 64, Policy::Lru)?;
//! let report = simulate(&trace, &[0], &geometry, Options::default()).unwrap();
//! assert_eq!(report.total.accesses, 100_000);
//! // The array takes 125 lines. The first level has 64 and keeps none until the next pass.
//! assert_eq!(report.total.missed(0), 12_500);
//! assert_eq!(report.total.missed(1), 125);
//! assert!(report.simulated < 10_000);
//! # Ok::<(), refrain_cache::GeometryError>(())
//! ```
//!
//! # The model
//!
//! Levels are looked up one after the other until one has the line; all that missed then hold it. A level's
//! stream of accesses is what the level before it missed. There are no prefetches, and lines that are written back
//! are no accesses. A reference that spans two lines makes two accesses. Each thread has its own
//! private levels; a store removes the line from those of all other threads (MESI).
//!
//! The order between threads is not in a trace: [`Options::turns`] states one.
//!
//! # Where things are
//!
//! | module | what it holds |
//! |---|---|
//! | `geometry` | sizes, ways, policies |
//! | `cache`, `shadow`, `seen` | a set-associative cache; a fully associative one (for conflict misses); every line ever accessed (for cold misses) |
//! | `hierarchy` | the caches of all threads: an access |
//! | `simulate`, `sites`, `counts` | traces, block by block; for whom is counted; what is counted |
//! | `nests`, `sweep`, `warp`, `extent`, `log` | loop nests, without visiting what repeats itself |
//! | `reuse` | reuse distances |
//! | `sections`, [`sharing`] | what each thread accesses; lines that threads share |

mod cache;
mod counts;
mod extent;
mod geometry;
mod hierarchy;
mod log;
mod nests;
mod reuse;
mod sections;
mod seen;
mod shadow;
pub mod sharing;
mod simulate;
mod sites;
mod sweep;
mod warp;

pub use counts::{Counts, Miss};
pub use geometry::{Geometry, GeometryError, Level, MOST_LEVELS, Policy};
pub use hierarchy::{Hierarchy, Outcome};
pub use reuse::{Histogram, ReuseDistances};
pub use sections::{Section, sections};
pub use simulate::{Options, Report, simulate};
pub use sites::{SMALL_SEGMENT, Site};
