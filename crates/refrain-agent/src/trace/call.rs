//! The record of one call.
//!
//! A wrapper records the inputs, forwards the call, and records the outputs. Between the two, calls
//! from callbacks may have written records of their own. A [`Call`] owns nothing, so an exception
//! or a `longjmp` may discard it while the call is forwarded (see the crate's rules).

use crate::inside::clock;
use crate::inside::entry::Entry;
use crate::inside::library::{abi, error_class};
use crate::inside::memory::{self, Handles, Ints, Longs, Statuses, Words};
use crate::inside::process::{Errno, STATUS_NEEDED};
use crate::inside::stalls;
use crate::trace::filter;
use crate::trace::thread_log::{MARGIN, ThreadLog};
use refrain_format::record::{HEAD, IGNORES_STATUS, PLAIN, Tag, array, head, state};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

/// A number of elements that means: not significant on this process.
pub const INSIGNIFICANT: usize = usize::MAX;

/// A call that is being recorded.
pub struct Call {
    pub(crate) log: *mut ThreadLog,
    pub(crate) entry: Entry,
    /// The record that is being written.
    start: *mut u8,
    /// Where its next byte goes.
    at: *mut u8,
    number: u32,
    depth: u8,
    /// The log has stopped: further bytes are discarded.
    lost: bool,
    /// Outputs that are not scalars may be read (no error, and the flag they depend on is set).
    readable: bool,
    /// Outputs that depend on a flag are set.
    set: bool,
    /// The outputs' record has no result of its own.
    plain: bool,
}

/// Room for one status of any MPI, in a wrapper's frame.
pub type StatusRoom = MaybeUninit<[u64; 4]>;

/// Writes scalars. It is passed by value, so that the position stays in a register; a field of
/// [`Call`] would be loaded and stored for each scalar.
#[derive(Clone, Copy)]
pub struct Cursor {
    at: *mut u8,
    /// The significant bits of a handle.
    mask: usize,
}

impl Cursor {
    #[inline(always)]
    fn put<T>(self, value: T) -> Cursor {
        // SAFETY: between two calls of `ensure`, scalars fit into the margin.
        unsafe { self.at.cast::<T>().write_unaligned(value) };
        Cursor { at: self.at.wrapping_add(size_of::<T>()), ..self }
    }

    /// An `int` by value.
    #[inline(always)]
    pub fn int(self, value: c_int) -> Cursor {
        self.put(value)
    }

    /// A 64-bit number by value.
    #[inline(always)]
    pub fn long(self, value: i64) -> Cursor {
        self.put(value)
    }

    /// A pointer by value.
    #[inline(always)]
    pub fn address(self, value: *const c_void) -> Cursor {
        self.put(value as usize)
    }

    /// A handle by value. MPICH's have 32 bits; the upper half of the register is undefined.
    #[inline(always)]
    pub fn handle(self, value: usize) -> Cursor {
        self.put(value & self.mask)
    }

    /// A file handle by value: a pointer in every MPI.
    #[inline(always)]
    pub fn file(self, value: usize) -> Cursor {
        self.put(value)
    }
}

impl Call {
    /// Begins the record of a call's inputs, if the call is to be recorded.
    #[inline(always)]
    pub fn begin(entry: Entry, log: *mut ThreadLog) -> Option<Call> {
        let pointer = log;
        // SAFETY: a log belongs to its thread. A signal handler that interrupts a frame which uses the
        // log, and calls MPI, gets here as well: it finds the log busy and changes only atomics.
        let log = unsafe { &mut *pointer };
        if !filter::admits(entry.slot / 2) || !log.admits(&entry) {
            return None;
        }
        log.occupy(&entry);
        log.ensure_defined(entry.slot / 2);
        let has_site = log.sites.are_recorded();
        let site = if has_site { log.site(&entry) } else { 0 };
        let start = log.begin_record()?;
        let mut call = Call {
            log: pointer,
            entry,
            start,
            at: start.wrapping_add(HEAD),
            number: log.number,
            depth: log.depth_of(&entry),
            lost: false,
            readable: true,
            set: true,
            plain: false,
        };
        let cursor = call.cursor().long(clock::ticks() as i64);
        call.resume(if has_site { cursor.int(site as c_int) } else { cursor });
        Some(call)
    }

