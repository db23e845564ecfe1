//! Compression inside the program: encodes records in pieces, after every few calls.
//!
//! The thread that has written a few kilobytes takes the lock if it is free, and encodes some of what
//! *all* threads have written, in order of time, so that a handle is known before it is used, whichever
//! thread created it. A piece ends after a few microseconds. A thread whose window is full encodes the
//! rest of it at once.
//!
//! Records stay in the log until their encoding is on disk: from time to time the encoder's state
//! is written to a file, and the log restarts after it ([`refrain_format::state`]). So a killed
//! process leaves a state and the records since. The state is written in pieces, too. Meanwhile the encoder
//! must not change, and records wait in the window: so a state begins when the window is empty, and its
//! pieces come so often that half the window is enough for it.
//!
//! If something fails (no memory, no disk space, a defect, a signal handler that jumps out of this
//! code), encoding ends, and the log continues as records, which are encoded after the program has
//! ended.

use crate::inside::clock;
use crate::inside::library::abi;
use crate::inside::locked::Locked;
use crate::inside::process::Errno;
use crate::inside::reserve::has_memory;
use crate::inside::stalls::{self, Cause};
use crate::table;
use crate::trace::part::{self, Part};
use crate::trace::state_file::{Paths, StateFile};
use crate::trace::thread_log::Window;
use refrain_encode::encoder::{Batch, Encoder};
use refrain_encode::times::Setting;
use refrain_format::part::WINDOW_BYTES;
use refrain_signature::tasktrace::TaskTrace;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of bytes of records after which the state is written.
const STATE_EVERY: u64 = 4 << 20;

/// The state is written when the log is this many times as large as the encoder's memory: the time
/// to write it is proportional to that.
const STATE_FACTOR: u64 = 8;

/// Bytes of records after which a piece of work is due.
pub const PACE: usize = 4 << 10;

/// A record of a call has about so many bytes: a piece cannot be due more often.
const LEAST_PACE: u64 = 128;

/// Number of encoded bytes after which the encoder's memory is checked.
const CHECK_EVERY: u64 = 64 << 10;

/// A piece of encoding ends after so many ticks, 5 to 10 µs, ...
const PIECE_TICKS: u64 = 15_000;

/// ... which are counted after so many records.
const RECORDS_PER_LOOK: u32 = 8;

/// A piece is due at least after so many bytes of records while a state is being written.
const STATE_PACE: usize = 1 << 10;

/// The room in a window in which a state should be written.
const STATE_ROOM: usize = WINDOW_BYTES / 2;

/// A state grows by at least so many bytes in a piece, on average. Larger pieces are due if not enough of them fit.
const STATE_GROWTH: u64 = 2 << 10;
const MOST_LARGER: u64 = 16;

/// A thread that has fallen behind encodes so many times as fast as it writes, if it can.
const CATCH_UP: usize = 2;

/// Sealed data is written to its file when it exceeds this size, a chunk at a time.
const SEALED_HELD: usize = 16 << 10;

/// Encoding ends when the encoder's memory exceeds this limit: millions of calls were all
/// different.
const MAX_MEMORY: usize = 256 << 20;

/// Memory that must be available in addition to what the encoder uses.
const SPARE: usize = 16 << 20;

/// How the times of every call are recorded (`REFRAIN_TIMING`), if they are.
static TIMING: OnceLock<Setting> = OnceLock::new();

/// Encoding has ended in this process.
static ENDED: AtomicBool = AtomicBool::new(false);

static SHARED: Locked<Shared> =
    Locked::new(Shared { compressor: None, windows: Vec::new(), paths: None });

/// A thread encodes for milliseconds, and writes a large state in less than a second. A longer wait
/// means that `siglongjmp` abandoned the lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// What threads share.
struct Shared {
    compressor: Option<Compressor>,
    /// The windows of open logs.
    windows: Vec<Window>,
    /// The files for the state and for sealed data; known when a log is open.
    paths: Option<[CString; 2]>,
}

