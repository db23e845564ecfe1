//! Makes a `.refrain` file of what a run leaves; `refrain-reader` has what is in it, and reads it.
//!
//! * [`parts`]: what a run leaves · [`assemble`]: a trace of it · `align`: one clock for all ranks
//! * [`times`]: the times of every call, as processes have left them

mod align;
pub mod assemble;
pub mod parts;
mod ready;
pub mod times;

pub use refrain_reader::{
    CallTrace as Trace, Ended, Meta, Orders, Paused, StreamMeta, TraceError, clocks, meta, orders,
    sections, trace,
};
