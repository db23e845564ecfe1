//! The state of a compressor as bytes.

mod states;
