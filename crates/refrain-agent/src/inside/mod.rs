//! Life inside another program, whatever is recorded of it.
//!
//! * [`entry`]: from an exported symbol to a wrapper, with the caller's address in hand
//! * [`absent`]: names that this MPI does not have · [`symbols`], [`imports`]: what other
//!   modules define and call
//! * [`next`]: the function to forward to · [`modules`]: whose call it is · [`bindings`]: the
//!   same for calls out of Fortran's library · [`build_id`]: by which a module is recognised later
//! * [`memory`]: reading the program's memory · [`file_size`]: the limit on what may be written
//! * [`arena`]: memory of our own · [`reserve`]: memory when there is none · [`abandon`]: locks
//!   that may be jumped out of · [`locked`]: values behind such locks, and values made once ·
//!   [`reentrant`]: values of one thread and its signal handlers
//! * [`panics`]: the agent's own panics, counted
//! * [`permissions`]: of the files that are created · [`redaction`]: what they must not hold
//! * [`process`]: what is common to the process · [`clock`]: its clock · [`comm`]: a communicator
//!   of our own

pub mod abandon;
pub mod absent;
pub mod arena;
pub mod bindings;
pub mod build_id;
pub mod clock;
pub mod comm;
pub mod entry;
pub mod file_size;
pub mod imports;
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
pub mod symbols;
