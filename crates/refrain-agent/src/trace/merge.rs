//! Merges the traces of all ranks in `MPI_Finalize`.
//!
//! Right before `MPI_Finalize` is forwarded, each process turns what it has encoded into traces of
//! its tasks. The ranks merge these in a binomial tree: in step k, each rank with bit k set sends
//! to the rank without it, and is done. Fitted columns are merged, not single values, so messages
//! are about as large as the result. Per-rank residues (outcomes, failed polls) are not sent: an
//! exclusive scan gives each rank its offset in a common file, and the rank writes there itself.
//!
//! The messages use a communicator of the agent, which exists only during the merge, so that
//! nothing that the program can observe changes while it runs. The folder of parts then has
//! `merged` (the structure) and `merged.own` (the residues). Calls that are made later are in the
//! logs; the offline merge checks whether there are any.
//!
//! All ranks must take part, so the decision depends only on the environment, which is the same for
//! all. A failure of one rank is recorded, and the trace is assembled from the logs instead.

use crate::inside::library::{Comm, comm_of_world};
use crate::inside::process;
use crate::trace::{compress, part};
use refrain_format::part::flags;
use refrain_signature::cells::{put_bytes, put_unsigned};
use refrain_structure::group::Residue;
use refrain_structure::merged::Merged;
use refrain_structure::transit;
use std::ffi::{CStr, CString};

/// The environment variable that asks for the merge.
const VARIABLE: &CStr = c"REFRAIN_MERGE";

/// Merges the traces of all ranks, if the environment asks for it.
pub fn before_finalize() {
    // SAFETY: getenv returns null or a string.
    if unsafe { libc::getenv(VARIABLE.as_ptr()) }.is_null() {
        return;
    }
    let Some(comm) = comm_of_world() else { return };
    let mut output = Output::default();
    let merged = tree(&comm, without_panic(|| local_trace(&comm)), &mut output.residues);
    output.merged = without_panic(|| merged.as_ref().map(transit::to_bytes));
    let wrote = write_output(&comm, &output);
    let succeeded = wrote && (merged.is_some() || comm.rank != 0);
    let all = comm.all(succeeded);
    comm.free();
    if all == Some(true) {
        process::update(|header| header.set_flags(flags::MERGED));
    }
}

/// Catches a panic, which must not keep this rank from taking part in what follows.
fn without_panic<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).ok().flatten()
}

fn local_trace(comm: &Comm) -> Option<Merged> {
    let merged = |(thread, task)| Merged::of(comm.rank as u32, thread, task);
    Some(Merged::merge_all(compress::finish()?.into_iter().map(merged)))
}

/// The reduction over the ranks of the job, as a binomial tree of messages.
/// (`refrain_elastic::tree::reduce` is the same over values in memory.) A rank merges what its
/// children send and passes the result on; if that failed, it sends an empty message. Returns the
/// merged trace at rank 0 and `None` elsewhere. Collects the per-rank residues in `residues`.
fn tree(
    comm: &Comm,
    mut merged: Option<Merged>,
    residues: &mut Vec<(u32, u32, Residue)>,
) -> Option<Merged> {
    let mut step = 1;
    take_residues(&mut merged, residues);
    while step < comm.size {
        if comm.rank & step != 0 {
            let bytes = without_panic(|| merged.as_ref().map(transit::to_bytes));
            comm.send(comm.rank - step, &bytes.unwrap_or_default());
            return None;
        }
        if comm.rank + step < comm.size {
            let bytes = comm.receive(comm.rank + step);
            let both = || merged.take()?.merge(transit::from_bytes(&bytes?)?).into();
            merged = without_panic(both);
            take_residues(&mut merged, residues);
        }
        step *= 2;
    }
    merged
}

/// What a rank writes to files.
#[derive(Default)]
struct Output {
    /// The merged trace, without residues.
    merged: Option<Vec<u8>>,
    residues: Vec<(u32, u32, Residue)>,
}

/// Moves the per-rank residues out of the groups.
fn take_residues(merged: &mut Option<Merged>, residues: &mut Vec<(u32, u32, Residue)>) {
    for group in merged.iter_mut().flat_map(|merged| &mut merged.groups) {
        let thread = group.thread;
        let all = std::mem::take(&mut group.residues).into_iter();
        residues.extend(all.map(|(rank, residue)| (rank, thread, residue)));
    }
}

/// Writes this rank's residues, and at rank 0 the structure.
fn write_output(comm: &Comm, output: &Output) -> bool {
    let file = |name: &str| {
        CString::new([process::folder()?.as_bytes(), b"/", name.as_bytes()].concat()).ok()
    };
    let mut bytes = Vec::new();
    for (rank, thread, residue) in &output.residues {
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
    let Some(bytes) = &output.merged else { return wrote };
    wrote && file("merged").is_some_and(|path| part::replace_file(&path, bytes).is_ok())
}