/// The encoder of this process.
struct Compressor {
    encoder: Encoder,
    /// By thread: the position up to which its log is encoded.
    encoded: Vec<u64>,
    /// The same in the last state on disk.
    saved: Vec<u64>,
    /// Bytes encoded since that state.
    since: u64,
    /// The encoder's memory when it was last asked for, and the value of `since` at which it is asked
    /// again.
    memory: usize,
    next_check: u64,
    /// Sealed data is to be spilled.
    has_sealed: bool,
    /// The state that is being written.
    state: Option<StateFile>,
    /// The length of the last one, or a guess.
    state_length: u64,
    paths: Paths,
    /// The file of sealed data, and its length.
    sealed: (CString, u64),
}

impl Compressor {
    fn new([state, sealed]: [CString; 2]) -> Option<Compressor> {
        Some(Compressor {
            encoder: new_encoder(),
            encoded: Vec::new(),
            saved: Vec::new(),
            since: 0,
            memory: 0,
            next_check: 0,
            has_sealed: false,
            state: None,
            state_length: 0,
            paths: Paths::new(state)?,
            sealed: (sealed, 0),
        })
    }

    /// Encodes the records of these slices that are not encoded yet, up to the first that `is_enough`
    /// accepts by its time.
    fn encode(&mut self, slices: &[LogSlice<'_>], is_enough: impl FnMut(u64) -> bool) -> bool {
        if self.since >= self.next_check && !self.check_memory() {
            return false;
        }
        let mut batches = Vec::with_capacity(slices.len());
        for slice in slices {
            let thread = slice.thread as usize;
            if self.encoded.len() <= thread {
                self.encoded.resize(thread + 1, 0);
                self.saved.resize(thread + 1, 0);
            }
            let Some(from) = self.encoded.get(thread) else { return false };
            // The encoded part is always a prefix of what is written.
            let Some(skip) = from.checked_sub(slice.position) else { return false };
            let Some(records) = slice.records.get(skip as usize..) else { return false };
            batches.push(Batch { thread: slice.thread, records });
        }
        let succeeded = self.encoder.feed_until(&mut batches, is_enough).is_empty();
        for (slice, rest) in slices.iter().zip(&batches) {
            let Some(encoded) = self.encoded.get_mut(slice.thread as usize) else { return false };
            let end = slice.position + (slice.records.len() - rest.records.len()) as u64;
            self.since += end - *encoded;
            *encoded = end;
        }
        succeeded
    }

    /// Checks from time to time that there is memory for the encoder, and frees some.
    fn check_memory(&mut self) -> bool {
        self.memory = self.encoder.memory();
        self.next_check = self.since + CHECK_EVERY;
        self.has_sealed = self.encoder.sealed_memory() > SEALED_HELD;
        has_memory(self.memory + SPARE)
    }

    /// Spills at most so many pieces of sealed data to a file. If the disk is full, they stay in memory.
    fn spill(&mut self, most: usize) {
        let (path, length) = &mut self.sealed;
        let mut left = most;
        let mut has_room = true;
        let is_all = self.encoder.spill(&mut |bytes| {
            left = left.checked_sub(1)?;
            let at = *length;
            has_room = part::write_at(path, bytes, at).is_ok();
            *length += if has_room { bytes.len() as u64 } else { 0 };
            has_room.then_some(at)
        });
        self.has_sealed = !is_all && has_room;
    }

    /// Loads spilled data, to make a trace.
    fn load(&mut self) -> bool {
        let path = &self.sealed.0;
        self.encoder.load(&mut |at, length| part::read_at(path, at, length))
    }

    fn saved(&self, thread: usize) -> u64 {
        self.saved.get(thread).copied().unwrap_or(0)
    }

    fn is_state_due(&self) -> bool {
        self.since >= STATE_EVERY && self.since >= STATE_FACTOR.saturating_mul(self.memory as u64)
    }

    /// Whether the encoder uses more memory than a program can spare.
    fn is_too_large(&self) -> bool {
        self.memory > MAX_MEMORY
    }

    /// Begins to write a state if enough was encoded since the last one. If encoding is about to end, writes it
    /// as a whole.
    fn save_if_due(&mut self) {
        if self.is_too_large() {
            self.save();
        } else if self.is_state_due() && !self.encoder.is_sealing() {
            self.state_length = self.state_length.max(self.memory as u64 / 4);
            self.state = Some(StateFile::begin(&self.encoded));
        }
    }

    /// Writes pieces of the state in progress until `is_over`, which is asked after every piece and within.
    /// Returns whether it is still in progress.
    fn save_some(&mut self, mut is_over: impl FnMut() -> bool) -> bool {
        while let Some(state) = &mut self.state {
            stalls::note(Cause::State);
            let written = state.write_some(&self.paths, &self.encoder, &mut is_over);
            if written == Ok(false) {
                if is_over() {
                    return true;
                }
                continue;
            }
            if written.is_ok() {
                self.saved.clone_from(&state.covered);
                self.state_length = state.length();
            } else {
                self.paths.remove_new();
            }
            self.state = None;
            // Also if it failed: a second attempt at once would cost the same again.
            (self.since, self.next_check) = (0, 0);
        }
        false
    }

    /// Completes the state in progress.
    fn complete_state(&mut self) {
        self.save_some(|| false);
    }

    /// How many pieces of the state in progress are left to write.
    fn pieces_left(&self) -> u64 {
        let written = self.state.as_ref().map_or(0, StateFile::length);
        self.state_length.saturating_sub(written) / STATE_GROWTH + 8
    }

    /// Writes the state as a whole.
    fn save(&mut self) -> bool {
        self.spill(usize::MAX);
        self.state = Some(StateFile::begin(&self.encoded));
        self.complete_state();
        self.saved == self.encoded
    }
}

/// An encoder with the user's settings.
fn new_encoder() -> Encoder {
    let mut encoder = Encoder::new(abi().family);
    if let Some(setting) = TIMING.get() {
        encoder.keep_times(setting.clone());
    }
    encoder
}

/// Reads `REFRAIN_TIMING`, when the library is loaded.
pub fn prepare() {
    // SAFETY: getenv returns null or a NUL-terminated string, read at once.
    let text = unsafe {
        let text = libc::getenv(c"REFRAIN_TIMING".as_ptr());
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy())
    };
    if let Some(setting) = text.and_then(|text| Setting::from_text(&text)) {
        let _ = TIMING.set(setting);
    }
}

