//! Rings in shared memory.

mod header;
mod rings;
