//! Record and replay of receive orders.
//!
//! The environment variable `REFRAIN_ORDER` turns this on when the library is loaded; tracing is then off.
//! Functions that affect message matching get a hook between their wrapper and MPI ([`hook`]). The wrapper
//! finds no log and forwards the call, and the forwarded call arrives at [`call`]. Without `REFRAIN_ORDER`
//! there are no hooks, and tracing costs the same as without this module.
//!
//! The [`Role`] of a function says how it affects message matching; `build/roles.rs` derives it from the
//! interface table. [`record`] lets MPI decide and passes the outcome to [`refrain_order::Log`].
//! [`replay`] asks [`refrain_order::Replayer`] for the recorded outcome and makes MPI produce it. Both are
//! pure and were tested against a model of MPI's matching rules, with random programs and schedules.
//!
//! That is the causal method. The clock method is in [`clocked`]: messages carry Lamport clocks.
//!
//! * [`lifetime`]: initialization and finalization of MPI · [`mpi`]: calls of MPI with machine words
//! * [`role`]: a hooked call, and the positions of its arguments
//! * [`thread`]: whether a call is the program's, its thread and call site · [`requests`]: tables of
//!   requests and communicators by handle
//! * [`spawn`]: the creation path of a thread · [`thread_level`]: whether threads call MPI concurrently ·
//!   [`turn_key`]: which of their calls compete · [`split`]: blocking calls split into post and wait
//! * [`locks`]: the order in which threads acquire the program's locks
//! * [`unobserved`]: wildcard receives whose match the program has not observed
//! * [`outcome`]: requests and outcome of a completing call · [`error_field`]: what MPI writes to
//!   `MPI_ERROR`
//! * [`board`]: progress of the ranks of a replay · [`stop`]: how a replay waits, and how it ends
//! * [`files`]: the files of a rank · [`names`]: names of call sites · [`guarded`]: state that threads share
//! * [`clock`]: `MPI_Wtime` · [`values`]: the system's clocks and random numbers (`--rand`)

mod board;
mod clock;
mod clocked;
mod error_field;
pub mod files;
mod guarded;
mod lifetime;
mod locks;
mod mpi;
mod names;
mod outcome;
mod record;
mod replay;
mod requests;
mod role;
mod spawn;
mod split;
mod stop;
mod thread;
mod thread_level;
mod turn_key;
mod unobserved;
mod values;

use crate::inside::library::abi;
pub use refrain_order::Kind;
use refrain_order::Turn;
pub use role::{Act, Mode, Role, Synchronization};
pub use thread::Thread;

use crate::inside::entry::Entry;
use crate::inside::process::Errno;
use role::{Hooked, Origin};
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU8, Ordering};

#[allow(missing_docs, clippy::all, reason = "generated; the table documents it")]
#[allow(unsafe_op_in_unsafe_fn, reason = "it does nothing but what its caller vouches for")]
mod hooks {
    include!(concat!(env!("OUT_DIR"), "/hooks.rs"));
}

/// What the agent does with receive orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Task {
    /// Nothing.
    Off = 1,
    /// Records receive orders.
    Record = 2,
    /// Enforces a recorded order.
    Replay = 3,
}

/// The task that the environment asks for; read once.
pub fn task() -> Task {
    static TASK: AtomicU8 = AtomicU8::new(0);
    match TASK.load(Ordering::Relaxed) {
        1 => return Task::Off,
        2 => return Task::Record,
        3 => return Task::Replay,
        _ => {}
    }
    // SAFETY: getenv gives null or a NUL-terminated string, read at once.
    let text = unsafe {
        let text = libc::getenv(c"REFRAIN_ORDER".as_ptr());
        if text.is_null() { c"" } else { CStr::from_ptr(text) }
    };
    let task = match text.to_bytes() {
        b"record" => Task::Record,
        b"replay" => Task::Replay,
        _ => Task::Off,
    };
    TASK.store(task as u8, Ordering::Relaxed);
    task
}

/// The method of record and replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    /// By the matches that MPI reports to receivers: see [`record`] and [`replay`].
    Causal = 1,
    /// By Lamport clocks that messages carry: see [`clocked`].
    Clock = 2,
}

/// The method that the environment asks for; read once.
pub fn method() -> Method {
    static METHOD: AtomicU8 = AtomicU8::new(0);
    match METHOD.load(Ordering::Relaxed) {
        1 => return Method::Causal,
        2 => return Method::Clock,
        _ => {}
    }
    // SAFETY: as above.
    let is_clock = unsafe {
        let text = libc::getenv(c"REFRAIN_ORDER_METHOD".as_ptr());
        !text.is_null() && CStr::from_ptr(text).to_bytes() == b"clock"
    };
    let method = if is_clock { Method::Clock } else { Method::Causal };
    METHOD.store(method as u8, Ordering::Relaxed);
    method
}