/// Whether the times of every call are recorded.
pub fn keeps_times() -> bool {
    TIMING.get().is_some()
}

/// A range of a thread's log.
pub struct LogSlice<'a> {
    /// The thread's number.
    pub thread: u32,
    /// The position of the first byte.
    pub position: u64,
    /// Complete records.
    pub records: &'a [u8],
}

/// The result of a piece of work.
pub struct Progress {
    /// After so many bytes of records the next piece is due.
    pub pace: usize,
    /// The position up to which a state on disk covers it.
    pub saved: u64,
}

/// Encodes a piece of what `own`, the window of the log `part`, and the windows of other threads have.
/// Does nothing if another thread is encoding.
pub fn encode_some(own: &LogSlice<'_>, part: &Part) -> Progress {
    let thread = own.thread as usize;
    let mut progress = Progress { pace: PACE, saved: 0 };
    if ENDED.load(Ordering::Relaxed) {
        return progress;
    }
    let mut work = |shared: &mut Shared| {
        let (compressor, windows) = shared.begin()?;
        let start = clock::ticks();
        let took = || clock::ticks().wrapping_sub(start);
        let written = own.records.len();
        if compressor.state.is_some() {
            let room = STATE_ROOM.saturating_sub(written) as u64;
            let pieces = compressor.pieces_left();
            // If a piece for every call is not enough, they are larger.
            let larger = (pieces * LEAST_PACE / room.max(1)).clamp(1, MOST_LARGER);
            compressor.save_some(|| took() > PIECE_TICKS * larger);
            progress.pace = ((room / pieces) as usize).min(STATE_PACE);
        } else if compressor.has_sealed {
            compressor.spill(1);
            progress.pace = STATE_PACE;
        } else {
            let before = compressor.since;
            let mut records = 0;
            let is_over = |time| {
                records += 1;
                // A later record of another thread may depend on one that its window had not shown.
                time > start || (records % RECORDS_PER_LOOK == 0 && took() > PIECE_TICKS)
            };
            match windows {
                [_] => compressor.encode(std::slice::from_ref(own), is_over),
                _ => {
                    let mut all = unencoded(windows, compressor, part.window());
                    all.push(LogSlice { ..*own });
                    compressor.encode(&all, is_over)
                }
            }
            .then_some(())?;
            let encoded = compressor.encoded.get(thread).copied()?;
            let behind = (own.position + written as u64).saturating_sub(encoded) as usize;
            progress.pace = PACE;
            if behind > 0 {
                progress.pace = ((compressor.since - before) as usize / CATCH_UP).min(PACE);
            }
            if compressor.is_too_large() {
                compressor.save();
            }
        }
        progress.saved = compressor.saved(thread);
        shared.end_if_too_large();
        Some(())
    };
    let done = SHARED.with_now(|shared| guarded(|| work(shared)));
    match done {
        Ok(Some(())) => {}
        // Another thread is encoding, and continues with these records.
        Err(false) => {}
        Ok(None) | Err(true) => ENDED.store(true, Ordering::Relaxed),
    }
    progress
}

