//! Names of the sections of a memory trace. A name that ends in `/` is followed by the number of a process.

/// Facts about the run and each process.
pub const MEMORY: &str = "memory";
/// Modules, contexts and blocks.
pub const CODE: &str = "code";
/// Loop nests of all threads of all processes.
pub const THREADS: &str = "threads";
/// Segments of a process.
pub const SEGMENTS: &str = "segments/";
/// Sealed chunks of a process.
pub const SEALED: &str = "sealed/";
/// Block numbers of sealed chunks and raw words.
pub const NUMBERS: &str = "numbers/";
/// Words of the rings of a process.
pub const RAW: &str = "raw/";
