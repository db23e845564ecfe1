//! Sets the clocks of all processes to that of the first rank, by what ranks found when they compared clocks.

use crate::parts::Part;
use refrain_format::part::Sync;
use refrain_reader::clocks::{Clock, nanos};
use refrain_reader::meta::Meta;
use std::collections::HashMap;

/// Sets the clocks of all streams to that of the first rank.
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
        // The processor's counter is one and the same for all on a machine.
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

/// A rank's clock by its parent's.
fn aligned(own: Clock, sync: &[Sync; 2], parent: &Clock, uncertainty: u64) -> (Clock, u64) {
    let [beginning, end] = sync;
    if beginning.own == 0 {
        return (own, uncertainty);
    }
    let off = |sync: &Sync| nanos(&own, own[0].0.wrapping_add(sync.uncertainty)) - own[0].1;
    let first = (beginning.own, nanos(parent, beginning.parent));
    if end.own > beginning.own {
        let last = (end.own, nanos(parent, end.parent));
        return ([first, last], uncertainty + off(beginning).max(off(end)));
    }
    // It did not reach MPI_Finalize: its own rate is used.
    let later = own[1].0.max(first.0);
    let span = nanos(&own, later).saturating_sub(nanos(&own, first.0));
    ([first, (later, first.1.saturating_add(span))], uncertainty + off(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_s_clock_is_told_by_its_parent_s() {
        // The parent: a tick is two nanoseconds. The rank: a tick is a nanosecond, a little less.
        let parent = [(100, 1_000_000), (1_100, 1_002_000)];
        let own = [(50_000, 7_000_000), (52_000, 7_002_000)];
        let sync = [
            Sync { own: 50_200, parent: 200, uncertainty: 5 },
            Sync { own: 51_200, parent: 701, uncertainty: 3 },
        ];
        let (clock, uncertainty) = aligned(own, &sync, &parent, 10);
        assert_eq!(clock, [(50_200, 1_000_200), (51_200, 1_001_202)]);
        assert_eq!(uncertainty, 15);
        assert_eq!(nanos(&clock, 50_700), 1_000_701);
        // Before the first moment, too.
        assert_eq!(nanos(&clock, 49_200), 999_198);
    }

    #[test]
    fn a_rank_that_died_keeps_its_rate() {
        let parent = [(0, 1_000), (1_000, 2_000)];
        let own = [(100, 500), (200, 700)];
        let sync = [Sync { own: 120, parent: 100, uncertainty: 1 }, Sync::default()];
        let (clock, _) = aligned(own, &sync, &parent, 0);
        assert_eq!(clock, [(120, 1_100), (200, 1_260)]);
    }
}
