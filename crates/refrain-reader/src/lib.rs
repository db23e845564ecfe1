//! Reads `.refrain` files.
//!
//! | section | content |
//! |---|---|
//! | `meta` | how the trace came about and its processes ([`meta`]) |
//! | `structure` | signatures and grammars of all tasks ([`refrain_structure::write`]) |
//! | `timing` | durations by signature |
//! | `own/A-B` | what ranks A to B have of their own: outcomes and polls; a list of rank, thread, bytes |
//! | `clocks` | the clocks of the processes, where times of single calls are kept ([`clocks`]) |
//! | `timing-setting` | how times are kept, and how far they may be off ([`times::Wanted`]) |
//! | `times/N` | the times of stream N's calls, if they were asked for ([`times`]) |
//! | `order/facts`, `order/N` | receive orders, in a file of those ([`orders`]) |
//! | `raw/N` | the records ([`refrain_format::record`]) of stream N, if they were asked for |
//!
//! A reader of one rank reads `meta` and `structure`, which are small, and the `own` section
//! with that rank.
//!

pub mod clocks;
pub mod decoder;
mod error;
pub mod event;
pub mod functions;
pub mod meta;
pub mod orders;
mod own;
pub mod raw;
pub mod sections;
pub mod structure;
pub mod timing;
pub mod trace;
pub mod view;

pub use error::TraceError;
pub use meta::{Ended, Meta, Paused, StreamMeta};
pub use orders::Orders;
pub use trace::CallTrace;
