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

use crate::inside::entry::{Entry, ThreadBlock, thread_block};
use crate::inside::locked::Lazy;
use crate::inside::modules::{self, Verdict};
use crate::inside::process::{self, Abi, Errno, Quiet, Uncancelled};
use crate::inside::{bindings, memory, next};
use crate::table;
use crate::trace::compress::{self, Written};
use crate::trace::part::Part;
use crate::trace::segments::Segments;
use crate::trace::sites::Sites;
use refrain_format::part::{WINDOW_BYTES, WINDOW_HEAD, flags};
use refrain_format::record::{HEAD, Tag, head};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

/// Room that is always left in the window when a record is begun, and behind every item of
/// variable size: enough for all scalars of any call, so that those need no check.
pub const MARGIN: usize = 512;

/// Calls from callbacks inside calls are followed this deep.
const DEEPEST: usize = 32;

/// How many modules of the program are known at a time.
const OTHERS: usize = 8;

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
    /// Where the C function returns to that the library called for it, and its stack pointer.
    pub inner: (usize, usize),
}

impl Forwarded {
    const NONE: Forwarded = Forwarded { function: usize::MAX, stack: 0, inner: (0, 0) };
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
    /// Addresses known to be the program's: where the last call came from.
    caller_low: usize,
    caller_length: usize,
    /// More of them, for programs of which several libraries call MPI by turns.
    others: [Range<usize>; OTHERS],
    /// Which of them gives way next.
    oldest: usize,
    /// A record is being written, or none may be. Signal handlers read this while the frame that they
    /// interrupted uses the stream: hence an atomic, as the two fields that go with it.
    busy: AtomicBool,
    /// The stack pointer of the call whose record it is.
    occupant: AtomicUsize,
    /// See [`process::fork_mark`].
    fork_mark: *const u8,
    /// Calls open at the moment.
    pub depth: u8,
    /// The number of the next call.
    pub number: u32,
    /// This MPI.
    pub abi: &'static Abi,
    /// What memory was announced.
    pub segments: Segments,
    /// Where calls were made.
    pub sites: Sites,
    defined: [u64; table::FUNCTIONS.div_ceil(64)],
    open: [Open; DEEPEST],
    /// The innermost such procedure.
    pub forwarded: Forwarded,
    /// Writing has ended for good.
    stopped: AtomicBool,
    /// The file.
    part: Part,
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
    // SAFETY: as above.
    let first_stack = unsafe { (*block).stack };
    let open = || Stream::open(first_stack);
    let stream = std::panic::catch_unwind(open).ok().flatten().unwrap_or(DISABLED);
    // SAFETY: as above.
    unsafe { (*block).stream = stream };
    is_open(stream)
}

