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
//! # Where things are
//!
//! * [`inside`]: life inside another program: entry points, the function to forward to, the
//!   agent's own memory and locks, reading the program's memory
//! * [`trace`]: tracing: one call written down, a thread's log, its compression and merge
//! * [`order`]: message matching, recorded and replayed. A process either traces or does this.
//! * `wrappers` (generated from the interface table by `build/`): one function per MPI function

#![allow(non_snake_case, reason = "wrappers bear the names MPI gives them")]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("Refrain's agent is written for Linux on x86-64");

mod inside;
mod order;
mod trace;

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
