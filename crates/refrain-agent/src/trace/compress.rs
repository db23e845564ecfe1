//! Compression in the process: whenever a window is full, its records are encoded.
//!
//! Threads write records; nothing on their way encodes. The thread whose window is full takes the
//! lock, and encodes what *all* threads have written by now, in order of time, so that handles
//! are known by the time they are used, whichever thread made them. To do so in batches keeps the
//! encoder's code and tables out of the way between calls, and costs each call a fraction of what
//! encoding it at once would.
//!
//! Records stay in the log until what was made of them is on disk: from time to time the
//! encoder's state is written to a file of its own, and the log begins anew behind it
//! ([`refrain_format::state`]). So a process that is killed leaves a state and the records since.
//!
//! When something goes wrong (no memory, no room, a defect, a handler of the program that jumps away
//! from here), encoding ends where it is, and the
//! log goes on as records, which are encoded when the program has ended.

use crate::inside::clock;
use crate::inside::locked::Locked;
use crate::inside::process::{Errno, abi};
use crate::inside::reserve::has_memory;
use crate::table;
use crate::trace::part::{self, Part};
use crate::trace::stream::Window;
use refrain_encode::encoder::{Batch, Encoder};
use refrain_encode::times::Setting;
use refrain_format::state;
use refrain_signature::cells::{put_list, put_unsigned};
use refrain_signature::tasktrace::TaskTrace;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of records after which the state is written.
const STATE_EVERY: u64 = 4 << 20;

/// The state is written when the log is this many times what the encoder holds: to write it takes
/// time in proportion to that.
const STATE_FACTOR: u64 = 8;

/// What is sealed is put away when it is more than this.
const SEALED_HELD: usize = 1 << 20;

/// An encoder that holds more than this ends: millions of calls were all different.
const MOST_MEMORY: usize = 256 << 20;

/// Memory that must be there besides what the encoder holds already.
const SPARE: usize = 16 << 20;

/// How the times of every call are kept (`REFRAIN_TIMING`), if they are.
static TIMING: OnceLock<Setting> = OnceLock::new();

/// Nothing is encoded any more in this process.
static ENDED: AtomicBool = AtomicBool::new(false);

static SHARED: Locked<Shared> =
    Locked::new(Shared { compressor: None, windows: Vec::new(), paths: None });

/// A thread encodes for milliseconds, and writes a large state in less than a second; who waits
/// longer waits for one that was jumped out of.
const PATIENCE: Duration = Duration::from_secs(10);

/// What threads share.
struct Shared {
    compressor: Option<Compressor>,
    /// The windows of open logs.
    windows: Vec<Window>,
    /// Where the state goes, and what is sealed; known when a log is open.
    paths: Option<[CString; 2]>,
}

/// The encoder of this process.
struct Compressor {
    encoder: Encoder,
    /// By thread, up to which position its log is encoded.
    encoded: Vec<u64>,
    /// The same as of the last state on disk.
    saved: Vec<u64>,
    /// Bytes encoded since then.
    since: u64,
    path: CString,
    /// The file of what is sealed, and how long it is.
    sealed: (CString, u64),
}

impl Compressor {
    fn new([path, sealed]: [CString; 2]) -> Compressor {
        Compressor {
            encoder: new_encoder(),
            encoded: Vec::new(),
            saved: Vec::new(),
            since: 0,
            path,
            sealed: (sealed, 0),
        }
    }