/// Writes records to the log of this thread that belong to no call; false if it has none, or if
/// it is just being written to.
pub fn write_between_calls(write: impl FnOnce(&mut Stream)) -> bool {
    // SAFETY: the block is this thread's own; a log that is not busy is not borrowed either.
    unsafe {
        let stream = (*thread_block()).stream;
        if !is_open(stream)
            || (*stream).busy.load(Ordering::Relaxed)
            || (*stream).fork_mark.read_volatile() == 0
        {
            return false;
        }
        let log = &mut *stream;
        let here = 0u8;
        log.occupy_at(&raw const here as usize);
        write(log);
        log.release();
        true
    }
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

impl Stream {
    fn open(first_stack: usize) -> Option<*mut Stream> {
        let folder = process::folder()?;
        // In a box, as all that is large here: the thread's stack may be tiny.
        let header = process::new_header()?;
        let part = Part::create(&folder, &header)?;
        let window = part.window();
        let mut stream = Box::new(Stream {
            at: window.wrapping_add(WINDOW_HEAD),
            end: window.wrapping_add(WINDOW_BYTES),
            limit: window.wrapping_add(WINDOW_BYTES),
            is_large: false,
            window,
            caller_low: 0,
            caller_length: 0,
            others: [const { 0..0 }; OTHERS],
            oldest: 0,
            busy: AtomicBool::new(false),
            occupant: AtomicUsize::new(0),
            fork_mark: process::fork_mark(),
            depth: 0,
            number: 0,
            abi: process::abi(),
            segments: Segments::new(first_stack),
            sites: Sites::new(),
            defined: [0; table::FUNCTIONS.div_ceil(64)],
            open: [Open { stack: 0, caller: 0 }; DEEPEST],
            forwarded: Forwarded::NONE,
            stopped: AtomicBool::new(false),
            part,
            farewells: 0,
            sink: [0; 2 * MARGIN],
            large: Vec::new(),
            statuses: [const { Vec::new() }; DEEPEST],
        });
        process::add_page(stream.part.header());
        compress::add(&stream.part);
        if header.thread == 0 {
            stream.write_record(Tag::Handles, &[process::handle_names().as_bytes()]);
        }
        let stream = Box::into_raw(stream);
        at_thread_end(stream);
        Some(stream)
    }

    /// Whether a call is to be written down: it is the program's, and the log can take it.
    #[inline(always)]
    pub fn admits(&mut self, entry: &Entry) -> bool {
        let known = entry.caller.wrapping_sub(self.caller_low) < self.caller_length;
        // SAFETY: the mark is never unmapped.
        let forked = unsafe { self.fork_mark.read_volatile() } == 0;
        (known && !self.is_busy() && !forked) || self.judge(entry)
    }

    #[inline(always)]
    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    #[inline(never)]
    fn judge(&mut self, entry: &Entry) -> bool {
        // SAFETY: the mark is never unmapped.
        if unsafe { self.fork_mark.read_volatile() } == 0 {
            process::after_silent_fork();
            return false;
        }
        if self.is_busy() && !self.is_stopped() && self.is_abandoned(entry) {
            self.busy.store(false, Ordering::Relaxed);
        }
        if !self.is_busy()
            && let Some(other) = self.others.iter().find(|r| r.contains(&entry.caller))
        {
            (self.caller_low, self.caller_length) = (other.start, other.len());
            return true;
        }
        let verdict = bindings::known(entry.caller).unwrap_or_else(|| judge_anew(entry));
        let program = match &verdict {
            Verdict::Program(_) => true,
            Verdict::ByFortran => !self.is_forwarded(entry),
            Verdict::Foreign => false,
        };
        if program && self.is_busy() {
            // Inside one of our own writes (a signal handler that calls MPI), or stopped.
            self.part.update(|header| header.unrecorded = header.unrecorded.saturating_add(1));
            return false;
        }
        if let Verdict::Program(range) = verdict {
            (self.caller_low, self.caller_length) = (range.start, range.len());
            if let Some(oldest) = self.others.get_mut(self.oldest) {
                *oldest = range;
            }
            self.oldest = (self.oldest + 1) % OTHERS;
        }
        program
    }

    /// Whether the record that keeps the log busy was left by a signal handler that jumped away:
    /// then the stack above it is in use by others, this call among them. A handler on a stack
    /// of its own may be anywhere, and is left alone.
    #[cold]
    fn is_abandoned(&self, entry: &Entry) -> bool {
        // SAFETY: asks for the state of this thread's alternate stack.
        let on_alternate = unsafe {
            let mut stack: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(std::ptr::null(), &mut stack) != 0
                || stack.ss_flags & libc::SS_ONSTACK != 0
        };
        !on_alternate
            && entry.stack.wrapping_add(NESTED_BELOW) > self.occupant.load(Ordering::Relaxed)
    }

    /// Whether a call that Fortran's library makes is that of a procedure with a wrapper of its
    /// own, which has written it down.
    ///
    /// The C function may end in a jump to another (MPICH's `MPI_Keyval_create` is nothing but
    /// one to `MPI_Comm_create_keyval`), and so may our wrapper of it: the other then seems to
    /// be called from where the first was.
    fn is_forwarded(&mut self, entry: &Entry) -> bool {
        let place = (entry.caller, entry.stack);
        let is_own = entry.slot / 2 == self.forwarded.function;
        if !is_own && self.forwarded.inner != place {
            return false;
        }
        let innermost = usize::from(self.depth_of(entry)).checked_sub(1);
        let open = innermost.and_then(|i| self.open.get(i % DEEPEST));
        if open.is_none_or(|open| open.stack != self.forwarded.stack) {
            return false;
        }
        self.forwarded.inner = place;
        true
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
        self.write_record_of(function as u16, Tag::Define, &[text.as_bytes()]);
    }

    /// Writes a record that is no call's; none may be begun.
    pub fn write_record(&mut self, tag: Tag, content: &[&[u8]]) {
        self.write_record_of(0, tag, content);
    }

    fn write_record_of(&mut self, function: u16, tag: Tag, content: &[&[u8]]) {
        let length = HEAD + content.iter().map(|part| part.len()).sum::<usize>();
        if let Some(start) = self.place(0, length) {
            let mut at = start.wrapping_add(HEAD);
            for part in content {
                // SAFETY: the place has room for the record, as was just made sure.
                unsafe { at.copy_from(part.as_ptr(), part.len()) };
                at = at.wrapping_add(part.len());
            }
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
        let _uncancelled = Uncancelled::keep();
        // SAFETY: the record lies in `large`, which has room for it.
        let record = unsafe {
            start.cast::<u64>().write_unaligned(head);
            std::slice::from_raw_parts(start, length)
        };
        // The window was emptied when the record outgrew it.
        if let Err(errno) = self.write_away(record) {
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
    /// (The stack may be no more, as a coroutine's.)
    #[cold]
    fn settle_depth(&mut self, entry: &Entry) -> u8 {
        while self.depth > 0 {
            // Of calls beyond the deepest that is noted, all that is known is that one.
            let at = usize::from(self.depth - 1).min(DEEPEST - 1);
            let Some(open) = self.open.get(at) else { break };
            let below = entry.stack.wrapping_add(NESTED_BELOW) <= open.stack;
            if below && memory::word_at(open.stack) == Some(open.caller) {
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

    /// The record is complete, and the next may begin, unless writing has ended for good.
    #[inline(always)]
    pub fn release(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.busy.store(self.is_stopped(), Ordering::Relaxed);
    }

    /// A place for a record of which `written` bytes stand where it was begun, with room for
    /// `wanted` more.
    #[cold]
    pub fn place(&mut self, written: usize, wanted: usize) -> Option<*mut u8> {
        if self.is_stopped() {
            return None;
        }
        let _uncancelled = Uncancelled::keep();
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
        // SAFETY: complete records in our window, which is not written to while they are used.
        let records = unsafe { std::slice::from_raw_parts(first, bytes) };
        self.write_away(records)?;
        let partial = self.at;
        self.restart_window();
        // SAFETY: both lie in the window; the head of an incomplete record is not written
        // yet, so what is copied behind `restart_window`'s zero keeps it.
        unsafe { first.add(HEAD).copy_from(partial.add(HEAD), written.saturating_sub(HEAD)) };
        Ok(())
    }

    /// Encodes records that follow what was written away, and writes them away too, unless what
    /// was made of them is on disk.
    fn write_away(&mut self, records: &[u8]) -> Result<(), c_int> {
        let position = self.part.position();
        let end = position + records.len() as u64;
        let written = Written { thread: self.part.thread(), position, records };
        let mut saved = compress::encode(written, &self.part);
        if process::keeps_records() {
            saved = 0;
        }
        if saved >= end {
            self.part.forget_body(end);
            return Ok(());
        }
        if saved >= position {
            self.part.forget_body(position);
        }
        let Err(errno) = self.part.append(records) else { return Ok(()) };
        // No room for records: perhaps there is for what was made of them.
        if process::keeps_records() || compress::save(self.part.thread()) < end {
            return Err(errno);
        }
        self.part.forget_body(end);
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
            self.window.cast::<u64>().write(self.part.position());
        }
    }

    /// Writes no more, and says why.
    fn stop(&mut self, errno: c_int) {
        self.part.update(|header| {
            header.flags |= flags::STOPPED;
            header.stop_errno = errno;
        });
        self.retire();
    }

    /// Writes no more.
    fn retire(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.busy.store(true, Ordering::Relaxed);
        // No room: whoever still has something to write asks for a place, and gets none.
        self.end = self.at;
        self.limit = self.at;
        self.is_large = false;
        // Every call now takes the slow path, where it is counted.
        self.caller_length = 0;
    }

    /// Gives back what the thread no longer needs.
    fn close(&mut self) {
        self.segments.close();
        compress::remove(self.part.window());
        process::remove_page(self.part.header());
        self.part.update(|header| header.flags |= flags::THREAD_ENDED);
        self.part.note_time();
        self.part.give_back(self.at as usize - self.window as usize);
        // SAFETY: the page is off the list, and neither it nor the window is used again.
        unsafe { self.part.unmap() };
    }
}

/// The window of a thread's log, as other threads see it. The owner uses its [`Stream`] at the same
/// time, so this holds what never changes while the log is open, and the window itself.
#[derive(Clone, Copy)]
pub struct Window {
    at: *const u8,
    /// The thread's number.
    pub thread: u32,
}

// SAFETY: what other threads read of a window is complete records, under the lock of `compress`.
unsafe impl Send for Window {}

impl Window {
    /// That of a log.
    pub fn of(part: &Part) -> Window {
        Window { at: part.window(), thread: part.thread() }
    }

    /// Whether it is the window at that address.
    pub fn is_at(&self, window: *const u8) -> bool {
        self.at == window
    }

    /// Complete records in the window from that position of the log on, as far as another thread
    /// can see.
    ///
    /// # Safety
    /// The log must not be closed, nor its window restarted with records behind that position,
    /// while they are used.
    pub unsafe fn written_since<'a>(self, encoded: u64) -> Option<Written<'a>> {
        let Window { at: window, thread } = self;
        // SAFETY: the caller's promise; the owning thread appends behind what is read here, and
        // stores a record's first word last.
        unsafe {
            let head = window.cast::<u64>().read_volatile();
            let position = head.max(encoded);
            let first = WINDOW_HEAD + usize::try_from(position - head).ok()?;
            let mut at = first;
            while at + HEAD <= WINDOW_BYTES {
                let word = window.add(at).cast::<u64>().read_unaligned();
                compiler_fence(Ordering::Acquire);
                let length = (word >> 32) as usize;
                if word >> 16 & 0xff == 0 || length < HEAD || at + length > WINDOW_BYTES {
                    break;
                }
                at += length;
            }
            if first > WINDOW_BYTES {
                return None;
            }
            let records = std::slice::from_raw_parts(window.add(first), at - first);
            Some(Written { thread, position, records })
        }
    }
}

#[cold]
fn judge_anew(entry: &Entry) -> Verdict {
    let _errno = Errno::keep();
    std::panic::catch_unwind(|| modules::judge(entry)).unwrap_or(Verdict::Foreign)
}

/// Has the log closed when the thread ends.
fn at_thread_end(stream: *mut Stream) {
    static KEY: Lazy<Option<libc::pthread_key_t>> = Lazy::new();
    let key = KEY.get_or_make(|| {
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
