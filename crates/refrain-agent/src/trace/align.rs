//! How far the clocks of the ranks are apart.
//!
//! Ticks begin anywhere, and run at their own rate, on each machine. Where the times of every call
//! are kept, each rank but the first compares its clock with that of a *parent*, right after
//! `MPI_Init` and right before `MPI_Finalize`: the ranks are a binomial tree, so this takes log P
//! steps. In a round the rank sends a message and gets the parent's ticks back; those belong to the
//! middle of the round, give or take half of how long it took. Of many rounds the shortest counts.
//! Whoever makes the trace follows the tree from rank 0 on, and so has the clocks of all in one.

use crate::inside::comm::Comm;
use crate::inside::{clock, process};
use crate::trace::compress;
use refrain_format::part::Sync;

/// Rounds with the parent; the first few only warm up.
const ROUNDS: usize = 40;

/// The two times at which clocks are compared.
#[derive(Clone, Copy)]
pub enum Moment {
    /// Right after `MPI_Init`.
    Beginning = 0,
    /// Right before `MPI_Finalize`.
    End = 1,
}

/// Compares clocks, if times are kept. All ranks take part.
pub fn compare(moment: Moment) {
    if !compress::keeps_times() {
        return;
    }
    let Some(comm) = Comm::of_world() else { return };
    if let Some(found) = compare_in(&comm) {
        process::update(|header| {
            if let Some(sync) = header.sync.get_mut(moment as usize) {
                *sync = found;
            }
        });
    }
    comm.free();
}

/// What this rank found out about its parent's clock; nothing for the first.
fn compare_in(comm: &Comm) -> Option<Sync> {
    let mut step = 1;
    while step < comm.size {
        if comm.rank & step != 0 {
            return ask(comm, comm.rank - step);
        }
        if comm.rank + step < comm.size {
            answer(comm, comm.rank + step)?;
        }
        step *= 2;
    }
    None
}

/// Asks the parent for its ticks, again and again.
fn ask(comm: &Comm, parent: i32) -> Option<Sync> {
    let mut best: Option<Sync> = None;
    for _ in 0..ROUNDS {
        let mut theirs = [0; 8];
        let before = clock::ticks();
        comm.send_piece(parent, &before.to_le_bytes())?;
        comm.receive_piece(parent, &mut theirs)?;
        let half = clock::ticks().wrapping_sub(before) / 2;
        if best.is_none_or(|best| half < best.uncertainty) {
            let theirs = u64::from_le_bytes(theirs);
            best = Some(Sync { own: before.wrapping_add(half), parent: theirs, uncertainty: half });
        }
    }
    best
}

/// Tells a child our ticks, as often as it asks.
fn answer(comm: &Comm, child: i32) -> Option<()> {
    for _ in 0..ROUNDS {
        comm.receive_piece(child, &mut [0; 8])?;
        comm.send_piece(child, &clock::ticks().to_le_bytes())?;
    }
    Some(())
}
