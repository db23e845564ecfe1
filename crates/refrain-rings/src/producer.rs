//! The program's side: appends to the ledger, publishes parts, waits for room.
//!
//! Nothing here allocates, locks or panics. The front end itself writes records at `at`, and calls
//! [`Ring::make_room`] when a record does not fit.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::fence;

use crate::futex;
use crate::layout::*;
use crate::record::Record;

/// The longest sleep before the waiting side checks whether the other side lives.
const PATIENCE: u32 = 100;

/// The compressor has died: recording must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// The program's end of the control page and the ledger.
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    control: *const Control,
}

// SAFETY: all shared fields are atomics; the caller ensures that one thread at a time appends.
unsafe impl Send for Ledger {}
// SAFETY: as above.
unsafe impl Sync for Ledger {}

impl Ledger {
    /// Makes a control page and a ledger of zeroed memory.
    ///
    /// # Safety
    /// `memory` must be page-aligned, zeroed, shared, writable, of [`CONTROL_BYTES`] and
    /// `ledger_bytes` (a power of two in [`LEDGER_RANGE`]), and stay mapped as long as this is used.
    pub unsafe fn create(memory: *mut u8, ledger_bytes: usize, pid: u32, front_end: u32) -> Self {
        let ledger = Self { control: memory.cast() };
        let control = ledger.control();
        control.version.store(VERSION, Relaxed);
        control.pid.store(pid, Relaxed);
        control.front_end.store(front_end, Relaxed);
        control.ledger_bytes.store(ledger_bytes as u32, Relaxed);
        control.magic.store(MAGIC, Release);
        ledger
    }

    /// The control page.
    pub fn control(&self) -> &Control {
        // SAFETY: mapped as long as this is used, and made of atomics.
        unsafe { &*self.control }
    }

    /// Appends a record, when there is room for it. Only one thread may do so at a time.
    pub fn append(&self, record: &Record<'_>) -> Result<(), Gone> {
        let control = self.control();
        let size = control.ledger_bytes.load(Relaxed) as usize;
        let (fixed, length, tails) = record.encode();
        let whole = (length + tails[0].len() + tails[1].len()).next_multiple_of(8);
        if whole > size / 4 {
            return Ok(());
        }
        let written = control.ledger_written.load(Relaxed);
        self.wait_for_room(written + whole as u64, size as u64)?;
        let mut at = written;
        let [first, second] = tails;
        for piece in [fixed.get(..length).unwrap_or_default(), first, second] {
            self.copy(at, piece, size);
            at += piece.len() as u64;
        }
        let filling = (written + whole as u64 - at) as usize;
        self.copy(at, [0; 8].get(..filling).unwrap_or_default(), size);
        control.ledger_written.store(written + whole as u64, Release);
        Ok(())
    }

    fn copy(&self, at: u64, bytes: &[u8], size: usize) {
        let at = at as usize & (size - 1);
        let first = bytes.len().min(size - at);
        // SAFETY: the ledger's bytes follow the control page; both pieces lie inside it, and the
        // consumer does not read them before `ledger_written` says so.
        unsafe {
            let ledger = self.control.cast::<u8>().cast_mut().add(CONTROL_BYTES);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), ledger.add(at), first);
            let rest = bytes.get(first..).unwrap_or_default();
            core::ptr::copy_nonoverlapping(rest.as_ptr(), ledger, rest.len());
        }
    }

    fn wait_for_room(&self, until: u64, size: u64) -> Result<(), Gone> {
        let control = self.control();
        loop {
            if until - control.ledger_read.load(Acquire) <= size {
                return Ok(());
            }
            control.ledger_waits.store(1, SeqCst);
            let room = control.ledger_room.load(SeqCst);
            let is_full = until - control.ledger_read.load(SeqCst) > size;
            self.ring_doorbell();
            if is_full {
                futex::wait(&control.ledger_room, room, PATIENCE);
            }
            control.ledger_waits.store(0, Relaxed);
            self.check()?;
        }
    }

    /// Wakes the compressor if it sleeps.
    pub fn ring_doorbell(&self) {
        fence(SeqCst);
        let control = self.control();
        if control.compressor_sleeps.load(SeqCst) != 0 {
            control.doorbell.fetch_add(1, SeqCst);
            futex::wake(&control.doorbell);
        }
    }

    /// Whether the compressor lives.
    pub fn check(&self) -> Result<(), Gone> {
        let control = self.control();
        match control.state.load(Acquire) {
            GONE => Err(Gone),
            DONE => Ok(()),
            _ if futex::is_gone(control.compressor_pid.load(Relaxed)) => Err(Gone),
            _ => Ok(()),
        }
    }

    /// Announces the end of the program's data, and waits until all of it is written.
    pub fn end(&self) -> Result<(), Gone> {
        let control = self.control();
        control.ended.store(1, SeqCst);
        self.ring_doorbell();
        loop {
            let state = control.state.load(Acquire);
            if state == DONE {
                return Ok(());
            }
            self.check()?;
            futex::wait(&control.state, state, PATIENCE);
        }
    }
}

/// A thread's end of its ring. `last` holds, for each chunk, how many parts were published when the thread left
/// it.
#[derive(Debug)]
pub struct Ring {
    head: *const RingHead,
    chunk: usize,
    last: [u64; MAX_CHUNKS],
}

