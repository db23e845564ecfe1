//! How long the agent delays its program, for `refrain-bench stalls`. Only with the feature `stalls`: without it,
//! everything here is empty.
//!
//! A *stall* is the time between the arrival of a call in the agent and its forwarding, or between its return
//! and the program's next instruction. Its cause is the largest kind of work that was done meanwhile. Stalls
//! are counted in a file that is mapped when the first call arrives, one per process, in the folder that
//! `REFRAIN_STALLS` names. So a process may end in any way.
//!
//! A stall during which the kernel ran another thread on the processor is counted apart: how long that lasts
//! is the other thread's affair. For programs whose ranks have one thread.
//!
//! The file consists of 64-bit words: for each cause, how many stalls there were by [`bucket`] of their ticks, the
//! longest, their sum, and how many were counted apart.

/// The largest kind of work in a stall, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[cfg_attr(not(feature = "stalls"), allow(dead_code, reason = "only counted with the feature"))]
pub enum Cause {
    /// The record of a call.
    Record,
    /// A piece of encoding.
    Piece,
    /// Records were appended to the file.
    Append,
    /// A piece of a state was written.
    State,
    /// A window was full, or a state had to be written at once.
    Flush,
    /// The log of the thread was opened.
    Open,
}

#[cfg(not(feature = "stalls"))]
mod off {
    use super::Cause;

    /// A call has arrived, or has returned from MPI.
    #[inline(always)]
    pub fn begin() {}

    /// The call is forwarded, or returns to the program.
    #[inline(always)]
    pub fn end() {}

    /// Work of that kind is done.
    #[inline(always)]
    pub fn note(_: Cause) {}
}

#[cfg(not(feature = "stalls"))]
pub use off::{begin, end, note};

#[cfg(feature = "stalls")]
pub use on::{begin, end, note};

#[cfg(feature = "stalls")]
mod on {
    use super::Cause;
    use crate::inside::{clock, permissions};
    use std::ffi::CString;
    use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};

    /// Words of each cause.
    const WORDS: usize = BUCKETS + 3;
    /// Eight for each power of two.
    const BUCKETS: usize = 64 * 8;
    const CAUSES: usize = Cause::Open as usize + 1;

    /// The file; null before the first call, [`NONE`] if there is none.
    static COUNTS: AtomicPtr<[AtomicU64; WORDS * CAUSES]> = AtomicPtr::new(std::ptr::null_mut());
    const NONE: *mut [AtomicU64; WORDS * CAUSES] = std::ptr::dangling_mut();

    /// When the current stall began, how often the kernel had changed threads then, and its cause.
    static BEGAN: AtomicU64 = AtomicU64::new(0);
    static SWITCHES: AtomicU64 = AtomicU64::new(0);
    static CAUSE: AtomicU8 = AtomicU8::new(Cause::Record as u8);

    /// A call has arrived, or has returned from MPI.
    pub fn begin() {
        SWITCHES.store(switches(), Ordering::Relaxed);
        CAUSE.store(Cause::Record as u8, Ordering::Relaxed);
        BEGAN.store(clock::ticks(), Ordering::Relaxed);
    }

    /// Work of that kind is done.
    pub fn note(cause: Cause) {
        CAUSE.fetch_max(cause as u8, Ordering::Relaxed);
    }

    /// The call is forwarded, or returns to the program.
    pub fn end() {
        let ticks = clock::ticks().saturating_sub(BEGAN.load(Ordering::Relaxed));
        let Some(counts) = counts() else { return };
        let first = usize::from(CAUSE.load(Ordering::Relaxed)) * WORDS;
        let word = |at: usize| counts.get(first + at);
        let add = |at: usize, n: u64| word(at).map(|word| word.fetch_add(n, Ordering::Relaxed));
        if switches() != SWITCHES.load(Ordering::Relaxed) {
            add(BUCKETS + 2, 1);
            return;
        }
        add(bucket(ticks), 1);
        add(BUCKETS + 1, ticks);
        word(BUCKETS).map(|most| most.fetch_max(ticks, Ordering::Relaxed));
    }

    /// The bucket of a number of ticks: its exponent, and three bits of its mantissa.
    fn bucket(ticks: u64) -> usize {
        match ticks.checked_ilog2() {
            Some(exponent @ 3..) => {
                (exponent as usize) << 3 | (ticks >> (exponent - 3)) as usize & 7
            }
            _ => ticks as usize,
        }
    }

    /// How often the kernel has run other threads in place of this one.
    fn switches() -> u64 {
        // SAFETY: getrusage fills the structure.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
            (usage.ru_nivcsw + usage.ru_nvcsw) as u64
        }
    }

    fn counts() -> Option<&'static [AtomicU64; WORDS * CAUSES]> {
        let mut at = COUNTS.load(Ordering::Relaxed);
        if at.is_null() {
            at = open().unwrap_or(NONE);
            COUNTS.store(at, Ordering::Relaxed);
        }
        // SAFETY: a mapping of that size, which is never removed.
        (at != NONE).then(|| unsafe { &*at })
    }

    fn open() -> Option<*mut [AtomicU64; WORDS * CAUSES]> {
        let bytes = size_of::<[AtomicU64; WORDS * CAUSES]>();
        // SAFETY: the name of a variable, whose value is copied; plain system calls on a new file.
        unsafe {
            let folder = libc::getenv(c"REFRAIN_STALLS".as_ptr());
            if folder.is_null() {
                return None;
            }
            let folder = std::ffi::CStr::from_ptr(folder).to_string_lossy();
            let path = CString::new(format!("{folder}/{}", libc::getpid())).ok()?;
            let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
            let fd = libc::open(path.as_ptr(), flags, permissions::at_creation());
            if fd < 0 || libc::ftruncate(fd, bytes as libc::off_t) != 0 {
                return None;
            }
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_SHARED | libc::MAP_POPULATE;
            let at = libc::mmap(std::ptr::null_mut(), bytes, access, kind, fd, 0);
            libc::close(fd);
            (at != libc::MAP_FAILED).then_some(at.cast())
        }
    }
}
