//! From records to signatures and back.

mod round_trip;
mod sealed;
mod times;
