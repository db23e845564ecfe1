//! Whether this MPI writes `MPI_ERROR` into the status of an operation that succeeded.
//!
//! The standard leaves that to the library: MPICH's `MPI_Waitall` writes it, its `MPI_Testall` does not,
//! Open MPI writes it in both. A replay completes requests with other functions than the program called, so it
//! has to correct the field afterwards. What the program's function would leave there depends only on the
//! function and on whether the request is active. The agent finds it out once, with messages to itself.

use crate::inside::library::{abi, predefined};
use crate::inside::memory::Statuses;
use crate::table;
use refrain_order::{Choice, Kind};
use std::ffi::c_int;
use std::sync::OnceLock;

use super::lifetime;
use super::mpi::{self, Status};
use super::role::Mode;
use super::split;

/// The state of a request when a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It has an operation in progress.
    Active,
    /// It is persistent, and was not started.
    Inactive,
    /// It is `MPI_REQUEST_NULL`.
    Null,
}

const CLASSES: [Class; 3] = [Class::Active, Class::Inactive, Class::Null];

/// The content of the field after a successful operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// The same as before the call.
    Untouched,
    /// This value.
    Written(c_int),
    /// It could not be found out.
    Unknown,
}

type Table = [[Left; CLASSES.len()]; Kind::ALL.len()];

static TABLE: OnceLock<Table> = OnceLock::new();

/// A value that no MPI writes.
const PATTERN: c_int = 0x5a5a_5a5a;

/// Finds out what this MPI does, on the agent's private communicator.
///
/// If the program uses sessions alone, this is skipped: before the program's first communicator exists,
/// MPICH 4.0 crashes in any call that makes progress.
pub fn learn(comm: usize) {
    let can_ask = comm != 0 && lifetime::has_world();
    TABLE.get_or_init(|| {
        Kind::ALL.map(|kind| {
            CLASSES.map(|class| if can_ask { ask(comm, kind, class) } else { Left::Unknown })
        })
    });
}

fn left(kind: Kind, class: Class) -> Left {
    let row = TABLE.get().and_then(|table| table.get(kind as usize));
    row.and_then(|row| row.get(class as usize)).copied().unwrap_or(Left::Unknown)
}

/// The field of a status; nothing if the program ignores it.
pub fn get(status: Statuses) -> Option<c_int> {
    // SAFETY: a status of the program or of the agent; its fields are ints.
    (status as usize != abi().status_ignore).then(|| unsafe { field(status).read_unaligned() })
}

/// Sets the field of a status, unless the program ignores it.
pub fn put(status: Statuses, error: c_int) {
    if status as usize != abi().status_ignore {
        // SAFETY: as above.
        unsafe { field(status).write_unaligned(error) };
    }
}

fn field(status: Statuses) -> *mut c_int {
    status.wrapping_add(mpi::layout().status.error).cast()
}

/// Sets the field to what a call of this kind leaves there when the operation succeeds; `before` is its content
/// before the call.
pub fn correct(status: Statuses, kind: Kind, class: Class, before: Option<c_int>) {
    match (left(kind, class), before) {
        (Left::Written(value), _) => put(status, value),
        (Left::Untouched, Some(before)) => put(status, before),
        (Left::Unknown, Some(before)) if get(status) == Some(PATTERN) => put(status, before),
        _ => {}
    }
}

/// Marks the field of a status, so that [`was_inactive`] and [`written`] can detect whether a call writes it.
pub fn mark(status: &mut Status) {
    put(status.address(), PATTERN);
}

/// Whether the marked status shows that `MPI_Test` was given an inactive request. Not every MPI shows it.
pub fn was_inactive(status: &mut Status) -> bool {
    let found = read(status);
    let [active, inactive] = [Class::Active, Class::Inactive].map(|class| left(Kind::Test, class));
    active != inactive && found == inactive
}

/// The value that a call has written to a marked status, if any.
pub fn written(status: &mut Status) -> Option<c_int> {
    match read(status) {
        Left::Written(value) => Some(value),
        _ => None,
    }
}

fn read(status: &mut Status) -> Left {
    match get(status.address()) {
        Some(PATTERN) => Left::Untouched,
        Some(value) => Left::Written(value),
        None => Left::Unknown,
    }
}

