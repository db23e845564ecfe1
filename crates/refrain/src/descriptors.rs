//! Standard input, output and error, where they are closed.
//!
//! Rust opens `/dev/null` in their place before `main`. A program that we start must find them as it
//! would without us: closed. So they are looked at before that, and closed again on the way.

use crate::mode;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

/// A bit for each of the three that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Runs before Rust does anything.
extern "C" fn look() {
    for fd in 0..3 {
        // SAFETY: asks for the flags of a descriptor, which may not be one.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

#[used]
// SAFETY: an entry of this section is a function that the loader calls, before `main`.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// The command finds them, and the umask, as we have found them.
pub fn pass_on(command: &mut Command) -> &mut Command {
    let command = mode::restore(command);
    let closed = CLOSED.load(Ordering::Relaxed);
    if closed == 0 {
        return command;
    }
    let close = move || {
        for fd in (0..3).filter(|fd| closed & 1 << fd != 0) {
            // SAFETY: closes what Rust has opened; nothing else is done in the child.
            unsafe { libc::close(fd) };
        }
        Ok(())
    };
    // SAFETY: what runs in the child only closes descriptors.
    unsafe { command.pre_exec(close) }
}