    /// Announces the memory that contains an address, in front of the record. It must come before
    /// anything else is written. The kernel is asked if necessary.
    #[inline(always)]
    pub fn buffer(&mut self, at: *const c_void) {
        self.note_address(at as usize, true);
    }

    /// The same for a value that may be an address or something else.
    #[inline(always)]
    pub fn pointer(&mut self, at: *const c_void) {
        self.note_address(at as usize, false);
    }

    /// The same for an output that is the address of a buffer.
    #[inline(always)]
    pub fn buffer_at(&mut self, at: Words) {
        self.note_address_at(at, true);
    }

    /// The same for an output that may be an address or something else.
    #[inline(always)]
    pub fn pointer_at(&mut self, at: Words) {
        self.note_address_at(at, false);
    }

    #[inline(always)]
    fn note_address_at(&mut self, at: Words, may_ask: bool) {
        if self.readable && self.set {
            // SAFETY: the table says this argument is the address of a pointer.
            self.note_address(unsafe { memory::word(at) }.unwrap_or(0), may_ask);
        }
    }

    #[inline(always)]
    fn note_address(&mut self, address: usize, may_ask: bool) {
        // SAFETY: as in `begin`.
        if !unsafe { (*self.log).segments.knows(address) } {
            self.announce(address, may_ask);
        }
    }

    /// Saves the beginning of the record, announces the memory that contains an address, and
    /// continues the record behind the announcement.
    #[cold]
    #[inline(never)]
    fn announce(&mut self, address: usize, may_ask: bool) {
        const MAX_BEGUN: usize = 64;
        // SAFETY: as in `begin`.
        let log = unsafe { &mut *self.log };
        let begun = self.at as usize - self.start as usize;
        if self.lost || begun > MAX_BEGUN {
            return;
        }
        let mut kept = [0u8; MAX_BEGUN];
        // SAFETY: so many bytes were written there.
        unsafe { kept.as_mut_ptr().copy_from(self.start, begun) };
        log.announce(address, may_ask);
        let start = log.begin_record();
        self.lost = start.is_none();
        self.start = start.unwrap_or_else(|| log.sink());
        // SAFETY: both the log and the sink have room for so much.
        unsafe { self.start.add(HEAD).copy_from(kept.as_ptr().add(HEAD), begun - HEAD) };
        self.at = self.start.wrapping_add(begun);
    }

    /// Completes the record of the inputs; the call is about to be forwarded.
    #[inline(always)]
    pub fn enter(&mut self) {
        self.enter_with(false);
    }

    /// The same for a call with a status.
    #[inline(always)]
    pub fn enter_with_status(&mut self, status: Statuses) {
        // SAFETY: as in `begin`.
        let ignore = unsafe { (*self.log).abi.status_ignore };
        self.enter_with(status as usize == ignore);
    }

    /// The same for a call with an array of statuses.
    #[inline(always)]
    pub fn enter_with_statuses(&mut self, statuses: Statuses) {
        // SAFETY: as in `begin`.
        let ignore = unsafe { (*self.log).abi.statuses_ignore };
        self.enter_with(statuses as usize == ignore);
    }

    #[inline(always)]
    fn enter_with(&mut self, ignores_status: bool) {
        // SAFETY: as in `begin`.
        let log = unsafe { &mut *self.log };
        log.number = log.number.wrapping_add(1);
        log.open_call(&self.entry, self.depth);
        let tag = if log.sites.are_recorded() { Tag::EnterAt } else { Tag::Enter };
        let flag = if ignores_status { u64::from(IGNORES_STATUS) << 16 } else { 0 };
        if self.commit(log, tag, self.depth, flag) {
            log.release();
        }
        stalls::end();
    }

    /// Begins the record of the outputs; the call has just returned an error code.
    #[inline(always)]
    pub fn leave(&mut self, result: c_int) {
        self.leave_with(result.into(), if result == 0 { 0 } else { error_class(result) });
        self.readable = result == 0 || result == abi().err_in_status;
    }

    /// Begins the record of the outputs; the call has just returned something else.
    #[inline(always)]
    pub fn leave_value(&mut self, result: i64) {
        self.leave_with(result, 0);
    }

