//! A lock that stays usable when `siglongjmp` abandons its holder.
//!
//! A signal handler of the program may leave the agent's code by `siglongjmp`, at any instruction.
//! Blocking signals meanwhile would deliver them to other threads, which may not expect them. So a
//! thread that finds the lock held by itself does not get it: either a handler jumped out of the
//! frame that took the lock, and the guarded value may be half changed and stays so; or a handler
//! interrupted that frame and calls MPI. In both cases the caller continues without the value.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A lock that `siglongjmp` may abandon.
pub struct Abandonable {
    /// The thread pointer of the holder, or 0.
    holder: AtomicUsize,
}

/// Releases the lock when dropped.
pub struct Held<'a> {
    lock: &'a Abandonable,
}

/// The thread pointer, which identifies this thread.
#[inline(always)]
fn this_thread() -> usize {
    let pointer;
    // SAFETY: x86-64 keeps the thread pointer at fs:0.
    unsafe {
        std::arch::asm!("mov {0}, qword ptr fs:[0]", out(reg) pointer,
            options(pure, readonly, nostack, preserves_flags));
    }
    pointer
}

/// The time between two looks at a lock counts as waiting up to this limit.
const LONGEST_LOOK: Duration = Duration::from_millis(1);

/// Accumulates waiting time, with a limit on each interval between two looks.
///
/// While a process is stopped or has no core, the threads that it waits for make no progress
/// either. So an interval counts up to a limit, however long it was.
pub struct Waited {
    last: Instant,
    sum: Duration,
    longest_look: Duration,
}

impl Waited {
    /// Starts at `now`.
    pub fn since(now: Instant, longest_look: Duration) -> Waited {
        Waited { last: now, sum: Duration::ZERO, longest_look }
    }

    /// Adds the interval since the last look and returns the sum.
    pub fn look(&mut self, now: Instant) -> Duration {
        let look = now.saturating_duration_since(self.last);
        self.sum += look.min(self.longest_look);
        self.last = now;
        self.sum
    }
}

impl Abandonable {
    /// A lock that no thread holds.
    pub const fn new() -> Abandonable {
        Abandonable { holder: AtomicUsize::new(0) }
    }

    /// Takes the lock. Returns `None` if this thread holds it already, or if another thread holds
    /// it for longer than `patience`.
    #[inline]
    pub fn take(&self, patience: Duration) -> Option<Held<'_>> {
        self.take_while(patience, || true)
    }

    /// Like [`Self::take`], but also returns `None` as soon as `wanted` returns false.
    #[inline]
    pub fn take_while(&self, patience: Duration, wanted: impl Fn() -> bool) -> Option<Held<'_>> {
        match self.try_take() {
            Ok(held) => Some(held),
            Err(holder) if holder == this_thread() => None,
            Err(_) => self.wait(patience, wanted),
        }
    }

    /// Takes the lock if no thread holds it. The error says whether this thread does.
    #[inline]
    pub fn take_now(&self) -> Result<Held<'_>, bool> {
        self.try_take().map_err(|holder| holder == this_thread())
    }

    fn try_take(&self) -> Result<Held<'_>, usize> {
        let (order, none) = (Ordering::Acquire, Ordering::Relaxed);
        self.holder.compare_exchange(0, this_thread(), order, none).map(|_| Held { lock: self })
    }

    #[cold]
    fn wait(&self, patience: Duration, wanted: impl Fn() -> bool) -> Option<Held<'_>> {
        let mut waited = Waited::since(Instant::now(), LONGEST_LOOK);
        loop {
            for _ in 0..100 {
                std::hint::spin_loop();
            }
            if let Ok(held) = self.try_take() {
                return Some(held);
            }
            if waited.sum > patience || !wanted() {
                return None;
            }
            std::thread::yield_now();
            waited.look(Instant::now());
        }
    }

    /// Whether this thread holds the lock.
    pub fn is_held_here(&self) -> bool {
        self.holder.load(Ordering::Relaxed) == this_thread()
    }

    /// In a forked child, which has only one thread: whether a thread of the parent held the lock.
    pub fn is_held_in_child(&self) -> bool {
        self.holder.load(Ordering::Relaxed) != 0
    }

    /// In a forked child: releases the lock for a thread of the parent, which does not exist here.
    pub fn release_in_child(&self) {
        self.holder.store(0, Ordering::Release);
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.holder.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_process_accumulates_hardly_any_waiting_time() {
        let start = Instant::now();
        let mut waited = Waited::since(start, LONGEST_LOOK);
        for look in 1..1000u32 {
            waited.look(start + Duration::from_millis(100) * look);
        }
        assert!(waited.sum < Duration::from_secs(1), "{:?}", waited.sum);
        let mut waited = Waited::since(start, LONGEST_LOOK);
        for look in 1..=1000u32 {
            waited.look(start + Duration::from_micros(100) * look);
        }
        assert_eq!(waited.sum, Duration::from_millis(100));
    }

    #[test]
    fn waiting_ends_when_the_lock_is_no_longer_wanted() {
        static LOCK: Abandonable = Abandonable::new();
        let _held = LOCK.take(Duration::ZERO);
        let other =
            std::thread::spawn(|| LOCK.take_while(Duration::from_secs(1000), || false).is_none());
        assert!(other.join().unwrap());
    }
}
