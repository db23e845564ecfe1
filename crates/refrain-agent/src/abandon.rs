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

/// Between two looks no more than this counts as having waited.
const LONGEST_LOOK: Duration = Duration::from_millis(20);

impl Abandonable {
    /// Held by nobody.
    pub const fn new() -> Abandonable {
        Abandonable { holder: AtomicUsize::new(0) }
    }

    /// Takes the lock; nothing if this thread holds it already, or another does for so long.
    #[inline]
    pub fn take(&self, patience: Duration) -> Option<Held<'_>> {
        match self.try_take() {
            Ok(held) => Some(held),
            Err(holder) if holder == this_thread() => None,
            Err(_) => self.wait(patience),
        }
    }

    fn try_take(&self) -> Result<Held<'_>, usize> {
        let (order, none) = (Ordering::Acquire, Ordering::Relaxed);
        self.holder.compare_exchange(0, this_thread(), order, none).map(|_| Held { lock: self })
    }

    #[cold]
    fn wait(&self, patience: Duration) -> Option<Held<'_>> {
        let (mut last, mut waited) = (Instant::now(), Duration::ZERO);
        loop {
            for _ in 0..100 {
                std::hint::spin_loop();
            }
            if let Ok(held) = self.try_take() {
                return Some(held);
            }
            if waited > patience {
                return None;
            }
            std::thread::yield_now();
            // While a process is stopped, its holder could not let go either.
            let now = Instant::now();
            waited += (now - last).min(LONGEST_LOOK);
            last = now;
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
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.holder.store(0, Ordering::Release);
    }
}