    #[inline(always)]
    fn leave_with(&mut self, result: i64, class: c_int) {
        stalls::begin();
        let ticks = clock::ticks();
        // SAFETY: as in `begin`; the thread's log cannot have ended while it is inside a call.
        let log = unsafe { &mut *self.log };
        log.occupy(&self.entry);
        let start = log.begin_record();
        self.lost = start.is_none();
        self.start = start.unwrap_or_else(|| log.sink());
        self.at = self.start.wrapping_add(HEAD);
        let mut cursor = self.cursor().long(ticks as i64);
        // Nearly every call succeeds and contains no other call; then no more is recorded.
        self.plain = result == 0 && class == 0 && log.number == self.number.wrapping_add(1);
        if !self.plain {
            cursor = cursor.long(result).int(self.number as c_int).int(class);
        }
        self.resume(cursor);
    }

    /// Completes the record of the outputs.
    #[inline(always)]
    pub fn done(&mut self) {
        // SAFETY: as in `begin`.
        let log = unsafe { &mut *self.log };
        log.depth = self.depth;
        if self.commit(log, Tag::Leave, if self.plain { PLAIN } else { 0 }, 0) {
            log.work_if_due();
            log.release();
        }
        stalls::end();
    }

    /// Completes a record. Returns false if the log has stopped.
    #[inline(always)]
    fn commit(&mut self, log: &mut ThreadLog, tag: Tag, detail: u8, flag: u64) -> bool {
        if self.lost {
            return false;
        }
        let length = self.at as usize - self.start as usize;
        let function = (self.entry.slot / 2) as u16;
        log.commit(self.start, length, head(function, tag, detail, length) | flag);
        true
    }

    /// Makes room for `bytes` more, plus the margin for scalars behind them.
    #[inline(always)]
    fn ensure(&mut self, bytes: usize) -> bool {
        // SAFETY: as in `begin`.
        let limit = unsafe { (*self.log).limit };
        let room = limit as usize - self.at as usize;
        (!self.lost && room >= bytes + MARGIN) || self.ensure_slow(bytes)
    }

    #[cold]
    fn ensure_slow(&mut self, bytes: usize) -> bool {
        // SAFETY: as in `begin`.
        let log = unsafe { &mut *self.log };
        let written = self.at as usize - self.start as usize;
        let start = if self.lost { None } else { log.reserve(written, bytes) };
        self.lost = start.is_none();
        self.start = start.unwrap_or_else(|| log.sink());
        self.at = self.start.wrapping_add(if self.lost { 0 } else { written });
        !self.lost
    }

    /// A cursor at the next byte, to write scalars.
    #[inline(always)]
    pub fn cursor(&self) -> Cursor {
        // SAFETY: as in `begin`.
        let short = unsafe { (*self.log).abi.handle_bytes == 4 };
        Cursor { at: self.at, mask: if short { 0xffff_ffff } else { usize::MAX } }
    }

    /// Continues behind the scalars that a cursor has written.
    #[inline(always)]
    pub fn resume(&mut self, cursor: Cursor) {
        self.at = cursor.at;
    }

    #[inline(always)]
    fn put<T>(&mut self, value: T) {
        self.resume(self.cursor().put(value));
    }

    /// The following outputs are set only if this logical output is true.
    #[inline(always)]
    pub fn only_if(&mut self, flag: Ints) {
        // SAFETY: an output argument of the program.
        self.set = unsafe { memory::int(flag) }.unwrap_or(0) != 0;
    }

    /// The following outputs are set in any case.
    #[inline(always)]
    pub fn in_any_case(&mut self) {
        self.set = true;
    }

    #[inline(always)]
    fn optional<T>(&mut self, value: Option<T>) {
        match value {
            Some(_) if !self.set => self.put(state::UNSET),
            Some(value) => {
                self.put(state::VALUE);
                self.put(value);
            }
            None => self.put(state::NULL),
        }
    }

    /// An `int` by address.
    #[inline(always)]
    pub fn int_at(&mut self, at: Ints) {
        // SAFETY: the table says this argument is the address of an int.
        self.optional(unsafe { memory::int(at) });
    }

