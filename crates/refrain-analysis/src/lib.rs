//! Analyses of traces: figures, message matching, waiting, verification, and calls as text.
//!
//! Every analysis reads traces with [`refrain_reader`].
//!
//! * [`causality`]: finds messages that were received before they were sent, by the clocks
//! * [`difference`]: where two traces of calls differ
//! * [`figures`]: calls, durations and bytes per function or call site
//! * [`loads`]: time inside MPI and computing by rank, and which rank computes longest
//! * [`matching`]: messages and collectives, from the calls of a process
//! * [`nest`]: a trace as a program: loops, calls with formulas, guards
//! * [`order`]: converts a trace of calls to a record of receive orders
//! * [`payload`]: the data that a call moves · [`datatypes`]: the sizes of datatypes
//! * [`objects`]: names for the objects that a rank creates and frees
//! * [`render`]: a call as a line of text or as JSON
//! * [`sites`]: symbolizes call sites
//! * [`debug_files`]: finds the file with the debug information of a module
//! * [`symbols`]: functions and static data of a module
//! * [`waits`]: which rank waits for which, in a job that hangs or was killed
//! * [`verify`]: whether a trace is complete, consistent, and equal to the records

pub mod causality;
pub mod debug_files;
pub mod difference;
pub mod figures;
pub mod loads;
pub mod matching;
pub mod nest;
pub mod objects;
pub mod order;
pub mod render;
pub mod sites;
pub mod symbols;
pub mod verify;
pub mod waits;

pub use refrain_reader::{datatypes, payload};