/// Finds out what a call of a kind leaves in the field for a request of a class.
fn ask(comm: usize, kind: Kind, class: Class) -> Left {
    let Some(function) = function(kind) else { return Left::Unknown };
    let Some(byte) = predefined("MPI_BYTE") else { return Left::Unknown };
    let mut request = mpi::request_null();
    let mut sending = mpi::request_null();
    let mut status = Status::new();
    mark(&mut status);
    let ignore = mpi::status_ignore() as usize;
    let receive = [0, 0, byte, 0, 0, comm];
    let made = match class {
        Class::Null => 0,
        Class::Inactive => {
            let [a, b, c, d, e, f] = receive;
            let words = [a, b, c, d, e, f, &raw mut request as usize];
            // SAFETY: a persistent receive of no bytes, which is never started.
            unsafe { mpi::call(table::MPI_Recv_init, &words) }
        }
        Class::Active => match split::irecv(&receive, false, &mut request) {
            0 => split::isend(&receive, false, Mode::Standard, &mut sending),
            error => error,
        },
    };
    if made != 0 {
        return Left::Unknown;
    }
    // `MPI_Request_get_status` takes the request itself, not its address.
    let given = if kind == Kind::GetStatus { request } else { &raw mut request as usize };
    let (mut flag, mut index, mut outcount): (c_int, c_int, c_int) = (0, 0, 0);
    let [flag_at, index_at, outcount_at] =
        [&raw mut flag, &raw mut index, &raw mut outcount].map(|at| at as usize);
    let at = status.address() as usize;
    let arguments: &[usize] = match (kind.choice(), kind.polls(), kind.has_array()) {
        (Choice::All, false, false) => &[given, at],
        (Choice::All, true, false) => &[given, flag_at, at],
        (Choice::All, false, true) => &[1, given, at],
        (Choice::All, true, true) => &[1, given, flag_at, at],
        (Choice::One, false, _) => &[1, given, index_at, at],
        (Choice::One, true, _) => &[1, given, index_at, flag_at, at],
        (Choice::Some, ..) => &[1, given, outcount_at, index_at, at],
    };
    let mut found = Left::Unknown;
    // A message to the own process arrives at once, or soon.
    for _ in 0..LOOKS {
        // SAFETY: one request, and room for all outputs.
        let result = unsafe { mpi::call(function, arguments) };
        let reports = if kind.choice() == Choice::Some {
            outcount
        } else {
            c_int::from(!kind.polls()) | flag
        };
        if result != 0 || reports != 0 {
            found = if result == 0 { read(&mut status) } else { Left::Unknown };
            break;
        }
    }
    // SAFETY: the agent's requests, which are null if they were completed.
    unsafe {
        match class {
            Class::Active => {
                mpi::call(table::MPI_Wait, &[&raw mut request as usize, ignore]);
                mpi::call(table::MPI_Wait, &[&raw mut sending as usize, ignore]);
            }
            Class::Inactive => {
                mpi::call(table::MPI_Request_free, &[&raw mut request as usize]);
            }
            Class::Null => {}
        }
    }
    found
}

/// How often a poll may fail.
const LOOKS: u32 = 100_000;

/// The function of a kind, if it completes or inspects requests.
fn function(kind: Kind) -> Option<usize> {
    Some(match kind {
        Kind::Wait => table::MPI_Wait,
        Kind::Waitall => table::MPI_Waitall,
        Kind::Waitany => table::MPI_Waitany,
        Kind::Waitsome => table::MPI_Waitsome,
        Kind::Test => table::MPI_Test,
        Kind::Testall => table::MPI_Testall,
        Kind::Testany => table::MPI_Testany,
        Kind::Testsome => table::MPI_Testsome,
        Kind::GetStatus => table::MPI_Request_get_status,
        Kind::GetStatusAll => table::MPI_Request_get_status_all,
        Kind::GetStatusAny => table::MPI_Request_get_status_any,
        Kind::GetStatusSome => table::MPI_Request_get_status_some,
        Kind::Recv | Kind::Sendrecv | Kind::Mrecv | Kind::Parrived => return None,
        Kind::Probe | Kind::Mprobe | Kind::Iprobe | Kind::Improbe => return None,
    })
}
