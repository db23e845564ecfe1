//! A value of one thread that its signal handlers may want, too.
//!
//! A handler may interrupt the agent at any instruction and call MPI, which leads into the agent
//! again, on the same thread. A plain `&mut` would then exist twice. [`Reentrant`] gives out one
//! `&mut` at a time: whoever comes second gets nothing, and does without.
//!
//! A handler may also leave by `siglongjmp` and never return. Its interrupted frame is gone then, and
//! the value is free again. Frames are told apart by their stack addresses: a frame that still
//! exists lies above every frame that it was interrupted by.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{Ordering, compiler_fence};

/// A value of one thread.
pub struct Reentrant<T> {
    value: UnsafeCell<T>,
    /// The stack address of the frame that uses the value, or 0.
    user: Cell<usize>,
}

impl<T> Reentrant<T> {
    /// A value that nobody uses yet.
    pub const fn new(value: T) -> Reentrant<T> {
        Reentrant { value: UnsafeCell::new(value), user: Cell::new(0) }
    }

    /// Gives the value to `work`, or gives nothing if an interrupted frame of this thread uses it.
    ///
    /// `work` must not forward a call. It may be left by `siglongjmp` at any point at which signals
    /// are not blocked, so it must block them while the value is inconsistent.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let marker = 0u8;
        let here = &raw const marker as usize;
        let user = self.user.get();
        if user != 0 && !is_abandoned(user, here) {
            return None;
        }
        self.user.set(here);
        let _release = Release(&self.user);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the value belongs to this thread (the type is not `Sync`). `user` was 0 or that of
        // a frame that no longer exists, so there is no other reference.
        let result = work(unsafe { &mut *self.value.get() });
        compiler_fence(Ordering::SeqCst);
        Some(result)
    }
}

/// Ends a use, also when it panics.
struct Release<'a>(&'a Cell<usize>);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.set(0);
    }
}

/// Whether the frame at the stack address `user` no longer exists. A frame that was interrupted lies
/// above this one, unless this one is on the alternate stack of a handler, which may be anywhere.
#[cold]
fn is_abandoned(user: usize, here: usize) -> bool {
    // SAFETY: asks for the state of this thread's alternate stack.
    let on_alternate = unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &mut stack) != 0
            || stack.ss_flags & libc::SS_ONSTACK != 0
    };
    !on_alternate && here > user
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_int;

    thread_local! {
        static VALUE: Reentrant<Vec<u32>> = const { Reentrant::new(Vec::new()) };
        static FOUND: Cell<Option<usize>> = const { Cell::new(Some(99)) };
    }

    extern "C" fn looks(_: c_int) {
        FOUND.set(VALUE.with(|value| value.with(|list| list.len())));
    }

    fn on_signal(signal: c_int, handler: extern "C" fn(c_int)) {
        // SAFETY: a handler of this program; it runs on this thread, by `raise`.
        unsafe { libc::signal(signal, handler as *const () as usize) };
    }

    #[test]
    fn a_handler_that_interrupts_a_use_gets_nothing() {
        on_signal(libc::SIGUSR1, looks);
        VALUE.with(|value| {
            value.with(|list| {
                list.push(1);
                // SAFETY: the handler above runs and returns.
                unsafe { libc::raise(libc::SIGUSR1) };
                list.push(2);
            });
            assert_eq!(FOUND.get(), None);
            assert_eq!(value.with(|list| list.clone()), Some(vec![1, 2]));
        });
    }

    #[test]
    fn a_use_that_a_handler_has_jumped_out_of_is_over() {
        let one = Reentrant::new(1);
        let marker = 0u8;
        let here = &raw const marker as usize;
        // A frame that was called from here, far below, has been jumped out of.
        one.user.set(here - 4096);
        assert_eq!(one.with(|value| *value), Some(1));
        // One that has called this frame still exists.
        one.user.set(here + 4096);
        assert_eq!(one.with(|value| *value), None);
    }

    #[test]
    fn a_use_that_panicked_is_over() {
        let one = Reentrant::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            one.with(|_| std::panic::resume_unwind(Box::new(())))
        }));
        assert!(panicked.is_err());
        assert_eq!(one.with(|value| *value), Some(1));
    }
}
