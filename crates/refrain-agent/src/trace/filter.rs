//! Selects which calls are recorded.
//!
//! * `REFRAIN_FUNCTIONS`, `REFRAIN_EXCLUDE`: record only these functions; do not record those.
//!   Comma-separated names, case-insensitive, with or without `MPI_`; `*` stands for any
//!   characters.
//! * `REFRAIN_RANKS`: record only these ranks of `MPI_COMM_WORLD`, as in `0-3,7`.
//! * The program itself: `MPI_Pcontrol(0)` switches recording off in its process, a positive level
//!   on; so does `MPI_Info_set` with key `refrain` and value `off` or `on`.
//!
//! The result is one byte per function: nonzero if there is a reason not to record it. Calls that
//! are not recorded are forwarded, and do not count as lost. Calls that the header of a log depends
//! on, the beginning and the end of MPI, are always recorded.

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

/// Whether the user has excluded a function by its name.
pub fn is_excluded(function: usize) -> bool {
    REASONS.get(function).is_some_and(|reasons| reasons.load(Ordering::Relaxed) & BY_NAME != 0)
}

/// Reads the environment variables, when the library is loaded.
pub fn prepare() {
    let (included, excluded) = (variable(c"REFRAIN_FUNCTIONS"), variable(c"REFRAIN_EXCLUDE"));
    if included.is_some() || excluded.is_some() {
        let is_in = |name: &str, list: &[u8]| list.split(|&b| b == b',').any(|p| matches(name, p));
        for (function, name) in table::NAMES.iter().enumerate() {
            let wanted = included.is_none_or(|list| is_in(name, list));
            let unwanted = excluded.is_some_and(|list| is_in(name, list));
            if !wanted || unwanted {
                set_reason(function, BY_NAME, true);
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

/// Applies `REFRAIN_RANKS` to this process's rank.
pub fn set_rank(rank: c_int) {
    let ranks = RANKS.load(Ordering::Relaxed);
    if !ranks.is_null() {
        // SAFETY: the copy made at load.
        let wanted = is_among(rank, unsafe { CStr::from_ptr(ranks) }.to_bytes());
        (0..table::FUNCTIONS).for_each(|function| set_reason(function, BY_RANK, !wanted));
    }
}

/// Switches recording on or off.
pub fn switch(on: bool) {
    let others = (0..table::FUNCTIONS).filter(|&f| f != table::MPI_Pcontrol);
    others.for_each(|function| set_reason(function, SWITCHED_OFF, !on));
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

/// Whether an `MPI_Info_set` switches recording on or off. The call itself is recorded in either
/// case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum InfoSwitch {
    /// It does neither.
    None,
    /// It switches recording on.
    On,
    /// It switches recording off.
    Off,
}

impl InfoSwitch {
    /// The effect of a key and a value.
    ///
    /// # Safety
    /// Null, or strings.
    pub unsafe fn by(key: *const c_char, value: *const c_char) -> InfoSwitch {
        // SAFETY: the caller's promise.
        unsafe {
            match (memory::is_text(key, c"refrain"), memory::is_text(value, c"on")) {
                (true, true) => InfoSwitch::On,
                (true, false) if memory::is_text(value, c"off") => InfoSwitch::Off,
                _ => InfoSwitch::None,
            }
        }
    }

    /// Switches recording on before the call.
    pub fn before(self) {
        if self == InfoSwitch::On {
            switch(true);
        }
    }

    /// Switches recording off after the call.
    pub fn after(self) {
        if self == InfoSwitch::Off {
            switch(false);
        }
    }
}

fn set_reason(function: usize, reason: u8, applies: bool) {
    if let Some(reasons) = REASONS.get(function).filter(|_| !ALWAYS.contains(&function)) {
        if applies {
            reasons.fetch_or(reason, Ordering::Relaxed);
        } else {
            reasons.fetch_and(!reason, Ordering::Relaxed);
        }
    }
}

/// An environment variable; `None` if it is unset or empty.
fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: getenv returns null or a NUL-terminated string, used before the program runs.
    unsafe {
        let text = libc::getenv(name.as_ptr());
        (!text.is_null() && *text != 0).then(|| CStr::from_ptr(text).to_bytes())
    }
}

/// Whether a pattern matches a function's name, with or without `MPI_`.
fn matches(name: &str, pattern: &[u8]) -> bool {
    let pattern = pattern.trim_ascii();
    let short = name.strip_prefix("MPI_").unwrap_or(name);
    !pattern.is_empty()
        && (matches_exactly(name.as_bytes(), pattern) || matches_exactly(short.as_bytes(), pattern))
}

fn matches_exactly(name: &[u8], pattern: &[u8]) -> bool {
    match (name.split_first(), pattern.split_first()) {
        (_, Some((b'*', rest))) => {
            matches_exactly(name, rest)
                || name.split_first().is_some_and(|(_, name)| matches_exactly(name, pattern))
        }
        (Some((n, name)), Some((p, pattern))) => {
            n.eq_ignore_ascii_case(p) && matches_exactly(name, pattern)
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