/// Encodes all of `own`, which belongs to the log `part`, and what the windows of other threads had
/// when this began. Returns the position up to which a state on disk covers the thread's log.
pub fn encode(own: LogSlice<'_>, part: &Part) -> u64 {
    let thread = own.thread as usize;
    locked(|shared| {
        let (compressor, windows) = shared.begin()?;
        compressor.complete_state();
        let now = clock::ticks();
        let mut all = unencoded(windows, compressor, part.window());
        all.push(LogSlice { ..own });
        compressor.encode(&all, |time| time > now).then_some(())?;
        // Counters of two cores may differ: a record of this thread may seem to be later than now.
        compressor.encode(&[own], |_| false).then_some(())?;
        compressor.save_if_due();
        let saved = compressor.saved(thread);
        shared.end_if_too_large();
        Some(saved)
    })
}

/// Writes the state; returns the position up to which it covers the thread's log.
pub fn save(thread: u32) -> u64 {
    locked(|shared| {
        let compressor = shared.compressor.as_mut()?;
        compressor.save();
        Some(compressor.saved(thread as usize))
    })
}

/// Before `MPI_Finalize`: encodes all of `own`, which belongs to the log `part`, and what other threads have written,
/// and writes the state if it has less to read than the records since the last one: encoding all ranks' records again
/// after the program would take seconds. Returns the position up to which a state covers the thread's log.
pub fn settle(own: &LogSlice<'_>, part: &Part) -> u64 {
    let thread = own.thread as usize;
    locked(|shared| {
        let (compressor, windows) = shared.begin()?;
        compressor.complete_state();
        let mut all = unencoded(windows, compressor, part.window());
        all.push(LogSlice { ..*own });
        compressor.encode(&all, |_| false).then_some(())?;
        compressor.memory = compressor.encoder.memory();
        if compressor.since >= compressor.memory as u64 {
            compressor.save();
        }
        Some(compressor.saved(thread))
    })
}

