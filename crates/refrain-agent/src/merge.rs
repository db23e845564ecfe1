//! One trace of all ranks, made as MPI is finalised.
//!
//! Right before `MPI_Finalize` is forwarded, each process turns what it has encoded into traces
//! of its tasks, and the ranks merge these in a binomial tree: in step k, ranks that have bit k
//! set send to the rank without it and are done. Fits are merged, not values, so what travels is
//! about as large as the result. What only one rank has (outcomes, polls) does not travel: an
//! exclusive scan tells each rank its place in one file, and it writes there itself.
//!
//! All of that goes over a communicator of our own, which exists only here, so that nothing the
//! program can see changes while it runs. The folder for parts then has `merged` (the structure)
//! and `merged.own`; calls made from now on are in the logs, and whoever makes the final file
//! looks there whether there were any.
//!
//! All ranks must take part, so what decides is the same for all: the environment. What goes wrong
//! in one rank is written down, and the trace is made of the logs instead.

use crate::process::{self, abi};
use crate::{compress, memory, next, part, table};
use refrain_encode::cells::{put_bytes, put_unsigned};
use refrain_format::part::flags;
use refrain_merge::group::Own;
use refrain_merge::merged::Merged;
use refrain_merge::transit;
use refrain_merge::write::{Streams, write};
use std::ffi::{CStr, CString, c_int, c_void};

/// The environment variable that asks for it.
const VARIABLE: &CStr = c"REFRAIN_MERGE";

/// The largest message.
const PIECE: usize = 1 << 28;

/// Merges the traces of all ranks, if that was asked for.
pub fn before_finalize() {
    // SAFETY: getenv gives null or a string.
    if unsafe { libc::getenv(VARIABLE.as_ptr()) }.is_null() {
        return;
    }
    let Some(comm) = Comm::of_world() else { return };
    let mut left = Left::default();
    let merged = tree(&comm, careful(|| own_trace(&comm)), &mut left.own);
    left.structure = careful(|| merged.as_ref().map(write));
    let wrote = write_down(&comm, &left);
    let is_well = wrote && (merged.is_some() || comm.rank != 0);
    let all = comm.all(is_well);
    comm.free();
    if all == Some(true) {
        process::update(|header| header.flags |= flags::MERGED);
    }
}

/// A defect of ours must not keep this rank from taking part in what follows.
fn careful<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok().flatten()
}

fn own_trace(comm: &Comm) -> Option<Merged> {
    let place = |(thread, task)| Merged::of(comm.rank as u32, thread, task);
    Some(Merged::merge_all(compress::finish()?.into_iter().map(place)))
}

/// Takes in what ranks behind this one in the tree have, and passes it on, whether that worked or
/// not: a rank that has nothing says so. Gives the merged trace at rank 0, nothing elsewhere, and
/// sets aside what single ranks have of their own.
fn tree(comm: &Comm, mut merged: Option<Merged>, own: &mut Vec<(u32, u32, Own)>) -> Option<Merged> {
    let mut step = 1;
    take_own(&mut merged, own);
    while step < comm.size {
        if comm.rank & step != 0 {
            let bytes = careful(|| merged.as_ref().map(transit::to_bytes));
            comm.send(comm.rank - step, &bytes.unwrap_or_default());
            return None;
        }
        if comm.rank + step < comm.size {
            let bytes = comm.receive(comm.rank + step);
            let both = || merged.take()?.merge(transit::from_bytes(&bytes?)?).into();
            merged = careful(both);
            take_own(&mut merged, own);
        }
        step *= 2;
    }
    merged
}

/// What a rank writes down.
#[derive(Default)]
struct Left {
    structure: Option<Streams>,
    own: Vec<(u32, u32, Own)>,
}

/// Sets aside what single ranks have of their own.
fn take_own(merged: &mut Option<Merged>, own: &mut Vec<(u32, u32, Own)>) {
    for group in merged.iter_mut().flat_map(|merged| &mut merged.groups) {
        let thread = group.thread;
        let all = std::mem::take(&mut group.own).into_iter();
        own.extend(all.map(|(rank, own)| (rank, thread, own)));
    }
}

