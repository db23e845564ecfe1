//! The compressor's side: reads the ledger, takes parts, sleeps when there is nothing to do.
//!
//! The program's data are not trusted: every offset and length is checked against the mapped size, and words
//! are copied before they are used.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::futex;
use crate::layout::*;
use crate::record::{HEAD, Record};

/// The memory that a program shares.
#[derive(Clone, Debug)]
pub enum SharedMemory {
    /// A memfd, mapped piece by piece.
    File(Arc<File>),
    /// A System V segment, attached as a whole.
    Segment(Arc<Segment>),
}

/// An attached System V segment.
#[derive(Debug)]
pub struct Segment {
    memory: *mut u8,
    bytes: usize,
}

// SAFETY: shared memory that is accessed by atomics and checked copies only.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl SharedMemory {
    /// Attaches a System V segment. A program removes its segment as soon as it has attached it itself; Linux
    /// keeps the segment and its identifier as long as a process has it attached.
    pub fn attach(segment: i32) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses; the kernel fills in the
        // description of the segment.
        unsafe {
            let memory = libc::shmat(segment, std::ptr::null(), 0);
            if memory as isize == -1 {
                return Err(io::Error::last_os_error());
            }
            let mut description: libc::shmid_ds = std::mem::zeroed();
            let got = libc::shmctl(segment, libc::IPC_STAT, &mut description);
            let bytes = if got == 0 { description.shm_segsz } else { 0 };
            Ok(Self::Segment(Arc::new(Segment { memory: memory.cast(), bytes })))
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: attached in `attach`, and nothing refers to it any more.
        unsafe { libc::shmdt(self.memory.cast()) };
    }
}

/// A piece of the shared memory.
#[derive(Debug)]
struct Mapped {
    memory: *mut u8,
    bytes: usize,
    /// The segment that it is a piece of; none for a mapping of its own.
    segment: Option<Arc<Segment>>,
}

// SAFETY: shared memory that is accessed by atomics and checked copies only.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn new(shared: &SharedMemory, offset: u64, bytes: usize) -> io::Result<Self> {
        let wrong = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "an offset lies outside of the shared memory",
            )
        };
        let length = match shared {
            SharedMemory::File(file) => file.metadata()?.len(),
            SharedMemory::Segment(segment) => segment.bytes as u64,
        };
        let end = offset.checked_add(bytes as u64).ok_or_else(wrong)?;
        if end > length || !offset.is_multiple_of(4096) {
            return Err(wrong());
        }
        let file = match shared {
            SharedMemory::File(file) => file,
            SharedMemory::Segment(segment) => {
                // SAFETY: the piece lies within the segment.
                let memory = unsafe { segment.memory.add(offset as usize) };
                return Ok(Self { memory, bytes, segment: Some(segment.clone()) });
            }
        };
        // SAFETY: a new mapping of a file that is long enough.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        match memory {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            memory => Ok(Self { memory: memory.cast(), bytes, segment: None }),
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.segment.is_none() {
            // SAFETY: mapped in `new`, and nothing refers to it any more.
            unsafe { libc::munmap(self.memory.cast(), self.bytes) };
        }
    }
}

/// The control page and the ledger of a program.
#[derive(Debug)]
pub struct Program {
    mapped: Mapped,
    shared: SharedMemory,
    ledger_bytes: usize,
    record: Vec<u8>,
}

impl Program {
    /// Opens what a program shares.
    pub fn open(shared: SharedMemory) -> io::Result<Self> {
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let page = Mapped::new(&shared, 0, CONTROL_BYTES)?;
        // SAFETY: a whole page is mapped.
        let control = unsafe { &*page.memory.cast::<Control>() };
        if control.magic.load(Acquire) != MAGIC {
            return Err(wrong("not a control page"));
        }
        if control.version.load(Relaxed) != VERSION {
            return Err(wrong("the front end belongs to another version of Refrain"));
        }
        let ledger_bytes = control.ledger_bytes.load(Relaxed) as usize;
        if !ledger_bytes.is_power_of_two() || !LEDGER_RANGE.contains(&ledger_bytes) {
            return Err(wrong("the ledger has an invalid size"));
        }
        let mapped = Mapped::new(&shared, 0, CONTROL_BYTES + ledger_bytes)?;
        Ok(Self { mapped, shared, ledger_bytes, record: Vec::new() })
    }

    /// The control page.
    pub fn control(&self) -> &Control {
        // SAFETY: a whole page is mapped as long as this lives.
        unsafe { &*self.mapped.memory.cast::<Control>() }
    }

    /// Publishes the compressor's state.
    pub fn set_state(&self, state: u32) {
        self.control().state.store(state, SeqCst);
        futex::wake(&self.control().state);
    }

    /// How long the ledger is.
    pub fn written(&self) -> u64 {
        self.control().ledger_written.load(Acquire)
    }

    /// How much of the ledger was read.
    pub fn read(&self) -> u64 {
        self.control().ledger_read.load(Relaxed)
    }

    /// The next record before `until`, and its length for [`Program::advance`].
    pub fn peek(&mut self, until: u64) -> io::Result<Option<(Record<'_>, u64)>> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the ledger is damaged");
        let (read, written) = (self.read(), self.written());
        if read >= until.min(written) {
            return Ok(None);
        }
        if written - read > self.ledger_bytes as u64 {
            return Err(wrong());
        }
        self.fetch(read, HEAD);
        let length = Record::length(&self.record).ok_or_else(wrong)?;
        if length as u64 > written - read {
            return Err(wrong());
        }
        self.fetch(read, length);
        let record = Record::decode(&self.record).ok_or_else(wrong)?;
        Ok(Some((record, length as u64)))
    }

