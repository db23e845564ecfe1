//! Notifications that memory which MPI used has been freed.
//!
//! Each log remembers the memory segments that it has announced. When a segment is freed, every log
//! must forget it, and one log must write a release record. Notifications are published in a ring
//! buffer. A log reads the ring up to its end before it looks up an address; usually there is nothing
//! new, which costs one comparison. A log that has fallen behind by more than the ring holds forgets all
//! its segments instead. A release record that no log wrote in time is left out: the next announcement
//! of the same addresses implies the release.

use crate::inside::clock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const RING: usize = 1024;

struct Entry {
    /// One more than the number of the notification, once the entry is complete.
    number: AtomicU64,
    start: AtomicUsize,
    ticks: AtomicU64,
    /// Some log has written the release record.
    is_written: AtomicBool,
}

static ENTRIES: [Entry; RING] = [const {
    Entry {
        number: AtomicU64::new(0),
        start: AtomicUsize::new(0),
        ticks: AtomicU64::new(0),
        is_written: AtomicBool::new(false),
    }
}; RING];

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A memory segment that was freed.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// When.
    pub ticks: u64,
    /// Its first address.
    pub start: usize,
}

/// How many segments were freed so far.
#[inline(always)]
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// The entry of that number.
#[expect(clippy::indexing_slicing, reason = "the index is reduced modulo the length")]
fn entry_of(number: u64) -> &'static Entry {
    &ENTRIES[number as usize % RING]
}

/// Publishes that memory was freed just now. `write` tries to write the release record, and returns
/// whether it did.
pub fn publish(start: usize, write: impl FnOnce(Release) -> bool) {
    let release = Release { ticks: clock::ticks(), start };
    let is_written = write(release);
    let number = COUNT.fetch_add(1, Ordering::AcqRel);
    let entry = entry_of(number);
    entry.number.store(0, Ordering::Release);
    entry.start.store(release.start, Ordering::Relaxed);
    entry.ticks.store(release.ticks, Ordering::Relaxed);
    entry.is_written.store(is_written, Ordering::Relaxed);
    entry.number.store(number + 1, Ordering::Release);
}

/// The notification of that number, and whether the reader has to write its record. None if it is not
/// complete yet, or was overwritten.
pub fn read(number: u64) -> Option<(Release, bool)> {
    let entry = entry_of(number);
    let is_there = || entry.number.load(Ordering::Acquire) == number + 1;
    if !is_there() {
        return None;
    }
    let release = Release {
        ticks: entry.ticks.load(Ordering::Relaxed),
        start: entry.start.load(Ordering::Relaxed),
    };
    std::sync::atomic::fence(Ordering::Acquire);
    is_there().then(|| (release, !entry.is_written.swap(true, Ordering::Relaxed)))
}
