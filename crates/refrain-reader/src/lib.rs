//! Reads traces.

pub mod decoder;
pub mod event;
pub mod raw;
