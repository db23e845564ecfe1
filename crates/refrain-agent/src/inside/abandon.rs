//! A lock whose holder may be jumped out of.
//!
//! A handler of the program may leave our code by `siglongjmp`, at any instruction. To block
//! signals meanwhile would send them to other threads, which may not be ready for them. So what
//! is locked here is given up when its holder finds the lock held by itself: something it guards
//! may be half changed, and stays so. A handler that calls MPI and returns sees the same, and
//! does without as well.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The lock.
pub struct Abandonable {
    /// Who holds it: the thread's pointer, or 0.
    holder: AtomicUsize,
}

/// The lock is held.
pub struct Held<'a> {
    lock: &'a Abandonable,
}

/// This thread, as a number.
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

/// Between two looks at a lock no more than this counts as having waited.
const LONGEST_LOOK: Duration = Duration::from_millis(1);

/// How long somebody has waited, as far as it counts.
///
/// While a process is stopped, or others have the core, those it waits for cannot get on either. So
/// between two looks no more than a little counts, however long it was.
pub struct Waited {
    last: Instant,
    sum: Duration,
    longest_look: Duration,
}

impl Waited {
    /// From now on.
    pub fn since(now: Instant, longest_look: Duration) -> Waited {
        Waited { last: now, sum: Duration::ZERO, longest_look }
    }

    /// It is not over yet; gives how long it was so far.
    pub fn look(&mut self, now: Instant) -> Duration {
        let look = now.saturating_duration_since(self.last);
        self.sum += look.min(self.longest_look);
        self.last = now;
        self.sum
    }
}

impl Abandonable {
    /// Held by nobody.
    pub const fn new() -> Abandonable {
        Abandonable { holder: AtomicUsize::new(0) }
    }

    /// Takes the lock; nothing if this thread holds it already, or another does for so long.
    #[inline]
    pub fn take(&self, patience: Duration) -> Option<Held<'_>> {
        self.take_while(patience, || true)
    }

    /// The same; nothing, too, when it is no longer wanted.
    #[inline]
    pub fn take_while(&self, patience: Duration, wanted: impl Fn() -> bool) -> Option<Held<'_>> {
        match self.try_take() {
            Ok(held) => Some(held),
            Err(holder) if holder == this_thread() => None,
            Err(_) => self.wait(patience, wanted),
        }
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

    /// Whether this thread holds it.
    pub fn is_held_here(&self) -> bool {
        self.holder.load(Ordering::Relaxed) == this_thread()
    }

    /// In a forked child, of which no other thread has come along.
    pub fn is_held_in_child(&self) -> bool {
        self.holder.load(Ordering::Relaxed) != 0
    }

    /// In a forked child: the thread of the parent that held the lock does not exist here.
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
    fn who_is_stopped_or_has_no_core_has_hardly_waited() {
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
    fn what_is_no_longer_wanted_is_not_waited_for() {
        static LOCK: Abandonable = Abandonable::new();
        let _held = LOCK.take(Duration::ZERO);
        let other =
            std::thread::spawn(|| LOCK.take_while(Duration::from_secs(1000), || false).is_none());
        assert!(other.join().unwrap());
    }
}
