//! Encodes and appends the records of a window, in pieces.
//!
//! A piece takes at most about 10 µs: other ranks may wait for this one, and a longer pause delays
//! them all. So records are encoded after every [`PACE`](compress::PACE) bytes, straight out of the
//! window while they are in the cache, and appended to the file a few pages at a time.

use super::ThreadLog;
use crate::inside::process::{self, Uncancelled};
use crate::inside::stalls::{self, Cause};
use crate::trace::compress::{self, LogSlice, PACE, Progress};
use refrain_format::part::WINDOW_HEAD;
use std::ffi::c_int;

/// The most bytes that are appended at a time.
const APPENDED: usize = 64 << 10;

impl ThreadLog {
    /// Does a piece of work if one is due. A record has just been completed, and the log is still
    /// busy.
    #[inline(always)]
    pub fn work_if_due(&mut self) {
        if self.at >= self.due {
            self.work();
        }
    }

    #[cold]
    #[inline(never)]
    fn work(&mut self) {
        let _uncancelled = Uncancelled::keep();
        stalls::note(Cause::Piece);
        let written = self.written();
        let end = written.position + written.records.len() as u64;
        if !self.is_disk_full && end - self.part.position() >= self.part.next_append() {
            let LogSlice { position, records, .. } = written;
            self.is_disk_full = self.append_from(position, records, APPENDED).is_err();
            // Encoding as well would take too long at once.
            self.due = self.at.wrapping_add(PACE / 8);
            return;
        }
        let Progress { pace, saved } = compress::encode_some(&written, &self.part);
        self.due = self.at.wrapping_add(pace);
        self.drop_saved(saved, written.position, end);
    }

    /// The complete records in the window.
    pub(super) fn written<'a>(&self) -> LogSlice<'a> {
        let first = self.window.wrapping_add(WINDOW_HEAD);
        let bytes = self.at as usize - first as usize;
        // SAFETY: the log's own window. Complete records are not changed before it restarts, and no
        // caller uses them afterwards.
        let (position, records) =
            unsafe { (self.window.cast::<u64>().read(), std::slice::from_raw_parts(first, bytes)) };
        LogSlice { thread: self.part.thread(), position, records }
    }

    /// Encodes records that begin at `start` of the log, and appends those that are not in the body
    /// yet, unless a state on disk covers them.
    pub(super) fn encode_and_append(&mut self, start: u64, records: &[u8]) -> Result<(), c_int> {
        stalls::note(Cause::Flush);
        let end = start + records.len() as u64;
        let written = LogSlice { thread: self.part.thread(), position: start, records };
        let saved = compress::encode(written, &self.part);
        self.drop_saved(saved, start, end);
        let Err(errno) = self.append_from(start, records, usize::MAX) else { return Ok(()) };
        // There is no disk space for the records; perhaps there is for their encoding.
        if process::keeps_records() || compress::save(self.part.thread()) < end {
            return Err(errno);
        }
        self.part.restart_body(end);
        Ok(())
    }

    /// Before `MPI_Finalize`: if there are many records, encodes all and replaces them by a state.
    pub fn settle(&mut self) {
        /// Fewer bytes are quickly encoded after the program.
        const MANY: u64 = 256 << 10;
        let written = self.written();
        let end = written.position + written.records.len() as u64;
        if end < MANY {
            return;
        }
        let _uncancelled = Uncancelled::keep();
        let saved = compress::settle(&written, &self.part);
        self.drop_saved(saved, written.position, end);
    }

    /// Empties the body if a state on disk covers it, or if what the state does not cover is in memory, which has the log
    /// from `start` to `end`.
    fn drop_saved(&mut self, saved: u64, start: u64, end: u64) {
        if saved > self.part.base() && saved >= start && !process::keeps_records() {
            self.part.restart_body(saved.min(end));
        }
    }

    /// Appends at most so many bytes of the records, which begin at `start` of the log, that are not in the body.
    fn append_from(&mut self, start: u64, records: &[u8], most: usize) -> Result<(), c_int> {
        let known = self.part.position().saturating_sub(start) as usize;
        match records.get(known..) {
            None | Some([]) => Ok(()),
            Some(rest) => self.part.append(rest.get(..most).unwrap_or(rest)),
        }
    }
}
