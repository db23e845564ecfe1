//! The log of one thread: a mapped window of a file, which is appended to the file when it is full.
//!
//! Records go into the window, whose pages survive the process. Plain writes append them to the
//! file behind it, which costs a fraction of mapping and faulting fresh pages. The window's blocks
//! are allocated before it is mapped, so that a store into it can neither fail nor fault. A write
//! may fail, and if the window is full then, the log stops there.
//!
//! Records are encoded and appended in *pieces* of a few microseconds, after every few calls. A
//! long pause of one rank makes all ranks wait that depend on it.
//!
//! At every instant, the log is what was appended, followed by those records of the window that
//! come after it ([`refrain_format::part`]).
//!
//! * [`admission`]: which calls are recorded, and how they are nested
//! * [`records`]: room for records, and what happens when the window is full
//! * [`pieces`]: encodes and appends records in small pieces
//! * [`window`]: the window as other threads read it

mod admission;
mod pieces;
mod records;
mod window;

pub use admission::Forwarded;
pub use window::Window;

use crate::inside::entry::{Entry, ThreadBlock, thread_block};
use crate::inside::library::{abi, handle_names};
use crate::inside::locked::Lazy;
use crate::inside::next;
use crate::inside::process::{self, Quiet};
use crate::inside::stalls::{self, Cause};
use crate::table;
use crate::trace::compress::{self, PACE};
use crate::trace::part::Part;
use crate::trace::segments::Segments;
use crate::trace::sites::Sites;
use admission::OpenCall;
use refrain_format::part::{WINDOW_BYTES, WINDOW_HEAD, flags};
use refrain_format::record::Tag;
use refrain_mpilib::Abi;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

/// Room that is always left in the window when a record begins, and behind every item of variable
/// size. It is enough for all scalars of any call, so that those need no check.
pub const MARGIN: usize = 512;

/// The maximum depth of calls inside calls (from callbacks) that is tracked.
const MAX_DEPTH: usize = 32;

/// The number of the program's modules that are remembered.
const RECENT_MODULES: usize = 8;

/// The log of one thread.
pub struct ThreadLog {
    /// Where the next record goes.
    pub at: *mut u8,
    /// The end of the window; equal to `at` if the log has stopped.
    end: *mut u8,
    /// Where the next piece of work is due, see [`ThreadLog::work_if_due`].
    due: *mut u8,
    /// Appending failed; it is tried again when the window is full.
    is_disk_full: bool,
    /// The end of the room for the record that is being written.
    pub limit: *mut u8,
    /// Whether that record is in `large`.
    is_large: bool,
    /// The window.
    window: *mut u8,
    /// Addresses known to be the program's: the module of the last caller.
    caller_low: usize,
    caller_length: usize,
    /// More such modules, for programs with several libraries that call MPI alternately.
    recent_modules: [Range<usize>; RECENT_MODULES],
    /// The index of the one to replace next.
    next_replaced: usize,
    /// A record is being written, or the log has stopped. Signal handlers read this while the frame
    /// that they interrupted uses the log, so it is an atomic, as are `occupant` and `stopped`.
    busy: AtomicBool,
    /// The stack pointer of the call whose record it is.
    occupant: AtomicUsize,
    /// See [`process::fork_mark`].
    fork_mark: *const u8,
    /// Number of open calls.
    pub depth: u8,
    /// The number of the next call.
    pub number: u32,
    /// This MPI.
    pub abi: &'static Abi,
    /// Memory that was announced.
    pub segments: Segments,
    /// Call sites that were recorded.
    pub sites: Sites,
    defined: [u64; table::FUNCTIONS.div_ceil(64)],
    open_calls: [OpenCall; MAX_DEPTH],
    /// The innermost Fortran procedure that is being forwarded.
    pub forwarded: Forwarded,
    /// The log has stopped for good.
    stopped: AtomicBool,
    /// The file.
    part: Part,
    /// Number of rounds of thread-specific destructors so far.
    dtor_rounds: u8,
    /// Where a call writes if the log has stopped; never read.
    sink: [u8; 2 * MARGIN],
    /// A record that is larger than the window.
    large: Vec<u8>,
    /// Room for statuses that the program ignores, by depth.
    pub statuses: [Vec<u64>; MAX_DEPTH],
}

/// A pointer that means: this thread has no log, and will have none.
const DISABLED: *mut ThreadLog = std::ptr::dangling_mut();

/// Whether the pointer is that of a log.
#[inline(always)]
pub fn is_open(log: *mut ThreadLog) -> bool {
    log as usize > DISABLED as usize
}

/// Opens the log of this thread at its first call; returns whether it has one.
#[cold]
pub fn open_for_thread(block: *mut ThreadBlock) -> bool {
    // SAFETY: the block belongs to this thread.
    if unsafe { (*block).log } == DISABLED {
        return false;
    }
    let _quiet = Quiet::keep();
    stalls::note(Cause::Open);
    // SAFETY: as above.
    if process::is_from_bindings_at_load(unsafe { (*block).caller }) {
        return false;
    }
    if !next::has_mpi() {
        // A later call may open it: the program has only asked whether there is an MPI.
        return false;
    }
    // Meanwhile calls of this thread are only forwarded.
    // SAFETY: as above.
    unsafe { (*block).log = DISABLED };
    // SAFETY: as above.
    let first_stack = unsafe { (*block).stack };
    let open = || ThreadLog::open(first_stack);
    let log = std::panic::catch_unwind(open).ok().flatten().unwrap_or(DISABLED);
    // SAFETY: as above.
    unsafe { (*block).log = log };
    is_open(log)
}