    /// A 64-bit number by address.
    #[inline(always)]
    pub fn long_at(&mut self, at: Longs) {
        // SAFETY: the table says this argument is the address of a 64-bit number.
        self.optional(unsafe { memory::long(at) });
    }

    /// A pointer by address.
    #[inline(always)]
    pub fn address_at(&mut self, at: Words) {
        // SAFETY: the table says this argument is the address of a pointer.
        self.optional(unsafe { memory::word(at) });
    }

    /// A handle by address.
    #[inline(always)]
    pub fn handle_at(&mut self, at: Handles) {
        // SAFETY: the table says this argument is the address of a handle; as in `begin`.
        let value = unsafe { memory::handle(at, 0, (*self.log).abi.handle_bytes) };
        self.optional(value);
    }

    /// A file handle by address.
    #[inline(always)]
    pub fn file_at(&mut self, at: Handles) {
        self.address_at(at.cast());
    }

    /// The length of an output array; 0 if MPI has not set it.
    #[inline(always)]
    pub fn length(&self, length: impl FnOnce() -> usize) -> usize {
        if self.readable && self.set { length() } else { 0 }
    }

    /// Writes the number of elements, or the code in place of it; returns how many elements to
    /// write.
    #[inline(always)]
    fn elements(&mut self, at: *const c_void, n: usize, bytes: usize) -> usize {
        let special = abi().special;
        let code = if at.is_null() {
            array::NULL
        } else if n == INSIGNIFICANT {
            array::INSIGNIFICANT
        } else if !self.readable || !self.set {
            array::UNSET
        } else if special.contains(&(at as usize)) {
            array::SPECIAL
        } else if n < array::FIRST as usize && self.ensure(n.saturating_mul(bytes) + HEAD) {
            self.put(n as u32);
            return n;
        } else {
            array::UNSET
        };
        self.put(code);
        if code == array::SPECIAL {
            self.put(at as usize);
        }
        0
    }

    /// An array of ints.
    #[inline(always)]
    pub fn ints(&mut self, at: Ints, n: usize) {
        let n = self.elements(at.cast(), n, 4);
        self.copy(at.cast(), n * 4);
    }

    /// An array of 64-bit numbers or pointers.
    #[inline(always)]
    pub fn longs(&mut self, at: Longs, n: usize) {
        let n = self.elements(at.cast(), n, 8);
        self.copy(at.cast(), n * 8);
    }

    /// An array of handles.
    #[inline(always)]
    pub fn handles(&mut self, at: Handles, n: usize) {
        let n = self.elements(at.cast(), n, 8);
        // SAFETY: as in `begin`.
        let bytes = unsafe { (*self.log).abi.handle_bytes };
        for i in 0..n {
            // SAFETY: the table says the array has `n` handles.
            self.put(unsafe { memory::handle(at, i, bytes) }.unwrap_or(0));
        }
    }

    /// Copies bytes for which `elements` has made room.
    #[inline(always)]
    fn copy(&mut self, from: *const u8, bytes: usize) {
        if bytes > 0 {
            // SAFETY: the table says how long the program's array is, `elements` made room.
            unsafe { self.at.copy_from_nonoverlapping(from, bytes) };
            self.at = self.at.wrapping_add(bytes);
        }
    }

    /// A string of at most `most` characters.
    pub fn string(&mut self, at: *const c_char, most: usize) {
        let is_text = !at.is_null() && self.readable && self.set && most != INSIGNIFICANT;
        // SAFETY: a string argument: NUL-terminated, or shorter than its limit.
        let n = if is_text { unsafe { libc::strnlen(at, most) } } else { most };
        let n = self.elements(at.cast(), n, 1);
        self.copy(at.cast(), n);
    }

    /// An array of `n` strings.
    pub fn strings(&mut self, at: *const *const c_char, n: usize) {
        let n = self.elements(at.cast(), n, 4);
        for i in 0..n {
            // SAFETY: the table says the array has `n` strings.
            self.string(unsafe { *at.add(i) }, usize::MAX - 1);
        }
    }

    /// An array of strings that ends with NULL; `significant` is 0 or [`INSIGNIFICANT`].
    pub fn argv(&mut self, at: *const *const c_char, significant: usize) {
        let n = if at.is_null() || significant == INSIGNIFICANT {
            significant
        } else {
            // SAFETY: such arrays end with NULL.
            unsafe { memory::argv_length(at) }
        };
        self.strings(at, n);
    }

