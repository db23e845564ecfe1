//! Restores what a program would inherit without Refrain.
//!
//! * Closed standard descriptors: Rust opens `/dev/null` instead before `main`. They are closed again
//!   for the program.
//! * SIGXFSZ, which kills a process that writes past the limit on file sizes (`ulimit -f`). Refrain
//!   ignores it, so that such a write fails with EFBIG and is reported like a full disk. The program
//!   gets the disposition that Refrain was started with.
//! * The umask ([`mode`]).

use crate::mode;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8};

/// A bit for each standard descriptor that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);
/// Whether SIGXFSZ had its default disposition.
static KILLS_LARGE_WRITES: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's own initialization.
extern "C" fn prepare() {
    for fd in 0..3 {
        // SAFETY: queries the flags of a descriptor; an invalid one gives an error.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << fd, Relaxed);
        }
    }
    // SAFETY: changes the disposition of one signal to a constant.
    let former = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    KILLS_LARGE_WRITES.store(former == libc::SIG_DFL, Relaxed);
}

#[used]
// SAFETY: an entry of this section is a function that the loader calls, before `main`.
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = prepare;

/// Lets the command inherit what Refrain itself inherited.
pub fn pass_on(command: &mut Command) -> &mut Command {
    let (closed, kills) = (CLOSED.load(Relaxed), KILLS_LARGE_WRITES.load(Relaxed));
    let restore = move || {
        if kills {
            // SAFETY: changes the disposition of one signal to a constant.
            unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_DFL) };
        }
        for fd in (0..3).filter(|fd| closed & 1 << fd != 0) {
            // SAFETY: closes the descriptor that Rust's initialization opened.
            unsafe { libc::close(fd) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec, the closures make async-signal-safe system calls only.
    unsafe { mode::restore(command).pre_exec(restore) }
}
