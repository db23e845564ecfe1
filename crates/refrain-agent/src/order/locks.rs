//! Locks of the program's own, where several of its threads call MPI.
//!
//! A thread that holds a lock of the program and waits for its turn in a replay would wait for ever
//! if who is first cannot get that lock. So the order in which threads get locks is kept too: one line
//! for all locks of a rank, in which a thread takes its place when it has got one. In a replay it
//! waits for its turn *before* it asks for the lock. Whoever holds it then got it earlier in the
//! recorded run, and had let go of it when this thread got it: all that it did in between comes
//! before this place in every line. So what happened is an order in which all can go on.
//!
//! Waiting for a condition is letting go of a lock and getting it again; only the latter has a place
//! in the order, so in a replay nobody waits for the condition itself, and there is no waking up for
//! nothing. Tries that fail are kept as values.
//!
//! Nothing is exported for this, as in [`super::values`]: calls of the modules that are linked with MPI
//! are led by way of ours, and the conditions of `libstdc++`. Locks of other libraries, and those that
//! are made of atomic operations (spin loops, Rust's and OpenMP's), are not seen.

use refrain_order::Turn;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::files::unsupported;
use super::stop::Waiting;
use super::thread::{self, Thread};
use super::{
    Task, is_replayed, line, note_lock, note_value, noted_value, task, took_lock, turn_of_lock,
    values,
};

/// Which source of values the results of tries are.
const TRIED: u8 = 7;

type Mutex = *mut libc::pthread_mutex_t;
type Cond = *mut libc::pthread_cond_t;
type RwLock = *mut libc::pthread_rwlock_t;
type Time = *const libc::timespec;
type Clock = libc::clockid_t;

static SEEN: AtomicBool = AtomicBool::new(false);

/// Whether the program takes locks that are seen.
pub fn are_seen() -> bool {
    SEEN.load(Ordering::Relaxed)
}

/// This thread, if the order in which it gets locks matters.
fn ordered() -> Option<&'static Thread> {
    if !line::has_threads() {
        return None;
    }
    let thread = thread::this();
    if thread.is_of_child() {
        return None;
    }
    SEEN.store(true, Ordering::Relaxed);
    thread.announce();
    Some(thread)
}

/// So many looks before a thread that waits for a lock leaves its core to others for a while: it may
/// be one that waits most of the time.
const PATIENT: u32 = 1000;
const NAP: Duration = Duration::from_micros(50);

/// Waits until it is a thread's turn to get a lock.
fn await_turn(stream: u32) {
    let mut waiting = Waiting::new(|| match turn_of_lock(stream) {
        Turn::After(other) => {
            format!("thread {stream}, for a lock, until thread {other} has had one")
        }
        Turn::Go => format!("thread {stream}, for a lock"),
    });
    let mut looks = 0u32;
    while turn_of_lock(stream) != Turn::Go {
        looks = looks.saturating_add(1);
        if looks > PATIENT {
            std::thread::sleep(NAP);
        }
        waiting.again();
    }
}

/// Gets a lock, in its turn; `get` returns 0 if it did.
fn acquire(get: impl Fn() -> c_int) -> c_int {
    let Some(thread) = ordered() else { return get() };
    match task() {
        Task::Record => {
            let result = get();
            if result == 0 {
                note_lock(thread);
            }
            result
        }
        Task::Replay => {
            await_turn(thread.stream());
            let result = get();
            took_lock();
            result
        }
        Task::Off => get(),
    }
}

/// Tries to get a lock: whether that was so is a value, and then `get` waits for it.
fn attempt(try_it: impl Fn() -> c_int, get: impl Fn() -> c_int) -> c_int {
    let Some(thread) = ordered() else { return try_it() };
    match task() {
        Task::Record => {
            let result = try_it();
            note_value(thread, TRIED, result as u64);
            if result == 0 {
                note_lock(thread);
            }
            result
        }
        Task::Replay => match noted_value(thread, TRIED) {
            Some(0) => acquire(get),
            Some(result) => result as c_int,
            None => try_it(),
        },
        Task::Off => try_it(),
    }
}

/// A function of the system that not every system has; it is only called where the program does.
macro_rules! system {
    ($name:literal, $($argument:ty),+) => {{
        // SAFETY: a name, and the type that the function of that name has.
        unsafe {
            let function = libc::dlsym(libc::RTLD_DEFAULT, $name.as_ptr());
            type Function = unsafe extern "C-unwind" fn($($argument),+) -> c_int;
            std::mem::transmute::<*mut c_void, Option<Function>>(function)
        }
    }};
}

