//! From the traces of tasks to one trace of all: structure first, values second.
//!
//! Tasks with the same canonical grammar form a *group*. Within a group, each number of each
//! signature is a column over ranks, an *elastic value*: a constant, a formula of the rank, or
//! a table ([`refrain_elastic`]). Groups are merged pairwise, in a tree; fits are merged, not raw
//! values. The same code runs in the program, where it makes one trace of all ranks as MPI is
//! finalised, and offline.
//!
//! * [`elastic`]: lists of cells that differ between ranks in some places
//! * [`group`]: tasks of the same structure · [`merged`]: all groups
//! * [`write`], [`read`]: as bytes, and back · [`transit`]: between ranks

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod elastic;
pub mod group;
pub mod merged;
pub mod read;
pub mod transit;
pub mod write;
