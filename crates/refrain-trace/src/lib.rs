//! The `.refrain` file: what its sections mean, how it is made, how it is opened.
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
//! * [`parts`]: what a run leaves · [`assemble`]: a trace of it · [`trace`]: an open trace

pub mod assemble;
pub mod clocks;
pub mod error;
pub mod meta;
pub mod orders;
pub mod parts;
mod ready;
pub mod times;
pub mod trace;

pub use error::TraceError;
pub use meta::{Ended, Meta, Paused, StreamMeta};
pub use orders::Orders;
pub use trace::Trace;

/// Names of sections.
pub mod sections {
    /// Facts.
    pub const META: &str = "meta";
    /// Signatures and grammars.
    pub const STRUCTURE: &str = "structure";
    /// Durations.
    pub const TIMING: &str = "timing";
    /// What ranks have of their own.
    pub const OWN: &str = "own/";
    /// Clocks of the processes.
    pub const CLOCKS: &str = "clocks";
    /// How times of every call are kept.
    pub const TIMING_SETTING: &str = "timing-setting";
    /// Times of every call.
    pub const TIMES: &str = "times/";
    /// Records.
    pub const RAW: &str = "raw/";

    /// Whether there is such a section.
    pub fn is_known(name: &str) -> bool {
        [META, STRUCTURE, TIMING, CLOCKS, TIMING_SETTING].contains(&name)
            || [OWN, TIMES, RAW].iter().any(|prefix| name.starts_with(prefix))
    }
}
