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
//!    under `catch_unwind`, and panics are counted, not printed ([`inside::panics`]); `clippy` denies
//!    what panics (`indexing_slicing`, `unwrap_used`, `expect_used`, `panic`) in every crate of the
//!    agent. Before work that allocates much, memory is asked for ([`inside::reserve`]).
//!
//!    A thread waits for another thread's use of shared state, which takes microseconds: at most
//!    10 s for what the process shares and for the encoder (milliseconds, up to a second for a large
//!    state), and at most 60 s for the record of message matching, whose holder may be inside MPI.
//!    Whoever waits in vain does without, and the trace or the record says so. Only a replay waits by
//!    design: for recorded messages and turns, until no rank has made progress for `--stall`
//!    (30 s; 20 times as long while a rank computes). Then it ends the job.
//! 3. **Frames of wrappers own nothing.** An exception, `longjmp` or `pthread_cancel` may
//!    pass through any forwarded call, so no value with a destructor lives across it.
//!
//!    Recording and replaying make three exceptions. What is left behind is leaked memory, and
//!    no lock:
//!    * copies of more than 8 requests or 16 statuses, and of what is known of requests
//!      where threads share MPI, are leaked by `longjmp`;
//!    * a call that waits is on the board of a replay; one that was left by `longjmp` is taken off by
//!      the thread's next call;
//!    * where threads share MPI (`MPI_THREAD_MULTIPLE`), calls that do not block are forwarded under
//!      the lock of the record, whose order they have. A `longjmp` out of one ends the record. (MPICH
//!      and Open MPI hold a lock of their own then, and hang or abort without us, too.)
//!
//!    A receive or completion that does not return is not in the record: a replay stops there,
//!    as diverged.
//! 4. **No lock, no allocation, no system call on the hot path** of tracing: each thread writes to a
//!    log of its own. Recording message matching takes one uncontended lock per call (a
//!    compare-and-exchange and a store) and writes to a mapped window; it allocates where a table of
//!    requests or communicators grows.
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

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]
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