/// Encodes everything that was written so far, as if the open call of `MPI_Finalize` had returned
/// already, and returns the tasks. Encoding ends. The state before that assumption is on disk: with
/// it and the logs, later calls can be added.
pub fn finish() -> Option<Vec<(u32, TaskTrace)>> {
    let mut tasks = None;
    locked(|shared| {
        let (compressor, windows) = shared.begin()?;
        compressor.complete_state();
        let all: Vec<LogSlice<'_>> = unencoded(windows, compressor, std::ptr::null());
        compressor.encode(&all, |_| false).then_some(())?;
        compressor.save().then_some(())?;
        compressor.paths.remove_new();
        compressor.load().then_some(())?;
        compressor.encoder.assume_returned(table::MPI_Finalize as u16, clock::ticks());
        compressor.encoder.finish();
        let task = |thread| Some((thread, compressor.encoder.task_trace(thread)?));
        tasks = Some((0..compressor.encoder.threads()).filter_map(task).collect());
        // Ends the encoding.
        None
    });
    tasks
}

impl Shared {
    /// The encoder, which is created when it is first needed, and the windows of open logs.
    fn begin(&mut self) -> Option<(&mut Compressor, &[Window])> {
        if self.compressor.is_none() {
            self.compressor = Some(Compressor::new(self.paths.clone()?)?);
        }
        Some((self.compressor.as_mut()?, &self.windows))
    }

    /// Ends the encoding if the program needs the memory: from here on there are only records.
    fn end_if_too_large(&mut self) {
        if self.compressor.as_ref().is_some_and(Compressor::is_too_large) {
            ENDED.store(true, Ordering::Relaxed);
            self.compressor = None;
        }
    }
}

/// The records in these windows that are not encoded yet, except in the window `without`.
fn unencoded<'a>(
    windows: &[Window],
    compressor: &Compressor,
    without: *const u8,
) -> Vec<LogSlice<'a>> {
    let mut all = Vec::with_capacity(windows.len() + 1);
    for window in windows.iter().filter(|window| !window.is_at(without)) {
        let encoded = compressor.encoded.get(window.thread as usize).copied().unwrap_or(0);
        // SAFETY: a log is removed from the list before it is closed, which needs the lock.
        // Restarting a window whose records are not encoded needs the lock, too.
        all.extend(unsafe { window.written_since(encoded) });
    }
    all
}

/// Adds a new log, whose records are to be encoded.
pub fn add(part: &Part) {
    locked(|shared| {
        if shared.paths.is_none() {
            shared.paths = Some([part.state_path()?, part.sealed_path()?]);
        }
        shared.windows.push(Window::of(part));
        Some(0)
    });
}

/// Removes the log with that window, which is about to be closed. Records that are not encoded yet
/// are encoded after the program has ended.
pub fn remove(window: *const u8) {
    SHARED.with(PATIENCE, |shared| shared.windows.retain(|other| !other.is_at(window)));
}

/// Calls `work` with the encoder. A failure ends the encoding, and returns 0.
fn locked(work: impl FnOnce(&mut Shared) -> Option<u64>) -> u64 {
    if ENDED.load(Ordering::Relaxed) {
        return 0;
    }
    let done = SHARED.with(PATIENCE, |shared| guarded(|| work(shared)));
    // `None` can mean that a handler jumped out of this code: the encoder may be inconsistent.
    done.flatten().unwrap_or_else(|| {
        ENDED.store(true, Ordering::Relaxed);
        0
    })
}

/// Calls `work`, which may panic and change `errno`.
fn guarded<R>(work: impl FnOnce() -> Option<R>) -> Option<R> {
    let _errno = Errno::keep();
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok().flatten()
}

/// In a forked child: starts with a new encoder. If a thread of the parent was encoding, encoding
/// ends.
pub fn forget_after_fork() {
    if SHARED.is_held_in_child() {
        ENDED.store(true, Ordering::Relaxed);
    }
    SHARED.renew_in_child(Shared { compressor: None, windows: Vec::new(), paths: None });
}
