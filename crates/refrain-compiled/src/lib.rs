//! The runtime of programs that were recompiled to tell their loads and stores.
//!
//! gcc, clang and gfortran put a call before every load and store when they are given
//! `-fsanitize=thread`. This library is what is called instead of their race detector: it
//! writes each reference into the thread's ring ([`refrain_rings`]), and does nothing else. So a
//! trace holds what the compiler instruments: not what libraries do that were not recompiled, nor
//! what the compiler proved to be local (spills, most variables on the stack).
//!
//! # Rules for code in this crate
//!
//! 1. **Change nothing the program can see**, and never abort it. Without `REFRAIN_MEM_SOCKET` in
//!    the environment nothing is recorded.
//! 2. **The hot path is assembly** ([`hot`]): no stack, no call, one store at its end that makes
//!    the record count. A signal handler that interrupts it finds the record not begun, and the
//!    record is begun anew afterwards ([`signals`]).
//! 3. **No allocation with the program's allocator**, which may be what was interrupted.
//! 4. **Whoever holds the lock of the ledger has blocked all signals**: a handler may not return.
//!
//! # Rooms
//!
//! * [`hot`]: from a compiler's call to the ring · [`access`]: what is not hot: new places, ranges
//! * [`atomics`]: the compiler leaves atomic operations to us altogether
//! * [`calls`]: functions entered and left, as contexts · [`copies`]: memcpy and its like
//! * [`heap`]: allocations · [`threads`]: threads and their numbers · [`signals`]: handlers
//! * [`process`]: what is common to the process: memory file, ledger · [`modules`]: loaded code
//! * [`window`]: what of a run is recorded
//! * [`table`]: numbers by key, in memory of our own

#![allow(non_snake_case, reason = "functions bear the names others give them")]
#![allow(clippy::missing_safety_doc, reason = "called by compilers, which vouch for it")]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("Refrain's runtime is written for Linux on x86-64");

mod access;
mod atomics;
mod calls;
mod copies;
mod heap;
mod hot;
mod modules;
mod next;
mod process;
mod signals;
mod table;
mod threads;
mod window;
