//! The clocks of the processes, where times of single calls are kept.
//!
//! Ticks count from some moment that each machine chose for itself. For each process the file
//! tells two moments in ticks and in nanoseconds since 1970, early and late; what lies between
//! follows.
//!
//! The section's bytes, all numbers as in [`refrain_encode::cells`], unsigned: how many processes;
//! for each its place, ticks and nanoseconds early, and how many more of both there were late.

use crate::meta::Meta;
use refrain_encode::cells::{Cells, put_list, put_unsigned};

/// The bytes.
pub fn to_bytes(meta: &Meta) -> Vec<u8> {
    let mut out = Vec::new();
    put_list(&mut out, meta.processes().into_iter(), |out, process| {
        let [(ticks, nanos), (late_ticks, late_nanos)] = meta.streams[process.streams[0]].clock;
        put_unsigned(out, process.place.into());
        for value in
            [ticks, nanos, late_ticks.saturating_sub(ticks), late_nanos.saturating_sub(nanos)]
        {
            put_unsigned(out, value);
        }
    });
    out
}

/// Sets the clocks of all streams; `None` if the bytes are none.
pub fn read(bytes: &[u8], meta: &mut Meta) -> Option<()> {
    let mut cells = Cells::new(bytes);
    let all = cells.get_list(|cells| {
        let place = cells.get_u32()?;
        let (ticks, nanos) = (cells.get_unsigned()?, cells.get_unsigned()?);
        let late_ticks = ticks.checked_add(cells.get_unsigned()?)?;
        let late_nanos = nanos.checked_add(cells.get_unsigned()?)?;
        Some((place, [(ticks, nanos), (late_ticks, late_nanos)]))
    })?;
    if !cells.is_empty() {
        return None;
    }
    let processes = meta.processes();
    for (place, clock) in all {
        let index = processes.binary_search_by_key(&place, |process| process.place).ok()?;
        processes[index].streams.iter().for_each(|stream| meta.streams[*stream].clock = clock);
    }
    Some(())
}