    /// Encodes what the streams have written and was not encoded yet.
    fn encode(&mut self, streams: &[Written<'_>]) -> bool {
        if !has_memory(self.encoder.memory() + SPARE) {
            return false;
        }
        let mut batches = Vec::with_capacity(streams.len());
        for written in streams {
            let thread = written.thread as usize;
            if self.encoded.len() <= thread {
                self.encoded.resize(thread + 1, 0);
                self.saved.resize(thread + 1, 0);
            }
            let Some(encoded) = self.encoded.get_mut(thread) else { return false };
            let from = *encoded;
            // What was encoded is always a beginning of what is written.
            let Some(skip) = from.checked_sub(written.position) else { return false };
            let Some(records) = written.records.get(skip as usize..) else { return false };
            *encoded = from + records.len() as u64;
            self.since += records.len() as u64;
            batches.push(Batch { thread: written.thread, records });
        }
        let is_well = self.encoder.feed(&batches).is_empty();
        if self.encoder.sealed_memory() > SEALED_HELD {
            self.put_away();
        }
        is_well
    }

    /// Puts away what is sealed. Where there is no room for it, it stays in memory.
    fn put_away(&mut self) {
        let (path, length) = &mut self.sealed;
        self.encoder.put_away(&mut |bytes| {
            let at = *length;
            part::write_at(path, bytes, at).ok()?;
            *length += bytes.len() as u64;
            Some(at)
        });
    }

    /// Brings it back, to make a trace.
    fn bring_back(&mut self) -> bool {
        let path = &self.sealed.0;
        self.encoder.bring_back(&mut |at, length| part::read_at(path, at, length))
    }

    fn saved(&self, thread: usize) -> u64 {
        self.saved.get(thread).copied().unwrap_or(0)
    }

    fn is_state_due(&self) -> bool {
        self.since >= STATE_EVERY
            && self.since >= STATE_FACTOR.saturating_mul(self.encoder.memory() as u64)
    }

    /// Whether the encoder holds more than a program can be asked for.
    fn is_too_large(&self) -> bool {
        self.encoder.memory() > MOST_MEMORY
    }

    /// Writes the state.
    fn save(&mut self) -> bool {
        self.encoder.seal_times();
        self.put_away();
        let mut bytes = vec![0; state::HEAD];
        put_list(&mut bytes, self.encoded.iter().enumerate(), |out, (thread, position)| {
            put_unsigned(out, thread as u64);
            put_unsigned(out, *position);
        });
        self.encoder.save(&mut bytes);
        state::seal(&mut bytes);
        // Also if it fails: to try again at once would cost the same again.
        self.since = 0;
        let done = part::put_in_place(&self.path, &bytes).is_ok();
        if done {
            self.saved.clone_from(&self.encoded);
        }
        done
    }
}

/// An encoder that keeps what the user wants.
fn new_encoder() -> Encoder {
    let mut encoder = Encoder::new(abi().family);
    if let Some(setting) = TIMING.get() {
        encoder.keep_times(setting.clone());
    }
    encoder
}

/// Reads how the user wants times to be kept, when the library is loaded.
pub fn prepare() {
    // SAFETY: getenv gives null or a NUL-terminated string, read at once.
    let text = unsafe {
        let text = libc::getenv(c"REFRAIN_TIMING".as_ptr());
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy())
    };
    if let Some(setting) = text.and_then(|text| Setting::from_text(&text)) {
        let _ = TIMING.set(setting);
    }
}

/// Whether the times of every call are kept.
pub fn keeps_times() -> bool {
    TIMING.get().is_some()
}

/// Records of a thread: from that position of its log.
pub struct Written<'a> {
    /// The thread's number.
    pub thread: u32,
    /// The position of the first byte.
    pub position: u64,
    /// Whole records.
    pub records: &'a [u8],
}

/// Encodes what has been written: all of `own`, which is of the log `part`, and what other threads
/// have complete in their windows. Gives the position up to which the thread's log is in a state on
/// disk.
pub fn encode(own: Written<'_>, part: &Part) -> u64 {
    let thread = own.thread as usize;
    locked(|shared| {
        let (compressor, windows) = shared.begin()?;
        let mut all = written(windows, compressor, part.window());
        all.push(own);
        compressor.encode(&all).then_some(())?;
        if compressor.is_state_due() || compressor.is_too_large() {
            compressor.save();
        }
        let saved = compressor.saved(thread);
        if compressor.is_too_large() {
            // The program needs its memory more than we do: from here on there are only records.
            ENDED.store(true, Ordering::Relaxed);
            shared.compressor = None;
        }
        Some(saved)
    })
}

