//! Sleeping and waking over shared memory.

use core::sync::atomic::AtomicU32;

/// Sleeps while `word` equals `seen`, but at most `milliseconds`.
pub(crate) fn wait(word: &AtomicU32, seen: u32, milliseconds: u32) {
    let time = libc::timespec {
        tv_sec: (milliseconds / 1000).into(),
        tv_nsec: i64::from(milliseconds % 1000) * 1_000_000,
    };
    // SAFETY: the word lives as long as the reference; callers expect spurious returns.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, &time, 0, 0) };
}

/// Wakes all threads that sleep on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: waking touches no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX, 0, 0, 0) };
}

/// Whether no process has this number. A zombie counts as gone.
pub(crate) fn is_gone(pid: u32) -> bool {
    let Ok(pid @ 1..) = i32::try_from(pid) else { return false };
    // SAFETY: signal 0 is not delivered.
    unsafe { libc::kill(pid, 0) != 0 && *libc::__errno_location() == libc::ESRCH }
}
