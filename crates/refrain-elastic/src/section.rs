//! One nested arithmetic progression of ranks.
//!
//! A section is a start and up to four dimensions, each a stride and a count: the regular section
//! descriptor (RSD, one dimension) and its nesting (PRSD) of the ScalaTrace papers. A row of a
//! grid has one dimension, its interior two or three, whatever the grid's size.
//!
//! The innermost dimension comes first, and the stride of each dimension exceeds the extent of those
//! within it. So the ranks of a section are distinct and ascending, and membership takes one division
//! per dimension.

use crate::error::ElasticError;
use refrain_bytes::varint;

/// The most dimensions of a section.
pub const MOST_DIMENSIONS: usize = 4;

/// One dimension of a [`Section`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dimension {
    /// The distance between neighbours; at least 1.
    pub stride: u32,
    /// How many there are; at least 2.
    pub count: u32,
}

/// A start and up to four nested dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Section {
    start: u32,
    depth: u8,
    dimensions: [Dimension; MOST_DIMENSIONS],
}

impl Section {
    /// The section of one rank.
    pub fn single(rank: u32) -> Self {
        Self { start: rank, depth: 0, dimensions: Default::default() }
    }

    /// `count` ranks from `start`, `stride` apart; `None` if they are not distinct or exceed 32 bits.
    pub fn strided(start: u32, stride: u32, count: u32) -> Option<Self> {
        Self::single(start).repeated(stride, count)
    }

    /// This section `count` times, `stride` apart; `None` if the copies do not nest, exceed the largest
    /// rank, or need a fifth dimension.
    pub fn repeated(&self, stride: u32, count: u32) -> Option<Self> {
        if count == 1 {
            return Some(*self);
        }
        let depth = usize::from(self.depth);
        if depth == MOST_DIMENSIONS {
            return None;
        }
        let at = self.dimensions().partition_point(|d| d.stride < stride);
        let mut section = *self;
        section.dimensions.copy_within(at..depth, at + 1);
        *section.dimensions.get_mut(at)? = Dimension { stride, count };
        section.depth += 1;
        section.is_nested().then_some(section)
    }

    /// Whether the dimensions nest and every rank fits 32 bits.
    fn is_nested(&self) -> bool {
        let mut extent = 0u64;
        for d in self.dimensions() {
            if u64::from(d.stride) <= extent || d.count < 2 {
                return false;
            }
            // At most 2^32 + 2^64 - 2^33 + 1: no overflow.
            extent += u64::from(d.stride) * u64::from(d.count - 1);
            if extent > u64::from(u32::MAX) {
                return false;
            }
        }
        u64::from(self.start) + extent <= u64::from(u32::MAX)
    }

    /// The smallest rank.
    pub fn start(&self) -> u32 {
        self.start
    }

    /// The dimensions, from the innermost.
    pub fn dimensions(&self) -> &[Dimension] {
        self.dimensions.get(..usize::from(self.depth)).unwrap_or_default()
    }

    /// The largest rank.
    pub fn last(&self) -> u32 {
        self.dimensions().iter().fold(self.start, |last, d| last + d.stride * (d.count - 1))
    }

    /// The number of ranks.
    pub fn size(&self) -> u64 {
        self.dimensions().iter().map(|d| u64::from(d.count)).product()
    }

    /// Whether `rank` is in it.
    pub fn contains(&self, rank: u32) -> bool {
        let Some(mut offset) = rank.checked_sub(self.start) else { return false };
        for d in self.dimensions().iter().rev() {
            if offset / d.stride >= d.count {
                return false;
            }
            offset %= d.stride;
        }
        offset == 0
    }

    /// The number of its ranks that are smaller than `rank`.
    pub fn count_below(&self, rank: u32) -> u64 {
        let Some(mut offset) = rank.checked_sub(self.start) else { return 0 };
        let mut below = 0;
        let mut block = self.size();
        for d in self.dimensions().iter().rev() {
            let digit = offset / d.stride;
            if digit >= d.count {
                return below + block;
            }
            block /= u64::from(d.count);
            below += u64::from(digit) * block;
            offset %= d.stride;
        }
        below + u64::from(offset > 0)
    }

