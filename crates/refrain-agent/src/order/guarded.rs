//! What all threads of the process share, behind a lock that may be jumped out of.

use crate::inside::abandon::{Abandonable, Held};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Others hold the lock for microseconds, or milliseconds when they seal. Where threads share MPI they
/// call it meanwhile, and MPI has a lock of its own, that whoever waits in MPI may take again and
/// again before they get it: on a busy machine that takes seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why somebody could not get at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// This thread is in the middle of it already: it was interrupted there, and perhaps jumped out.
    Interrupted,
    /// Another thread is, and does not come out.
    HeldUp,
}

impl Missed {
    /// Why the record ends there. A constant, so that a handler can write it.
    pub const fn cuts_record(self) -> &'static CStr {
        match self {
            Missed::Interrupted => {
                c"a signal handler called MPI in the middle of a call, or jumped out of one"
            }
            Missed::HeldUp => c"a thread was held up in the middle of a call for a minute",
        }
    }

    /// Why the replay cannot go on. A constant, so that a handler can write it.
    pub const fn stops_replay(self) -> &'static str {
        match self {
            Missed::Interrupted => {
                "the replay cannot go on: a signal handler called MPI in the middle of a call, or \
                 jumped out of one"
            }
            Missed::HeldUp => {
                "the replay cannot go on: a thread was held up in the middle of a call for a minute"
            }
        }
    }
}

/// Something behind a lock.
///
/// Whoever cannot get at it does without, and that is told: what is recorded lacks something
/// from there on.
pub struct Guarded<T> {
    lock: Abandonable,
    missed: fn(Missed),
    is_there: AtomicBool,
    inside: UnsafeCell<Option<T>>,
}

// SAFETY: what is inside is touched by the holder of the lock only.
unsafe impl<T> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    /// With nothing in it. `missed` is called where somebody could not get at it, perhaps in a
    /// handler: it must do with system calls, and may end the job.
    pub const fn new(missed: fn(Missed)) -> Guarded<T> {
        let (lock, is_there) = (Abandonable::new(), AtomicBool::new(false));
        Guarded { lock, missed, is_there, inside: UnsafeCell::new(None) }
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
        let Some(_held) = self.lock.take(PATIENCE) else { return self.miss() };
        let was_there = self.is_there.swap(false, Ordering::AcqRel);
        // SAFETY: the lock is held.
        unsafe { (*self.inside.get()).take() }.filter(|_| was_there)
    }

    /// From now on it is as if nothing were in it.
    pub fn close(&self) {
        self.is_there.store(false, Ordering::Release);
    }

    /// Does something with it; nothing if it is not there, or was abandoned half changed.
    #[inline]
    pub fn with<R>(&self, what: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.hold().map(|mut own| what(&mut own))
    }

    /// Holds it for a while; nothing if it is not there, or was abandoned half changed.
    #[inline(always)]
    pub fn hold(&self) -> Option<Holding<'_, T>> {
        let held = self.lock.take_while(PATIENCE, || self.is_there());
        let Some(held) = held else { return self.miss() };
        // SAFETY: the lock is held as long as what is inside is borrowed.
        let inside = unsafe { (*self.inside.get()).as_mut() };
        match inside {
            Some(inside) if self.is_there() => Some(Holding { inside, _held: held }),
            _ => None,
        }
    }

    #[cold]
    fn miss<R>(&self) -> Option<R> {
        if self.is_there() {
            let own = self.lock.is_held_here();
            (self.missed)(if own { Missed::Interrupted } else { Missed::HeldUp });
        }
        None
    }
}

/// It is held.
pub struct Holding<'a, T> {
    inside: &'a mut T,
    _held: Held<'a>,
}

impl<T> Deref for Holding<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.inside
    }
}

impl<T> DerefMut for Holding<'_, T> {
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
    fn who_cannot_get_at_it_is_told_of_until_it_is_closed() {
        static MISSED: AtomicU32 = AtomicU32::new(0);
        static ONE: Guarded<u32> = Guarded::new(|why| {
            assert_eq!(why, Missed::Interrupted);
            MISSED.fetch_add(1, Ordering::Relaxed);
        });
        ONE.put(7);
        let inner = ONE.with(|_| ONE.with(|own| *own));
        assert_eq!((inner, MISSED.load(Ordering::Relaxed)), (Some(None), 1));
        // What is in progress goes on; what comes is not told any more.
        ONE.with(|_| {
            ONE.close();
            assert_eq!(ONE.with(|own| *own), None);
        });
        assert_eq!((ONE.with(|own| *own), ONE.take()), (None, None));
        assert_eq!(MISSED.load(Ordering::Relaxed), 1);
    }
}