/// Whether orders are recorded or replayed.
pub fn is_on() -> bool {
    task() != Task::Off
}

/// The hook between the wrapper of a function and MPI, if the function needs one.
pub fn hook(function: usize) -> Option<*const ()> {
    let replay = task() == Task::Replay;
    let clock = method() == Method::Clock;
    if is_on() { hooks::find(function, thread_level::is_multiple(), replay, clock) } else { None }
}

/// Redirects imported functions of the program to the agent's. Called when the library is loaded.
pub fn prepare() {
    if is_on() {
        let _errno = Errno::keep();
        // After a panic, some imports stay as they are.
        let _ = std::panic::catch_unwind(values::redirect_imports);
    }
}

/// A call of a hooked function.
///
/// Panics are not caught around the whole hook, here and in [`recorded`]. A hook contains the forwarded call, and
/// an exception of a C++ program or `pthread_cancel` may pass through it; `catch_unwind` aborts the process when
/// such a foreign exception reaches it. Instead a hook must not panic: `clippy` denies what panics in this crate
/// and in `refrain-order`, and steps that could panic all the same (beginning, end, names of call sites) are
/// caught one by one, with no forwarded call inside.
///
/// # Safety
/// The arguments must be those of the function.
pub unsafe fn call(role: &'static Role, words: &mut [usize]) -> c_int {
    let mut call = Hooked { role, entry: Entry::new(role.function), words, abi: abi() };
    match call.role.act {
        Act::Begin => lifetime::begin(&call),
        Act::End => lifetime::end(&call),
        _ => match (thread::of_call(&call.entry), task(), method()) {
            (Some(thread), Task::Record, Method::Causal) if record::is_on() => {
                let origin = Origin { stream: thread.stream(), site: thread.site(&call.entry) };
                record::call(&mut call, role.act, origin)
            }
            (Some(thread), Task::Replay, Method::Causal) => replay::call(call, thread),
            (Some(thread), Task::Record, Method::Clock) => clocked::record::call(call, thread),
            (Some(thread), Task::Replay, Method::Clock) => clocked::replay::call(call, thread),
            _ => call.forward(),
        },
    }
}

/// A call that is recorded by the causal method. This path must be fast: it is compiled once per function,
/// so everything that depends on the role alone is a constant.
///
/// # Safety
/// As for [`call`].
#[inline(always)]
pub unsafe fn recorded(role: &'static Role, words: &mut [usize]) -> c_int {
    let entry = Entry::new(role.function);
    // The address of `call` does not escape, so the compiler can keep its fields in registers.
    let mut call = Hooked { role, entry, words, abi: abi() };
    match thread::origin_of(&entry) {
        Some(origin) if record::is_on() => record::call(&mut call, role.act, origin),
        _ => call.forward(),
    }
}

/// Records the value of a clock or a random number.
fn record_value(thread: &Thread, which: u8, bits: u64) {
    match method() {
        Method::Causal => record::value(thread, which, bits),
        Method::Clock => clocked::record::value(thread, which, bits),
    }
}

/// The recorded value of a clock or random number, in a replay.
fn recorded_value(thread: &Thread, which: u8) -> Option<u64> {
    thread.set_current_call(None);
    match method() {
        Method::Causal => replay::value(thread, which),
        Method::Clock => clocked::replay::value(thread, which),
    }
}

/// Whether a replay is in progress: MPI is initialized and not finalized.
fn is_replayed() -> bool {
    match method() {
        Method::Causal => replay::is_on(),
        Method::Clock => clocked::replay::is_on(),
    }
}

/// Records that a thread has acquired a lock of the program.
fn record_lock(thread: &Thread) {
    match method() {
        Method::Causal => record::took_lock(thread),
        Method::Clock => clocked::record::took_lock(thread),
    }
}

/// Whether it is a thread's turn to acquire a lock in a replay. There are no turns after another thread has
/// finalized MPI.
fn turn_of_lock(stream: u32) -> Turn {
    match method() {
        Method::Causal => replay::turn_of_lock(stream),
        Method::Clock => clocked::replay::turn_of_lock(stream),
    }
}

/// The thread whose turn it was has acquired the lock.
fn took_lock() {
    match method() {
        Method::Causal => replay::took_lock(),
        Method::Clock => clocked::replay::took_lock(),
    }
}