// SAFETY: all shared fields are atomics; one thread at a time uses a ring.
unsafe impl Send for Ring {}

impl Ring {
    /// Makes a ring of zeroed memory.
    ///
    /// # Safety
    /// `memory` must be aligned to 64 bytes, zeroed, shared, writable, of [`RING_HEAD_BYTES`] and
    /// `chunks` (a power of two from 2 to [`MAX_CHUNKS`]) times `chunk_words` words, and stay mapped
    /// as long as this is used.
    pub unsafe fn create(memory: *mut u8, thread: u32, chunk_words: usize, chunks: usize) -> Self {
        let ring = Self { head: memory.cast(), chunk: 0, last: [0; MAX_CHUNKS] };
        let head = ring.head();
        head.thread.store(thread, Relaxed);
        head.chunk_words.store(chunk_words as u32, Relaxed);
        head.chunks.store(chunks as u32, Relaxed);
        head.words_at.store(memory as u64 + RING_HEAD_BYTES as u64, Relaxed);
        ring.enter(0);
        ring
    }

    /// The ring's head.
    #[inline]
    pub fn head(&self) -> &RingHead {
        // SAFETY: mapped as long as this is used, and made of atomics.
        unsafe { &*self.head }
    }

    fn enter(&self, chunk: usize) {
        let head = self.head();
        let bytes = 8 * u64::from(head.chunk_words.load(Relaxed));
        let start = head.words_at.load(Relaxed) + chunk as u64 * bytes;
        // In this order, neither a signal handler nor a consumer of a dead program ever sees room or words
        // that do not exist.
        head.end.store(0, Release);
        head.at.store(0, Release);
        head.first.store(start, Release);
        head.at.store(start, Release);
        head.end.store(start + bytes, Release);
    }

    /// Appends a record. Front ends with generated code do this themselves.
    pub fn push(&mut self, words: &[u64], ledger: &Ledger) -> Result<(), Gone> {
        let bytes = 8 * words.len() as u64;
        let at = self.head().at.load(Relaxed);
        if self.head().end.load(Relaxed) < at + bytes {
            self.make_room(ledger)?;
        }
        let at = self.head().at.load(Relaxed);
        if self.head().end.load(Relaxed) < at + bytes {
            // Longer than a chunk: front ends do not create such blocks.
            return Ok(());
        }
        // SAFETY: only this thread writes from `at` to `end`.
        unsafe { core::ptr::copy_nonoverlapping(words.as_ptr(), at as *mut u64, words.len()) };
        self.head().at.store(at + bytes, Release);
        Ok(())
    }

    /// Publishes the words written since the last part, if any, when there is room for a part.
    pub fn publish(&mut self, ledger: &Ledger) -> Result<(), Gone> {
        let head = self.head();
        let (first, at) = (head.first.load(Relaxed), head.at.load(Relaxed));
        if at <= first {
            return Ok(());
        }
        let published = head.published.load(Relaxed);
        self.wait_for((published + 1).saturating_sub(PARTS as u64), ledger)?;
        #[expect(clippy::indexing_slicing, reason = "the index is reduced modulo the length")]
        let part = &head.parts[published as usize % PARTS];
        part.start.store((first - head.words_at.load(Relaxed)) / 8, Relaxed);
        part.words.store((at - first) / 8, Relaxed);
        part.ledger.store(ledger.control().ledger_written.load(Acquire), Relaxed);
        head.published.store(published + 1, Release);
        // If the program is killed here, `first` is before the end of the last part, and the consumer skips
        // the words that it has taken already.
        head.first.store(at, Release);
        ledger.ring_doorbell();
        Ok(())
    }

    /// Publishes, and continues in the next chunk when it is free.
    pub fn make_room(&mut self, ledger: &Ledger) -> Result<(), Gone> {
        self.publish(ledger)?;
        let published = self.head().published.load(Relaxed);
        if let Some(last) = self.last.get_mut(self.chunk) {
            *last = published;
        }
        let chunks = self.head().chunks.load(Relaxed) as usize;
        let next = (self.chunk + 1) & (chunks - 1) & (MAX_CHUNKS - 1);
        self.wait_for(self.last.get(next).copied().unwrap_or(0), ledger)?;
        self.chunk = next;
        self.enter(next);
        Ok(())
    }

    /// Whether all published parts are consumed.
    pub fn is_drained(&self) -> bool {
        self.head().consumed.load(Acquire) == self.head().published.load(Relaxed)
    }

    /// Waits until `consumed` parts are consumed.
    fn wait_for(&self, consumed: u64, ledger: &Ledger) -> Result<(), Gone> {
        let head = self.head();
        loop {
            if head.consumed.load(Acquire) >= consumed {
                return Ok(());
            }
            head.waits.store(1, SeqCst);
            let room = head.room.load(SeqCst);
            let is_full = head.consumed.load(SeqCst) < consumed;
            ledger.ring_doorbell();
            if is_full {
                futex::wait(&head.room, room, PATIENCE);
            }
            head.waits.store(0, Relaxed);
            ledger.check()?;
        }
    }
}