// SAFETY of all below: they stand in for functions of the system, and are given what those are.

unsafe extern "C-unwind" fn mutex_lock(mutex: Mutex) -> c_int {
    // SAFETY: see above.
    acquire(|| unsafe { libc::pthread_mutex_lock(mutex) })
}

unsafe extern "C-unwind" fn mutex_trylock(mutex: Mutex) -> c_int {
    // SAFETY: see above.
    let lock = || unsafe { libc::pthread_mutex_lock(mutex) };
    // SAFETY: see above.
    attempt(|| unsafe { libc::pthread_mutex_trylock(mutex) }, lock)
}

unsafe extern "C-unwind" fn mutex_timedlock(mutex: Mutex, until: Time) -> c_int {
    // SAFETY: see above.
    let lock = || unsafe { libc::pthread_mutex_lock(mutex) };
    // SAFETY: see above.
    attempt(|| unsafe { libc::pthread_mutex_timedlock(mutex, until) }, lock)
}

unsafe extern "C-unwind" fn rwlock_rdlock(lock: RwLock) -> c_int {
    // SAFETY: see above.
    acquire(|| unsafe { libc::pthread_rwlock_rdlock(lock) })
}

unsafe extern "C-unwind" fn rwlock_wrlock(lock: RwLock) -> c_int {
    // SAFETY: see above.
    acquire(|| unsafe { libc::pthread_rwlock_wrlock(lock) })
}

unsafe extern "C-unwind" fn rwlock_tryrdlock(lock: RwLock) -> c_int {
    // SAFETY: see above.
    let get = || unsafe { libc::pthread_rwlock_rdlock(lock) };
    // SAFETY: see above.
    attempt(|| unsafe { libc::pthread_rwlock_tryrdlock(lock) }, get)
}

unsafe extern "C-unwind" fn rwlock_trywrlock(lock: RwLock) -> c_int {
    // SAFETY: see above.
    let get = || unsafe { libc::pthread_rwlock_wrlock(lock) };
    // SAFETY: see above.
    attempt(|| unsafe { libc::pthread_rwlock_trywrlock(lock) }, get)
}

unsafe extern "C-unwind" fn spin_lock(lock: *mut libc::pthread_spinlock_t) -> c_int {
    // SAFETY: see above.
    acquire(|| unsafe { libc::pthread_spin_lock(lock) })
}

unsafe extern "C-unwind" fn spin_trylock(lock: *mut libc::pthread_spinlock_t) -> c_int {
    // SAFETY: see above.
    let get = || unsafe { libc::pthread_spin_lock(lock) };
    // SAFETY: see above.
    attempt(|| unsafe { libc::pthread_spin_trylock(lock) }, get)
}

unsafe extern "C-unwind" fn sem_wait(semaphore: *mut libc::sem_t) -> c_int {
    // SAFETY: see above.
    acquire(|| unsafe { libc::sem_wait(semaphore) })
}

unsafe extern "C-unwind" fn sem_trywait(semaphore: *mut libc::sem_t) -> c_int {
    // SAFETY: see above.
    let get = || unsafe { libc::sem_wait(semaphore) };
    // SAFETY: see above.
    attempt(|| unsafe { libc::sem_trywait(semaphore) }, get)
}

unsafe extern "C-unwind" fn cond_wait(cond: Cond, mutex: Mutex) -> c_int {
    if ordered().is_none() || !is_replayed() {
        // SAFETY: see above.
        return acquire(|| unsafe { libc::pthread_cond_wait(cond, mutex) });
    }
    // SAFETY: see above.
    unsafe { libc::pthread_mutex_unlock(mutex) };
    // SAFETY: see above.
    acquire(|| unsafe { libc::pthread_mutex_lock(mutex) })
}

unsafe extern "C-unwind" fn cond_timedwait(cond: Cond, mutex: Mutex, until: Time) -> c_int {
    // SAFETY: see above.
    await_condition(mutex, || unsafe { libc::pthread_cond_timedwait(cond, mutex, until) })
}

