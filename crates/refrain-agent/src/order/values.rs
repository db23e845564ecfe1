//! Clocks of the system and random numbers, where they are recorded too (`REFRAIN_RAND`).
//!
//! Nothing is exported for this: calls of the program's modules are led by way of ours
//! ([`imports`]) when the agent is loaded. The MPI library, what it needs, and what it loads later
//! keep the true clock: how often they look at it is their own business, and not the same in
//! every run.

use crate::inside::imports;
use crate::inside::symbols::{each_module, needed_by};
use crate::trace::heap::Next;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_int, c_uint, c_void};

use super::{Task, locks, note_value, noted_value, spawn, task, thread};
use refrain_order::source::{BYTES, CLOCK, RAND, RANDOM, TIME, TIME_OF_DAY};

type Bytes = unsafe extern "C" fn(*mut c_void, usize, c_uint) -> isize;

static CLOCK_GETTIME: Next<unsafe extern "C" fn(c_int, *mut libc::timespec) -> c_int> =
    Next::new(c"clock_gettime");
static GETTIMEOFDAY: Next<unsafe extern "C" fn(*mut libc::timeval, *mut c_void) -> c_int> =
    Next::new(c"gettimeofday");
static TIME_NEXT: Next<unsafe extern "C" fn(*mut i64) -> i64> = Next::new(c"time");
static RAND_NEXT: Next<unsafe extern "C" fn() -> c_int> = Next::new(c"rand");
static RANDOM_NEXT: Next<unsafe extern "C" fn() -> i64> = Next::new(c"random");
static GETRANDOM: Next<Bytes> = Next::new(c"getrandom");
static GETENTROPY: Next<unsafe extern "C" fn(*mut c_void, usize) -> c_int> =
    Next::new(c"getentropy");
static ARC4RANDOM: Next<unsafe extern "C" fn() -> u32> = Next::new(c"arc4random");
static ARC4RANDOM_UNIFORM: Next<unsafe extern "C" fn(u32) -> u32> =
    Next::new(c"arc4random_uniform");
static ARC4RANDOM_BUF: Next<unsafe extern "C" fn(*mut c_void, usize)> =
    Next::new(c"arc4random_buf");
/// `std::random_device::_M_getval()` of GNU's C++ library, which may ask the processor.
static RANDOM_DEVICE: Next<unsafe extern "C" fn(*mut c_void) -> c_uint> =
    Next::anywhere(c"_ZNSt13random_device9_M_getvalEv");

/// A value that the program gets: the recorded one, or the true one, which is recorded.
fn value(which: u8, truth: impl FnOnce() -> u64) -> u64 {
    let thread = thread::this();
    match task() {
        _ if thread.is_of_child() => truth(),
        Task::Record => {
            let value = truth();
            note_value(thread, which, value);
            value
        }
        Task::Replay => noted_value(thread, which).unwrap_or_else(truth),
        Task::Off => truth(),
    }
}

unsafe extern "C" fn clock_gettime(clock: c_int, at: *mut libc::timespec) -> c_int {
    const SECOND: u64 = 1_000_000_000;
    let mut result = 0;
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let nanos = value(CLOCK, || {
        // SAFETY: room for a time.
        result = CLOCK_GETTIME.get().map_or(-1, |next| unsafe { next(clock, &mut now) });
        now.tv_sec as u64 * SECOND + now.tv_nsec as u64
    });
    if result == 0 && !at.is_null() {
        now = libc::timespec { tv_sec: (nanos / SECOND) as i64, tv_nsec: (nanos % SECOND) as i64 };
        // SAFETY: the program's room for a time.
        unsafe { *at = now };
    }
    result
}

unsafe extern "C" fn gettimeofday(at: *mut libc::timeval, zone: *mut c_void) -> c_int {
    const SECOND: u64 = 1_000_000;
    let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut result = 0;
    let micros = value(TIME_OF_DAY, || {
        // SAFETY: room for a time.
        result = GETTIMEOFDAY.get().map_or(-1, |next| unsafe { next(&mut now, zone) });
        now.tv_sec as u64 * SECOND + now.tv_usec as u64
    });
    if result == 0 && !at.is_null() {
        now = libc::timeval { tv_sec: (micros / SECOND) as i64, tv_usec: (micros % SECOND) as i64 };
        // SAFETY: the program's room for a time.
        unsafe { *at = now };
    }
    result
}

unsafe extern "C" fn time(at: *mut i64) -> i64 {
    // SAFETY: without a place, only the result counts.
    let next = || TIME_NEXT.get().map_or(-1, |next| unsafe { next(std::ptr::null_mut()) });
    let now = value(TIME, || next() as u64) as i64;
    if !at.is_null() {
        // SAFETY: the program's room for a time.
        unsafe { *at = now };
    }
    now
}

unsafe extern "C" fn rand() -> c_int {
    // SAFETY: takes nothing.
    value(RAND, || RAND_NEXT.get().map_or(0, |next| unsafe { next() }) as u64) as c_int
}

unsafe extern "C" fn random() -> i64 {
    // SAFETY: takes nothing.
    value(RANDOM, || RANDOM_NEXT.get().map_or(0, |next| unsafe { next() }) as u64) as i64
}

