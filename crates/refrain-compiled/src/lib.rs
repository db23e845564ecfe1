//! The runtime of programs that were recompiled to record their loads and stores.
//!
//! With `-fsanitize=thread`, gcc, clang and gfortran put a call before every load and store. This library
//! replaces their race detector: it writes each reference into the thread's ring
//! ([`refrain_rings`]), and does nothing else. So a trace has what the compiler instruments. References of
//! libraries that were not recompiled are missing, and so are those that the compiler proved to be local
//! (spills, most variables on the stack).
//!
//! # Rules for code in this crate
//!
//! 1. **Change nothing that the program can observe**, and never abort it. Without `REFRAIN_MEM_SOCKET` in
//!    the environment nothing is recorded.
//! 2. **The hot path is assembly** ([`hot`]): no stack, no call, one store at its end that commits the
//!    record. If a signal handler interrupts it, the record is not committed, and the entry is restarted
//!    afterwards ([`signals`]).
//! 3. **No allocation with the program's allocator**: a signal may have interrupted it.
//! 4. **All signals are blocked while the lock of the ledger is held**: a handler need not return.
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | [`hot`] | the hot path, from a compiler's call to the ring |
//! | [`access`] | the slow path: first references of an instruction, ranges |
//! | [`atomics`] | atomic operations |
//! | [`calls`] | functions entered and left, as calling contexts |
//! | [`copies`] | `memcpy`, `memmove`, `memset` |
//! | [`heap`] | allocations |
//! | [`threads`] | threads and their numbers |
//! | [`signals`] | signal handlers |
//! | [`process`] | the state of the process: memory file, ledger, lock |
//! | [`modules`] | loaded code |
//! | [`exec`] | the process becomes another program |
//! | [`window`] | which part of a run is recorded |
//! | [`table`] | hash tables in mapped memory |

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]
#![allow(non_snake_case, reason = "functions have the names that compilers and MPI call")]
#![allow(
    clippy::missing_safety_doc,
    reason = "compilers call these functions, and guarantee valid arguments"
)]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("Refrain's runtime is written for Linux on x86-64");

mod access;
mod atomics;
mod calls;
mod copies;
mod exec;
mod heap;
mod hot;
mod modules;
mod next;
mod process;
mod signals;
mod table;
mod threads;
mod window;
