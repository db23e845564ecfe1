//! Room for records: in the window, in memory for a record larger than the window, or, when the log
//! has stopped, nowhere.

use super::{MARGIN, ThreadLog};
use crate::inside::process::Uncancelled;
use crate::table;
use crate::trace::compress::{LogSlice, PACE};
use refrain_format::part::WINDOW_HEAD;
use refrain_format::record::{HEAD, Tag, head};
use std::ffi::c_int;
use std::sync::atomic::{Ordering, compiler_fence};

impl ThreadLog {
    /// Makes sure that the function's definition is in the log before its first call.
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

    /// Writes a record that belongs to no call. No record may be in progress.
    pub fn write_record(&mut self, tag: Tag, content: &[&[u8]]) {
        self.write_record_of(0, tag, content);
    }

    fn write_record_of(&mut self, function: u16, tag: Tag, content: &[&[u8]]) {
        let length = HEAD + content.iter().map(|part| part.len()).sum::<usize>();
        if let Some(start) = self.reserve(0, length) {
            let mut at = start.wrapping_add(HEAD);
            for part in content {
                // SAFETY: `reserve` has made room for the record.
                unsafe { at.copy_from(part.as_ptr(), part.len()) };
                at = at.wrapping_add(part.len());
            }
            self.commit(start, length, head(function, tag, 0, length));
        }
    }

    /// Number of bytes left in the window.
    #[inline(always)]
    pub fn bytes_left(&self) -> usize {
        self.end as usize - self.at as usize
    }

    /// The start of a new record, with room for all its scalars up to [`Self::limit`]. `None` if
    /// the log has stopped.
    #[inline(always)]
    pub fn begin_record(&mut self) -> Option<*mut u8> {
        if self.bytes_left() < 2 * MARGIN { self.reserve(0, MARGIN) } else { Some(self.at) }
    }

    /// Completes a record. Its first word is stored last, after a zero behind the record, where the
    /// next one will begin.
    #[inline(always)]
    pub fn commit(&mut self, start: *mut u8, length: usize, head: u64) {
        if self.is_large {
            return self.commit_large(start, length, head);
        }
        let end = start.wrapping_add(length);
        // SAFETY: the record lies in the window with the margin behind it. x86-64 keeps stores in
        // order, so a reader that finds the first word finds the whole record.
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
        // `reserve` emptied the window when the record outgrew it.
        if let Err(errno) = self.encode_and_append(self.part.position(), record) {
            self.stop(errno);
        }
        self.restart_window();
        self.large = Vec::new();
        self.is_large = false;
        self.limit = self.end;
    }

    /// Room for `wanted` more bytes of a record whose first `written` bytes are written. Returns
    /// where the record now starts.
    #[cold]
    pub fn reserve(&mut self, written: usize, wanted: usize) -> Option<*mut u8> {
        if self.is_stopped() {
            return None;
        }
        let _uncancelled = Uncancelled::keep();
        let start = match self.is_large {
            true => self.reserve_large(written, wanted),
            false => self.reserve_in_window(written, wanted),
        };
        start.inspect_err(|&errno| self.stop(errno)).ok()
    }

    fn reserve_in_window(&mut self, written: usize, wanted: usize) -> Result<*mut u8, c_int> {
        if self.bytes_left() < written + wanted + MARGIN {
            self.flush(written)?;
        }
        if self.bytes_left() >= written + wanted + MARGIN {
            return Ok(self.at);
        }
        // SAFETY: `written` bytes were written at the cursor, in the window.
        let begun = unsafe { std::slice::from_raw_parts(self.at, written) };
        self.large.clear();
        self.large.try_reserve(written).map_err(|_| libc::ENOMEM)?;
        self.large.extend_from_slice(begun);
        self.is_large = true;
        self.reserve_large(written, wanted)
    }

    /// Room in `large` for a record that is larger than the window.
    fn reserve_large(&mut self, written: usize, wanted: usize) -> Result<*mut u8, c_int> {
        let size = (written + 2 * wanted + 2 * MARGIN).max(self.large.len());
        self.large.try_reserve(size - self.large.len()).map_err(|_| libc::ENOMEM)?;
        self.large.resize(size, 0);
        let range = self.large.as_mut_ptr_range();
        self.limit = range.end;
        Ok(range.start)
    }

    /// Memory for a record that is discarded, for calls that have to write somewhere.
    pub fn sink(&mut self) -> *mut u8 {
        let sink = self.sink.as_mut_ptr_range();
        self.limit = sink.end;
        sink.start
    }

    /// Encodes and appends the window's complete records. `written` bytes of an incomplete one move
    /// to the front.
    fn flush(&mut self, written: usize) -> Result<(), c_int> {
        let LogSlice { position, records, .. } = self.written();
        self.encode_and_append(position, records)?;
        let partial = self.at;
        self.restart_window();
        // SAFETY: both lie in the window. The head of an incomplete record is not written yet, so
        // the copy preserves the zero that `restart_window` stored.
        unsafe { self.at.add(HEAD).copy_from(partial.add(HEAD), written.saturating_sub(HEAD)) };
        Ok(())
    }

    /// Empties the window, which now continues the body.
    fn restart_window(&mut self) {
        self.at = self.window.wrapping_add(WINDOW_HEAD);
        self.due = self.at.wrapping_add(PACE);
        self.is_disk_full = false;
        // SAFETY: the log's own window. Until the last store, its records are in the body, and no
        // record follows them.
        unsafe {
            self.at.cast::<u64>().write_unaligned(0);
            compiler_fence(Ordering::Release);
            self.window.cast::<u64>().write(self.part.position());
        }
    }
}
