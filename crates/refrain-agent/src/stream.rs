//! The log of one thread: a window of a file that is mapped for good, and written away when full.
//!
//! Records go into the window, whose pages the kernel keeps whatever becomes of the process.
//! When it is full, its records are appended to the file behind it by a plain write, which
//! costs a fraction of what mapping and faulting fresh pages would. The window's blocks are
//! allocated before it is mapped, so that storing into it can neither fail nor fault; the write
//! may fail, and then the log ends there.
//!
//! At every instant the log is what was written away, followed by the window's records if the
//! window's first word says that it continues there ([`refrain_format::part`]).
//!
//! No descriptor stays open: a program may close files that it does not know, and reuse their
//! numbers.

use crate::entry::{Entry, ThreadBlock, thread_block};
use crate::modules::{self, Verdict};
use crate::process::{self, Abi, Errno, Quiet};
use crate::{bindings, clock, next, table};
use refrain_format::part::{
    BODY, EXTENSION, HEADER_BYTES, PartHeader, WINDOW_BYTES, WINDOW_HEAD, flags,
};
use refrain_format::record::{HEAD, Tag, head};
use std::ffi::{CString, c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

/// Room that is always left in the window when a record is begun, and behind every item of
/// variable size: enough for all scalars of any call, so that those need no check.
pub const MARGIN: usize = 512;

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

/// A Fortran procedure that has a wrapper of its own and is being forwarded.
#[derive(Clone, Copy)]
pub struct Forwarded {
    /// Its function.
    pub function: usize,
    /// The stack pointer when it was called.
    pub stack: usize,
}

impl Forwarded {
    const NONE: Forwarded = Forwarded { function: usize::MAX, stack: 0 };
}

/// The log of one thread.
pub struct Stream {
    /// Where the next record goes.
    pub at: *mut u8,
    /// The end of the window; equal to `at` when writing has ended.
    end: *mut u8,
    /// The end of the room for the record that is being put together.
    pub limit: *mut u8,
    /// That record is in `large`.
    is_large: bool,
    /// The window.
    window: *mut u8,
    /// Addresses known to be the program's.
    caller_low: usize,
    caller_length: usize,
    /// A record is being written, or none may be.
    busy: bool,
    /// Calls open at the moment.
    pub depth: u8,
    /// The number of the next call.
    pub number: u32,
    /// This MPI.
    pub abi: &'static Abi,
    defined: [u64; table::FUNCTIONS.div_ceil(64)],
    open: [Open; DEEPEST],
    /// The innermost such procedure.
    pub forwarded: Forwarded,
    /// Writing has ended for good.
    stopped: bool,
    page: *mut PartHeader,
    path: CString,
    identity: (libc::dev_t, libc::ino_t),
    /// Up to where the file system was asked to set blocks aside.
    reserved: u64,
    /// How often the thread's end has been announced.
    farewells: u8,
    /// Where a call writes that has no room left.
    sink: [u8; 2 * MARGIN],
    /// Where a record is put together that is larger than the window.
    large: Vec<u8>,
    /// Room for statuses the program ignores, by depth.
    pub statuses: [Vec<u64>; DEEPEST],
}

/// A stream pointer that says there is no log and will be none.
const DISABLED: *mut Stream = std::ptr::dangling_mut();

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
    let _quiet = Quiet::keep();
    // SAFETY: as above.
    if process::is_from_bindings_at_load(unsafe { (*block).caller }) {
        return false;
    }
    if !next::has_mpi() {
        // Perhaps later: the program has only asked whether there is one.
        return false;
    }
    // While we are at it, calls of this thread are only forwarded.
    // SAFETY: as above.
    unsafe { (*block).stream = DISABLED };
    let stream = std::panic::catch_unwind(Stream::open).ok().flatten().unwrap_or(DISABLED);
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
        // In a box, as all that is large here: the thread's stack may be tiny.
        let header = process::new_header();
        let (path, page, identity) = create_part(&folder, &header)?;
        let window = page.cast::<u8>().wrapping_add(HEADER_BYTES);
        let mut stream = Box::new(Stream {
            at: window.wrapping_add(WINDOW_HEAD),
            end: window.wrapping_add(WINDOW_BYTES),
            limit: window.wrapping_add(WINDOW_BYTES),
            is_large: false,
            window,
            caller_low: 0,
            caller_length: 0,
            busy: false,
            depth: 0,
            number: 0,
            abi: process::abi(),
            defined: [0; table::FUNCTIONS.div_ceil(64)],
            open: [Open { stack: 0, caller: 0 }; DEEPEST],
            forwarded: Forwarded::NONE,
            stopped: false,
            page,
            path,
            identity,
            reserved: BODY as u64,
            farewells: 0,
            sink: [0; 2 * MARGIN],
            large: Vec::new(),
            statuses: [const { Vec::new() }; DEEPEST],
        });
        process::add_page(page);
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
        (known && !self.busy) || self.judge(entry)
    }

    #[inline(never)]
    fn judge(&mut self, entry: &Entry) -> bool {
        let verdict = bindings::known(entry.caller).unwrap_or_else(|| judge_anew(entry));
        let program = match &verdict {
            Verdict::Program(_) => true,
            Verdict::ByFortran => !self.is_forwarded(entry),
            Verdict::Foreign => false,
        };
        if program && self.busy {
            // Inside one of our own writes (a signal handler that calls MPI), or stopped.
            // SAFETY: the page stays mapped while the stream lives.
            unsafe { (*self.page).unrecorded = (*self.page).unrecorded.saturating_add(1) };
            return false;
        }
        if let Verdict::Program(range) = verdict {
            (self.caller_low, self.caller_length) = (range.start, range.len());
        }
        program
    }

    /// Whether a call that Fortran's library makes is that of a procedure with a wrapper of its
    /// own, which has written it down.
    fn is_forwarded(&mut self, entry: &Entry) -> bool {
        if entry.slot / 2 != self.forwarded.function {
            return false;
        }
        let innermost = usize::from(self.depth_of(entry)).checked_sub(1);
        innermost.is_some_and(|i| self.open[i % DEEPEST].stack == self.forwarded.stack)
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
        let text = table::DEFINITIONS.get(function).copied().unwrap_or_default();
        self.write_text(function as u16, Tag::Define, text.as_bytes());
    }

    fn write_text(&mut self, function: u16, tag: Tag, text: &[u8]) {
        let length = HEAD + text.len();
        if let Some(start) = self.place(0, length) {
            // SAFETY: the place has room for the record, as was just made sure.
            unsafe { start.add(HEAD).copy_from(text.as_ptr(), text.len()) };
            self.commit(start, length, head(function, tag, 0, length));
        }
    }

    /// Completes a record: its first word goes in after everything else, and before it a zero
    /// behind the record, where the next one will begin.
    #[inline(always)]
    pub fn commit(&mut self, start: *mut u8, length: usize, head: u64) {
        if self.is_large {
            return self.commit_large(start, length, head);
        }
        let end = start.wrapping_add(length);
        // SAFETY: the record lies in the window with the margin behind it. x86-64 keeps stores
        // in order, so whoever finds the first word in the page finds the record behind it.
        unsafe {
            end.cast::<u64>().write_unaligned(0);
            compiler_fence(Ordering::Release);
            start.cast::<u64>().write_unaligned(head);
        }
        self.at = end;
    }

    #[cold]
    fn commit_large(&mut self, start: *mut u8, length: usize, head: u64) {
        let _quiet = Quiet::keep();
        // SAFETY: the record lies in `large`, which has room for it.
        let record = unsafe {
            start.cast::<u64>().write_unaligned(head);
            std::slice::from_raw_parts(start, length)
        };
        // The window was emptied when the record outgrew it.
        if let Err(errno) = self.append(record) {
            self.stop(errno);
        }
        self.restart_window();
        self.large = Vec::new();
        self.is_large = false;
        self.limit = self.end;
    }

    /// Bytes left in the window.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.end as usize - self.at as usize
    }

    /// How many calls a call that enters now is inside of.
    #[inline(always)]
    pub fn depth_of(&mut self, entry: &Entry) -> u8 {
        if self.depth == 0 { 0 } else { self.settle_depth(entry) }
    }

    /// Drops open calls that were left by `longjmp`, an exception or a cancelled thread: a
    /// call inside another enters below it, and the other's return address is still in place.
    #[cold]
    fn settle_depth(&mut self, entry: &Entry) -> u8 {
        while self.depth > 0 {
            // Of calls beyond the deepest that is noted, all that is known is that one.
            let at = usize::from(self.depth - 1).min(DEEPEST - 1);
            let open = self.open[at];
            let below = entry.stack.wrapping_add(NESTED_BELOW) <= open.stack;
            if below && word_at(open.stack) == Some(open.caller) {
                break;
            }
            self.depth = at as u8;
        }
        self.depth
    }

    /// Notes an open call; its depth must be that of [`Self::depth_of`].
    #[inline(always)]
    pub fn open_call(&mut self, entry: &Entry, depth: u8) {
        if let Some(open) = self.open.get_mut(usize::from(depth)) {
            *open = Open { stack: entry.stack, caller: entry.caller };
        }
        self.depth = depth.saturating_add(1);
    }

    /// A place for a new record, with room for all its scalars. The end of the room is
    /// [`Self::limit`]. Nothing if the log has ended.
    #[inline(always)]
    pub fn place_now(&mut self) -> Option<*mut u8> {
        if self.room() < 2 * MARGIN { self.place(0, MARGIN) } else { Some(self.at) }
    }

    /// A record is begun. Calls of signal handlers find the log busy from here on.
    #[inline(always)]
    pub fn occupy(&mut self) {
        self.busy = true;
        compiler_fence(Ordering::SeqCst);
    }

    /// The record is complete, and the next may begin, unless writing has ended for good.
    #[inline(always)]
    pub fn release(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.busy = self.stopped;
    }

    /// A place for a record of which `written` bytes stand where it was begun, with room for
    /// `wanted` more.
    #[cold]
    pub fn place(&mut self, written: usize, wanted: usize) -> Option<*mut u8> {
        if self.stopped {
            return None;
        }
        let _quiet = Quiet::keep();
        let place = match self.is_large {
            true => self.enlarge(written, wanted),
            false => self.find_place(written, wanted),
        };
        place.inspect_err(|&errno| self.stop(errno)).ok()
    }

    fn find_place(&mut self, written: usize, wanted: usize) -> Result<*mut u8, c_int> {
        if self.room() < written + wanted + MARGIN {
            self.flush(written)?;
        }
        if self.room() >= written + wanted + MARGIN {
            return Ok(self.at);
        }
        // SAFETY: `written` bytes stand at the cursor, in the window.
        let begun = unsafe { std::slice::from_raw_parts(self.at, written) };
        self.large.clear();
        self.large.try_reserve(written).map_err(|_| libc::ENOMEM)?;
        self.large.extend_from_slice(begun);
        self.is_large = true;
        self.enlarge(written, wanted)
    }

    /// Room in `large` for a record that is larger than the window.
    fn enlarge(&mut self, written: usize, wanted: usize) -> Result<*mut u8, c_int> {
        let size = (written + 2 * wanted + 2 * MARGIN).max(self.large.len());
        self.large.try_reserve(size - self.large.len()).map_err(|_| libc::ENOMEM)?;
        self.large.resize(size, 0);
        let room = self.large.as_mut_ptr_range();
        self.limit = room.end;
        Ok(room.start)
    }

    /// A place where nothing is kept, for calls that have to write somewhere.
    pub fn sink(&mut self) -> *mut u8 {
        let sink = self.sink.as_mut_ptr_range();
        self.limit = sink.end;
        sink.start
    }

    /// Writes the window's complete records away; `written` bytes of one that is not complete
    /// move to the front.
    fn flush(&mut self, written: usize) -> Result<(), c_int> {
        let first = self.window.wrapping_add(WINDOW_HEAD);
        let bytes = self.at as usize - first as usize;
        // SAFETY: complete records in our window.
        self.append(unsafe { std::slice::from_raw_parts(first, bytes) })?;
        let partial = self.at;
        self.restart_window();
        // SAFETY: both lie in the window; the head of an incomplete record is not written
        // yet, so what is copied behind `restart_window`'s zero keeps it.
        unsafe { first.add(HEAD).copy_from(partial.add(HEAD), written.saturating_sub(HEAD)) };
        Ok(())
    }

    /// The window is empty and continues what was written away.
    fn restart_window(&mut self) {
        self.at = self.window.wrapping_add(WINDOW_HEAD);
        // SAFETY: our window and page. In this order: until the last store, the window's
        // first word does not fit the page's, and the window counts as empty anyway.
        unsafe {
            self.at.cast::<u64>().write_unaligned(0);
            compiler_fence(Ordering::Release);
            self.window.cast::<u64>().write((*self.page).appended);
        }
    }

    /// Appends bytes to the file behind the window.
    fn append(&mut self, mut bytes: &[u8]) -> Result<(), c_int> {
        let file = self.reopen()?;
        // SAFETY: our own page.
        let appended = unsafe { (*self.page).appended };
        let total = appended + bytes.len() as u64;
        if BODY as u64 + total > file_size_limit() {
            // Writing on would raise SIGXFSZ in the program.
            return Err(libc::EFBIG);
        }
        self.reserve(&file, BODY as u64 + total);
        let mut at = BODY as u64 + appended;
        while !bytes.is_empty() {
            // SAFETY: our own file and bytes.
            let n = unsafe {
                libc::pwrite(file.0, bytes.as_ptr().cast(), bytes.len(), at as libc::off_t)
            };
            match n {
                -1 if last_errno() == libc::EINTR => {}
                -1 => return Err(last_errno()),
                0 => return Err(libc::ENOSPC),
                n => {
                    bytes = bytes.get(n as usize..).unwrap_or_default();
                    at += n as u64;
                }
            }
        }
        // SAFETY: our own page.
        unsafe {
            (*self.page).appended = total;
            (*self.page).last_ticks = clock::ticks();
            (*self.page).last_nanos = clock::wall_nanos();
        }
        Ok(())
    }

    /// Has the file system set blocks aside ahead of the writing, many at a time, which makes
    /// the writing cheaper by a third. Where it cannot, nothing is lost.
    fn reserve(&mut self, file: &File, needed: u64) {
        const AHEAD: u64 = 4 << 20;
        if needed > self.reserved {
            let keep_size = libc::FALLOC_FL_KEEP_SIZE;
            let (from, length) = (self.reserved as libc::off_t, AHEAD.max(needed - self.reserved));
            self.reserved += length;
            // Some file systems count what is set aside as size, and would raise SIGXFSZ.
            if self.reserved <= file_size_limit() {
                // SAFETY: a plain system call on our own file.
                unsafe { libc::fallocate(file.0, keep_size, from, length as libc::off_t) };
            }
        }
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
        // No room: whoever still has something to write asks for a place, and gets none.
        self.end = self.at;
        self.limit = self.at;
        self.is_large = false;
        // Every call now takes the slow path, where it is counted.
        self.caller_length = 0;
    }

    /// Gives back what the thread no longer needs.
    fn close(&mut self) {
        process::remove_page(self.page);
        // SAFETY: the page is off the list, the window has no user left.
        unsafe {
            (*self.page).flags |= flags::THREAD_ENDED;
            (*self.page).last_ticks = clock::ticks();
            (*self.page).last_nanos = clock::wall_nanos();
            libc::munmap(self.page.cast(), BODY);
        }
    }
}

