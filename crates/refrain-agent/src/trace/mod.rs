//! Tracing: records every call of the program with its arguments and results.
//!
//! * [`call`]: the record of one call · [`thread_log`]: the log of a thread · [`part`]: its file
//! * [`compress`]: encodes records, in pieces · [`state_file`]: the encoder's state on disk · [`merge`]: merges the traces of all ranks, in Finalize ·
//!   [`align`]: compares the clocks of ranks
//! * [`objects`]: array lengths that depend on MPI objects · [`members`]: the members of a
//!   communicator
//! * [`segments`]: which piece of memory contains an address, found by [`heap`] (allocations; their
//!   first addresses are in [`starts`]), [`mappings`], [`device`], [`driver`] and [`kernel`];
//!   pieces that are few and large are in [`regions`], freed pieces in [`releases`]
//! * [`sites`]: call sites · [`filter`]: which calls are recorded · [`pcontrol`]: `MPI_Pcontrol`
//! * [`milestones`]: Init, Finalize, Abort
//! * [`fortran`]: the few Fortran procedures that do not call C

pub mod align;
pub mod call;
pub mod compress;
pub mod device;
pub mod driver;
pub mod filter;
pub mod fortran;
pub mod heap;
pub mod kernel;
pub mod mappings;
pub mod members;
pub mod merge;
pub mod milestones;
pub mod objects;
pub mod part;
pub mod pcontrol;
pub mod regions;
pub mod releases;
pub mod segments;
pub mod sites;
pub mod starts;
pub mod state_file;
pub mod thread_log;
