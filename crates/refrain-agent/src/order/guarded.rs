//! What all threads of the process share, behind a lock that may be jumped out of.

use crate::abandon::Abandonable;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Others hold the lock for microseconds, or milliseconds when they seal.
const PATIENCE: Duration = Duration::from_secs(10);

/// Something behind a lock.
pub struct Guarded<T> {
    lock: Abandonable,
    is_there: AtomicBool,
    inside: UnsafeCell<Option<T>>,
}

// SAFETY: what is inside is touched by the holder of the lock only.
unsafe impl<T> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    /// With nothing in it.
    pub const fn new() -> Guarded<T> {
        let (lock, is_there) = (Abandonable::new(), AtomicBool::new(false));
        Guarded { lock, is_there, inside: UnsafeCell::new(None) }
    }

    /// Puts something in.
    pub fn put(&self, value: T) {
        if let Some(_held) = self.lock.take(PATIENCE) {
            // SAFETY: the lock is held.
            unsafe { *self.inside.get() = Some(value) };
            self.is_there.store(true, Ordering::Release);
        }
    }

    /// Whether something is in it.
    #[inline]
    pub fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Acquire)
    }

    /// Takes it out.
    pub fn take(&self) -> Option<T> {
        let _held = self.lock.take(PATIENCE)?;
        self.is_there.store(false, Ordering::Release);
        // SAFETY: the lock is held.
        unsafe { (*self.inside.get()).take() }
    }

    /// Does something with it; nothing if it is not there, or was abandoned half changed.
    #[inline]
    pub fn with<R>(&self, what: impl FnOnce(&mut T) -> R) -> Option<R> {
        let _held = self.lock.take(PATIENCE)?;
        // SAFETY: the lock is held.
        unsafe { (*self.inside.get()).as_mut() }.map(what)
    }
}
