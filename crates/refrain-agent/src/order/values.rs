//! The system's clocks and random numbers, which are recorded on demand (`REFRAIN_RAND`).
//!
//! The agent exports none of these functions. When it is loaded, it redirects the imports of the program's
//! modules to its own functions ([`imports`]). The MPI library, the libraries that it needs, and those that
//! it loads later keep the real functions: how often they read the clock differs from run to run.

use crate::inside::imports;
use crate::inside::symbols::{each_module, needed_by};
use crate::trace::heap::Next;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_int, c_uint, c_void};

use super::{Task, locks, record_value, recorded_value, spawn, task, thread};
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
/// `std::random_device::_M_getval()` of GNU's C++ library, which may use a processor instruction.
static RANDOM_DEVICE: Next<unsafe extern "C" fn(*mut c_void) -> c_uint> =
    Next::anywhere(c"_ZNSt13random_device9_M_getvalEv");

/// The value that the program gets: when recording, the real one, which is recorded; in a replay, the recorded
/// one.
fn value(which: u8, real: impl FnOnce() -> u64) -> u64 {
    let thread = thread::this();
    match task() {
        _ if thread.is_in_forked_child() => real(),
        Task::Record => {
            let value = real();
            record_value(thread, which, value);
            value
        }
        Task::Replay => recorded_value(thread, which).unwrap_or_else(real),
        Task::Off => real(),
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
    // SAFETY: `time` accepts a null pointer, and then only returns its result.
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

unsafe extern "C" fn random_device(this: *mut c_void) -> c_uint {
    // SAFETY: the caller's object.
    let next = || RANDOM_DEVICE.get().map_or(0, |next| unsafe { next(this) });
    value(BYTES, || next().into()) as c_uint
}

/// Records the random bytes that the program gets, or overwrites them with the recorded ones.
///
/// # Safety
/// `at` must point to `length` writable bytes.
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

/// The agent's function for an imported name.
fn replacement(name: &CStr) -> Option<*const ()> {
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

/// Whether the system's clocks and random numbers are recorded.
pub fn are_recorded() -> bool {
    // SAFETY: getenv gives null or a string.
    unsafe { !libc::getenv(c"REFRAIN_RAND".as_ptr()).is_null() }
}

/// Redirects imports of the program's modules to the agent: functions that create threads or acquire locks,
/// and on demand clocks and random numbers.
pub fn redirect_imports() {
    let all = are_recorded();
    let (needed_by_mpi, callers) = mpi_modules();
    let is_system = |path: &[u8]| {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        needed_by_mpi.contains(name) || name.starts_with(b"libmpi") || name.starts_with(b"libc.so")
    };
    let name_of =
        |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
    let calls_mpi = |path: &[u8]| !is_system(path) && callers.contains(&name_of(path));
    imports::redirect_in(calls_mpi, locks::replacement);
    let is_libstdcxx = |path: &[u8]| name_of(path).starts_with(b"libstdc++");
    imports::redirect_in(is_libstdcxx, locks::condition_replacement);
    imports::redirect_in(
        |path| !is_system(path),
        |name| match name.to_bytes() {
            b"pthread_create" => Some(spawn::pthread_create as *const ()),
            _ if all => replacement(name),
            _ => None,
        },
    );
}

/// File names of modules: those that the MPI library needs, directly or indirectly; and those that are linked
/// with the MPI library.
fn mpi_modules() -> (BTreeSet<Vec<u8>>, BTreeSet<Vec<u8>>) {
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
                // The C++ library is used by the program as well.
                let shared = |name: &&Vec<u8>| !name.starts_with(b"libstdc++");
                found.extend(needed.iter().filter(shared).cloned());
            }
        }
        if found.len() == before {
            return (found, callers);
        }
    }
}
