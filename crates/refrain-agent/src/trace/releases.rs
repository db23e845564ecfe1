//! News of memory that MPI used and the program has freed.
//!
//! Logs remember which memory they have announced; when it is freed, every one of them must
//! forget it, and one must say so. The news go around in a ring that every log reads up to its
//! end before it looks at an address: usually there are none, and that is one comparison.
//! Whoever is too late, because the ring has gone round, forgets everything instead; and the
//! record of a release that nobody read in time is not written, which is no loss: the next
//! announcement of the same addresses says as much.

use crate::inside::clock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const RING: usize = 1024;

struct News {
    /// One more than its number, once it is whole.
    number: AtomicU64,
    start: AtomicUsize,
    ticks: AtomicU64,
    /// Some log says so.
    is_written: AtomicBool,
}

static NEWS: [News; RING] = [const {
    News {
        number: AtomicU64::new(0),
        start: AtomicUsize::new(0),
        ticks: AtomicU64::new(0),
        is_written: AtomicBool::new(false),
    }
}; RING];

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A piece of memory that was freed.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// When.
    pub ticks: u64,
    /// Its first address.
    pub start: usize,
}

/// How many pieces were freed so far.
#[inline(always)]
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Memory was freed just now; `write` tries to write it down, and says whether it did.
pub fn publish(start: usize, write: impl FnOnce(Release) -> bool) {
    let release = Release { ticks: clock::ticks(), start };
    let is_written = write(release);
    let number = COUNT.fetch_add(1, Ordering::AcqRel);
    let news = &NEWS[number as usize % RING];
    news.number.store(0, Ordering::Release);
    news.start.store(release.start, Ordering::Relaxed);
    news.ticks.store(release.ticks, Ordering::Relaxed);
    news.is_written.store(is_written, Ordering::Relaxed);
    news.number.store(number + 1, Ordering::Release);
}

/// The news of that number, and whether it falls to the reader to write it down. Nothing if it
/// is not there yet or no longer.
pub fn read(number: u64) -> Option<(Release, bool)> {
    let news = &NEWS[number as usize % RING];
    let is_there = || news.number.load(Ordering::Acquire) == number + 1;
    if !is_there() {
        return None;
    }
    let release = Release {
        ticks: news.ticks.load(Ordering::Relaxed),
        start: news.start.load(Ordering::Relaxed),
    };
    std::sync::atomic::fence(Ordering::Acquire);
    is_there().then(|| (release, !news.is_written.swap(true, Ordering::Relaxed)))
}
