//! How long calls take, and how long their rank computes before them: the statistics of a trace.
//!
//! A trace keeps them by *time key* ([`refrain_signature::timekey`]): function, call site and size of the message, over
//! all ranks. Older traces have them by signature of each group of ranks.

use crate::trace::Stats;
use refrain_structure::group::Residue;
use refrain_structure::merged::Merged;
use refrain_structure::read::{self, ReadError};
use refrain_structure::times::{self, Summary};

pub use refrain_structure::times::{Calls, Ranks, Use, Uses};

/// The statistics of a trace, in ticks ([`crate::Meta::tick`]).
#[derive(Debug)]
pub enum Durations {
    /// By group and signature, as older traces have them.
    BySignature(Vec<Vec<Stats>>),
    /// By key.
    ByKey(ByKey),
}

/// Statistics by key.
#[derive(Debug)]
pub struct ByKey {
    /// Which signatures have which key.
    pub uses: Uses,
    /// How many calls each key has.
    pub calls: Vec<Calls>,
    /// The statistics of each key; none if the trace has none of it.
    pub stats: Vec<Option<Stats>>,
}

/// Means of calls like those of a signature, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// Durations.
    pub duration: f64,
    /// Time since the thread's previous call.
    pub gap: f64,
    /// Durations of a call and of the failed polls before it.
    pub with_polls: f64,
}

impl Durations {
    /// Reads the statistics of a structure.
    pub fn read(
        merged: &Merged,
        has_rows: bool,
        bytes: &[u8],
        residues: &[(u32, u32, Residue)],
    ) -> Result<Durations, ReadError> {
        if has_rows {
            return Ok(Durations::BySignature(read::row_statistics(merged, bytes)?));
        }
        let bad = || ReadError { what: "malformed statistics".into() };
        let (detail, summaries) = times::read(merged, bytes).ok_or_else(bad)?;
        let uses = Uses::of(merged, detail);
        let residues = residues.iter().map(|(rank, thread, residue)| (*rank, *thread, residue));
        let calls = uses.calls(merged, residues);
        let of_key = |(key, calls): (_, &Calls)| {
            summaries.get(key).map(|summary: &Summary| summary.stats(calls.all()))
        };
        let stats = uses.keys.iter().zip(&calls).map(of_key).collect();
        Ok(Durations::ByKey(ByKey { uses, calls, stats }))
    }

    /// The means of a signature by its group and number; `occurrences` are those of all ranks.
    pub(crate) fn mean(&self, group: usize, row: usize, occurrences: u64) -> Option<Mean> {
        let (stats, occurrences) = match self {
            Durations::BySignature(all) => (all.get(group)?.get(row)?, occurrences),
            Durations::ByKey(by) => {
                let key = by.uses.of_signature(group, row).first()?.key as usize;
                (by.stats.get(key)?.as_ref()?, by.calls.get(key)?.occurrences)
            }
        };
        let n = stats.count as f64;
        (stats.count > 0 && occurrences > 0).then(|| Mean {
            duration: stats.sum as f64 / n,
            gap: stats.gaps as f64 / n,
            with_polls: stats.sum as f64 / occurrences as f64,
        })
    }
}
