//! Which calls are recorded, and how they are nested.

use super::{MAX_DEPTH, RECENT_MODULES, ThreadLog};
use crate::inside::entry::Entry;
use crate::inside::modules::{self, Verdict};
use crate::inside::process::{self, Errno};
use crate::inside::{bindings, memory};
use std::sync::atomic::Ordering;

/// The minimum distance of stack pointers between a call and a call inside it. Arguments on the
/// stack change the stack pointer by up to 80 bytes between calls from one frame.
const NESTED_BELOW: usize = 96;

/// A call that has not returned.
#[derive(Clone, Copy)]
pub(super) struct OpenCall {
    pub(super) stack: usize,
    pub(super) caller: usize,
}

/// A Fortran procedure that has a wrapper of its own and is being forwarded.
#[derive(Clone, Copy)]
pub struct Forwarded {
    /// Its function.
    pub function: usize,
    /// The stack pointer when it was called.
    pub stack: usize,
    /// Return address and stack pointer of the C function that the bindings called for it.
    pub inner: (usize, usize),
}

impl Forwarded {
    pub(super) const NONE: Forwarded = Forwarded { function: usize::MAX, stack: 0, inner: (0, 0) };
}

impl ThreadLog {
    /// Whether a call is recorded: the program made it, and the log can take it.
    #[inline(always)]
    pub fn admits(&mut self, entry: &Entry) -> bool {
        let known = entry.caller.wrapping_sub(self.caller_low) < self.caller_length;
        // SAFETY: the mark is never unmapped.
        let forked = unsafe { self.fork_mark.read_volatile() } == 0;
        (known && !self.is_busy() && !forked) || self.judge(entry)
    }

    #[inline(never)]
    fn judge(&mut self, entry: &Entry) -> bool {
        // SAFETY: the mark is never unmapped.
        if unsafe { self.fork_mark.read_volatile() } == 0 {
            process::after_silent_fork();
            return false;
        }
        if self.is_busy() && !self.is_stopped() && self.is_abandoned(entry) {
            self.busy.store(false, Ordering::Relaxed);
        }
        if !self.is_busy()
            && let Some(other) = self.recent_modules.iter().find(|r| r.contains(&entry.caller))
        {
            (self.caller_low, self.caller_length) = (other.start, other.len());
            return true;
        }
        let verdict = bindings::known(entry.caller).unwrap_or_else(|| judge_anew(entry));
        let program = match &verdict {
            Verdict::Program(_) => true,
            Verdict::ByFortran => !self.is_forwarded(entry),
            Verdict::Foreign => false,
        };
        if program && self.is_busy() {
            // A signal handler called MPI while a record is being written, or the log has stopped.
            self.part.header().count_unrecorded();
            return false;
        }
        if let Verdict::Program(range) = verdict {
            (self.caller_low, self.caller_length) = (range.start, range.len());
            if let Some(module) = self.recent_modules.get_mut(self.next_replaced) {
                *module = range;
            }
            self.next_replaced = (self.next_replaced + 1) % RECENT_MODULES;
        }
        program
    }

    /// Whether a signal handler jumped away from the record that keeps the log busy: then its frame
    /// no longer exists, and this call is above it on the stack. A handler on an alternate stack
    /// may be anywhere, so nothing is concluded there.
    #[cold]
    fn is_abandoned(&self, entry: &Entry) -> bool {
        // SAFETY: asks for the state of this thread's alternate stack.
        let on_alternate = unsafe {
            let mut stack: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(std::ptr::null(), &mut stack) != 0
                || stack.ss_flags & libc::SS_ONSTACK != 0
        };
        !on_alternate
            && entry.stack.wrapping_add(NESTED_BELOW) > self.occupant.load(Ordering::Relaxed)
    }

    /// Whether a call from the Fortran bindings belongs to a procedure with a wrapper of its own,
    /// which has recorded it.
    ///
    /// The C function may end in a jump to another one (MPICH's `MPI_Keyval_create` only jumps to
    /// `MPI_Comm_create_keyval`), and so may the agent's wrapper of it. The second function then
    /// seems to be called from where the first was.
    fn is_forwarded(&mut self, entry: &Entry) -> bool {
        let origin = (entry.caller, entry.stack);
        let is_same = entry.slot / 2 == self.forwarded.function;
        if !is_same && self.forwarded.inner != origin {
            return false;
        }
        let innermost = usize::from(self.depth_of(entry)).checked_sub(1);
        let open = innermost.and_then(|i| self.open_calls.get(i % MAX_DEPTH));
        if open.is_none_or(|open| open.stack != self.forwarded.stack) {
            return false;
        }
        self.forwarded.inner = origin;
        true
    }

    /// The number of open calls that contain a call that begins now.
    #[inline(always)]
    pub fn depth_of(&mut self, entry: &Entry) -> u8 {
        if self.depth == 0 { 0 } else { self.settle_depth(entry) }
    }

    /// Removes open calls that were left by `longjmp`, an exception or a cancelled thread. A call
    /// that contains this one has a higher stack pointer, and its return address is still on the
    /// stack. (The stack itself may be gone, for example that of a coroutine.)
    #[cold]
    fn settle_depth(&mut self, entry: &Entry) -> u8 {
        while self.depth > 0 {
            // Calls deeper than the limit are represented by the deepest tracked one.
            let at = usize::from(self.depth - 1).min(MAX_DEPTH - 1);
            let Some(open) = self.open_calls.get(at) else { break };
            let below = entry.stack.wrapping_add(NESTED_BELOW) <= open.stack;
            if below && memory::word_at(open.stack) == Some(open.caller) {
                break;
            }
            self.depth = at as u8;
        }
        self.depth
    }

    /// Registers an open call; its depth must be that of [`Self::depth_of`].
    #[inline(always)]
    pub fn open_call(&mut self, entry: &Entry, depth: u8) {
        if let Some(open) = self.open_calls.get_mut(usize::from(depth)) {
            *open = OpenCall { stack: entry.stack, caller: entry.caller };
        }
        self.depth = depth.saturating_add(1);
    }
}

#[cold]
fn judge_anew(entry: &Entry) -> Verdict {
    let _errno = Errno::keep();
    std::panic::catch_unwind(|| modules::judge(entry)).unwrap_or(Verdict::Foreign)
}