/// Writes this rank's share.
fn write_down(comm: &Comm, left: &Left) -> bool {
    let file = |name: &str| {
        CString::new([process::folder()?.as_bytes(), b"/", name.as_bytes()].concat()).ok()
    };
    let mut bytes = Vec::new();
    for (rank, thread, own) in &left.own {
        let mut content = Vec::new();
        own.put(&mut content);
        put_unsigned(&mut bytes, (*rank).into());
        put_unsigned(&mut bytes, (*thread).into());
        put_bytes(&mut bytes, &content);
    }
    // Every rank takes part in the scan, whatever else fails.
    let Some(offset) = comm.offset(bytes.len() as u64) else { return false };
    let wrote = bytes.is_empty()
        || file("merged.own").is_some_and(|path| part::write_at(&path, &bytes, offset).is_ok());
    let Some(streams) = &left.structure else { return wrote };
    let mut bytes = Vec::new();
    put_bytes(&mut bytes, &streams.structure);
    put_bytes(&mut bytes, &streams.timing);
    wrote && file("merged").is_some_and(|path| part::put_in_place(&path, &bytes).is_ok())
}

/// A communicator of our own, of all ranks.
struct Comm {
    handle: usize,
    rank: c_int,
    size: c_int,
    byte: usize,
    unsigned: usize,
    sum: usize,
    min: usize,
}

/// A function of MPI in the form it is called in here.
macro_rules! call {
    ($name:ident ( $($argument:expr => $type:ty),* )) => {{
        let f = next::mpi(table::$name)?;
        // SAFETY: the function has this form in every MPI: handles by value are at most as wide
        // as a register, and what is passed is valid for the call.
        unsafe {
            let f: unsafe extern "C" fn($($type),*) -> c_int = std::mem::transmute(f);
            (f($($argument),*) == 0).then_some(())
        }
    }};
}

impl Comm {
    fn of_world() -> Option<Comm> {
        let (rank, size) = memory::world()?;
        let mut handle = 0usize;
        let place = &raw mut handle;
        call!(MPI_Comm_dup(abi().comm_world => usize, place => *mut usize))?;
        // What goes wrong is ours to deal with.
        let returning = process::predefined("MPI_ERRORS_RETURN")?;
        call!(MPI_Comm_set_errhandler(handle => usize, returning => usize))?;
        let mut comm = Comm { handle, rank, size, byte: 0, unsigned: 0, sum: 0, min: 0 };
        comm.byte = process::predefined("MPI_BYTE")?;
        comm.unsigned = process::predefined("MPI_UINT64_T")?;
        (comm.sum, comm.min) = (process::predefined("MPI_SUM")?, process::predefined("MPI_MIN")?);
        Some(comm)
    }

    fn send(&self, to: c_int, bytes: &[u8]) -> Option<()> {
        let length = bytes.len() as u64;
        self.send_piece(to, &length.to_le_bytes())?;
        bytes.chunks(PIECE).try_for_each(|piece| self.send_piece(to, piece))
    }

    fn send_piece(&self, to: c_int, piece: &[u8]) -> Option<()> {
        let (at, n) = (piece.as_ptr().cast(), piece.len() as c_int);
        call!(MPI_Send(at => *const c_void, n => c_int, self.byte => usize, to => c_int,
                       0 => c_int, self.handle => usize))
    }

    fn receive(&self, from: c_int) -> Option<Vec<u8>> {
        let mut length = [0; 8];
        self.receive_piece(from, &mut length)?;
        let length = usize::try_from(u64::from_le_bytes(length)).ok()?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).ok()?;
        bytes.resize(length, 0);
        bytes.chunks_mut(PIECE).try_for_each(|piece| self.receive_piece(from, piece))?;
        Some(bytes)
    }

    fn receive_piece(&self, from: c_int, piece: &mut [u8]) -> Option<()> {
        let (at, n) = (piece.as_mut_ptr().cast(), piece.len() as c_int);
        let ignore = abi().status_ignore;
        call!(MPI_Recv(at => *mut c_void, n => c_int, self.byte => usize, from => c_int,
                       0 => c_int, self.handle => usize, ignore => usize))
    }

    /// The sum of what the ranks before this one have.
    fn offset(&self, bytes: u64) -> Option<u64> {
        let mut before = 0u64;
        let (given, place) = (&raw const bytes, &raw mut before);
        call!(MPI_Exscan(given => *const u64, place => *mut u64, 1 => c_int,
                         self.unsigned => usize, self.sum => usize, self.handle => usize))?;
        // What rank 0 gets is not defined.
        Some(if self.rank == 0 { 0 } else { before })
    }

    /// Whether something holds everywhere.
    fn all(&self, here: bool) -> Option<bool> {
        let (given, mut least) = (u64::from(here), 0u64);
        let (given, place) = (&raw const given, &raw mut least);
        call!(MPI_Allreduce(given => *const u64, place => *mut u64, 1 => c_int,
                            self.unsigned => usize, self.min => usize, self.handle => usize))?;
        Some(least == 1)
    }

    fn free(mut self) -> Option<()> {
        let place = &raw mut self.handle;
        call!(MPI_Comm_free(place => *mut usize))
    }
}
