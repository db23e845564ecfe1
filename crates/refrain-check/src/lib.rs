//! Finds MPI errors in a trace.
//!
//! ```text
//!  items of a rank ─▶ Process ─▶ turns ─┐        ┌─▶ messages: datatypes, truncation, lost messages
//!  items of a rank ─▶ Process ─▶ turns ─┼─▶ Job ─┼─▶ collectives: order, root, operation, counts, datatypes
//!  items of a rank ─▶ Process ─▶ turns ─┘        ├─▶ windows: conflicting accesses
//!                        │                       └─▶ deadlocks
//!                        └─▶ arguments, handles, requests, buffers, epochs, leaks
//! ```
//!
//! What one process does wrong by itself is found by [`process`], call by call. [`job`] runs the processes against each
//! other: a process goes on once what its calls wait for has happened, under the rules of MPI without any buffering. So
//! the order in which calls are looked at is one that MPI allows, and where no process can go on although the recorded
//! program did, it relied on buffering.
//!
//! There are no false alarms by intention: where a trace does not decide a question (calls of several threads without an
//! order, calls that were not recorded, datatypes with gaps), the question is not asked.
//!
//! ```
//! use refrain_check::{Options, check};
//! use refrain_reader::open;
//! use std::path::Path;
//!
//! let path = Path::new("../refrain/tests/golden/stencil.refrain");
//! let trace = open(path)?.calls().expect("a trace of calls");
//! for finding in check(&trace, Options::default())? {
//!     println!("{}: {}", finding.class.name(), finding.message);
//! }
//! # Ok::<(), refrain_reader::TraceError>(())
//! ```

mod arguments;
mod clock;
mod collectives;
mod epochs;
pub mod finding;
pub mod job;
mod memory;
mod messages;
mod objects;
pub mod process;
mod races;
pub mod repeat;
mod requests;
mod rma;
mod stuck;
#[cfg(test)]
mod tests;
mod threads;
pub mod turn;
mod typemap;
mod whole;
mod wildcards;

pub use finding::{Class, Finding, Place, Severity};
pub use job::Options;
pub use whole::check;