unsafe extern "C" fn getrandom(at: *mut c_void, length: usize, flags: c_uint) -> isize {
    // SAFETY: the caller's promise: room for so many bytes.
    let next = || GETRANDOM.get().map_or(-1, |next| unsafe { next(at, length, flags) });
    let given = value(BYTES, || next() as u64) as isize;
    let given_bytes = usize::try_from(given).unwrap_or(0).min(length);
    // SAFETY: as above.
    unsafe { bytes(at, given_bytes) };
    given
}

unsafe extern "C" fn getentropy(at: *mut c_void, length: usize) -> c_int {
    // SAFETY: the caller's promise: room for so many bytes.
    let next = || GETENTROPY.get().map_or(-1, |next| unsafe { next(at, length) });
    let result = value(BYTES, || next() as u64) as c_int;
    if result == 0 {
        // SAFETY: as above.
        unsafe { bytes(at, length) };
    }
    result
}

unsafe extern "C" fn arc4random() -> u32 {
    // SAFETY: takes nothing.
    value(BYTES, || ARC4RANDOM.get().map_or(0, |next| unsafe { next() }).into()) as u32
}

unsafe extern "C" fn arc4random_uniform(bound: u32) -> u32 {
    // SAFETY: takes a number.
    let next = || ARC4RANDOM_UNIFORM.get().map_or(0, |next| unsafe { next(bound) });
    value(BYTES, || next().into()) as u32
}

unsafe extern "C" fn arc4random_buf(at: *mut c_void, length: usize) {
    // SAFETY: the caller's promise: room for so many bytes.
    unsafe {
        if let Some(next) = ARC4RANDOM_BUF.get() {
            next(at, length);
        }
        bytes(at, length);
    }
}

unsafe extern "C" fn random_device(own: *mut c_void) -> c_uint {
    // SAFETY: the caller's object.
    let next = || RANDOM_DEVICE.get().map_or(0, |next| unsafe { next(own) });
    value(BYTES, || next().into()) as c_uint
}

/// Random bytes that the program gets: they are recorded, or overwritten by the recorded ones.
///
/// # Safety
/// So many bytes have to be there.
unsafe fn bytes(at: *mut c_void, length: usize) {
    if length == 0 {
        return;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts_mut(at.cast::<u8>(), length) };
    for piece in bytes.chunks_mut(8) {
        let mut word = [0; 8];
        word.iter_mut().zip(&*piece).for_each(|(to, from)| *to = *from);
        let word = value(BYTES, || u64::from_le_bytes(word)).to_le_bytes();
        piece.iter_mut().zip(word).for_each(|(to, from)| *to = from);
    }
}

/// Ours for a name.
fn ours(name: &CStr) -> Option<*const ()> {
    Some(match name.to_bytes() {
        b"clock_gettime" => clock_gettime as *const (),
        b"gettimeofday" => gettimeofday as *const (),
        b"time" => time as *const (),
        b"rand" => rand as *const (),
        b"random" => random as *const (),
        b"getrandom" => getrandom as *const (),
        b"getentropy" => getentropy as *const (),
        b"arc4random" => arc4random as *const (),
        b"arc4random_uniform" => arc4random_uniform as *const (),
        b"arc4random_buf" => arc4random_buf as *const (),
        b"_ZNSt13random_device9_M_getvalEv" => random_device as *const (),
        _ => return None,
    })
}

/// Whether clocks of the system and random numbers are wanted.
pub fn are_recorded() -> bool {
    // SAFETY: getenv gives null or a string.
    unsafe { !libc::getenv(c"REFRAIN_RAND".as_ptr()).is_null() }
}

/// Leads the program's calls by way of ours: of what makes threads and takes locks, and if that is
/// wanted of clocks and random numbers.
pub fn prepare() {
    let all = are_recorded();
    let (theirs, callers) = of_mpi();
    let is_theirs = |path: &[u8]| {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        theirs.contains(name) || name.starts_with(b"libmpi") || name.starts_with(b"libc.so")
    };
    let name_of =
        |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
    imports::lead_in(|path| !is_theirs(path) && callers.contains(&name_of(path)), locks::ours);
    imports::lead_in(|path| name_of(path).starts_with(b"libstdc++"), locks::ours_of_conditions);
    imports::lead_in(
        |path| !is_theirs(path),
        |name| match name.to_bytes() {
            b"pthread_create" => Some(spawn::pthread_create as *const ()),
            _ if all => ours(name),
            _ => None,
        },
    );
}

/// The names of what the MPI library needs, and what that needs; and of what is linked with it.
fn of_mpi() -> (BTreeSet<Vec<u8>>, BTreeSet<Vec<u8>>) {
    let mut modules = Vec::new();
    each_module(|module, _| {
        modules.push(needed_by(module));
        None::<()>
    });
    let is_mpi = |name: &[u8]| name.starts_with(b"libmpi") || name.starts_with(b"libopen-");
    let callers = modules.iter().filter(|(_, needed)| needed.iter().any(|name| is_mpi(name)));
    let callers: BTreeSet<Vec<u8>> = callers.map(|(name, _)| name.clone()).collect();
    let mut found: BTreeSet<Vec<u8>> = BTreeSet::new();
    loop {
        let before = found.len();
        for (name, needed) in &modules {
            if is_mpi(name) || found.contains(name) {
                // What everybody needs is the program's as well.
                let shared = |name: &&Vec<u8>| !name.starts_with(b"libstdc++");
                found.extend(needed.iter().filter(shared).cloned());
            }
        }
        if found.len() == before {
            return (found, callers);
        }
    }
}
