//! The agent: the part of Refrain that lives inside somebody else's program.
//!
//! `refrain trace` preloads this library into every rank. It exports every function of MPI
//! under both its names, `MPI_X` and `PMPI_X`, writes down what the program calls, and
//! forwards each call to the next library in line.
//!
//! # Rules for code in this crate
//!
//! 1. **Change nothing the program can see.** Results, error codes, `ierr`, statuses, flags,
//!    `errno`, signal handlers, open files, the matching of messages: all as without us.
//! 2. **Never abort, never panic, never block.** When something is beyond us, forward the
//!    call, count it, and let `refrain` say so at the end. Slow paths that could panic run
//!    under `catch_unwind`; the hot path has nothing in it that can.
//! 3. **Frames of wrappers own nothing.** An exception, `longjmp` or `pthread_cancel` may
//!    pass through any forwarded call, so no value with a destructor lives across it.
//! 4. **No lock, no allocation, no system call on the hot path.** Each thread writes to a log
//!    of its own.
//! 5. **Never communicate on the program's communicators**, and call MPI only where the
//!    standard lets any caller do so at any time (sizes, ranks, topologies, versions), only on
//!    handles that are not null.
//! 6. **What is written is safe the moment it is written**: a mapped file, pre-allocated, so
//!    that neither `kill -9` nor a full disk costs more than the call in flight.
//! 7. **Memory that MPI or the program owns is read in one place**, [`memory`], and only when
//!    the interface table says how long it is.
//!
//! # Rooms
//!
//! * [`entry`]: from an exported symbol to a wrapper, with the caller's address in hand
//! * `wrappers` (generated from the table by `build/`): one function per MPI function
//! * [`absent`]: names that this MPI does not have
//! * [`next`]: the function to forward to · [`modules`]: whose call it is · [`bindings`]: the
//!   same for calls out of Fortran's library
//! * [`call`]: one call being written down · [`stream`]: the log of a thread ·
//!   [`part`]: its file
//! * [`compress`]: full windows are encoded · [`merge`]: one trace of all ranks, at Finalize
//! * [`memory`]: reading the program's memory · [`objects`]: lengths that MPI objects imply
//! * [`segments`]: in which memory an address lies, found by [`heap`] (allocations: where they
//!   begin is in [`starts`]), [`mappings`], [`device`] ([`imports`] leads to it) and [`modules`];
//!   few and large pieces are in [`regions`], what was freed in [`releases`]
//! * [`members`]: who is in a communicator · [`sites`]: where a call was made · [`filter`]: what
//!   is not recorded
//! * [`order`]: receive orders, recorded and replayed; where that is wanted, nothing is traced
//! * [`arena`]: memory of our own · [`reserve`]: memory when there is none · [`abandon`]: locks
//!   that may be jumped out of
//! * [`process`]: what is common to the process · [`milestones`]: Init, Finalize, Abort
//! * [`fortran`]: the few Fortran procedures that do not come by way of C

#![allow(non_snake_case, reason = "wrappers bear the names MPI gives them")]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("Refrain's agent is written for Linux on x86-64");

mod abandon;
mod absent;
mod align;
mod arena;
mod bindings;
mod call;

mod clock;
mod comm;
mod compress;
mod device;
mod driver;
mod entry;
mod filter;
mod fortran;
mod heap;
mod imports;
mod mappings;
mod members;
mod memory;
mod merge;
mod milestones;
mod modules;
mod next;
mod objects;
mod order;
mod part;
mod pcontrol;
mod process;
mod regions;
mod releases;
mod reserve;
mod segments;
mod sites;
mod starts;
mod stream;
mod symbols;

#[allow(missing_docs, clippy::all, reason = "generated; the table documents it")]
#[allow(unsafe_op_in_unsafe_fn, reason = "a wrapper does nothing but what its caller vouches for")]
mod wrappers {
    include!(concat!(env!("OUT_DIR"), "/wrappers.rs"));
}

#[allow(missing_docs, clippy::all, reason = "generated; the table documents it")]
mod exports {
    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}

/// Names and definitions by function number.
mod table {
    include!(concat!(env!("OUT_DIR"), "/table.rs"));
}