    /// The ranks, ascending.
    pub fn iter(&self) -> SectionIter {
        SectionIter { section: *self, digits: [0; MOST_DIMENSIONS], next: Some(self.start) }
    }

    /// Appends the section: the start minus `origin`, with the number of dimensions in the low three bits,
    /// then each dimension.
    pub(crate) fn encode(&self, origin: u32, out: &mut Vec<u8>) {
        let start = u64::from(self.start.wrapping_sub(origin));
        varint::put(out, start << 3 | u64::from(self.depth));
        for d in self.dimensions() {
            varint::put(out, u64::from(d.stride));
            varint::put(out, u64::from(d.count - 2));
        }
    }

    /// Reads a section whose ranks must all be below `most`.
    pub(crate) fn decode(input: &mut &[u8], origin: u32, most: u32) -> Result<Self, ElasticError> {
        const WHAT: ElasticError = ElasticError::OutOfRange("section of ranks");
        let head = varint::take(input)?;
        let start = u32::try_from(head >> 3).ok().and_then(|start| start.checked_add(origin));
        let mut section = Self::single(start.ok_or(WHAT)?);
        let depth = (head & 7) as usize;
        if depth > MOST_DIMENSIONS {
            return Err(ElasticError::OutOfRange("number of dimensions"));
        }
        for slot in section.dimensions.iter_mut().take(depth) {
            let stride = varint::take_u32(input, "stride")?;
            let count = varint::take_u32(input, "count")?.checked_add(2).ok_or(WHAT)?;
            *slot = Dimension { stride, count };
        }
        section.depth = depth as u8;
        if !section.is_nested() || section.last() >= most {
            return Err(WHAT);
        }
        Ok(section)
    }
}

/// The ranks of a [`Section`], ascending.
#[derive(Clone, Debug)]
pub struct SectionIter {
    section: Section,
    digits: [u32; MOST_DIMENSIONS],
    next: Option<u32>,
}

impl SectionIter {
    /// The rank that `next` would return.
    pub(crate) fn peek(&self) -> Option<u32> {
        self.next
    }
}

impl Iterator for SectionIter {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let current = self.next?;
        let mut rank = current;
        for (d, digit) in self.section.dimensions().iter().zip(&mut self.digits) {
            if *digit + 1 < d.count {
                *digit += 1;
                self.next = Some(rank + d.stride);
                return Some(current);
            }
            rank -= d.stride * *digit;
            *digit = 0;
        }
        self.next = None;
        Some(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The interior of a 6 x 5 grid, of four planes.
    fn interior() -> Section {
        Section::strided(7, 1, 4).and_then(|s| s.repeated(6, 3)).unwrap().repeated(30, 4).unwrap()
    }

    #[test]
    fn a_section_contains_and_counts_exactly_its_ranks() {
        let ranks: Vec<u32> = interior().iter().collect();
        assert_eq!(ranks.len() as u64, interior().size());
        assert!(ranks.is_sorted_by(|a, b| a < b));
        assert_eq!(ranks.last().copied(), Some(interior().last()));
        for rank in 0..200 {
            assert_eq!(interior().contains(rank), ranks.contains(&rank), "{rank}");
            let below = ranks.iter().filter(|&&r| r < rank).count() as u64;
            assert_eq!(interior().count_below(rank), below, "{rank}");
        }
    }

    #[test]
    fn dimensions_that_do_not_nest_are_refused() {
        assert_eq!(interior().repeated(31, 2), None);
        assert_eq!(Section::strided(0, 0, 3), None);
        assert_eq!(Section::strided(1, u32::MAX, 2), None);
        assert_eq!(Section::strided(0, u32::MAX, u32::MAX), None);
        assert!(Section::strided(0, 1, u32::MAX).is_some());
    }

    #[test]
    fn two_columns_become_one_section_with_the_short_stride_within() {
        let column = Section::strided(2, 10, 5).unwrap();
        let both = column.repeated(3, 2).unwrap();
        assert_eq!(both.iter().take(4).collect::<Vec<_>>(), [2, 5, 12, 15]);
    }
}
