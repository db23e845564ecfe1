//! Receive orders: recorded, and forced on a later run.
//!
//! `REFRAIN_ORDER` says which, when the library is loaded; then nothing is traced. The functions
//! that have to do with the order in which messages are received get something in between their
//! wrapper and MPI ([`hook`]): a call comes from the program to the wrapper as always, which finds
//! no log and forwards it, and what it forwards to is [`call`]. Without `REFRAIN_ORDER` there is
//! nothing in between, and tracing is as it would be without this.
//!
//! What a call means to the order is told by its [`Role`], which `build/roles.rs` derives from the
//! interface table. [`record`] lets MPI decide and tells [`refrain_order::Log`] what it decided;
//! [`replay`] asks [`refrain_order::Replayer`] and makes MPI do it. Whatever decides there is
//! pure, and was run in a model of MPI's matching rules over random programs and schedules.
//!
//! That is the causal method. The other one is in [`clocked`]: messages carry clocks.
//!
//! * [`lifetime`]: when MPI begins and ends · [`mpi`]: MPI in words
//! * [`role`]: a call, with the places of what matters in it
//! * [`thread`]: whose a call is and where it was made · [`requests`]: what is known of handles
//! * [`spawn`]: who made a thread · [`line`]: which calls of threads have an order among them ·
//!   [`split`]: blocking calls in two steps, one of which has its turn
//! * [`locks`]: locks of the program's own, around its calls of MPI
//! * [`unseen`]: what has come without the program having looked
//! * [`outcome`]: what a completion call was given, and what came of it · [`error_field`]: what MPI leaves
//!   in `MPI_ERROR`
//! * [`board`]: what the ranks of a replay tell each other · [`stop`]: how it waits, and ends
//! * [`files`]: what is written and read · [`names`]: places, in words · [`guarded`]: what threads share
//! * [`clock`]: MPI_Wtime, of which programs make decisions too · [`values`]: other clocks, and
//!   random numbers, if that is wanted

mod board;
mod clock;
mod clocked;
mod error_field;
pub mod files;
mod guarded;
mod lifetime;
mod line;
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
mod unseen;
mod values;

pub use refrain_order::Kind;
use refrain_order::Turn;
pub use role::{Act, Mode, Role, Synchronization};
pub use thread::Thread;

use crate::inside::entry::Entry;
use crate::inside::process::{Errno, abi};
use role::{Hooked, Origin};
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU8, Ordering};

#[allow(missing_docs, clippy::all, reason = "generated; the table documents it")]
#[allow(unsafe_op_in_unsafe_fn, reason = "it does nothing but what its caller vouches for")]
mod hooks {
    include!(concat!(env!("OUT_DIR"), "/hooks.rs"));
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Task {
    /// Nothing.
    Off = 1,
    /// Orders are recorded.
    Record = 2,
    /// A recorded order is forced.
    Replay = 3,
}

/// What is to be done, as the environment says at the first question.
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

/// How orders are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    /// By what MPI tells receivers: see [`record`] and [`replay`].
    Causal = 1,
    /// By clocks that messages carry: see [`clocked`].
    Clock = 2,
}

/// How orders are recorded, as the environment says at the first question.
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

/// What stands between the wrapper of a function and MPI, if anything.
pub fn hook(function: usize) -> Option<*const ()> {
    let replay = task() == Task::Replay;
    let clock = method() == Method::Clock;
    if is_on() { hooks::find(function, line::is_shared(), replay, clock) } else { None }
}

/// Leads calls of the program by way of ours, when the library is loaded.
pub fn prepare() {
    if is_on() {
        let _errno = Errno::keep();
        // A panic here would leave some calls as they are, and no more.
        let _ = std::panic::catch_unwind(values::prepare);
    }
}

/// A call of a function that has to do with receive orders.
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

/// A call where orders are recorded by the causal method, which has to be quick: what depends on the
/// role alone is known when this is compiled, once for each function.
///
/// # Safety
/// As for [`call`].
#[inline(always)]
pub unsafe fn recorded(role: &'static Role, words: &mut [usize]) -> c_int {
    let entry = Entry::new(role.function);
    // Nobody else is told where the call is, so the compiler knows what is in it.
    let mut call = Hooked { role, entry, words, abi: abi() };
    match thread::place_of(&entry) {
        Some(origin) if record::is_on() => record::call(&mut call, role.act, origin),
        _ => call.forward(),
    }
}

/// A clock was read, or a random number drawn, while orders are recorded.
fn note_value(thread: &Thread, which: u8, bits: u64) {
    match method() {
        Method::Causal => record::value(thread, which, bits),
        Method::Clock => clocked::record::value(thread, which, bits),
    }
}

/// What the clock said, or which number was drawn, when orders were recorded.
fn noted_value(thread: &Thread, which: u8) -> Option<u64> {
    thread.set_doing(None);
    match method() {
        Method::Causal => replay::value(thread, which),
        Method::Clock => clocked::replay::value(thread, which),
    }
}

/// Whether an order is replayed just now: MPI has begun, and not ended.
fn is_replayed() -> bool {
    match method() {
        Method::Causal => replay::is_on(),
        Method::Clock => clocked::replay::is_on(),
    }
}

/// A thread has got a lock of the program's own, while orders are recorded.
fn note_lock(thread: &Thread) {
    match method() {
        Method::Causal => record::took_lock(thread),
        Method::Clock => clocked::record::took_lock(thread),
    }
}

/// Whether it is a thread's turn to get one, as when orders were recorded. Other threads may end MPI
/// meanwhile: then there are no turns any more.
fn turn_of_lock(stream: u32) -> Turn {
    match method() {
        Method::Causal => replay::turn_of_lock(stream),
        Method::Clock => clocked::replay::turn_of_lock(stream),
    }
}

/// It has got it, in its turn.
fn took_lock() {
    match method() {
        Method::Causal => replay::took_lock(),
        Method::Clock => clocked::replay::took_lock(),
    }
}
