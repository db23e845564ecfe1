//! Sets of ranks or threads as unions of sections.
//!
//! Typical sets are all ranks, a row, a column, a border or the interior of a grid, or every second
//! rank. Each is one section or a few, for any number of ranks. A set without structure takes about two
//! bytes per run of consecutive ranks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::sync::Arc;

use crate::error::ElasticError;
use crate::folding;
use crate::section::{Section, SectionIter};
use refrain_bytes::varint;

/// A set of ids: ranks of a job, threads of a process. ScalaTrace calls it a ranklist.
///
/// Equality compares sections: two lists made by [`IdList::from_sorted`] from the same ranks are equal,
/// but a list made by [`IdList::union`] may describe the same ranks by other sections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct IdList {
    /// Disjoint, with ascending starts; their extents may interleave. Shared, because all columns of a
    /// group have the same ranks.
    sections: Arc<[Section]>,
}

impl IdList {
    /// `count` ranks from `start` (fewer if they do not fit 32 bits).
    pub fn range(start: u32, count: u32) -> Self {
        let range = match count {
            0 => return Self::default(),
            _ => folding::range(start, count.min((u32::MAX - start).saturating_add(1))),
        };
        Self { sections: Arc::new([range]) }
    }

    /// The set of one rank.
    pub fn single(rank: u32) -> Self {
        Self { sections: Arc::new([Section::single(rank)]) }
    }

    /// The set of `ranks`, which should ascend. If they do not, they are sorted and deduplicated first.
    pub fn from_sorted(ranks: &[u32]) -> Self {
        if ranks.is_sorted_by(|a, b| a < b) {
            return Self { sections: folding::sections(ranks).into() };
        }
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        Self { sections: folding::sections(&sorted).into() }
    }

    /// The sections, by ascending start.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The number of ranks.
    pub fn len(&self) -> usize {
        self.sections.iter().map(|s| s.size() as usize).sum()
    }

    /// Whether there are no ranks.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// The smallest rank.
    pub fn first(&self) -> Option<u32> {
        self.sections.first().map(Section::start)
    }

    /// The largest rank.
    pub fn last(&self) -> Option<u32> {
        self.sections.iter().map(Section::last).max()
    }

    /// Whether `rank` is in it.
    pub fn contains(&self, rank: u32) -> bool {
        self.reach(rank).iter().rev().any(|s| s.contains(rank))
    }

    /// The index of `rank` among the ranks, if it is in the set.
    pub fn position(&self, rank: u32) -> Option<usize> {
        let reach = self.reach(rank);
        let here = reach.iter().rev().any(|s| s.contains(rank));
        here.then(|| reach.iter().map(|s| s.count_below(rank) as usize).sum())
    }

    /// The sections that start no later than `rank`.
    fn reach(&self, rank: u32) -> &[Section] {
        let count = self.sections.partition_point(|s| s.start() <= rank);
        self.sections.get(..count).unwrap_or_default()
    }

    /// The ranks, ascending.
    pub fn iter(&self) -> RankIter<'_> {
        RankIter { waiting: &self.sections, current: None, others: BinaryHeap::new() }
    }

    /// The ranks, ascending, as a vector.
    pub fn to_vec(&self) -> Vec<u32> {
        let mut ranks = Vec::with_capacity(self.len());
        ranks.extend(self.iter());
        ranks
    }

    /// The ranks of both lists.
    ///
    /// Adjacent halves, as in a merge tree over neighbouring ranks, join in constant time. Otherwise the
    /// ranks are expanded and their sections are found again.
    pub fn union(&self, other: &Self) -> Self {
        match (&self.sections[..], &other.sections[..]) {
            ([], _) => return other.clone(),
            (_, []) => return self.clone(),
            ([a], [b]) => {
                if let Some(joined) = folding::join(a, b) {
                    return Self { sections: Arc::new([joined]) };
                }
            }
            _ => {}
        }
        let mut ranks = self.to_vec();
        ranks.extend(other.iter());
        Self::from_sorted(&ranks)
    }

    /// Appends the list: the number of sections, then each.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::put(out, self.sections.len() as u64);
        encode_sections(&self.sections, out);
    }

    /// Reads a list whose ranks must all be below `most`.
    ///
    /// Sections are not expanded, so memory grows with the input only. If sections interleave, they are
    /// checked to be disjoint by expanding them, which takes at most time proportional to `most`.
    pub fn decode(input: &mut &[u8], most: u32) -> Result<Self, ElasticError> {
        let count = varint::take(input)?;
        let mut sections = Vec::new();
        let (mut origin, mut size) = (0, 0);
        let mut reached: Option<u32> = None;
        let mut interleaved = false;
        for _ in 0..count {
            let section = Section::decode(input, origin, most)?;
            size += section.size();
            if size > u64::from(most) {
                return Err(ElasticError::OutOfRange("number of ranks"));
            }
            interleaved |= reached.is_some_and(|reached| reached >= section.start());
            reached = reached.max(Some(section.last()));
            origin = section.start();
            sections.push(section);
        }
        let list = Self { sections: sections.into() };
        if interleaved && !list.iter().is_sorted_by(|a, b| a < b) {
            return Err(ElasticError::OutOfRange("ranklist's section"));
        }
        Ok(list)
    }
}

/// Appends sections of ascending starts.
pub(crate) fn encode_sections(sections: &[Section], out: &mut Vec<u8>) {
    let mut origin = 0;
    for section in sections {
        section.encode(origin, out);
        origin = section.start();
    }
}

impl fmt::Display for IdList {
    /// Ranges as `3-7`, strides as `0-30:2`, further dimensions as ` x COUNT by STRIDE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, section) in self.sections.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{}", section.start())?;
            let Some((inner, outer)) = section.dimensions().split_first() else { continue };
            write!(f, "-{}", section.start() + inner.stride * (inner.count - 1))?;
            if inner.stride > 1 {
                write!(f, ":{}", inner.stride)?;
            }
            for d in outer {
                write!(f, " x {} by {}", d.count, d.stride)?;
            }
        }
        Ok(())
    }
}

/// The ranks of a [`IdList`], ascending.
#[derive(Clone, Debug)]
pub struct RankIter<'a> {
    /// Sections that have not begun.
    waiting: &'a [Section],
    /// The section with the next rank, unless a waiting one starts before it.
    current: Option<SectionIter>,
    /// Other sections that have begun, by their next rank.
    others: BinaryHeap<Reverse<Begun>>,
}

impl Iterator for RankIter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let next = self.current.as_ref().and_then(SectionIter::peek);
        let start = self.waiting.first().map_or(u32::MAX, Section::start);
        let other = self.others.peek().map_or(u32::MAX, |Reverse(begun)| begun.0);
        match next {
            Some(rank) if rank <= start && rank <= other => {}
            _ => {
                if let (Some(rank), Some(section)) = (next, self.current.take()) {
                    self.others.push(Reverse(Begun(rank, section)));
                }
                let begun = self.others.peek().map(|Reverse(begun)| begun.0);
                match (self.waiting.split_first(), begun) {
                    (Some((section, rest)), _) if begun.is_none_or(|r| section.start() < r) => {
                        self.waiting = rest;
                        self.current = Some(section.iter());
                    }
                    _ => self.current = self.others.pop().map(|Reverse(begun)| begun.1),
                }
            }
        }
        self.current.as_mut()?.next()
    }
}

/// A section and its next rank, by which it is ordered.
#[derive(Clone, Debug)]
struct Begun(u32, SectionIter);

impl PartialEq for Begun {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Begun {}

impl PartialOrd for Begun {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Begun {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
