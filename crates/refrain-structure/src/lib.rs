//! Merges the traces of all tasks into one: by structure first, then by values.
//!
//! Tasks with the same canonical grammar form a *group*. Within a group, each number of each
//! signature is a column over ranks, an *elastic value*: a constant, a formula of the rank, or
//! a table ([`refrain_elastic`]). Groups are merged pairwise in a tree, formula with formula: no
//! merge goes back to single values. The same code runs offline and, in large jobs, inside
//! `MPI_Finalize`.
//!
//! * [`elastic`]: lists of cells in which some cells differ between ranks
//! * [`group`]: tasks of the same structure · [`merged`]: all groups
//! * [`times`]: statistics of durations over all ranks
//! * [`write`], [`read`]: to bytes and back · [`transit`]: as a message between ranks

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod elastic;
pub mod functions;
pub mod group;
pub mod merged;
pub mod read;
pub mod times;
pub mod transit;
pub mod write;
