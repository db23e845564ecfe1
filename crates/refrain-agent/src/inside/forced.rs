//! Forces what a program relies on not to happen (`REFRAIN_FORCE`), for `refrain check --prove`:
//!
//! * `synchronous`: standard sends are forwarded as synchronous ones, which wait for their receives
//! * `delay:RANK:FUNCTION:NTH:MILLISECONDS`: the NTH call of a send function on a rank, counted from 1, is forwarded
//!   so much later, so that messages of other ranks arrive first
//!
//! Records hold the calls that the program made.

use crate::inside::process::{Errno, rank_from_launcher};
use crate::table;
use std::ffi::{CStr, c_int};
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

static IS_SYNCHRONOUS: AtomicBool = AtomicBool::new(false);

/// The number of the function that is delayed, plus one; 0 for none.
static DELAYED: AtomicUsize = AtomicUsize::new(0);
static NTH: AtomicU64 = AtomicU64::new(0);
static MILLISECONDS: AtomicU64 = AtomicU64::new(0);
/// How many calls of that function were made.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// The functions that the delayed one and its `PMPI_` twin are forwarded to.
static ORIGINALS: [AtomicPtr<()>; 2] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 2];

/// Standard sends, and the synchronous ones with the same arguments.
const SYNCHRONOUS: [(&str, &str); 6] = [
    ("MPI_Send", "MPI_Ssend"),
    ("MPI_Send_c", "MPI_Ssend_c"),
    ("MPI_Isend", "MPI_Issend"),
    ("MPI_Isend_c", "MPI_Issend_c"),
    ("MPI_Send_init", "MPI_Ssend_init"),
    ("MPI_Send_init_c", "MPI_Ssend_init_c"),
];

/// Functions that can be delayed, with the number of their arguments.
const DELAYABLE: [(&str, usize); 8] = [
    ("MPI_Send", 6),
    ("MPI_Ssend", 6),
    ("MPI_Bsend", 6),
    ("MPI_Rsend", 6),
    ("MPI_Isend", 7),
    ("MPI_Issend", 7),
    ("MPI_Ibsend", 7),
    ("MPI_Irsend", 7),
];

/// Reads `REFRAIN_FORCE`, when the library is loaded.
pub fn prepare() {
    // SAFETY: getenv returns null or a NUL-terminated string, read at once.
    let text = unsafe {
        let text = libc::getenv(c"REFRAIN_FORCE".as_ptr());
        if text.is_null() {
            return;
        }
        CStr::from_ptr(text)
    };
    let Ok(text) = text.to_str() else { return };
    if text == "synchronous" {
        IS_SYNCHRONOUS.store(true, Ordering::Relaxed);
    } else if let Some(rest) = text.strip_prefix("delay:") {
        // A text with another form delays nothing.
        let _ = delay(rest);
    }
}

fn delay(text: &str) -> Option<()> {
    let mut words = text.split(':');
    let rank: c_int = words.next()?.parse().ok()?;
    let name = words.next()?;
    let (nth, milliseconds) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let function = table::NAMES.iter().position(|known| *known == name)?;
    if rank_from_launcher()?.0 == rank {
        NTH.store(nth, Ordering::Relaxed);
        MILLISECONDS.store(milliseconds, Ordering::Relaxed);
        DELAYED.store(function + 1, Ordering::Relaxed);
    }
    Some(())
}

/// The function that a call is forwarded to instead of the one with that name.
pub fn name(name: &str) -> &str {
    let same = SYNCHRONOUS.iter().find(|(standard, _)| *standard == name);
    match same.filter(|_| IS_SYNCHRONOUS.load(Ordering::Relaxed)) {
        Some((_, synchronous)) => synchronous,
        None => name,
    }
}

/// What stands in front of the function of a slot, if it is delayed.
pub fn delayed(slot: usize, function: *const ()) -> *const () {
    if DELAYED.load(Ordering::Relaxed) != slot / 2 + 1 {
        return function;
    }
    let name = table::NAMES.get(slot / 2).copied().unwrap_or_default();
    let arguments = DELAYABLE.iter().find(|(known, _)| *known == name).map(|(_, n)| *n);
    let shim = match (arguments, slot % 2) {
        (Some(6), 0) => six::<0> as *const (),
        (Some(6), _) => six::<1> as *const (),
        (Some(7), 0) => seven::<0> as *const (),
        (Some(7), _) => seven::<1> as *const (),
        _ => return function,
    };
    if let Some(original) = ORIGINALS.get(slot % 2) {
        original.store(function.cast_mut(), Ordering::Release);
    }
    shim
}

/// Waits if it is the turn of the call that is delayed.
fn pause() {
    let is_it = CALLS.fetch_add(1, Ordering::Relaxed) + 1 == NTH.load(Ordering::Relaxed);
    if is_it {
        let _errno = Errno::keep();
        std::thread::sleep(Duration::from_millis(MILLISECONDS.load(Ordering::Relaxed)));
    }
}

fn original(twin: usize) -> *mut () {
    let [plain, profiled] = &ORIGINALS;
    let original = if twin == 0 { plain } else { profiled };
    original.load(Ordering::Acquire)
}

type Six = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize) -> c_int;
type Seven = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize, usize) -> c_int;

/// # Safety
/// The arguments must be those of the function that is delayed.
unsafe extern "C-unwind" fn six<const P: usize>(
    buffer: usize,
    count: usize,
    datatype: usize,
    dest: usize,
    tag: usize,
    comm: usize,
) -> c_int {
    pause();
    // SAFETY: `delayed` has stored a function with six arguments, each of which a word holds.
    unsafe {
        let forwarded: Six = transmute(original(P));
        forwarded(buffer, count, datatype, dest, tag, comm)
    }
}

/// # Safety
/// The arguments must be those of the function that is delayed.
unsafe extern "C-unwind" fn seven<const P: usize>(
    buffer: usize,
    count: usize,
    datatype: usize,
    dest: usize,
    tag: usize,
    comm: usize,
    request: usize,
) -> c_int {
    pause();
    // SAFETY: `delayed` has stored a function with seven arguments, each of which a word holds.
    unsafe {
        let forwarded: Seven = transmute(original(P));
        forwarded(buffer, count, datatype, dest, tag, comm, request)
    }
}
