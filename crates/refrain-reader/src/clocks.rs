//! The clocks of the processes, where times of single calls are kept.
//!
//! Ticks count from a moment that differs between machines. For each process the file
//! has two moments in ticks and in nanoseconds since 1970, early and late; times in between are
//! interpolated. The nanoseconds are those of the first rank's clock.
//!
//! The section's bytes, all numbers as in [`refrain_signature::cells`], unsigned: how many processes;
//! for each its rank index, ticks and nanoseconds early, how many more of both there were late, and the
//! error bound of this clock in nanoseconds.

use crate::meta::Meta;
use refrain_signature::cells::{Cells, put_list, put_unsigned};

/// A clock: ticks and nanoseconds, early and late.
pub type Clock = [(u64, u64); 2];

/// Nanoseconds since 1970 at that tick.
pub fn nanos(clock: &Clock, ticks: u64) -> u64 {
    let [(t0, n0), (t1, n1)] = *clock;
    let since = ticks.wrapping_sub(t0) as i64;
    if t1 <= t0 || n1 <= n0 {
        return n0.saturating_add_signed(since);
    }
    let rate = (n1 - n0) as f64 / (t1 - t0) as f64;
    n0.saturating_add_signed((since as f64 * rate) as i64)
}

/// The bytes.
pub fn to_bytes(meta: &Meta) -> Vec<u8> {
    let mut out = Vec::new();
    put_list(&mut out, meta.processes().into_iter(), |out, process| {
        let stream = &meta.streams[process.streams[0]];
        let [(ticks, nanos), (late_ticks, late_nanos)] = stream.clock;
        put_unsigned(out, process.rank_index.into());
        for value in [
            ticks,
            nanos,
            late_ticks.saturating_sub(ticks),
            late_nanos.saturating_sub(nanos),
            stream.uncertainty,
        ] {
            put_unsigned(out, value);
        }
    });
    out
}

/// Sets the clocks of all streams; `None` if the bytes are malformed.
pub fn read(bytes: &[u8], meta: &mut Meta) -> Option<()> {
    let mut cells = Cells::new(bytes);
    let all = cells.get_list(|cells| {
        let rank_index = cells.get_u32()?;
        let (ticks, nanos) = (cells.get_unsigned()?, cells.get_unsigned()?);
        let late_ticks = ticks.checked_add(cells.get_unsigned()?)?;
        let late_nanos = nanos.checked_add(cells.get_unsigned()?)?;
        Some((rank_index, [(ticks, nanos), (late_ticks, late_nanos)], cells.get_unsigned()?))
    })?;
    if !cells.is_empty() {
        return None;
    }
    let processes = meta.processes();
    for (rank_index, clock, uncertainty) in all {
        let index =
            processes.binary_search_by_key(&rank_index, |process| process.rank_index).ok()?;
        for stream in &processes[index].streams {
            meta.streams[*stream].clock = clock;
            meta.streams[*stream].uncertainty = uncertainty;
        }
    }
    Some(())
}
