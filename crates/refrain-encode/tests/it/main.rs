//! From records to signatures and back.

mod program;
mod records;
mod round_trip;
mod sealed;
mod times;
