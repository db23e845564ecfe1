//! When MPI begins and when it ends: with `MPI_Init` and `MPI_Finalize`, or with sessions, of which
//! there may be several, and which may outlive `MPI_Finalize`.
//!
//! Orders are kept from the first beginning until all have ended. Who begins anew after that is left alone,
//! and the record says so.

use crate::inside::memory;
use crate::inside::process::{self, Errno, Quiet};
use crate::table;
use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::role::Hooked;
use super::{Method, Task, clocked, files, line, method, mpi, record, replay, task, thread};

/// How often MPI has begun and not ended.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// `MPI_COMM_WORLD` has been there.
static HAS_WORLD: AtomicBool = AtomicBool::new(false);
/// The last end has been.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Whether `MPI_COMM_WORLD` may be named; programs with nothing but sessions have none.
pub fn has_world() -> bool {
    HAS_WORLD.load(Ordering::Relaxed)
}

fn is_session(call: &Hooked<'_>) -> bool {
    [table::MPI_Session_init, table::MPI_Session_finalize].contains(&call.role.function)
}

/// MPI begins. Clocks travel by a communicator that has to be made of `MPI_COMM_WORLD`, so that with
/// them sessions are only forwarded.
pub fn begin(call: &Hooked<'_>) -> c_int {
    let result = call.forward();
    let is_session = is_session(call);
    if result == 0 && !(is_session && method() == Method::Clock) {
        HAS_WORLD.fetch_or(!is_session, Ordering::Relaxed);
        OPEN.fetch_add(1, Ordering::Relaxed);
        match IS_OVER.load(Ordering::Relaxed) {
            true => files::note_cut(c"MPI began again after it had ended"),
            false => start(),
        }
    }
    result
}

/// Begins to record or to replay, once.
fn start() {
    static START: Once = Once::new();
    // Before: a handler that begins a session in the middle of this would wait for itself.
    let _quiet = Quiet::keep();
    START.call_once(|| {
        let known = match has_world() {
            true => memory::world().or_else(process::rank_from_launcher),
            // Without a launcher it is alone.
            false => process::rank_from_launcher().or(Some((0, 1))),
        };
        if let Some((rank, size)) = known {
            files::set_rank(rank);
            line::start();
            thread::this().announce();
            // A panic here would be a defect of ours: the program goes on without a record.
            let _ = std::panic::catch_unwind(|| match (task(), method()) {
                (Task::Record, Method::Causal) => record::start(size),
                (Task::Replay, Method::Causal) => replay::start(rank, size),
                (Task::Record, Method::Clock) => clocked::record::start(rank, size),
                (Task::Replay, Method::Clock) => clocked::replay::start(rank, size),
                (Task::Off, _) => {}
            });
        }
    });
}

/// MPI ends, perhaps for good.
pub fn end(call: &Hooked<'_>) -> c_int {
    let is_counted = !(is_session(call) && method() == Method::Clock);
    let open = OPEN.load(Ordering::Relaxed);
    let is_last = is_counted && open <= 1;
    if is_counted {
        OPEN.store(open.saturating_sub(1), Ordering::Relaxed);
    }
    if is_last {
        IS_OVER.store(true, Ordering::Relaxed);
        let _errno = Errno::keep();
        let _ = std::panic::catch_unwind(|| match (task(), method()) {
            (Task::Record, Method::Causal) => record::end(),
            (Task::Replay, Method::Causal) => replay::end(),
            (Task::Record, Method::Clock) => clocked::record::end(),
            (Task::Replay, Method::Clock) => clocked::replay::end(),
            (Task::Off, _) => {}
        });
    }
    let result = call.forward();
    if is_last && task() == Task::Replay {
        replay::over();
    }
    result
}

/// A session of our own, for [`own_comm`].
static SESSION: AtomicU64 = AtomicU64::new(0);

/// Makes a communicator of this process alone; 0 where that cannot be done.
pub fn own_comm() -> usize {
    let mut comm = 0usize;
    let at = &raw mut comm as usize;
    let made = match has_world() {
        // SAFETY: a predefined communicator, and room for a handle.
        true => process::predefined("MPI_COMM_SELF")
            .map(|own| unsafe { mpi::call(table::MPI_Comm_dup, &[own, at]) }),
        false => comm_of_session(at),
    };
    if made == Some(0) { comm } else { 0 }
}

/// The same with a session of our own, which no end of the program's takes away.
fn comm_of_session(at: usize) -> Option<c_int> {
    let info = process::predefined("MPI_INFO_NULL")?;
    let errors = process::predefined("MPI_ERRORS_RETURN")?;
    let (mut session, mut group) = (0usize, 0usize);
    // SAFETY: predefined handles, names closed by zeros, and room for handles.
    unsafe {
        let place = &raw mut session as usize;
        (mpi::call(table::MPI_Session_init, &[info, errors, place]) == 0).then_some(())?;
        SESSION.store(session as u64, Ordering::Relaxed);
        let (name, place) = (c"mpi://SELF".as_ptr() as usize, &raw mut group as usize);
        let found = mpi::call(table::MPI_Group_from_session_pset, &[session, name, place]);
        (found == 0).then_some(())?;
        let name = c"refrain".as_ptr() as usize;
        let made = mpi::call(table::MPI_Comm_create_from_group, &[group, name, info, errors, at]);
        mpi::call(table::MPI_Group_free, &[place]);
        Some(made)
    }
}

/// Lets go of what [`own_comm`] has made.
pub fn free_own_comm(mut comm: usize) {
    let mut session = SESSION.swap(0, Ordering::Relaxed) as usize;
    // SAFETY: a communicator and a session of our own.
    unsafe {
        if comm != 0 {
            mpi::call(table::MPI_Comm_free, &[&raw mut comm as usize]);
        }
        if session != 0 {
            mpi::call(table::MPI_Session_finalize, &[&raw mut session as usize]);
        }
    }
}
