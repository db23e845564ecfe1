//! Signal handlers of the program, which can interrupt this library at any instruction.
//!
//! This library interposes `sigaction` and `signal`, and wraps the program's handlers:
//!
//! * A signal in the hot path before its last store: the record is not committed, and the entry restarts when
//!   the handler returns.
//! * A signal elsewhere in this library: the thread's state may be inconsistent, so the handler's references
//!   are recorded as those of a separate thread.
//! * The handler may run on another stack, so the frames of interrupted functions are not compared with its
//!   stack pointer.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::{Acquire, Release};
use core::sync::atomic::{AtomicBool, AtomicUsize};

use crate::hot::{interrupted, thread_block};
use crate::next::Next;
use crate::threads;

const SIGNALS: usize = 65;

type Action = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
static SIGACTION: Next<Action> = Next::new(c"sigaction");

/// The program's handlers, and whether they take `siginfo_t` (`SA_SIGINFO`).
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
static TAKES_SIGINFO: [AtomicBool; SIGNALS] = [const { AtomicBool::new(false) }; SIGNALS];

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

#[expect(clippy::indexing_slicing, reason = "the kernel's own constant")]
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let block = thread_block();
    // SAFETY: the block belongs to this thread; the kernel passes the other pointers to handlers.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let at = &mut registers[libc::REG_RIP as usize];
        if let Some(beginning) = interrupted(*at as usize) {
            *at = beginning as i64;
        }
        let saved = ((*block).ring, (*block).thread, (*block).caller, (*block).stack);
        let is_busy = (*block).busy != 0;
        if is_busy {
            ((*block).ring, (*block).thread) = (core::ptr::null(), core::ptr::null_mut());
            (*block).busy = 0;
        }
        let frames = (*block).thread.as_mut().map(|thread| {
            let saved = (thread.floor, thread.depth, thread.jumped);
            thread.floor = thread.depth;
            saved
        });
        call(signal, info, context);
        if is_busy {
            threads::finish(block);
            ((*block).ring, (*block).thread) = (saved.0, saved.1);
            (*block).busy = 1;
        } else if let (Some((floor, depth, jumped)), Some(thread)) =
            (frames, (*block).thread.as_mut())
        {
            (thread.floor, thread.jumped) = (floor, jumped);
            thread.depth = depth;
        }
        ((*block).caller, (*block).stack) = (saved.2, saved.3);
    }
}

/// Calls the program's handler.
fn call(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(handler) = HANDLERS.get(signal as usize).map(|handler| handler.load(Acquire)) else {
        return;
    };
    if handler > libc::SIG_IGN {
        // SAFETY: the program registered it as a handler. A handler without `SA_SIGINFO` ignores the other
        // arguments.
        let handler: Handler = unsafe { core::mem::transmute(handler) };
        handler(signal, info, context);
    }
}

/// As in the C library.
#[unsafe(no_mangle)]
#[expect(clippy::indexing_slicing, reason = "compared with the number of signals first")]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    let Some(next) = SIGACTION.get() else { return -1 };
    let Some(known) = usize::try_from(signal).ok().filter(|signal| *signal < SIGNALS) else {
        // SAFETY: the caller's promise.
        return unsafe { next(signal, action, old) };
    };
    let wrapper = on_signal as *const () as usize;
    let before = (HANDLERS[known].load(Acquire), TAKES_SIGINFO[known].load(Acquire));
    // SAFETY: the caller's promise: null, or valid structures.
    unsafe {
        let mut wrapped: libc::sigaction;
        let mut wanted = action;
        if let Some(action) = action.as_ref()
            && action.sa_sigaction > libc::SIG_IGN
        {
            wrapped = *action;
            HANDLERS[known].store(action.sa_sigaction, Release);
            TAKES_SIGINFO[known].store(action.sa_flags & libc::SA_SIGINFO != 0, Release);
            wrapped.sa_sigaction = wrapper;
            wrapped.sa_flags |= libc::SA_SIGINFO;
            wanted = &wrapped;
        }
        let result = next(signal, wanted, old);
        if result != 0 {
            HANDLERS[known].store(before.0, Release);
            TAKES_SIGINFO[known].store(before.1, Release);
        } else if let Some(old) = old.as_mut()
            && old.sa_sigaction == wrapper
        {
            old.sa_sigaction = before.0;
            if !before.1 {
                old.sa_flags &= !libc::SA_SIGINFO;
            }
        }
        result
    }
}

/// As in the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(number: c_int, handler: usize) -> usize {
    // SAFETY: structures that are filled in.
    unsafe {
        let (mut action, mut old): (libc::sigaction, libc::sigaction) =
            (core::mem::zeroed(), core::mem::zeroed());
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaddset(&mut action.sa_mask, number);
        match sigaction(number, &action, &mut old) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}
