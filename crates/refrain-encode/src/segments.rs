//! Turns addresses into a segment's number and an offset.
//!
//! Addresses differ from run to run and from rank to rank. A trace stores instead the piece of
//! memory and the offset in it. The log announces each segment before the first call that uses
//! it. Segments are numbered like objects: with the smallest free number of the thread that
//! announced them.

use crate::pool::Pool;
use refrain_signature::cells::{Cells, put_list, put_unsigned};
use std::collections::BTreeMap;

/// A live segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The address after its last byte.
    pub end: u64,
    /// The address from which offsets are counted.
    pub anchor: u64,
    /// The thread that announced it first.
    pub thread: u32,
    /// Its number, from 1.
    pub number: u32,
}

/// An address as segment and offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The thread that announced the segment.
    pub thread: u32,
    /// Its number.
    pub number: u32,
    /// The offset from the segment's anchor.
    pub offset: i64,
}

/// The live segments of a process.
#[derive(Debug, Default)]
pub struct Segments {
    live: BTreeMap<u64, Segment>,
    pools: Vec<Pool>,
    /// The segments of recent lookups, with their first addresses.
    recent: [(u64, Option<Segment>); 4],
    next: usize,
    epoch: u64,
}

impl Segments {
    /// Writes them.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_list(out, self.live.iter(), |out, (base, s)| {
            for value in [*base, s.end, s.anchor, s.thread.into(), s.number.into()] {
                put_unsigned(out, value);
            }
        });
        put_list(out, self.pools.iter(), |out, pool| pool.put(out));
    }

    /// Reads them.
    pub fn get(cells: &mut Cells<'_>) -> Option<Segments> {
        let live = cells.get_list(|cells| {
            let (base, end, anchor) =
                (cells.get_unsigned()?, cells.get_unsigned()?, cells.get_unsigned()?);
            let (thread, number) = (cells.get_u32()?, cells.get_u32()?);
            (thread < 1 << 16 && (1..1 << 24).contains(&number)).then_some(())?;
            Some((base, Segment { end, anchor, thread, number }))
        })?;
        let pools = cells.get_list(Pool::get)?;
        Some(Segments { live: live.into_iter().collect(), pools, ..Segments::default() })
    }

    /// Adds a segment. Returns it and the segments that it replaces, or `None` if it is known already.
    #[expect(clippy::indexing_slicing, reason = "resized just before")]
    pub fn announce(
        &mut self,
        base: u64,
        bytes: u64,
        anchor: u64,
        thread: u32,
    ) -> Option<(Segment, Vec<Segment>)> {
        // An empty segment still has an address.
        let end = base.saturating_add(bytes.max(1));
        if self.live.get(&base).is_some_and(|s| (s.end, s.anchor) == (end, anchor)) {
            return None;
        }
        let below = self.live.range(..=base).next_back().filter(|(_, s)| s.end > base);
        let overlapping: Vec<u64> = below
            .into_iter()
            .chain(self.live.range(base.saturating_add(1)..end))
            .map(|(base, _)| *base)
            .collect();
        let replaced = overlapping.into_iter().filter_map(|base| self.release(base)).collect();
        let index = thread as usize;
        if self.pools.len() <= index {
            self.pools.resize(index + 1, Pool::default());
        }
        let number = self.pools[index].take() + 1;
        self.epoch += 1;
        let segment = Segment { end, anchor, thread, number };
        self.live.insert(base, segment);
        Some((segment, replaced))
    }

    /// A number that changes whenever an address may get another meaning.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Removes a segment and returns it.
    pub fn release(&mut self, base: u64) -> Option<Segment> {
        let segment = self.live.remove(&base)?;
        self.recent = Default::default();
        self.epoch += 1;
        if let Some(pool) = self.pools.get_mut(segment.thread as usize) {
            pool.release(segment.number - 1, true);
        }
        Some(segment)
    }

    /// The segment and offset of an address. The address after a segment's last byte belongs to the
    /// segment too, unless another segment begins there.
    #[inline]
    pub fn find(&mut self, address: u64) -> Option<Location> {
        for (base, segment) in &self.recent {
            if let Some(segment) = segment
                && (*base..segment.end).contains(&address)
            {
                return Some(location(segment, address));
            }
        }
        self.find_slowly(address)
    }

    fn find_slowly(&mut self, address: u64) -> Option<Location> {
        let (base, segment) = self.live.range(..=address).next_back()?;
        if address > segment.end {
            return None;
        }
        if address < segment.end {
            let oldest = self.next % self.recent.len();
            if let Some(recent) = self.recent.get_mut(oldest) {
                *recent = (*base, Some(*segment));
            }
            self.next += 1;
        }
        Some(location(segment, address))
    }
}

fn location(segment: &Segment, address: u64) -> Location {
    let offset = address.wrapping_sub(segment.anchor) as i64;
    Location { thread: segment.thread, number: segment.number, offset }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_segment_and_an_offset() {
        let mut segments = Segments::default();
        assert!(segments.announce(1000, 100, 1000, 0).is_some());
        assert!(segments.announce(1000, 100, 1000, 1).is_none(), "already known");
        assert!(segments.announce(2000, 100, 2050, 1).is_some());
        let at = |thread, number, offset| Some(Location { thread, number, offset });
        assert_eq!(segments.find(1004), at(0, 1, 4));
        assert_eq!(segments.find(1100), at(0, 1, 100));
        assert_eq!(segments.find(1101), None);
        assert_eq!(segments.find(2000), at(1, 1, -50));
        assert_eq!(segments.find(999), None);
    }

    #[test]
    fn the_number_of_a_freed_segment_is_used_again() {
        let mut segments = Segments::default();
        segments.announce(1000, 100, 1000, 0);
        segments.announce(2000, 100, 2000, 0);
        assert!(segments.find(1000).is_some());
        assert_eq!(segments.release(1000).map(|s| s.number), Some(1));
        assert_eq!(segments.find(1000), None);
        let (segment, replaced) = segments.announce(1990, 20, 1990, 0).unwrap();
        assert_eq!((segment.number, replaced.len(), replaced[0].number), (1, 1, 2));
    }
}
