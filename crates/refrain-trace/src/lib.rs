//! Assembles the parts of a run into a `.refrain` file. `refrain-reader` defines and reads the file.
//!
//! * [`parts`]: the parts of a run · [`assemble`]: makes a trace of them · `align`: one clock for all ranks
//! * [`times`]: the times of every call, as processes wrote them · [`steps`]: how far it is

mod align;
pub mod assemble;
pub mod form;
pub mod parts;
mod ready;
pub mod steps;
pub mod times;

pub use refrain_reader::{
    CallTrace as Trace, Ended, Meta, Orders, Paused, StreamMeta, TraceError, clocks, meta, orders,
    sections, trace,
};
