//! The window of a log, as other threads read it.

use crate::trace::compress::LogSlice;
use crate::trace::part::Part;
use refrain_format::part::{WINDOW_BYTES, WINDOW_HEAD};
use refrain_format::record::HEAD;
use std::sync::atomic::{Ordering, compiler_fence};

/// The window of a thread's log, as other threads read it. The owner uses its [`ThreadLog`] at the
/// same time, so this has only what never changes while the log is open, and the window itself.
#[derive(Clone, Copy)]
pub struct Window {
    at: *const u8,
    /// The thread's number.
    pub thread: u32,
}

// SAFETY: other threads read only complete records of a window, under the lock of `compress`.
unsafe impl Send for Window {}

impl Window {
    /// The window of a log.
    pub fn of(part: &Part) -> Window {
        Window { at: part.window(), thread: part.thread() }
    }

    /// Whether it is the window at that address.
    pub fn is_at(&self, window: *const u8) -> bool {
        self.at == window
    }

    /// The complete records in the window from position `encoded` of the log on, as far as they are
    /// visible to this thread.
    ///
    /// # Safety
    /// While they are used, the log must not be closed, and its window must not be restarted if it
    /// has records behind that position.
    pub unsafe fn written_since<'a>(self, encoded: u64) -> Option<LogSlice<'a>> {
        let Window { at: window, thread } = self;
        // SAFETY: the caller's promise; the owner appends behind what is read here, and stores a
        // record's first word last.
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
            Some(LogSlice { thread, position, records })
        }
    }
}
