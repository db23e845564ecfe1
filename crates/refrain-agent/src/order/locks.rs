//! The order in which threads acquire the program's locks, if several threads call MPI.
//!
//! In a replay, a thread may hold a lock of the program while it waits for its turn. If the thread whose turn
//! it is needs that lock, both would wait forever. Therefore the order of lock acquisitions is recorded too:
//! all locks of a rank share one turn queue, and a thread is entered there when it has acquired a lock. In a
//! replay, a thread waits for its turn *before* it asks for the lock. If another thread still holds the lock
//! then, that thread acquired it earlier in the recorded run and had released it before this acquisition; so
//! everything it did in between precedes this turn in every queue. Hence the recorded order never deadlocks.
//!
//! Waiting for a condition releases a lock and acquires it again. Only the acquisition has a turn, so in a
//! replay no thread waits for the condition itself, and there are no spurious wakeups. The results of tries
//! are recorded as values.
//!
//! The agent exports none of these functions, as in [`super::values`]: it redirects the imports of modules that
//! are linked with MPI, and the condition variables of `libstdc++`. Locks of other libraries, and locks made of
//! atomic operations (spin loops, Rust's, OpenMP's), are not recorded.

use refrain_order::Turn;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::files::note_unsupported;
use super::stop::Waiting;
use super::thread::{self, Thread};
use super::{
    Task, is_replayed, record_lock, record_value, recorded_value, task, thread_level, took_lock,
    turn_of_lock, values,
};

/// The source of values for the results of tries.
const TRIED: u8 = 7;

type Mutex = *mut libc::pthread_mutex_t;
type Cond = *mut libc::pthread_cond_t;
type RwLock = *mut libc::pthread_rwlock_t;
type Time = *const libc::timespec;
type Clock = libc::clockid_t;

static SEEN: AtomicBool = AtomicBool::new(false);

/// Whether the program has acquired locks that are recorded.
pub fn are_seen() -> bool {
    SEEN.load(Ordering::Relaxed)
}

/// This thread, if the order of its lock acquisitions matters.
fn ordered() -> Option<&'static Thread> {
    if !thread_level::has_several() {
        return None;
    }
    let thread = thread::this();
    if thread.is_in_forked_child() {
        return None;
    }
    SEEN.store(true, Ordering::Relaxed);
    thread.assign_stream();
    Some(thread)
}

/// How often a thread polls for its turn before it sleeps between polls: it may wait most of the time.
const POLLS_BEFORE_NAPS: u32 = 1000;
const NAP: Duration = Duration::from_micros(50);

/// Waits until it is a thread's turn to acquire a lock.
fn await_turn(stream: u32) {
    let mut waiting = Waiting::new(|| match turn_of_lock(stream) {
        Turn::After(other) => {
            format!("thread {stream}, for a lock, until thread {other} has had one")
        }
        Turn::Go => format!("thread {stream}, for a lock"),
    });
    let mut polls = 0u32;
    while turn_of_lock(stream) != Turn::Go {
        polls = polls.saturating_add(1);
        if polls > POLLS_BEFORE_NAPS {
            std::thread::sleep(NAP);
        }
        waiting.again();
    }
}

/// Acquires a lock in its turn; `get` returns 0 on success.
fn acquire(get: impl Fn() -> c_int) -> c_int {
    let Some(thread) = ordered() else { return get() };
    match task() {
        Task::Record => {
            let result = get();
            if result == 0 {
                record_lock(thread);
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

/// Tries to acquire a lock. The result is recorded as a value; in a replay, `get` waits for a lock that was
/// acquired.
fn attempt(try_it: impl Fn() -> c_int, get: impl Fn() -> c_int) -> c_int {
    let Some(thread) = ordered() else { return try_it() };
    match task() {
        Task::Record => {
            let result = try_it();
            record_value(thread, TRIED, result as u64);
            if result == 0 {
                record_lock(thread);
            }
            result
        }
        Task::Replay => match recorded_value(thread, TRIED) {
            Some(0) => acquire(get),
            Some(result) => result as c_int,
            None => try_it(),
        },
        Task::Off => try_it(),
    }
}

/// A function of the C library that not every version has; it is called only if the program calls it.
macro_rules! system {
    ($name:literal, $($argument:ty),+) => {{
        // SAFETY: the function of that name has this type.
        unsafe {
            let function = libc::dlsym(libc::RTLD_DEFAULT, $name.as_ptr());
            type Function = unsafe extern "C-unwind" fn($($argument),+) -> c_int;
            std::mem::transmute::<*mut c_void, Option<Function>>(function)
        }
    }};
}

// SAFETY of all functions below: they replace functions of the C library, and pass the program's arguments on.

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

/// C++ implements `std::condition_variable::wait_for` with this.
unsafe extern "C-unwind" fn cond_clockwait(
    cond: Cond,
    mutex: Mutex,
    clock: Clock,
    until: Time,
) -> c_int {
    let Some(real) = system!(c"pthread_cond_clockwait", Cond, Mutex, Clock, Time) else {
        return libc::ENOSYS;
    };
    if task() == Task::Record && thread_level::has_several() && !values::are_recorded() {
        note_unsupported("the system's clock, which waits with a time look at: record with --rand");
    }
    // SAFETY: see above.
    await_condition(mutex, || unsafe { real(cond, mutex, clock, until) })
}

/// Waits for a condition with a time limit. The result is recorded as a value.
fn await_condition(mutex: Mutex, wait: impl Fn() -> c_int) -> c_int {
    let Some(thread) = ordered() else { return wait() };
    // The lock is acquired again in any case.
    match task() {
        Task::Record => {
            let result = wait();
            record_value(thread, TRIED, result as u64);
            record_lock(thread);
            result
        }
        Task::Replay => match recorded_value(thread, TRIED) {
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

/// The agent's function for a name that a module of the program imports.
pub fn replacement(name: &CStr) -> Option<*const ()> {
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
        _ => return condition_replacement(name),
    })
}

/// The agent's function for an imported name that waits for a condition.
pub fn condition_replacement(name: &CStr) -> Option<*const ()> {
    Some(match name.to_bytes() {
        b"pthread_cond_wait" => cond_wait as *const (),
        b"pthread_cond_timedwait" => cond_timedwait as *const (),
        b"pthread_cond_clockwait" => cond_clockwait as *const (),
        _ => return None,
    })
}
