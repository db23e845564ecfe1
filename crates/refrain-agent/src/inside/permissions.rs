//! Permissions of the files that the agent creates.
//!
//! They contain arguments, host names and paths of the program, so only the owner may read them,
//! whatever the program's umask, unless `REFRAIN_MODE` says otherwise: octal permissions, or
//! `umask`.

use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU32, Ordering};

/// The owner may read and write.
const PRIVATE: u32 = 0o600;

/// Stands for the permissions that the umask allows.
const UMASK: u32 = u32::MAX;

static MODE: AtomicU32 = AtomicU32::new(PRIVATE);

/// Reads `REFRAIN_MODE`, when the library is loaded.
pub fn prepare() {
    // SAFETY: getenv returns null or a NUL-terminated string, read at once.
    let text = unsafe {
        let text = libc::getenv(c"REFRAIN_MODE".as_ptr());
        if text.is_null() {
            return;
        }
        CStr::from_ptr(text)
    };
    MODE.store(parse(text.to_str().unwrap_or_default()), Ordering::Relaxed);
}

fn parse(text: &str) -> u32 {
    match u32::from_str_radix(text, 8) {
        Ok(bits) => bits & 0o666 | PRIVATE,
        Err(_) if text == "umask" => UMASK,
        Err(_) => PRIVATE,
    }
}

/// The mode to create a file with.
pub fn at_creation() -> libc::mode_t {
    if MODE.load(Ordering::Relaxed) == UMASK { 0o666 } else { PRIVATE }
}

/// Sets the permissions of a file that was just created. The owner can always open it again.
pub fn set(file: c_int) {
    let mode = MODE.load(Ordering::Relaxed);
    // SAFETY: plain system calls on the agent's file; fstat fills the structure or fails.
    unsafe {
        let mut stat = std::mem::zeroed::<libc::stat>();
        libc::fstat(file, &mut stat);
        let is = stat.st_mode & 0o777;
        let wanted = if mode == UMASK { is | PRIVATE } else { mode };
        if is != wanted {
            libc::fchmod(file, wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_can_always_read_and_write() {
        assert_eq!(parse("640"), 0o640);
        assert_eq!(parse("000"), 0o600);
        assert_eq!(parse("777"), 0o666);
        assert_eq!(parse("umask"), UMASK);
        assert_eq!(parse("nonsense"), PRIVATE);
    }
}