/// Writes records that belong to no call to the log of this thread. Returns false if it has no log,
/// or if a record is being written.
pub fn write_between_calls(write: impl FnOnce(&mut ThreadLog)) -> bool {
    // SAFETY: the block belongs to this thread; a log that is not busy is not borrowed.
    unsafe {
        let log = (*thread_block()).log;
        if !is_open(log)
            || (*log).busy.load(Ordering::Relaxed)
            || (*log).fork_mark.read_volatile() == 0
        {
            return false;
        }
        let log = &mut *log;
        let here = 0u8;
        log.occupy_at(&raw const here as usize);
        write(log);
        log.release();
        true
    }
}

/// Before `MPI_Finalize`: leaves little to do after the program.
pub fn settle() {
    write_between_calls(ThreadLog::settle);
}

/// After a fork: the child's only thread starts without a log.
pub fn forget_after_fork() {
    // SAFETY: the block belongs to this thread; a log in it is live memory of this process.
    unsafe {
        let block = thread_block();
        let log = (*block).log;
        if is_open(log) {
            // A call that was open in the parent may still return here.
            (*log).retire();
            (*block).log = null_mut();
        }
    }
}

impl ThreadLog {
    fn open(first_stack: usize) -> Option<*mut ThreadLog> {
        let folder = process::folder()?;
        // In a box, like everything large here, because the thread's stack may be tiny.
        let header = process::new_header()?;
        let part = Part::create(&folder, &header)?;
        let window = part.window();
        let mut log = Box::new(ThreadLog {
            at: window.wrapping_add(WINDOW_HEAD),
            end: window.wrapping_add(WINDOW_BYTES),
            due: window.wrapping_add(WINDOW_HEAD + PACE),
            is_disk_full: false,
            limit: window.wrapping_add(WINDOW_BYTES),
            is_large: false,
            window,
            caller_low: 0,
            caller_length: 0,
            recent_modules: [const { 0..0 }; RECENT_MODULES],
            next_replaced: 0,
            busy: AtomicBool::new(false),
            occupant: AtomicUsize::new(0),
            fork_mark: process::fork_mark(),
            depth: 0,
            number: 0,
            abi: abi(),
            segments: Segments::new(first_stack),
            sites: Sites::new(),
            defined: [0; table::FUNCTIONS.div_ceil(64)],
            open_calls: [OpenCall { stack: 0, caller: 0 }; MAX_DEPTH],
            forwarded: Forwarded::NONE,
            stopped: AtomicBool::new(false),
            part,
            dtor_rounds: 0,
            sink: [0; 2 * MARGIN],
            large: Vec::new(),
            statuses: [const { Vec::new() }; MAX_DEPTH],
        });
        process::add_page(log.part.header());
        compress::add(&log.part);
        if header.thread == 0 {
            log.write_record(Tag::Handles, &[handle_names().as_bytes()]);
        }
        let log = Box::into_raw(log);
        at_thread_end(log);
        Some(log)
    }

    #[inline(always)]
    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// A record begins. From here on, calls of signal handlers find the log busy.
    #[inline(always)]
    pub fn occupy(&mut self, entry: &Entry) {
        self.occupy_at(entry.stack);
    }

    /// The same, in a function with that stack pointer.
    #[inline(always)]
    fn occupy_at(&mut self, stack: usize) {
        self.occupant.store(stack, Ordering::Relaxed);
        self.busy.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// The record is complete. The next one may begin, unless the log has stopped.
    #[inline(always)]
    pub fn release(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.busy.store(self.is_stopped(), Ordering::Relaxed);
    }

    /// Stops the log, and stores the reason in the header.
    fn stop(&mut self, errno: c_int) {
        self.part.header().set_stopped(errno);
        self.retire();
    }

    /// Stops the log.
    fn retire(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.busy.store(true, Ordering::Relaxed);
        // There is no room left, so that every further write asks for some, and gets none.
        self.end = self.at;
        self.limit = self.at;
        self.is_large = false;
        // Every call now takes the slow path, where it is counted.
        self.caller_length = 0;
    }

    /// Closes the log when the thread ends.
    fn close(&mut self) {
        self.segments.close();
        // Other threads may free what these records use: they cannot wait for the end of the program.
        if !self.is_stopped() {
            compress::encode(self.written(), &self.part);
        }
        compress::remove(self.part.window());
        process::remove_page(self.part.header());
        self.part.header().set_flags(flags::THREAD_ENDED);
        self.part.note_time();
        self.part.free_unused(self.at as usize - self.window as usize);
        // SAFETY: the header is off the list, and neither it nor the window is used again.
        unsafe { self.part.unmap() };
    }
}

/// Registers the log to be closed when the thread ends.
fn at_thread_end(log: *mut ThreadLog) {
    static KEY: Lazy<Option<libc::pthread_key_t>> = Lazy::new();
    let key = KEY.get_or_make(|| {
        let mut key = 0;
        // SAFETY: fills in the key.
        (unsafe { libc::pthread_key_create(&mut key, Some(thread_ends)) } == 0).then_some(key)
    });
    if let Some(key) = key {
        // SAFETY: a valid key.
        unsafe { libc::pthread_setspecific(*key, log.cast()) };
    }
}

/// Called when the thread ends. The order relative to the program's own destructors is unspecified,
/// and some of those may call MPI. So the log is closed in the third of the rounds that POSIX
/// makes.
unsafe extern "C" fn thread_ends(log: *mut c_void) {
    let _quiet = Quiet::keep();
    let log = log.cast::<ThreadLog>();
    // SAFETY: the log that this thread passed to `at_thread_end`; it is freed only here.
    unsafe {
        if (*log).dtor_rounds < 2 {
            (*log).dtor_rounds += 1;
            at_thread_end(log);
            return;
        }
        let block = thread_block();
        if (*block).log == log {
            (*block).log = null_mut();
            (*log).close();
            drop(Box::from_raw(log));
        }
    }
}
