//! Values that threads share, behind an [`Abandonable`] lock; and values that are made once,
//! without a lock.
//!
//! The agent does not use the locks of the standard library. A signal handler that interrupts the
//! holder of such a lock and takes it itself would wait for ever, and a child that is forked while
//! another thread holds it never gets it.

use crate::inside::abandon::Abandonable;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// A value that one thread at a time may use.
pub struct Locked<T> {
    lock: Abandonable,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder of the lock uses the value.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    /// A value that no thread uses yet.
    pub const fn new(value: T) -> Locked<T> {
        Locked { lock: Abandonable::new(), value: UnsafeCell::new(value) }
    }

    /// Calls `work` with the value. Returns `None` if this thread uses it already (in a frame that
    /// a handler interrupted, and perhaps left for good), or if another thread uses it for longer
    /// than `patience`.
    ///
    /// A caller that must not lose the value to a handler that jumps away blocks signals meanwhile.
    pub fn with<R>(&self, patience: Duration, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let _held = self.lock.take(patience)?;
        // SAFETY: this thread holds the lock, and takes it only once.
        Some(work(unsafe { &mut *self.value.get() }))
    }

    /// The same without waiting. The error says whether this thread uses the value already.
    pub fn with_now<R>(&self, work: impl FnOnce(&mut T) -> R) -> Result<R, bool> {
        let _held = self.lock.take_now()?;
        // SAFETY: as in `with`.
        Ok(work(unsafe { &mut *self.value.get() }))
    }

    /// In a forked child: whether a thread of the parent was using the value.
    pub fn is_held_in_child(&self) -> bool {
        self.lock.is_held_in_child()
    }

    /// In a forked child: replaces the value, which may be half changed, and releases the lock. The
    /// old value is not dropped, because freeing it would copy its pages.
    pub fn renew_in_child(&self, value: T) {
        // SAFETY: the child has this thread alone; whichever thread used the value in the parent does
        // not exist here.
        unsafe { self.value.get().write(value) };
        self.lock.release_in_child();
    }
}

/// A value that is made when it is first asked for.
///
/// There is no lock. Threads that ask at the same time, or a handler that interrupts the making,
/// each make a value, and all get the one that was stored first.
pub struct Lazy<T: 'static> {
    at: AtomicPtr<T>,
}

impl<T: Send + Sync> Lazy<T> {
    /// Not made yet.
    pub const fn new() -> Lazy<T> {
        Lazy { at: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The value.
    #[inline]
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> &'static T {
        // SAFETY: null, or a complete value (it is stored with `Release`) that is never freed.
        match unsafe { self.at.load(Ordering::Acquire).as_ref() } {
            Some(value) => value,
            None => self.make(make()),
        }
    }

    #[cold]
    fn make(&self, value: T) -> &'static T {
        let made = Box::into_raw(Box::new(value));
        let null = std::ptr::null_mut();
        let (order, failure) = (Ordering::AcqRel, Ordering::Acquire);
        // SAFETY: both values are complete. No reference to the unused one exists.
        unsafe {
            match self.at.compare_exchange(null, made, order, failure) {
                Ok(_) => &*made,
                Err(first) => {
                    drop(Box::from_raw(made));
                    &*first
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_int;
    use std::sync::atomic::{AtomicBool, AtomicU32};

    const LONG: Duration = Duration::from_secs(100);

    #[test]
    fn a_handler_that_interrupts_the_holder_does_not_wait() {
        static VALUE: Locked<u32> = Locked::new(1);
        static RAN: AtomicBool = AtomicBool::new(false);
        extern "C" fn handler(_: c_int) {
            assert_eq!(VALUE.with(LONG, |value| *value), None);
            assert_eq!(VALUE.with_now(|value| *value), Err(true));
            RAN.store(true, Ordering::Relaxed);
        }
        VALUE.with(LONG, |value| {
            // SAFETY: a handler of this test, which runs on this thread and returns.
            unsafe {
                libc::signal(libc::SIGUSR1, handler as *const () as usize);
                libc::raise(libc::SIGUSR1);
            }
            *value = 2;
        });
        assert!(RAN.load(Ordering::Relaxed));
        assert_eq!(VALUE.with(LONG, |value| *value), Some(2));
    }

    #[test]
    fn a_child_forked_while_another_thread_holds_it_begins_anew() {
        static VALUE: Locked<Vec<u32>> = Locked::new(Vec::new());
        static IS_HELD: AtomicBool = AtomicBool::new(false);
        static MAY_END: AtomicBool = AtomicBool::new(false);
        let holder = std::thread::spawn(|| {
            VALUE.with(LONG, |value| {
                value.push(1);
                IS_HELD.store(true, Ordering::Release);
                while !MAY_END.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            })
        });
        while !IS_HELD.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        assert_eq!(VALUE.with_now(|value| value.len()), Err(false));
        // SAFETY: the child makes no allocation and ends by `_exit`.
        let (child, mut status) = unsafe { (libc::fork(), 0) };
        if child == 0 {
            let was_held = VALUE.is_held_in_child();
            VALUE.renew_in_child(Vec::new());
            let is_empty = VALUE.with(LONG, |value| value.is_empty()) == Some(true);
            // SAFETY: ends the child.
            unsafe { libc::_exit(if was_held && is_empty { 0 } else { 1 }) };
        }
        // SAFETY: waits for the child.
        unsafe { libc::waitpid(child, &mut status, 0) };
        MAY_END.store(true, Ordering::Release);
        holder.join().unwrap();
        assert_eq!(status, 0);
        assert_eq!(VALUE.with(LONG, |value| value.clone()), Some(vec![1]));
    }

    #[test]
    fn a_handler_that_interrupts_the_making_gets_a_value_too() {
        static VALUE: Lazy<u32> = Lazy::new();
        static MADE: AtomicU32 = AtomicU32::new(0);
        extern "C" fn handler(_: c_int) {
            MADE.store(*VALUE.get_or_make(|| 7), Ordering::Relaxed);
        }
        let value = VALUE.get_or_make(|| {
            // SAFETY: a handler of this test, which runs on this thread and returns.
            unsafe {
                libc::signal(libc::SIGUSR2, handler as *const () as usize);
                libc::raise(libc::SIGUSR2);
            }
            8
        });
        assert_eq!((*value, MADE.load(Ordering::Relaxed)), (7, 7));
        assert_eq!(*VALUE.get_or_make(|| 9), 7);
    }
}