    /// An array of `n` arrays of strings, each of which ends with NULL.
    pub fn argvs(&mut self, at: *const *const *const c_char, n: usize) {
        let n = self.elements(at.cast(), n, 4);
        for i in 0..n {
            // SAFETY: the table says the array has `n` elements.
            self.argv(unsafe { *at.add(i) }, 0);
        }
    }

    /// The program's arguments, as passed to MPI_Init: the address of an array, by address.
    pub fn argv_at(&mut self, at: *const *const *const c_char, argc: usize) {
        // SAFETY: null, or the address of the program's argv.
        let at = if at.is_null() { std::ptr::null() } else { unsafe { *at } };
        self.strings(at, argc);
    }

    /// Notes a nonblocking or persistent receive that may match more than one message.
    #[inline(always)]
    pub fn note_wildcard(&mut self, source: c_int, tag: c_int) {
        if self.is_wildcard(source, tag) {
            STATUS_NEEDED.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a receive may match more than one message.
    #[inline(always)]
    pub fn is_wildcard(&self, source: c_int, tag: c_int) -> bool {
        let abi = abi();
        source == abi.any_source || tag == abi.any_tag
    }

    /// Notes that a request is about to be cancelled.
    #[inline(always)]
    pub fn note_cancel(&mut self) {
        STATUS_NEEDED.store(true, Ordering::Relaxed);
    }

    /// Whether a request may belong to a wildcard receive or may have been cancelled.
    #[inline(always)]
    pub fn may_decide(&self) -> bool {
        STATUS_NEEDED.load(Ordering::Relaxed)
    }

    /// The status to pass to MPI: the program's, or `room` if the program ignores the status and it
    /// is needed to learn what a wildcard matched, or whether a receive was cancelled.
    #[inline(always)]
    pub fn keep_status(&self, status: Statuses, wanted: bool, room: &mut StatusRoom) -> Statuses {
        if wanted && status as usize == abi().status_ignore {
            return room.write([0; 4]).as_mut_ptr().cast();
        }
        status
    }

    /// The same for an array of `n` statuses.
    #[inline(always)]
    pub fn keep_statuses(&mut self, statuses: Statuses, n: usize, wanted: bool) -> Statuses {
        if wanted && n > 0 && statuses as usize == abi().statuses_ignore {
            return self.room_for(n).unwrap_or(statuses);
        }
        statuses
    }

    fn room_for(&mut self, n: usize) -> Option<Statuses> {
        // SAFETY: as in `begin`.
        let log = unsafe { &mut *self.log };
        let room = log.statuses.get_mut(usize::from(self.depth))?;
        room.clear();
        let words = n.checked_mul(4)?;
        let _errno = Errno::keep();
        room.try_reserve_exact(words).ok()?;
        room.resize(words, 0);
        Some(room.as_mut_ptr().cast())
    }

    /// A status. The program passed `given`, and the wrapper passed `used` to MPI.
    #[inline(always)]
    pub fn status(&mut self, given: Statuses, used: Statuses) {
        let abi = abi();
        if used.is_null() && given as usize != abi.status_ignore {
            self.put(state::NULL);
        } else if !self.set {
            self.put(state::UNSET);
        } else if used as usize == abi.status_ignore {
            self.put(state::IGNORED);
        } else {
            self.put(if given == used { state::VALUE } else { state::CAPTURED });
            self.put(abi.status_bytes as u8);
            self.copy(used, abi.status_bytes);
        }
    }

    /// An array of statuses, likewise.
    #[inline(always)]
    pub fn statuses(&mut self, given: Statuses, used: Statuses, n: usize) {
        let abi = abi();
        if used as usize == abi.statuses_ignore {
            self.put(array::IGNORED);
            return;
        }
        let n = self.elements(used.cast(), n, abi.status_bytes);
        if !used.is_null() && self.readable && self.set && !self.lost {
            self.put(if given == used { state::VALUE } else { state::CAPTURED });
            self.put(abi.status_bytes as u8);
            self.copy(used, n * abi.status_bytes);
        }
    }
}
