//! Analyses of traces: figures, message matching, waiting, verification, and calls as text.
//!
//! Every analysis reads traces by way of [`refrain_reader`].
//!
//! * [`causality`]: whether messages were received before they were sent, by the clocks
//! * [`figures`]: how often functions are called, for how long, with how many bytes
//! * [`matching`]: messages and collectives, from the calls of a process
//! * [`order`]: the receive order that a trace holds
//! * [`payload`]: what a call moves · [`datatypes`]: the sizes of datatypes
//! * [`objects`]: names for the objects that a rank creates and frees
//! * [`render`]: a call as a line of text or as JSON
//! * [`sites`]: where in the program a call was made, as file and line
//! * [`debug_files`]: which file describes the code of a module
//! * [`symbols`]: functions and static data of a module
//! * [`waits`]: which rank waits for which, in a job that hangs or has died
//! * [`verify`]: whether a trace is whole, sound, and what was recorded

pub mod causality;
pub mod debug_files;
pub mod figures;
pub mod matching;
pub mod objects;
pub mod order;
pub mod render;
pub mod sites;
pub mod symbols;
pub mod verify;
pub mod waits;

pub use refrain_reader::{datatypes, payload};
