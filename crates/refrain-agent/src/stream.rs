//! The log of one thread: a file mapped piece by piece.
//!
//! The file is pre-allocated before it is mapped, so that writing to the mapping can neither
//! fail nor fault; the kernel keeps the pages whatever becomes of the process. No descriptor
//! stays open: a program may close files that it does not know, and reuse their numbers.

use crate::entry::{Entry, ThreadBlock, thread_block};
use crate::process::{self, Abi, Errno};
use crate::{clock, modules, table};
use refrain_format::part::{EXTENSION, HEADER_BYTES, PartHeader, flags};
use refrain_format::record::{HEAD, Tag, head};
use std::ffi::{CString, c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// Room that is always left in a window when a record is begun, and behind every item of
/// variable size: enough for all scalars of any call, so that those need no check.
pub const MARGIN: usize = 512;

/// The first window of a log, and the largest.
const FIRST_WINDOW: usize = 64 << 10;
const LARGEST_WINDOW: usize = 4 << 20;
const PAGE: usize = 4096;

/// Calls from callbacks inside calls are followed this deep.
const DEEPEST: usize = 32;

/// How much lower than an open call's entry a call must enter to be inside of it. Arguments on
/// the stack move the entry by up to 80 bytes between calls from one frame.
const NESTED_BELOW: usize = 96;

/// A call that has not returned.
#[derive(Clone, Copy)]
struct Open {
    stack: usize,
    caller: usize,
}

/// The log of one thread.
pub struct Stream {
    /// Where the next record goes.
    pub at: *mut u8,
    /// The end of the window.
    pub end: *mut u8,
    /// Addresses known to be the program's.
    caller_low: usize,
    caller_length: usize,
    /// A record is being written, or none may be.
    pub busy: bool,
    /// Calls open at the moment.
    pub depth: u8,
    /// The number of the next call.
    pub number: u32,
    /// This MPI.
    pub abi: &'static Abi,
    defined: [u64; table::FUNCTIONS.div_ceil(64)],
    open: [Open; DEEPEST],
    base: *mut u8,
    /// Where the window begins in the file.
    offset: usize,
    window: usize,
    /// Writing has ended for good.
    stopped: bool,
    page: *mut PartHeader,
    path: CString,
    identity: (libc::dev_t, libc::ino_t),
    /// How often the thread's end has been announced.
    farewells: u8,
    /// Where a call writes that lost its window.
    pub sink: [u8; 2 * MARGIN],
    /// Room for statuses the program ignores, by depth.
    pub statuses: [Vec<u64>; DEEPEST],
}

/// A stream pointer that says there is no log and will be none.
const DISABLED: *mut Stream = 8 as *mut Stream;

/// Whether that pointer is a log.
#[inline(always)]
pub fn is_open(stream: *mut Stream) -> bool {
    stream as usize > DISABLED as usize
}

/// Opens the log of this thread, at its first call; says whether it has one.
#[cold]
pub fn open_for_thread(block: *mut ThreadBlock) -> bool {
    // SAFETY: the block is this thread's own.
    if unsafe { (*block).stream } == DISABLED {
        return false;
    }
    let _errno = Errno::keep();
    // While we are at it, calls of this thread are only forwarded.
    // SAFETY: as above.
    unsafe { (*block).stream = DISABLED };
    let stream = std::panic::catch_unwind(Stream::open)
        .ok()
        .flatten()
        .unwrap_or(DISABLED);
    // SAFETY: as above.
    unsafe { (*block).stream = stream };
    is_open(stream)
}

/// After a fork: the child's only thread starts anew.
pub fn forget_after_fork() {
    // SAFETY: the block is this thread's own; a stream in it is live memory of this process.
    unsafe {
        let block = thread_block();
        let stream = (*block).stream;
        if is_open(stream) {
            // A call that was open in the parent may still return here.
            (*stream).retire();
            (*block).stream = null_mut();
        }
    }
}

/// This thread keeps no log from now on.
pub fn disable_thread() {
    forget_after_fork();
    // SAFETY: the block is this thread's own.
    unsafe { (*thread_block()).stream = DISABLED };
}

impl Stream {
    fn open() -> Option<*mut Stream> {
        let folder = process::folder()?;
        let header = process::new_header();
        let (path, page, identity) = create_part(&folder, &header)?;
        let mut stream = Box::new(Stream {
            at: null_mut(),
            end: null_mut(),
            caller_low: 0,
            caller_length: 0,
            busy: false,
            depth: 0,
            number: 0,
            abi: process::abi(),
            defined: [0; table::FUNCTIONS.div_ceil(64)],
            open: [Open {
                stack: 0,
                caller: 0,
            }; DEEPEST],
            base: null_mut(),
            offset: HEADER_BYTES,
            window: 0,
            stopped: false,
            page,
            path,
            identity,
            farewells: 0,
            sink: [0; 2 * MARGIN],
            statuses: [const { Vec::new() }; DEEPEST],
        });
        process::add_page(page);
        stream.grow(null_mut(), MARGIN)?;
        if header.thread == 0 {
            stream.write_text(0, Tag::Handles, process::handle_names().as_bytes());
        }
        let stream = Box::into_raw(stream);
        at_thread_end(stream);
        Some(stream)
    }

    /// Whether a call is to be written down: it is the program's, and the log can take it.
    #[inline(always)]
    pub fn admits(&mut self, entry: &Entry) -> bool {
        let known = entry.caller.wrapping_sub(self.caller_low) < self.caller_length;
        (known && !self.busy) || self.judge(entry.caller)
    }

    #[cold]
    fn judge(&mut self, caller: usize) -> bool {
        let _errno = Errno::keep();
        let judged = std::panic::catch_unwind(|| modules::judge(caller));
        let (program, range) = judged.unwrap_or((false, 0..0));
        if program && self.busy {
            // Inside one of our own writes (a signal handler that calls MPI), or stopped.
            // SAFETY: the page stays mapped while the stream lives.
            unsafe { (*self.page).unrecorded = (*self.page).unrecorded.saturating_add(1) };
            return false;
        }
        if program {
            (self.caller_low, self.caller_length) = (range.start, range.len());
        }
        program
    }

    /// Makes sure that the function's form stands in the log before its first call.
    #[inline(always)]
    pub fn ensure_defined(&mut self, function: usize) {
        let (word, bit) = (function / 64, 1 << (function % 64));
        if self.defined.get(word).is_some_and(|w| w & bit == 0) {
            self.define(function);
        }
    }

    #[cold]
    fn define(&mut self, function: usize) {
        let (word, bit) = (function / 64, 1 << (function % 64));
        if let Some(w) = self.defined.get_mut(word) {
            *w |= bit;
        }
        let text = table::DEFINITIONS
            .get(function)
            .copied()
            .unwrap_or_default();
        self.write_text(function as u16, Tag::Define, text.as_bytes());
    }

    fn write_text(&mut self, function: u16, tag: Tag, text: &[u8]) {
        let length = HEAD + text.len();
        if self.room() < length + MARGIN && self.grow(null_mut(), length + MARGIN).is_none() {
            return;
        }
        // SAFETY: the window has room for the record, as was just made sure.
        unsafe {
            self.at.add(HEAD).copy_from(text.as_ptr(), text.len());
            self.commit(self.at, head(function, tag, 0, length));
            self.at = self.at.add(length);
        }
    }

    /// Completes a record: its first word goes in after everything else.
    ///
    /// # Safety
    /// `start` must point to a record inside the window.
    #[inline(always)]
    pub unsafe fn commit(&self, start: *mut u8, head: u64) {
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::Release);
        // SAFETY: the caller's promise. x86-64 keeps stores in order, so whoever finds this
        // word in the page finds the record behind it.
        unsafe { start.cast::<u64>().write_unaligned(head) };
    }

    /// Bytes left in the window.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.end as usize - self.at as usize
    }

    /// How many calls a call that enters now is inside of.
    #[inline(always)]
    pub fn depth_of(&mut self, entry: &Entry) -> u8 {
        if self.depth == 0 {
            0
        } else {
            self.settle_depth(entry)
        }
    }

    /// Drops open calls that were left by `longjmp`, an exception or a cancelled thread: a
    /// call inside another enters below it, and the other's return address is still in place.
    #[cold]
    fn settle_depth(&mut self, entry: &Entry) -> u8 {
        while self.depth > 0 {
            let open = self.open[usize::from(self.depth - 1) % DEEPEST];
            let below = entry.stack.wrapping_add(NESTED_BELOW) <= open.stack;
            // SAFETY: the slot lies above the current stack pointer, in this thread's stack.
            if below && unsafe { *(open.stack as *const usize) } == open.caller {
                break;
            }
            self.depth -= 1;
        }
        self.depth
    }

    /// Notes an open call; its depth must be that of [`Self::depth_of`].
    #[inline(always)]
    pub fn open_call(&mut self, entry: &Entry, depth: u8) {
        self.open[usize::from(depth) % DEEPEST] = Open {
            stack: entry.stack,
            caller: entry.caller,
        };
        self.depth = depth.saturating_add(1);
    }

    /// Maps the next window: from the page of `start` (a record being written; or of the
    /// cursor), with room for `wanted` bytes more. Gives the new address of `start`.
    #[cold]
    pub fn grow(&mut self, start: *mut u8, wanted: usize) -> Option<*mut u8> {
        if self.stopped {
            return None;
        }
        let errno = Errno::keep();
        let start = if start.is_null() { self.at } else { start };
        let position = self.offset + (start as usize - self.base as usize);
        let offset = position / PAGE * PAGE;
        let size = (self.window * 2).clamp(FIRST_WINDOW, LARGEST_WINDOW);
        let size = size.max((wanted + position - offset + PAGE).next_multiple_of(PAGE));
        match self.map_at(offset, size) {
            Ok(base) => {
                if !self.base.is_null() {
                    // SAFETY: the old window is ours, and nothing points into it any more
                    // but `start` and the caller's cursor, which are moved.
                    unsafe { libc::munmap(self.base.cast(), self.window) };
                }
                let at = self.at as usize - start as usize;
                (self.base, self.window, self.offset) = (base, size, offset);
                // SAFETY: `position` lies in the first page of the window.
                let start = unsafe { base.add(position - offset) };
                self.at = start.wrapping_add(at);
                // SAFETY: the end of the mapping.
                self.end = unsafe { base.add(size) };
                // SAFETY: the page is ours for the stream's life.
                unsafe {
                    (*self.page).last_ticks = clock::ticks();
                    (*self.page).last_nanos = clock::wall_nanos();
                }
                drop(errno);
                Some(start)
            }
            Err(errno) => {
                self.stop(errno);
                None
            }
        }
    }

    fn map_at(&self, offset: usize, size: usize) -> Result<*mut u8, c_int> {
        let file = self.reopen()?;
        allocate(file.0, offset, size)?;
        map(file.0, offset, size)
    }

    /// Opens the part again and makes sure that it is still the same file.
    fn reopen(&self) -> Result<File, c_int> {
        // SAFETY: a valid path; the status is written before it is read.
        unsafe {
            let fd = libc::open(self.path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if fd < 0 {
                return Err(last_errno());
            }
            let file = File(fd);
            if identity_of(fd)? != self.identity {
                return Err(libc::ESTALE);
            }
            Ok(file)
        }
    }

    /// Writes no more, and says why.
    fn stop(&mut self, errno: c_int) {
        // SAFETY: the page is ours for the stream's life.
        unsafe {
            (*self.page).flags |= flags::STOPPED;
            (*self.page).stop_errno = errno;
        }
        self.retire();
    }

    /// Writes no more.
    fn retire(&mut self) {
        self.stopped = true;
        self.busy = true;
        self.end = self.at;
        // Every call now takes the slow path, where it is counted.
        self.caller_length = 0;
    }

    /// Gives back what the thread no longer needs.
    fn close(&mut self) {
        if !self.stopped {
            let used = self.offset + (self.at as usize - self.base as usize);
            if let Ok(file) = self.reopen() {
                // SAFETY: our own file, cut behind its last record.
                unsafe { libc::ftruncate(file.0, used as libc::off_t) };
            }
        }
        process::remove_page(self.page);
        // SAFETY: the page is off the list, the window has no user left.
        unsafe {
            (*self.page).flags |= flags::THREAD_ENDED;
            (*self.page).last_ticks = clock::ticks();
            (*self.page).last_nanos = clock::wall_nanos();
            libc::munmap(self.page.cast(), HEADER_BYTES);
            if !self.base.is_null() {
                libc::munmap(self.base.cast(), self.window);
            }
        }
    }
}

