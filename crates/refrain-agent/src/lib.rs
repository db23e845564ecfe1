//! The agent: the part of Refrain that runs inside the recorded program.
//!
//! `refrain trace` preloads this library into every rank. It exports every MPI function under both
//! names, `MPI_X` and `PMPI_X`, records the program's calls, and forwards each call to the next
//! definition in the loader's search order.
//!
//! # Rules for code in this crate
//!
//! 1. **Change nothing that the program can observe.** Results, error codes, `ierr`, statuses,
//!    flags, `errno`, signal handlers, open files and the matching of messages are the same as
//!    without the agent.
//! 2. **Never abort, never panic, never block.** If the agent cannot handle something, it forwards
//!    the call and counts it, and `refrain` reports the count at the end. Slow paths that could
//!    panic run under `catch_unwind`, and panics are counted, not printed ([`inside::panics`]);
//!    `clippy` denies what panics (`indexing_slicing`, `unwrap_used`, `expect_used`, `panic`) in
//!    every crate of the agent. Work that allocates much first checks that the memory is available
//!    ([`inside::reserve`]).
//!
//!    A thread may wait while another thread uses shared state, usually for microseconds: at most
//!    10 s for the state of the process and for the encoder (milliseconds, up to a second for a
//!    large state), and at most 60 s for the record of message matching, whose lock may be held
//!    inside MPI. A thread that times out continues without that state, and the trace or the record
//!    says so. Only a replay waits by design: for recorded messages and turns, until no rank has
//!    made progress for `--stall` (30 s; 20 times as long while a rank computes). Then it ends the
//!    job.
//! 3. **Frames of wrappers own nothing.** An exception, `longjmp` or `pthread_cancel` may
//!    pass through any forwarded call, so no value with a destructor lives across it.
//!
//!    Recording and replaying make three exceptions. They leave behind leaked memory, but no lock:
//!    * copies of more than 8 requests or 16 statuses, and of the request table where threads share
//!      MPI, are leaked by `longjmp`;
//!    * a waiting call is published on the replay's board. If `longjmp` left it, the thread's next
//!      call removes it;
//!    * where threads share MPI (`MPI_THREAD_MULTIPLE`), nonblocking calls are forwarded under the
//!      lock of the record, so that the recorded order is MPI's order. A `longjmp` out of one ends
//!      the record. (MPICH and Open MPI hold a lock of their own at that point, and hang or abort
//!      without the agent, too.)
//!
//!    A receive or completion that does not return is not in the record: a replay reports a
//!    divergence there.
//! 4. **No lock, no allocation, no system call on the hot path** of tracing: each thread writes to
//!    its own log. Recording message matching takes one uncontended lock per call (a
//!    compare-and-exchange and a store) and writes to a mapped window; it allocates when a table of
//!    requests or communicators grows.
//! 5. **Never communicate on the program's communicators**, and call MPI only where the
//!    standard lets any caller do so at any time (sizes, ranks, topologies, versions), only on
//!    handles that are not null.
//! 6. **A record is safe as soon as it is written**: the log is a mapped, preallocated file, so
//!    that `kill -9` or a full disk loses at most the call in flight.
//! 7. **Memory of MPI or the program is read only in [`memory`](inside::memory)**, and only if the
//!    interface table gives its length.
//!
//! # Modules
//!
//! * [`inside`]: what tracing and recording share: entry points, lookup of the function to forward
//!   to, the agent's memory and locks, reading the program's memory
//! * [`trace`]: tracing: the record of a call, the log of a thread, its compression, the merge of
//!   all ranks
//! * [`order`]: records and replays message matching. A process either traces or does this.
//! * `wrappers` (generated from the interface table by `build/`): one function per MPI function

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]
#![allow(non_snake_case, reason = "wrappers have the names of MPI functions")]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("Refrain's agent is written for Linux on x86-64");

mod inside;
mod order;
mod trace;

#[allow(missing_docs, clippy::all, reason = "generated; the table documents it")]
#[allow(unsafe_op_in_unsafe_fn, reason = "a wrapper relies on its caller's guarantees only")]
mod wrappers {
    include!(concat!(env!("OUT_DIR"), "/wrappers.rs"));
}

#[allow(missing_docs, clippy::all, reason = "generated; the table documents it")]
mod exports {
    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}

/// Numbers of functions; names and definitions by number.
mod table {
    pub use refrain_mpilib::function::*;

    include!(concat!(env!("OUT_DIR"), "/table.rs"));
}
