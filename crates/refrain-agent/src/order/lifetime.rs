//! Initialization and finalization of MPI: `MPI_Init` and `MPI_Finalize`, or sessions. There may be several
//! sessions, and they may outlive `MPI_Finalize`.
//!
//! Recording or replaying lasts from the first initialization to the last finalization. If the program
//! initializes MPI again after that, nothing more is recorded, and the record says that it is truncated.

use crate::inside::library::{library, predefined};
use crate::inside::process::{self, Errno, Quiet};
use crate::table;
use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::role::Hooked;
use super::{
    Method, Task, clocked, files, method, mpi, record, replay, task, thread, thread_level,
};

/// How many initializations are not finalized yet.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// `MPI_Init` was called, so `MPI_COMM_WORLD` exists or has existed.
static HAS_WORLD: AtomicBool = AtomicBool::new(false);
/// The last finalization has happened.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Whether `MPI_COMM_WORLD` may be used. Programs that use sessions alone do not have it.
pub fn has_world() -> bool {
    HAS_WORLD.load(Ordering::Relaxed)
}

fn is_session(call: &Hooked<'_>) -> bool {
    [table::MPI_Session_init, table::MPI_Session_finalize].contains(&call.role.function)
}

/// Initializes MPI. With the clock method, session calls are only forwarded: clocks travel on a duplicate of
/// `MPI_COMM_WORLD`.
pub fn begin(call: &Hooked<'_>) -> c_int {
    let result = call.forward();
    let is_session = is_session(call);
    if result == 0 && !(is_session && method() == Method::Clock) {
        HAS_WORLD.fetch_or(!is_session, Ordering::Relaxed);
        OPEN.fetch_add(1, Ordering::Relaxed);
        match IS_OVER.load(Ordering::Relaxed) {
            true => files::note_truncated(c"MPI began again after it had ended"),
            false => start(),
        }
    }
    result
}

/// Starts recording or replaying, once.
fn start() {
    static START: Once = Once::new();
    // Signals are blocked first: a handler that initializes a session inside `call_once` would deadlock.
    let _quiet = Quiet::keep();
    START.call_once(|| {
        let known = match has_world() {
            true => library().world().or_else(process::rank_from_launcher),
            // A process without a launcher is the only rank.
            false => process::rank_from_launcher().or(Some((0, 1))),
        };
        if let Some((rank, size)) = known {
            files::set_rank(rank);
            thread_level::query();
            thread::this().assign_stream();
            // After a panic in the agent, the program continues without a record.
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

/// Finalizes MPI or a session.
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

/// The agent's session, which [`private_comm`] may need.
static SESSION: AtomicU64 = AtomicU64::new(0);

/// Makes the agent's private communicator, which has this process alone; 0 if that fails.
pub fn private_comm() -> usize {
    let mut comm = 0usize;
    let at = &raw mut comm as usize;
    let made = match has_world() {
        // SAFETY: a predefined communicator, and room for a handle.
        true => predefined("MPI_COMM_SELF")
            .map(|comm_self| unsafe { mpi::call(table::MPI_Comm_dup, &[comm_self, at]) }),
        false => comm_of_session(at),
    };
    if made == Some(0) { comm } else { 0 }
}

/// Makes that communicator from a session of the agent, which stays valid when the program finalizes its own.
fn comm_of_session(at: usize) -> Option<c_int> {
    let info = predefined("MPI_INFO_NULL")?;
    let errors = predefined("MPI_ERRORS_RETURN")?;
    let (mut session, mut group) = (0usize, 0usize);
    // SAFETY: predefined handles, NUL-terminated names, and room for handles.
    unsafe {
        let session_at = &raw mut session as usize;
        (mpi::call(table::MPI_Session_init, &[info, errors, session_at]) == 0).then_some(())?;
        SESSION.store(session as u64, Ordering::Relaxed);
        let (name, group_at) = (c"mpi://SELF".as_ptr() as usize, &raw mut group as usize);
        let found = mpi::call(table::MPI_Group_from_session_pset, &[session, name, group_at]);
        (found == 0).then_some(())?;
        let name = c"refrain".as_ptr() as usize;
        let made = mpi::call(table::MPI_Comm_create_from_group, &[group, name, info, errors, at]);
        mpi::call(table::MPI_Group_free, &[group_at]);
        Some(made)
    }
}

/// Frees what [`private_comm`] has made.
pub fn free_private_comm(mut comm: usize) {
    let mut session = SESSION.swap(0, Ordering::Relaxed) as usize;
    // SAFETY: the agent's communicator and session.
    unsafe {
        if comm != 0 {
            mpi::call(table::MPI_Comm_free, &[&raw mut comm as usize]);
        }
        if session != 0 {
            mpi::call(table::MPI_Session_finalize, &[&raw mut session as usize]);
        }
    }
}
