//! One call of the program being written down.
//!
//! A wrapper writes the inputs, forwards the call, and writes the outputs; between the two,
//! calls of callbacks may have written records of their own. A [`Call`] owns nothing, so it
//! may be left at any point where the wrapper is outside this module (see the crate's rules).

use crate::inside::clock;
use crate::inside::entry::Entry;
use crate::inside::memory::{self, Handles, Ints, Longs, Statuses, Words};
use crate::inside::process::{Errno, WILDCARD_POSTED, abi};
use crate::trace::filter;
use crate::trace::stream::{MARGIN, Stream};
use refrain_format::record::{HEAD, PLAIN, Tag, array, head, state};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

/// A number of elements that says: not significant on this process.
pub const INSIGNIFICANT: usize = usize::MAX;

/// One call being written down.
pub struct Call {
    pub(crate) stream: *mut Stream,
    pub(crate) entry: Entry,
    /// The record that is being put together.
    start: *mut u8,
    /// Where its next byte goes.
    at: *mut u8,
    number: u32,
    depth: u8,
    /// The log has ended: what is still written goes nowhere.
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

/// Where scalars are written. It is passed on by value, so that it stays in a register, where
/// a field of [`Call`] would make a trip through memory for each of them.
#[derive(Clone, Copy)]
pub struct Cursor {
    at: *mut u8,
    /// The bits of a handle that mean something.
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

