//! The limit on file sizes (`ulimit -f`).

/// The largest file that this process may write. A write past the limit raises SIGXFSZ, which kills
/// the program by default, so the agent compares every write with the limit first.
pub fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: fills in the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur
}
