//! Compares the clocks of the ranks.
//!
//! On each machine, ticks start at an arbitrary value and have their own rate. If the times of
//! every call are recorded, each rank but the first compares its clock with that of a *parent*
//! rank, right after `MPI_Init` and right before `MPI_Finalize`. The ranks form a binomial tree, so
//! this takes log P steps. In one round the rank sends a message and receives the parent's ticks,
//! which belong to the middle of the round, with an uncertainty of half its duration. The shortest
//! of many rounds counts. The offline merge follows the tree from rank 0 and converts all clocks to
//! one.

use crate::inside::library::{Comm, comm_of_world};
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
    let Some(comm) = comm_of_world() else { return };
    if let Some(found) = compare_in(&comm) {
        process::update(|header| header.set_sync(moment as usize, found));
    }
    comm.free();
}

/// Compares this rank's clock with its parent's; `None` for rank 0.
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

/// Asks the parent for its ticks in many rounds, and keeps the shortest one.
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
            best = Some(Sync {
                ticks: before.wrapping_add(half),
                parent_ticks: theirs,
                uncertainty: half,
            });
        }
    }
    best
}

/// Sends this rank's ticks to a child, once per round.
fn answer(comm: &Comm, child: i32) -> Option<()> {
    for _ in 0..ROUNDS {
        comm.receive_piece(child, &mut [0; 8])?;
        comm.send_piece(child, &clock::ticks().to_le_bytes())?;
    }
    Some(())
}
