//! Code that every mode of the agent needs inside the program: tracing, recording and replaying.
//!
//! * [`entry`]: from an exported symbol to a wrapper, with the caller's address
//! * [`absent`]: hides MPI functions that this MPI does not have · [`symbols`]: symbol tables of
//!   loaded modules · [`imports`]: redirects their calls
//! * [`next`]: the function to forward to · [`modules`]: whether the program made a call ·
//!   [`bindings`]: the same for calls from the Fortran bindings · [`build_id`]: identifies a
//!   module's file
//! * [`memory`]: reading the program's memory · [`file_size`]: the limit on file sizes
//! * [`arena`]: the agent's allocator · [`reserve`]: memory for when the system has none left ·
//!   [`abandon`]: locks that survive `siglongjmp` · [`locked`]: values behind such locks, and
//!   lazily made values · [`reentrant`]: values shared by a thread and its signal handlers
//! * [`panics`]: counts the agent's panics
//! * [`permissions`]: of files that the agent creates · [`redaction`]: what they must not contain
//! * [`forced`]: makes sends synchronous, or late
//! * [`header_page`]: the header of a part, changed by several threads
//! * [`stalls`]: how long the agent delays the program, for a benchmark
//! * [`process`]: state of the process · [`clock`]: its clock · [`library`]: its MPI library, and the
//!   agent's own communicator

pub mod abandon;
pub mod absent;
pub mod arena;
pub mod bindings;
pub mod build_id;
pub mod clock;
pub mod entry;
pub mod file_size;
pub mod forced;
pub mod header_page;
pub mod imports;
pub mod library;
pub mod locked;
pub mod memory;
pub mod modules;
pub mod next;
pub mod panics;
pub mod permissions;
pub mod process;
pub mod redaction;
pub mod reentrant;
pub mod reserve;
pub mod stalls;
pub mod symbols;
