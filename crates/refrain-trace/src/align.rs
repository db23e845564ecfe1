//! Aligns the clocks of all processes with that of the first rank, from the comparisons that ranks made in pairs.

use crate::parts::Part;
use refrain_format::part::Sync;
use refrain_reader::clocks::{Clock, nanos};
use refrain_reader::meta::Meta;
use std::collections::HashMap;

/// Aligns the clocks of all streams with that of the first rank.
pub fn align(parts: &[Part], meta: &mut Meta) {
    let mut known: HashMap<u32, (Clock, u64)> = HashMap::new();
    let mut hosts: HashMap<String, u32> = HashMap::new();
    for process in meta.processes() {
        let (Some(part), Some(stream)) =
            (parts.get(process.streams[0]), meta.streams.get(process.streams[0]))
        else {
            continue;
        };
        let rank_index = process.rank_index;
        let is_rank = i64::from(rank_index) == i64::from(stream.rank);
        let parent = known
            .get(&(rank_index & rank_index.wrapping_sub(1)))
            .filter(|_| is_rank && rank_index > 0);
        // All processes on a machine share the time-stamp counter.
        let neighbour = match part.in_nanoseconds {
            true => None,
            false => Some(*hosts.entry(stream.host.clone()).or_insert(rank_index)),
        };
        let (clock, uncertainty) = match (neighbour.and_then(|n| known.get(&n)), parent) {
            (Some(same), _) => *same,
            (None, Some((clock, uncertainty))) => {
                aligned(stream.clock, &part.sync, clock, *uncertainty)
            }
            (None, None) => (stream.clock, 0),
        };
        known.insert(rank_index, (clock, uncertainty));
        for stream in process.streams {
            meta.streams[stream].clock = clock;
            meta.streams[stream].uncertainty = uncertainty;
        }
    }
}

/// A rank's clock in terms of its parent's clock.
fn aligned(own: Clock, sync: &[Sync; 2], parent: &Clock, uncertainty: u64) -> (Clock, u64) {
    let [beginning, end] = sync;
    if beginning.ticks == 0 {
        return (own, uncertainty);
    }
    let off = |sync: &Sync| nanos(&own, own[0].0.wrapping_add(sync.uncertainty)) - own[0].1;
    let first = (beginning.ticks, nanos(parent, beginning.parent_ticks));
    if end.ticks > beginning.ticks {
        let last = (end.ticks, nanos(parent, end.parent_ticks));
        return ([first, last], uncertainty + off(beginning).max(off(end)));
    }
    // Without a comparison before MPI_Finalize, the rank's own rate is used.
    let later = own[1].0.max(first.0);
    let span = nanos(&own, later).saturating_sub(nanos(&own, first.0));
    ([first, (later, first.1.saturating_add(span))], uncertainty + off(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_s_clock_is_aligned_with_its_parent_s() {
        // A tick of the parent is two nanoseconds. A tick of the rank is a little less than one.
        let parent = [(100, 1_000_000), (1_100, 1_002_000)];
        let own = [(50_000, 7_000_000), (52_000, 7_002_000)];
        let sync = [
            Sync { ticks: 50_200, parent_ticks: 200, uncertainty: 5 },
            Sync { ticks: 51_200, parent_ticks: 701, uncertainty: 3 },
        ];
        let (clock, uncertainty) = aligned(own, &sync, &parent, 10);
        assert_eq!(clock, [(50_200, 1_000_200), (51_200, 1_001_202)]);
        assert_eq!(uncertainty, 15);
        assert_eq!(nanos(&clock, 50_700), 1_000_701);
        // Times before the first comparison are extrapolated.
        assert_eq!(nanos(&clock, 49_200), 999_198);
    }

    #[test]
    fn without_a_second_comparison_a_rank_keeps_its_own_rate() {
        let parent = [(0, 1_000), (1_000, 2_000)];
        let own = [(100, 500), (200, 700)];
        let sync = [Sync { ticks: 120, parent_ticks: 100, uncertainty: 1 }, Sync::default()];
        let (clock, _) = aligned(own, &sync, &parent, 0);
        assert_eq!(clock, [(120, 1_100), (200, 1_260)]);
    }
}