/// Writes the state; gives the position up to which the thread's log is in it.
pub fn save(thread: u32) -> u64 {
    locked(|shared| {
        let compressor = shared.compressor.as_mut()?;
        compressor.save();
        Some(compressor.saved(thread as usize))
    })
}

/// Encodes all that was written so far, as if the call of `MPI_Finalize` that is open had returned
/// already, and gives the tasks; nothing is encoded after that. The state as it was before is on
/// disk: with it and the logs, what comes now can be added.
pub fn finish() -> Option<Vec<(u32, TaskTrace)>> {
    let mut tasks = None;
    locked(|shared| {
        let (compressor, windows) = shared.begin()?;
        let all: Vec<Written<'_>> = written(windows, compressor, std::ptr::null());
        compressor.encode(&all).then_some(())?;
        compressor.save().then_some(())?;
        compressor.bring_back().then_some(())?;
        compressor.encoder.presume_returned(table::MPI_Finalize as u16, clock::ticks());
        compressor.encoder.finish();
        let task = |thread| Some((thread, compressor.encoder.task_trace(thread)?));
        tasks = Some((0..compressor.encoder.threads()).filter_map(task).collect());
        // Ends the encoding.
        None
    });
    tasks
}

impl Shared {
    /// The encoder, made when it is first needed, and the windows of open logs.
    fn begin(&mut self) -> Option<(&mut Compressor, &[Window])> {
        if self.compressor.is_none() {
            self.compressor = Some(Compressor::new(self.paths.clone()?));
        }
        Some((self.compressor.as_mut()?, &self.windows))
    }
}

/// What the logs at those windows have written that is not encoded, but for one of them.
fn written<'a>(
    windows: &[Window],
    compressor: &Compressor,
    without: *const u8,
) -> Vec<Written<'a>> {
    let mut all = Vec::with_capacity(windows.len() + 1);
    for window in windows.iter().filter(|window| !window.is_at(without)) {
        let encoded = compressor.encoded.get(window.thread as usize).copied().unwrap_or(0);
        // SAFETY: listed logs are not closed before they are off the list, for which the lock is
        // needed, as it is to restart a window whose records are not encoded.
        all.extend(unsafe { window.written_since(encoded) });
    }
    all
}

/// A new log, whose records are to be encoded.
pub fn add(part: &Part) {
    locked(|shared| {
        if shared.paths.is_none() {
            shared.paths = Some([part.state_path()?, part.sealed_path()?]);
        }
        shared.windows.push(Window::of(part));
        Some(0)
    });
}

/// The log with that window is about to be closed. What it has written since it was last encoded is
/// encoded when the program has ended.
pub fn remove(window: *const u8) {
    SHARED.with(PATIENCE, |shared| shared.windows.retain(|other| !other.is_at(window)));
}

/// Does something to the encoder; whatever goes wrong with it ends the encoding, and gives 0.
fn locked(work: impl FnOnce(&mut Shared) -> Option<u64>) -> u64 {
    if ENDED.load(Ordering::Relaxed) {
        return 0;
    }
    let done = SHARED.with(PATIENCE, |shared| {
        let _errno = Errno::keep();
        let work = std::panic::AssertUnwindSafe(|| work(shared));
        std::panic::catch_unwind(work).ok().flatten()
    });
    // Where there is nothing, a handler has jumped away from here: who knows what state the encoder
    // is in.
    done.flatten().unwrap_or_else(|| {
        ENDED.store(true, Ordering::Relaxed);
        0
    })
}

/// In a forked child: it begins anew, or, if its parent was just encoding, goes without.
pub fn forget_after_fork() {
    if SHARED.is_held_in_child() {
        ENDED.store(true, Ordering::Relaxed);
    }
    SHARED.renew_in_child(Shared { compressor: None, windows: Vec::new(), paths: None });
}
