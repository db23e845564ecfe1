//! State that all threads of the process share, behind a lock that `longjmp` may abandon.

use crate::inside::abandon::{Abandonable, Held};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long to wait for the lock. It is usually held for microseconds, or for milliseconds while events are
/// sealed. With `MPI_THREAD_MULTIPLE` its holder calls MPI, and may compete for MPI's own lock with threads
/// that wait inside MPI: on a busy machine that takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why the lock could not be acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockUnavailable {
    /// This thread already holds it: a signal interrupted the thread there, or `longjmp` left it there.
    Interrupted,
    /// Another thread does not release it.
    HeldUp,
}

impl LockUnavailable {
    /// Why the record is truncated there. A constant, so that a signal handler can write it.
    pub const fn reason_of_truncation(self) -> &'static CStr {
        match self {
            LockUnavailable::Interrupted => {
                c"a signal handler called MPI in the middle of a call, or jumped out of one"
            }
            LockUnavailable::HeldUp => c"a thread was held up in the middle of a call for a minute",
        }
    }

    /// Why the replay stops. A constant, so that a signal handler can write it.
    pub const fn reason_of_stop(self) -> &'static str {
        match self {
            LockUnavailable::Interrupted => {
                "the replay cannot go on: a signal handler called MPI in the middle of a call, or \
                 jumped out of one"
            }
            LockUnavailable::HeldUp => {
                "the replay cannot go on: a thread was held up in the middle of a call for a minute"
            }
        }
    }
}

/// An optional value behind a lock.
///
/// If the lock cannot be acquired, the caller gets nothing and `on_unavailable` is called: the record is
/// incomplete from there on.
pub struct Guarded<T> {
    lock: Abandonable,
    on_unavailable: fn(LockUnavailable),
    is_present: AtomicBool,
    inside: UnsafeCell<Option<T>>,
}

// SAFETY: only the holder of the lock accesses the value.
unsafe impl<T> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    /// Without a value. `on_unavailable` is called if the lock cannot be acquired, perhaps in a signal handler:
    /// it may make system calls only, and may end the job.
    pub const fn new(on_unavailable: fn(LockUnavailable)) -> Guarded<T> {
        let (lock, is_present) = (Abandonable::new(), AtomicBool::new(false));
        Guarded { lock, on_unavailable, is_present, inside: UnsafeCell::new(None) }
    }

    /// Sets the value.
    pub fn put(&self, value: T) {
        if let Some(_held) = self.lock.take(PATIENCE) {
            // SAFETY: the lock is held.
            unsafe { *self.inside.get() = Some(value) };
            self.is_present.store(true, Ordering::Release);
        }
    }

    /// Whether there is a value.
    #[inline]
    pub fn is_present(&self) -> bool {
        self.is_present.load(Ordering::Acquire)
    }

    /// Takes the value out.
    pub fn take(&self) -> Option<T> {
        let Some(_held) = self.lock.take(PATIENCE) else { return self.unavailable() };
        let was_present = self.is_present.swap(false, Ordering::AcqRel);
        // SAFETY: the lock is held.
        unsafe { (*self.inside.get()).take() }.filter(|_| was_present)
    }

    /// From now on there is no value for other callers; a holder of the lock can still use it.
    pub fn close(&self) {
        self.is_present.store(false, Ordering::Release);
    }

    /// Calls a function with the value. `None` if there is no value, or if the lock was abandoned.
    #[inline]
    pub fn with<R>(&self, what: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.lock().map(|mut value| what(&mut value))
    }

    /// Locks the value. `None` if there is no value, or if the lock was abandoned.
    #[inline(always)]
    pub fn lock(&self) -> Option<GuardedRef<'_, T>> {
        let held = self.lock.take_while(PATIENCE, || self.is_present());
        let Some(held) = held else { return self.unavailable() };
        // SAFETY: the lock is held as long as the value is borrowed.
        let inside = unsafe { (*self.inside.get()).as_mut() };
        match inside {
            Some(inside) if self.is_present() => Some(GuardedRef { inside, _held: held }),
            _ => None,
        }
    }

    #[cold]
    fn unavailable<R>(&self) -> Option<R> {
        if self.is_present() {
            let here = self.lock.is_held_here();
            let why = if here { LockUnavailable::Interrupted } else { LockUnavailable::HeldUp };
            (self.on_unavailable)(why);
        }
        None
    }
}

/// The locked value.
pub struct GuardedRef<'a, T> {
    inside: &'a mut T,
    _held: Held<'a>,
}

impl<T> Deref for GuardedRef<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.inside
    }
}

impl<T> DerefMut for GuardedRef<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        self.inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn a_lock_that_cannot_be_acquired_is_reported_until_the_value_is_closed() {
        static REPORTS: AtomicU32 = AtomicU32::new(0);
        static ONE: Guarded<u32> = Guarded::new(|why| {
            assert_eq!(why, LockUnavailable::Interrupted);
            REPORTS.fetch_add(1, Ordering::Relaxed);
        });
        ONE.put(7);
        let inner = ONE.with(|_| ONE.with(|value| *value));
        assert_eq!((inner, REPORTS.load(Ordering::Relaxed)), (Some(None), 1));
        // The call in progress continues; later failures are not reported.
        ONE.with(|_| {
            ONE.close();
            assert_eq!(ONE.with(|value| *value), None);
        });
        assert_eq!((ONE.with(|value| *value), ONE.take()), (None, None));
        assert_eq!(REPORTS.load(Ordering::Relaxed), 1);
    }
}
