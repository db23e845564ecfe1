//! What `--redact` (`REFRAIN_REDACT`) keeps out of logs: the folders of files, and arguments that
//! are command lines, paths, host names or settings. File names remain, without their folders.
//!
//! The log itself must not contain these: it becomes part of the trace with `--raw`, and a killed
//! job leaves it behind. Host names are replaced later, when the trace is assembled, because until
//! then they distinguish processes of different machines.

use crate::trace::call::INSIGNIFICANT;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, Ordering};

static IS_ON: AtomicBool = AtomicBool::new(false);

/// Recorded in place of a string.
const REDACTED: &CStr = c"redacted";

/// Reads `REFRAIN_REDACT`, when the library is loaded.
pub fn prepare() {
    // SAFETY: getenv returns null or a NUL-terminated string.
    let is_on = unsafe { !libc::getenv(c"REFRAIN_REDACT".as_ptr()).is_null() };
    IS_ON.store(is_on, Ordering::Relaxed);
}

fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// A path as it is recorded.
pub fn path(path: &[u8]) -> &[u8] {
    if is_on() { base_name(path) } else { path }
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// A string argument as it is recorded.
pub fn string(at: *const c_char) -> *const c_char {
    if is_on() && !at.is_null() { REDACTED.as_ptr() } else { at }
}

/// How many strings of an array are recorded.
pub fn count(n: usize) -> usize {
    if is_on() && n != INSIGNIFICANT { 0 } else { n }
}

/// An array of strings that ends with NULL, as it is recorded.
pub fn argv(at: *const *const c_char) -> *const *const c_char {
    struct NullTerminated([*const c_char; 1]);
    // SAFETY: a null pointer that never changes.
    unsafe impl Sync for NullTerminated {}
    static EMPTY: NullTerminated = NullTerminated([std::ptr::null()]);
    if is_on() && !at.is_null() { EMPTY.0.as_ptr() } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_their_names_without_their_folders() {
        assert_eq!(base_name(b"/home/me/bin/app"), b"app");
        assert_eq!(base_name(b"app"), b"app");
        assert_eq!(base_name(b""), b"");
    }
}
