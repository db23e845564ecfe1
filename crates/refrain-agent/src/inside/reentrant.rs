//! A value shared by one thread and its signal handlers.
//!
//! A handler may interrupt the agent at any instruction and call MPI, which enters the agent again,
//! on the same thread. Two `&mut` to the same value would then exist. [`Reentrant`] hands out one
//! `&mut` at a time: the second caller gets `None` and continues without the value.
//!
//! A handler may also leave by `siglongjmp` and never return. Then the interrupted frame no longer
//! exists, and the value is free again. Stack addresses show which case it is: an interrupted frame
//! that still exists lies above every frame of the handler.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{Ordering, compiler_fence};

/// A value of one thread.
pub struct Reentrant<T> {
    value: UnsafeCell<T>,
    /// The stack address of the frame that uses the value, or 0.
    user: Cell<usize>,
}

impl<T> Reentrant<T> {
    /// A value that no frame uses yet.
    pub const fn new(value: T) -> Reentrant<T> {
        Reentrant { value: UnsafeCell::new(value), user: Cell::new(0) }
    }

    /// Calls `work` with the value, or returns `None` if an interrupted frame of this thread uses
    /// it.
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
        // SAFETY: the value belongs to this thread (the type is not `Sync`). `user` was 0 or the
        // address of a frame that no longer exists, so there is no other reference.
        let result = work(unsafe { &mut *self.value.get() });
        compiler_fence(Ordering::SeqCst);
        Some(result)
    }
}

/// Ends a use, also if it panics.
struct Release<'a>(&'a Cell<usize>);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.set(0);
    }
}

/// Whether the frame at the stack address `user` no longer exists. An interrupted frame lies above
/// this one, unless this one is on the alternate stack of a handler, which may be anywhere.
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