/// Creates the part of a new thread under a name of its own and maps its first page.
fn create_part(
    folder: &CString,
    header: &PartHeader,
) -> Option<(CString, *mut PartHeader, (libc::dev_t, libc::ino_t))> {
    let folder = folder.to_str().ok()?;
    let host = refrain_format::part::text(&header.host);
    // A process that replaces itself by exec keeps its number: try further names.
    for attempt in 0..100 {
        let (pid, thread) = (header.pid, header.thread);
        let path = format!("{folder}/{host}.{pid}.{attempt}.{thread}.{EXTENSION}");
        let path = CString::new(path).ok()?;
        // SAFETY: a valid path; the header is copied into a page mapped for it.
        unsafe {
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
            let fd = libc::open(path.as_ptr(), flags, 0o666);
            if fd < 0 {
                if last_errno() == libc::EEXIST {
                    continue;
                }
                return None;
            }
            let file = File(fd);
            allocate(file.0, 0, HEADER_BYTES).ok()?;
            let page = map(file.0, 0, HEADER_BYTES).ok()?.cast::<PartHeader>();
            page.write(*header);
            return Some((path, page, identity_of(file.0).ok()?));
        }
    }
    None
}

/// A descriptor that is closed when it goes.
struct File(c_int);

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: opened by us, closed once.
        unsafe { libc::close(self.0) };
    }
}