/// What `wait_for` of C++ is made of.
unsafe extern "C-unwind" fn cond_clockwait(
    cond: Cond,
    mutex: Mutex,
    clock: Clock,
    until: Time,
) -> c_int {
    let Some(real) = system!(c"pthread_cond_clockwait", Cond, Mutex, Clock, Time) else {
        return libc::ENOSYS;
    };
    if task() == Task::Record && line::has_threads() && !values::are_recorded() {
        unsupported("the system's clock, which waits with a time look at: record with --rand");
    }
    // SAFETY: see above.
    await_condition(mutex, || unsafe { real(cond, mutex, clock, until) })
}

/// Waits for a condition until some time: what came of it is a value.
fn await_condition(mutex: Mutex, wait: impl Fn() -> c_int) -> c_int {
    let Some(thread) = ordered() else { return wait() };
    // The lock is got again in any case.
    match task() {
        Task::Record => {
            let result = wait();
            note_value(thread, TRIED, result as u64);
            note_lock(thread);
            result
        }
        Task::Replay => match noted_value(thread, TRIED) {
            Some(result) => {
                // SAFETY: see above.
                unsafe { libc::pthread_mutex_unlock(mutex) };
                // SAFETY: see above.
                acquire(|| unsafe { libc::pthread_mutex_lock(mutex) });
                result as c_int
            }
            None => wait(),
        },
        Task::Off => wait(),
    }
}

unsafe extern "C-unwind" fn mutex_clocklock(mutex: Mutex, clock: Clock, until: Time) -> c_int {
    let Some(real) = system!(c"pthread_mutex_clocklock", Mutex, Clock, Time) else {
        return libc::ENOSYS;
    };
    // SAFETY: see above.
    let lock = || unsafe { libc::pthread_mutex_lock(mutex) };
    // SAFETY: see above.
    attempt(|| unsafe { real(mutex, clock, until) }, lock)
}

unsafe extern "C-unwind" fn rwlock_timedrdlock(lock: RwLock, until: Time) -> c_int {
    let Some(real) = system!(c"pthread_rwlock_timedrdlock", RwLock, Time) else {
        return libc::ENOSYS;
    };
    // SAFETY: see above.
    let get = || unsafe { libc::pthread_rwlock_rdlock(lock) };
    // SAFETY: see above.
    attempt(|| unsafe { real(lock, until) }, get)
}

unsafe extern "C-unwind" fn rwlock_timedwrlock(lock: RwLock, until: Time) -> c_int {
    let Some(real) = system!(c"pthread_rwlock_timedwrlock", RwLock, Time) else {
        return libc::ENOSYS;
    };
    // SAFETY: see above.
    let get = || unsafe { libc::pthread_rwlock_wrlock(lock) };
    // SAFETY: see above.
    attempt(|| unsafe { real(lock, until) }, get)
}

/// Ours for a name that a module of the program uses.
pub fn ours(name: &CStr) -> Option<*const ()> {
    Some(match name.to_bytes() {
        b"pthread_mutex_lock" => mutex_lock as *const (),
        b"pthread_mutex_trylock" => mutex_trylock as *const (),
        b"pthread_mutex_timedlock" => mutex_timedlock as *const (),
        b"pthread_mutex_clocklock" => mutex_clocklock as *const (),
        b"pthread_rwlock_timedrdlock" => rwlock_timedrdlock as *const (),
        b"pthread_rwlock_timedwrlock" => rwlock_timedwrlock as *const (),
        b"pthread_rwlock_rdlock" => rwlock_rdlock as *const (),
        b"pthread_rwlock_wrlock" => rwlock_wrlock as *const (),
        b"pthread_rwlock_tryrdlock" => rwlock_tryrdlock as *const (),
        b"pthread_rwlock_trywrlock" => rwlock_trywrlock as *const (),
        b"pthread_spin_lock" => spin_lock as *const (),
        b"pthread_spin_trylock" => spin_trylock as *const (),
        b"sem_wait" => sem_wait as *const (),
        b"sem_trywait" => sem_trywait as *const (),
        _ => return ours_of_conditions(name),
    })
}

/// Ours for a name that waits for a condition.
pub fn ours_of_conditions(name: &CStr) -> Option<*const ()> {
    Some(match name.to_bytes() {
        b"pthread_cond_wait" => cond_wait as *const (),
        b"pthread_cond_timedwait" => cond_timedwait as *const (),
        b"pthread_cond_clockwait" => cond_clockwait as *const (),
        _ => return None,
    })
}