    fn fetch(&mut self, at: u64, length: usize) {
        let at = at as usize & (self.ledger_bytes - 1);
        let first = length.min(self.ledger_bytes - at);
        self.record.resize(length, 0);
        // SAFETY: both pieces lie in the ledger. A correct program does not write there at this time; an
        // incorrect one can only make the bytes wrong.
        unsafe {
            let ledger = self.mapped.memory.add(CONTROL_BYTES);
            std::ptr::copy_nonoverlapping(ledger.add(at), self.record.as_mut_ptr(), first);
            let rest = self.record.as_mut_ptr().add(first);
            std::ptr::copy_nonoverlapping(ledger, rest, length - first);
        }
    }

    /// Frees the bytes of a record that was processed.
    pub fn advance(&self, bytes: u64) {
        let control = self.control();
        let read = control.ledger_read.load(Relaxed) + bytes;
        control.ledger_read.store(read, Release);
        control.ledger_room.store(read as u32, SeqCst);
        if control.ledger_waits.load(SeqCst) != 0 {
            futex::wake(&control.ledger_room);
        }
    }

    /// Opens the ring of a thread.
    pub fn ring(&self, offset: u64, bytes: u64) -> io::Result<Ring> {
        Ring::open(&self.shared, offset, bytes)
    }

    /// Sleeps until the program has written something, but at most `milliseconds`. `is_idle` checks once
    /// more, after the program can see that the compressor sleeps.
    pub fn sleep(&self, milliseconds: u32, is_idle: impl FnOnce() -> bool) {
        let control = self.control();
        let doorbell = control.doorbell.load(SeqCst);
        control.compressor_sleeps.store(1, SeqCst);
        if is_idle() {
            futex::wait(&control.doorbell, doorbell, milliseconds);
        }
        control.compressor_sleeps.store(0, SeqCst);
    }
}

/// The compressor's end of a thread's ring.
#[derive(Debug)]
pub struct Ring {
    mapped: Mapped,
    words: usize,
    /// Parts taken.
    taken: u64,
    /// The end of the last part: index of a word.
    end: u64,
}

impl Ring {
    fn open(shared: &SharedMemory, offset: u64, bytes: u64) -> io::Result<Self> {
        const MAX_BYTES: u64 = 1 << 32;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "a ring is damaged");
        if bytes < RING_HEAD_BYTES as u64 || bytes > MAX_BYTES {
            return Err(wrong());
        }
        let mapped = Mapped::new(shared, offset, bytes as usize)?;
        let words = (bytes as usize - RING_HEAD_BYTES) / 8;
        Ok(Self { mapped, words, taken: 0, end: 0 })
    }

    /// The ring's head.
    pub fn head(&self) -> &RingHead {
        // SAFETY: the head is mapped as long as this lives.
        unsafe { &*self.mapped.memory.cast::<RingHead>() }
    }

    /// Parts that are published and not taken.
    pub fn waiting(&self) -> u64 {
        self.head().published.load(Acquire).saturating_sub(self.taken).min(PARTS as u64)
    }

    /// The position up to which the ledger must be read before the n-th waiting part can be used.
    pub fn ledger_of(&self, nth: u64) -> u64 {
        self.part(self.taken + nth).ledger.load(Relaxed)
    }

    #[expect(clippy::indexing_slicing, reason = "the index is reduced modulo the length")]
    fn part(&self, number: u64) -> &Part {
        &self.head().parts[number as usize % PARTS]
    }

    /// Takes the first waiting part: appends its words, and frees its memory in the ring.
    pub fn take(&mut self, out: &mut Vec<u64>) -> io::Result<()> {
        let part = self.part(self.taken);
        let (start, words) = (part.start.load(Relaxed), part.words.load(Relaxed));
        self.copy(start, words, out)?;
        self.end = start + words;
        self.taken += 1;
        let head = self.head();
        head.consumed.store(self.taken, Release);
        head.room.store(self.taken as u32, SeqCst);
        if head.waits.load(SeqCst) != 0 {
            futex::wake(&head.room);
        }
        Ok(())
    }

    fn copy(&self, start: u64, words: u64, out: &mut Vec<u64>) -> io::Result<()> {
        let end = start.checked_add(words).filter(|end| *end <= self.words as u64);
        if end.is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a part is damaged"));
        }
        out.reserve(words as usize);
        // SAFETY: the words lie in the ring, and `out` has room for them. A correct program does not write
        // there any more.
        unsafe {
            let from = self.mapped.memory.add(RING_HEAD_BYTES).cast::<u64>().add(start as usize);
            let to = out.as_mut_ptr().add(out.len());
            std::ptr::copy_nonoverlapping(from, to, words as usize);
            out.set_len(out.len() + words as usize);
        }
        Ok(())
    }

    /// The words that an ended thread has written since its last part. All parts must have been taken. Returns
    /// whether the words end with a 0 word: front ends that keep their position in a register leave `at` 0,
    /// and mark the end of their words by a 0. The record before that mark may be incomplete.
    pub fn take_rest(&mut self, out: &mut Vec<u64>) -> io::Result<bool> {
        let head = self.head();
        let base = head.words_at.load(Relaxed);
        let index = |address: u64| address.checked_sub(base).map(|bytes| bytes / 8);
        let (at, first) = (head.at.load(Acquire), head.first.load(Acquire));
        let ends_itself = at == 0;
        let at = if ends_itself { head.end.load(Acquire) } else { at };
        let (Some(at), Some(mut first)) = (index(at), index(first)) else {
            return Ok(ends_itself);
        };
        // The program was killed between publishing a part and advancing `first`.
        if self.taken > 0 && first < self.end && self.end <= at {
            first = self.end;
        }
        if first < at {
            self.copy(first, at - first, out)?;
        }
        Ok(ends_itself)
    }
}
