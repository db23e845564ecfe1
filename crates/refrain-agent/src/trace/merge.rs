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

use crate::inside::comm::Comm;
use crate::inside::process;
use crate::trace::{compress, part};
use refrain_format::part::flags;
use refrain_signature::cells::{put_bytes, put_unsigned};
use refrain_structure::group::Residue;
use refrain_structure::merged::Merged;
use refrain_structure::transit;
use refrain_structure::write::{Streams, write};
use std::ffi::{CStr, CString};

/// The environment variable that asks for it.
const VARIABLE: &CStr = c"REFRAIN_MERGE";

/// Merges the traces of all ranks, if that was asked for.
pub fn before_finalize() {
    // SAFETY: getenv gives null or a string.
    if unsafe { libc::getenv(VARIABLE.as_ptr()) }.is_null() {
        return;
    }
    let Some(comm) = Comm::of_world() else { return };
    let mut left = Left::default();
    let merged = tree(&comm, careful(|| own_trace(&comm)), &mut left.residues);
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

/// The reduction over the ranks of the job, as a binomial tree of messages. (`refrain_elastic::tree::reduce` is
/// the same over values in memory.) Takes in what ranks behind this one in the tree have, and passes it on,
/// whether that worked or not: a rank that has nothing says so. Gives the merged trace at rank 0, nothing elsewhere, and
/// sets aside what single ranks have of their own.
fn tree(
    comm: &Comm,
    mut merged: Option<Merged>,
    residues: &mut Vec<(u32, u32, Residue)>,
) -> Option<Merged> {
    let mut step = 1;
    take_residues(&mut merged, residues);
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
            take_residues(&mut merged, residues);
        }
        step *= 2;
    }
    merged
}

/// What a rank writes down.
#[derive(Default)]
struct Left {
    structure: Option<Streams>,
    residues: Vec<(u32, u32, Residue)>,
}

/// Sets aside what single ranks have of their own.
fn take_residues(merged: &mut Option<Merged>, residues: &mut Vec<(u32, u32, Residue)>) {
    for group in merged.iter_mut().flat_map(|merged| &mut merged.groups) {
        let thread = group.thread;
        let all = std::mem::take(&mut group.residues).into_iter();
        residues.extend(all.map(|(rank, residue)| (rank, thread, residue)));
    }
}

/// Writes this rank's share.
fn write_down(comm: &Comm, left: &Left) -> bool {
    let file = |name: &str| {
        CString::new([process::folder()?.as_bytes(), b"/", name.as_bytes()].concat()).ok()
    };
    let mut bytes = Vec::new();
    for (rank, thread, residue) in &left.residues {
        let mut content = Vec::new();
        residue.put(&mut content);
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
