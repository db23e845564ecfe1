//! What is recorded, where the user does not want everything.
//!
//! * `REFRAIN_FUNCTIONS`, `REFRAIN_EXCLUDE`: only these functions; not those. Names with commas
//!   between them, in any case, with or without `MPI_`; `*` stands for any characters.
//! * `REFRAIN_RANKS`: only these ranks of `MPI_COMM_WORLD`, as in `0-3,7`.
//! * The program itself: `MPI_Pcontrol(0)` switches recording off in its process, a level above
//!   on; so does the value `off` or `on` of the key `refrain` given to `MPI_Info_set`.
//!
//! All of it ends in one byte for each function: nonzero for a reason not to record it. Calls
//! that are not recorded are forwarded, and do not count as lost. What the header of a log
//! depends on is always recorded: the beginning and the end of MPI.

use crate::inside::{memory, process};
use crate::table;
use crate::trace::milestones;
use refrain_format::part::flags;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

/// Reasons not to record a function.
const BY_NAME: u8 = 1;
const BY_RANK: u8 = 2;
const SWITCHED_OFF: u8 = 4;

static REASONS: [AtomicU8; table::FUNCTIONS] = [const { AtomicU8::new(0) }; table::FUNCTIONS];

/// Always recorded.
const ALWAYS: [usize; 6] = [
    table::MPI_Init,
    table::MPI_Init_thread,
    table::MPI_Finalize,
    table::MPI_Abort,
    table::MPI_Session_init,
    table::MPI_Session_finalize,
];

/// The ranks to record; null for all. A copy that is never freed.
static RANKS: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// Whether the program has switched recording off: bits of [`flags`].
static PAUSE: AtomicU32 = AtomicU32::new(0);

/// Whether calls of a function are recorded.
#[inline(always)]
pub fn admits(function: usize) -> bool {
    REASONS.get(function).is_none_or(|reasons| reasons.load(Ordering::Relaxed) == 0)
}

/// Whether the user does not want a function by its name.
pub fn is_excluded(function: usize) -> bool {
    REASONS.get(function).is_some_and(|reasons| reasons.load(Ordering::Relaxed) & BY_NAME != 0)
}

/// Reads what the user wants, when the library is loaded.
pub fn prepare() {
    let (only, not) = (variable(c"REFRAIN_FUNCTIONS"), variable(c"REFRAIN_EXCLUDE"));
    if only.is_some() || not.is_some() {
        let is_in = |name: &str, list: &[u8]| list.split(|&b| b == b',').any(|p| fits(name, p));
        for (function, name) in table::NAMES.iter().enumerate() {
            let wanted = only.is_none_or(|list| is_in(name, list));
            let unwanted = not.is_some_and(|list| is_in(name, list));
            if !wanted || unwanted {
                give_reason(function, BY_NAME, true);
            }
        }
    }
    if let Some(ranks) = variable(c"REFRAIN_RANKS") {
        // SAFETY: the environment's string, which is copied.
        RANKS.store(unsafe { libc::strdup(ranks.as_ptr().cast()) }, Ordering::Relaxed);
        if let Some((rank, _)) = process::rank_from_launcher() {
            set_rank(rank);
        }
    }
}

/// This process has that rank.
pub fn set_rank(rank: c_int) {
    let ranks = RANKS.load(Ordering::Relaxed);
    if !ranks.is_null() {
        // SAFETY: the copy made at load.
        let wanted = is_among(rank, unsafe { CStr::from_ptr(ranks) }.to_bytes());
        (0..table::FUNCTIONS).for_each(|function| give_reason(function, BY_RANK, !wanted));
    }
}

/// Switches recording on or off.
pub fn switch(on: bool) {
    let others = (0..table::FUNCTIONS).filter(|&f| f != table::MPI_Pcontrol);
    others.for_each(|function| give_reason(function, SWITCHED_OFF, !on));
    let before = PAUSE.load(Ordering::Relaxed);
    let now = match on {
        true => before & !flags::PAUSED,
        false => before | flags::PAUSED | flags::WAS_PAUSED,
    };
    if now != before {
        PAUSE.store(now, Ordering::Relaxed);
        milestones::paused(now);
    }
}

/// Whether the program has switched recording off: bits of [`flags`] for the headers of logs.
pub fn pause_flags() -> u32 {
    PAUSE.load(Ordering::Relaxed)
}

/// What an `MPI_Info_set` asks of us. It is recorded itself in either case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// To record from now on.
    On,
    /// To record no longer.
    Off,
}

impl Asked {
    /// By this key and value.
    ///
    /// # Safety
    /// Null, or strings.
    pub unsafe fn by(key: *const c_char, value: *const c_char) -> Asked {
        // SAFETY: the caller's promise.
        unsafe {
            match (memory::is_text(key, c"refrain"), memory::is_text(value, c"on")) {
                (true, true) => Asked::On,
                (true, false) if memory::is_text(value, c"off") => Asked::Off,
                _ => Asked::Nothing,
            }
        }
    }

    /// Before the call.
    pub fn before(self) {
        if self == Asked::On {
            switch(true);
        }
    }

    /// After it.
    pub fn after(self) {
        if self == Asked::Off {
            switch(false);
        }
    }
}

fn give_reason(function: usize, reason: u8, has_it: bool) {
    if let Some(reasons) = REASONS.get(function).filter(|_| !ALWAYS.contains(&function)) {
        if has_it {
            reasons.fetch_or(reason, Ordering::Relaxed);
        } else {
            reasons.fetch_and(!reason, Ordering::Relaxed);
        }
    }
}

/// A variable of the environment; nothing if it is empty.
fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: getenv gives null or a NUL-terminated string, used before the program runs.
    unsafe {
        let text = libc::getenv(name.as_ptr());
        (!text.is_null() && *text != 0).then(|| CStr::from_ptr(text).to_bytes())
    }
}

/// Whether a function has that name.
fn fits(name: &str, pattern: &[u8]) -> bool {
    let pattern = pattern.trim_ascii();
    let short = name.strip_prefix("MPI_").unwrap_or(name);
    !pattern.is_empty()
        && (fits_exactly(name.as_bytes(), pattern) || fits_exactly(short.as_bytes(), pattern))
}

fn fits_exactly(name: &[u8], pattern: &[u8]) -> bool {
    match (name.split_first(), pattern.split_first()) {
        (_, Some((b'*', rest))) => {
            fits_exactly(name, rest)
                || name.split_first().is_some_and(|(_, name)| fits_exactly(name, pattern))
        }
        (Some((n, name)), Some((p, pattern))) => {
            n.eq_ignore_ascii_case(p) && fits_exactly(name, pattern)
        }
        (None, None) => true,
        _ => false,
    }
}

/// Whether a rank is in a list such as `0-3,7`.
fn is_among(rank: c_int, ranks: &[u8]) -> bool {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.trim().parse::<c_int>().ok();
    ranks.split(|&b| b == b',').any(|item| {
        let mut ends = item.splitn(2, |&b| b == b'-');
        let first = ends.next().and_then(number);
        let last = ends.next().map_or(first, number);
        first.zip(last).is_some_and(|(first, last)| (first..=last).contains(&rank))
    })
}