fn identity_of(fd: c_int) -> Result<(libc::dev_t, libc::ino_t), c_int> {
    // SAFETY: fstat fills the structure or fails.
    unsafe {
        let mut stat = std::mem::zeroed::<libc::stat>();
        if libc::fstat(fd, &mut stat) != 0 {
            return Err(last_errno());
        }
        Ok((stat.st_dev, stat.st_ino))
    }
}

/// Reserves blocks of the disk, so that writing to the mapping cannot fail.
fn allocate(fd: c_int, offset: usize, size: usize) -> Result<(), c_int> {
    // SAFETY: plain system call on our own file.
    match unsafe { libc::posix_fallocate(fd, offset as libc::off_t, size as libc::off_t) } {
        0 => Ok(()),
        errno => Err(errno),
    }
}

fn map(fd: c_int, offset: usize, size: usize) -> Result<*mut u8, c_int> {
    // SAFETY: a fresh mapping of our own file.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let offset = offset as libc::off_t;
        let at = libc::mmap(null_mut(), size, protection, libc::MAP_SHARED, fd, offset);
        if at == libc::MAP_FAILED {
            return Err(last_errno());
        }
        // One call for all pages is cheaper than a fault for each; old kernels do not know it.
        libc::madvise(at, size, libc::MADV_POPULATE_WRITE);
        Ok(at.cast())
    }
}

fn last_errno() -> c_int {
    // SAFETY: errno is this thread's own.
    unsafe { *libc::__errno_location() }
}

/// Has the log closed when the thread ends.
fn at_thread_end(stream: *mut Stream) {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: fills in the key.
        (unsafe { libc::pthread_key_create(&mut key, Some(thread_ends)) } == 0).then_some(key)
    });
    if let Some(key) = key {
        // SAFETY: a valid key.
        unsafe { libc::pthread_setspecific(*key, stream.cast()) };
    }
}

/// Called as the thread ends, in no certain order among the program's own destructors, some
/// of which may call MPI: so the log is closed in the third of the rounds that POSIX makes.
unsafe extern "C" fn thread_ends(stream: *mut c_void) {
    let stream = stream.cast::<Stream>();
    // SAFETY: the stream set in `at_thread_end` by this thread, freed only here.
    unsafe {
        if (*stream).farewells < 2 {
            (*stream).farewells += 1;
            at_thread_end(stream);
            return;
        }
        let block = thread_block();
        if (*block).stream == stream {
            (*block).stream = null_mut();
            (*stream).close();
            drop(Box::from_raw(stream));
        }
    }
}
