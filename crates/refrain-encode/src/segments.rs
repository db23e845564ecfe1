//! Memory: from addresses to a segment's number and an offset.
//!
//! Addresses differ from run to run and from rank to rank; what is in them for a reader is *which*
//! piece of memory, and where in it. Segments are announced in the log before the first call
//! that uses them, and numbered like objects: the smallest free number of the thread that
//! announced it.

use crate::pool::Pool;
use refrain_signature::cells::{Cells, put_list, put_unsigned};
use std::collections::BTreeMap;

/// A live segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address behind its last byte.
    pub end: u64,
    /// The address that offsets count from.
    pub anchor: u64,
    /// The thread that announced it first.
    pub thread: u32,
    /// Its number, from 1.
    pub number: u32,
}

/// Where an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The thread that announced the segment.
    pub thread: u32,
    /// Its number.
    pub number: u32,
    /// The address, from the segment's anchor.
    pub offset: i64,
}

/// The live segments of a process.
#[derive(Debug, Default)]
pub struct Segments {
    live: BTreeMap<u64, Segment>,
    pools: Vec<Pool>,
    /// The last that were found: first address and segment.
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

    /// Takes note of a segment; gives it, and those it replaces, if it is new.
    #[expect(clippy::indexing_slicing, reason = "made as long as that just before")]
    pub fn announce(
        &mut self,
        base: u64,
        bytes: u64,
        anchor: u64,
        thread: u32,
    ) -> Option<(Segment, Vec<Segment>)> {
        // A segment of no bytes still has an address.
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

    /// A number that changes when any address comes to stand for something else.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Forgets a segment; gives what it was.
    pub fn release(&mut self, base: u64) -> Option<Segment> {
        let segment = self.live.remove(&base)?;
        self.recent = Default::default();
        self.epoch += 1;
        if let Some(pool) = self.pools.get_mut(segment.thread as usize) {
            pool.give(segment.number - 1, true);
        }
        Some(segment)
    }

    /// Where an address lies. The address behind a segment's last byte belongs to it too, unless
    /// another begins there.
    #[inline]
    pub fn find(&mut self, address: u64) -> Option<Place> {
        for (base, segment) in &self.recent {
            if let Some(segment) = segment
                && (*base..segment.end).contains(&address)
            {
                return Some(place(segment, address));
            }
        }
        self.find_slowly(address)
    }

    fn find_slowly(&mut self, address: u64) -> Option<Place> {
        let (base, segment) = self.live.range(..=address).next_back()?;
        if address > segment.end {
            return None;
        }
        if address < segment.end {
            let place = self.next % self.recent.len();
            if let Some(recent) = self.recent.get_mut(place) {
                *recent = (*base, Some(*segment));
            }
            self.next += 1;
        }
        Some(place(segment, address))
    }
}

fn place(segment: &Segment, address: u64) -> Place {
    let offset = address.wrapping_sub(segment.anchor) as i64;
    Place { thread: segment.thread, number: segment.number, offset }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_segment_and_an_offset() {
        let mut segments = Segments::default();
        assert!(segments.announce(1000, 100, 1000, 0).is_some());
        assert!(segments.announce(1000, 100, 1000, 1).is_none(), "known already");
        assert!(segments.announce(2000, 100, 2050, 1).is_some());
        let at = |thread, number, offset| Some(Place { thread, number, offset });
        assert_eq!(segments.find(1004), at(0, 1, 4));
        assert_eq!(segments.find(1100), at(0, 1, 100));
        assert_eq!(segments.find(1101), None);
        assert_eq!(segments.find(2000), at(1, 1, -50));
        assert_eq!(segments.find(999), None);
    }

    #[test]
    fn a_freed_segment_gives_its_number_back() {
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
