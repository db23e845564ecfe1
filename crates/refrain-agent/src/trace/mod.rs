//! Tracing: every call of the program with its arguments and results.
//!
//! * [`call`]: one call being written down · [`stream`]: the log of a thread · [`part`]: its file
//! * [`compress`]: full windows are encoded · [`merge`]: one trace of all ranks, at Finalize ·
//!   [`align`]: how far the ranks' clocks are apart
//! * [`objects`]: lengths that MPI objects imply · [`members`]: who is in a communicator
//! * [`segments`]: in which memory an address lies, found by [`heap`] (allocations: where they
//!   begin is in [`starts`]), [`mappings`], [`device`] and [`driver`]; few and large pieces are in
//!   [`regions`], what was freed in [`releases`]
//! * [`sites`]: where a call was made · [`filter`]: what is not recorded · [`pcontrol`]
//! * [`milestones`]: Init, Finalize, Abort
//! * [`fortran`]: the few Fortran procedures that do not come by way of C

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
pub mod stream;