/// The word at an address of some stack; nothing if the stack is no more, as a coroutine's may
/// be. The kernel knows: it looks at a new signal mask before it looks at what it is asked to
/// do with it, here nothing.
fn word_at(address: usize) -> Option<usize> {
    const NOTHING: c_int = -1;
    let _errno = Errno::keep();
    // SAFETY: the system call fails in any case, and changes nothing; what the kernel could
    // read, we can.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, NOTHING, address, 0, size_of::<usize>());
        (last_errno() != libc::EFAULT).then(|| (address as *const usize).read_unaligned())
    }
}

/// The largest file this process may write.
fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: fills in the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur
}

#[cold]
fn judge_anew(entry: &Entry) -> Verdict {
    let _errno = Errno::keep();
    std::panic::catch_unwind(|| modules::judge(entry)).unwrap_or(Verdict::Foreign)
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
            let page = map(file.0).ok()?.cast::<PartHeader>();
            page.copy_from_nonoverlapping(header, 1);
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

/// Maps the header and the window of a new part, with blocks reserved for them, so that
/// storing into the mapping cannot fail.
fn map(fd: c_int) -> Result<*mut u8, c_int> {
    if BODY as u64 > file_size_limit() {
        return Err(libc::EFBIG);
    }
    // SAFETY: plain system calls on our own new file.
    unsafe {
        match libc::posix_fallocate(fd, 0, BODY as libc::off_t) {
            0 => {}
            errno => return Err(errno),
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(null_mut(), BODY, protection, libc::MAP_SHARED, fd, 0);
        if at == libc::MAP_FAILED {
            return Err(last_errno());
        }
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
    let _quiet = Quiet::keep();
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