    /// A handle by value. MPICH's are 32 bits wide; the upper half of the register is noise.
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
    /// Begins the record of a call's inputs, if the call is to be written down.
    #[inline(always)]
    pub fn begin(entry: Entry, stream: *mut Stream) -> Option<Call> {
        // SAFETY: a stream belongs to its thread alone, and this is the only reference while
        // the function runs.
        let log = unsafe { &mut *stream };
        if !filter::admits(entry.slot / 2) || !log.admits(&entry) {
            return None;
        }
        log.occupy(&entry);
        log.ensure_defined(entry.slot / 2);
        let has_site = log.sites.are_kept();
        let site = if has_site { log.site(&entry) } else { 0 };
        let start = log.place_now()?;
        let mut call = Call {
            stream,
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

    /// Says in which memory an address lies, in front of the record; to be asked for before
    /// anything else is written. The kernel is asked too if need be.
    #[inline(always)]
    pub fn buffer(&mut self, at: *const c_void) {
        self.names(at as usize, true);
    }

    /// The same for what may be an address or something else.
    #[inline(always)]
    pub fn pointer(&mut self, at: *const c_void) {
        self.names(at as usize, false);
    }

    /// The same for an output that is the address of a buffer.
    #[inline(always)]
    pub fn buffer_at(&mut self, at: Words) {
        self.names_at(at, true);
    }

    /// The same for an output that may be an address or something else.
    #[inline(always)]
    pub fn pointer_at(&mut self, at: Words) {
        self.names_at(at, false);
    }

    #[inline(always)]
    fn names_at(&mut self, at: Words, may_ask: bool) {
        if self.readable && self.set {
            // SAFETY: the table says this argument is the address of a pointer.
            self.names(unsafe { memory::word(at) }.unwrap_or(0), may_ask);
        }
    }

    #[inline(always)]
    fn names(&mut self, address: usize, may_ask: bool) {
        // SAFETY: as in `begin`.
        if !unsafe { (*self.stream).segments.know(address) } {
            self.announce(address, may_ask);
        }
    }

    /// Sets what was begun of the record aside, writes what there is to say of an address, and
    /// goes on behind it.
    #[cold]
    #[inline(never)]
    fn announce(&mut self, address: usize, may_ask: bool) {
        const MOST: usize = 64;
        // SAFETY: as in `begin`.
        let log = unsafe { &mut *self.stream };
        let begun = self.at as usize - self.start as usize;
        if self.lost || begun > MOST {
            return;
        }
        let mut kept = [0u8; MOST];
        // SAFETY: so many bytes stand there.
        unsafe { kept.as_mut_ptr().copy_from(self.start, begun) };
        log.announce(address, may_ask);
        let place = log.place_now();
        self.lost = place.is_none();
        self.start = place.unwrap_or_else(|| log.sink());
        // SAFETY: every place has room for so much.
        unsafe { self.start.add(HEAD).copy_from(kept.as_ptr().add(HEAD), begun - HEAD) };
        self.at = self.start.wrapping_add(begun);
    }

    /// Completes the record of the inputs; the call is about to be forwarded.
    #[inline(always)]
    pub fn enter(&mut self) {
        // SAFETY: as in `begin`.
        let log = unsafe { &mut *self.stream };
        log.number = log.number.wrapping_add(1);
        log.open_call(&self.entry, self.depth);
        let tag = if log.sites.are_kept() { Tag::EnterAt } else { Tag::Enter };
        self.complete(log, tag, self.depth);
    }

    /// Begins the record of the outputs; the call has just returned an error code.
    #[inline(always)]
    pub fn leave(&mut self, result: c_int) {
        self.leave_with(result.into(), if result == 0 { 0 } else { memory::error_class(result) });
        self.readable = result == 0 || result == abi().err_in_status;
    }

    /// Begins the record of the outputs; the call has just returned something else.
    #[inline(always)]
    pub fn leave_value(&mut self, result: i64) {
        self.leave_with(result, 0);
    }

    #[inline(always)]
    fn leave_with(&mut self, result: i64, class: c_int) {
        let ticks = clock::ticks();
        // SAFETY: as in `begin`; the thread's log cannot have ended while it is inside a call.
        let log = unsafe { &mut *self.stream };
        log.occupy(&self.entry);
        let place = log.place_now();
        self.lost = place.is_none();
        self.start = place.unwrap_or_else(|| log.sink());
        self.at = self.start.wrapping_add(HEAD);
        let mut cursor = self.cursor().long(ticks as i64);
        // Nearly every call succeeds and has no other call inside; then that is all.
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
        let log = unsafe { &mut *self.stream };
        self.complete(log, Tag::Leave, if self.plain { PLAIN } else { 0 });
        log.depth = self.depth;
    }

    #[inline(always)]
    fn complete(&mut self, log: &mut Stream, tag: Tag, detail: u8) {
        if self.lost {
            return;
        }
        let length = self.at as usize - self.start as usize;
        let function = (self.entry.slot / 2) as u16;
        log.commit(self.start, length, head(function, tag, detail, length));
        log.release();
    }

    /// Makes room for `bytes` more, and the margin that scalars rely on behind them.
    #[inline(always)]
    fn ensure(&mut self, bytes: usize) -> bool {
        // SAFETY: as in `begin`.
        let limit = unsafe { (*self.stream).limit };
        let room = limit as usize - self.at as usize;
        (!self.lost && room >= bytes + MARGIN) || self.ensure_slow(bytes)
    }

    #[cold]
    fn ensure_slow(&mut self, bytes: usize) -> bool {
        // SAFETY: as in `begin`.
        let log = unsafe { &mut *self.stream };
        let written = self.at as usize - self.start as usize;
        let place = if self.lost { None } else { log.place(written, bytes) };
        self.lost = place.is_none();
        self.start = place.unwrap_or_else(|| log.sink());
        self.at = self.start.wrapping_add(if self.lost { 0 } else { written });
        !self.lost
    }

    /// Where the next byte goes, to write scalars.
    #[inline(always)]
    pub fn cursor(&self) -> Cursor {
        // SAFETY: as in `begin`.
        let short = unsafe { (*self.stream).abi.handle_bytes == 4 };
        Cursor { at: self.at, mask: if short { 0xffff_ffff } else { usize::MAX } }
    }

    /// Goes on behind the scalars that were written.
    #[inline(always)]
    pub fn resume(&mut self, cursor: Cursor) {
        self.at = cursor.at;
    }

    #[inline(always)]
    fn put<T>(&mut self, value: T) {
        self.resume(self.cursor().put(value));
    }

    /// The outputs that follow are set only if that logical output is true.
    #[inline(always)]
    pub fn only_if(&mut self, flag: Ints) {
        // SAFETY: an output argument of the program.
        self.set = unsafe { memory::int(flag) }.unwrap_or(0) != 0;
    }

    /// The outputs that follow are set in any case.
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
        let value = unsafe { memory::handle(at, 0, (*self.stream).abi.handle_bytes) };
        self.optional(value);
    }

    /// A file handle by address.
    #[inline(always)]
    pub fn file_at(&mut self, at: Handles) {
        self.address_at(at.cast());
    }

    /// The length of an array that MPI fills in, where it has done so.
    #[inline(always)]
    pub fn length(&self, length: impl FnOnce() -> usize) -> usize {
        if self.readable && self.set { length() } else { 0 }
    }

    /// Writes the number of elements, or the code that stands in its place; gives how many
    /// elements are to be written.
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
        let bytes = unsafe { (*self.stream).abi.handle_bytes };
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

    /// An array of strings up to its closing NULL; `significant` is 0 or [`INSIGNIFICANT`].
    pub fn argv(&mut self, at: *const *const c_char, significant: usize) {
        let n = if at.is_null() || significant == INSIGNIFICANT {
            significant
        } else {
            // SAFETY: such arrays are closed by NULL.
            unsafe { memory::argv_length(at) }
        };
        self.strings(at, n);
    }

    /// An array of `n` arrays of strings, each up to its closing NULL.
    pub fn argvs(&mut self, at: *const *const *const c_char, n: usize) {
        let n = self.elements(at.cast(), n, 4);
        for i in 0..n {
            // SAFETY: the table says the array has `n` elements.
            self.argv(unsafe { *at.add(i) }, 0);
        }
    }

    /// The program's arguments, as MPI_Init gets them: the address of an array by address.
    pub fn argv_at(&mut self, at: *const *const *const c_char, argc: usize) {
        // SAFETY: null, or the address of the program's argv.
        let at = if at.is_null() { std::ptr::null() } else { unsafe { *at } };
        self.strings(at, argc);
    }

    /// A receive that completes later and may match more than one message.
    #[inline(always)]
    pub fn note_wildcard(&mut self, source: c_int, tag: c_int) {
        if self.is_wildcard(source, tag) {
            WILDCARD_POSTED.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a receive may match more than one message.
    #[inline(always)]
    pub fn is_wildcard(&self, source: c_int, tag: c_int) -> bool {
        let abi = abi();
        source == abi.any_source || tag == abi.any_tag
    }

    /// Whether a request may be of a wildcard receive.
    #[inline(always)]
    pub fn may_be_wildcard(&self) -> bool {
        WILDCARD_POSTED.load(Ordering::Relaxed)
    }

    /// The status to pass on: the program's, or one of ours where the program ignores it and
    /// only it would tell what a wildcard matched.
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
        let log = unsafe { &mut *self.stream };
        let room = log.statuses.get_mut(usize::from(self.depth))?;
        room.clear();
        let words = n.checked_mul(4)?;
        let _errno = Errno::keep();
        room.try_reserve_exact(words).ok()?;
        room.resize(words, 0);
        Some(room.as_mut_ptr().cast())
    }

    /// A status that was passed as `used` where the program gave `given`.
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
