//! Warping (Morelli and Reineke, *Warping Cache Simulation of Polyhedral Programs*, PLDI 2022, §4).
//!
//! All references of a loop advance by the same distance. If the caches at the end of an iteration hold
//! what they held some iterations before, with all lines shifted by that distance (and so all sets rotated),
//! then these iterations repeat themselves: misses are multiplied, and the lines in the caches shifted.
//! What was never accessed before must repeat itself, too, because of cold misses.
//!
//! Copying and comparing states takes time in proportion to the caches. So a state is copied only after a
//! proportional number of accesses, and the distance between copies doubles (Brent's cycle detection), which finds cycles of any length.

use std::collections::HashSet;

use crate::cache::State;
use crate::counts::Counts;
use crate::extent::Extent;
use crate::log::Log;
use crate::seen::Seen;
use crate::simulate::Simulator;
use crate::sites::Place;

/// The most lines between the first and the last line of an iteration for which cold misses are followed.
const MOST_LINES: u64 = 1 << 24;

/// The addresses of a reference in an iteration, and how they advance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    pub low: u64,
    /// The last byte.
    pub high: u64,
    pub shift: i64,
    /// How many times they can advance within the segment.
    pub periods: u64,
}

impl Reach {
    /// The reach of a reference with these logical addresses, if they are in one segment.
    pub fn of(place: &Place, extent: &Extent, shift: i64) -> Option<Self> {
        let stretch = &place.stretch;
        if extent.is_empty() || !stretch.holds(extent.low) || !stretch.holds(extent.high) {
            return None;
        }
        let room = match shift {
            0 => u64::MAX,
            1.. => stretch.size - 1 - (extent.high - stretch.first),
            _ => extent.low - stretch.first,
        };
        Some(Self {
            low: extent.low.wrapping_add(stretch.shift),
            high: extent.high.wrapping_add(stretch.shift).wrapping_add(u64::from(place.size) - 1),
            shift,
            periods: room.checked_div(shift.unsigned_abs()).unwrap_or(u64::MAX),
        })
    }
}

/// Where a loop is.
pub(crate) struct Course<'a> {
    /// Periods since the loop began.
    pub index: u64,
    /// How many more are known to be alike.
    pub periods: u64,
    /// The addresses of the last period.
    pub reaches: &'a [Reach],
    pub sites: &'a [u32],
}

/// A loop's search for a state that repeats itself.
#[derive(Debug, Default)]
pub(crate) struct Warp {
    earlier: Option<Box<Earlier>>,
    /// How many periods a copy is compared with.
    gap: u64,
}

/// A copy of an earlier state.
#[derive(Debug)]
struct Earlier {
    index: u64,
    shift: i64,
    states: Vec<State>,
    counts: Vec<(u32, Counts)>,
    /// The position in the log of new lines.
    new_lines: u64,
}

impl Warp {
    /// The loop has ended.
    pub fn end(&mut self) {
        *self = Self::default();
    }

    /// Whether it is worth while to call [`Simulator::warp`]: a quick test.
    pub fn is_due(&self, simulator: &Simulator<'_>, index: u64) -> bool {
        let Some(earlier) = &self.earlier else { return simulator.may_copy() };
        let mut both = simulator.hierarchy.caches().iter().zip(&earlier.states);
        let is_full = both.all(|(cache, state)| cache.holds_as_many(state));
        is_full && simulator.may_compare()
            || index - earlier.index >= self.gap && simulator.may_copy()
    }
}

impl Simulator<'_> {
    /// The counts of some sites.
    pub fn counts_of(&self, sites: &[u32]) -> Vec<(u32, Counts)> {
        sites.iter().map(|site| (*site, self.sites.counts[*site as usize])).collect()
    }

    /// Whether enough accesses were simulated since the last copy.
    pub fn may_copy(&self) -> bool {
        let cost: usize = self.hierarchy.caches().iter().map(|cache| cache.cost_of_copy()).sum();
        self.hierarchy.simulated - self.copied >= cost as u64
    }

    /// Whether not too much time went into comparisons: comparing a line takes much less than an access.
    fn may_compare(&self) -> bool {
        self.compared <= 4 * self.hierarchy.simulated
    }

    /// Skips periods of a loop if the caches repeat themselves. Returns how many, if any.
    pub fn warp(&mut self, warp: &mut Warp, course: &Course<'_>) -> Option<u64> {
        let shift = course.reaches.first()?.shift;
        let is_uniform = course.reaches.iter().all(|reach| reach.shift == shift);
        if shift == 0 || !is_uniform || self.hierarchy.reuse.is_some() {
            return None;
        }
        if let Some(earlier) = &warp.earlier {
            let is_same = earlier.shift == shift
                && earlier.counts.iter().map(|(site, _)| site).eq(course.sites);
            let steps = course.index - earlier.index;
            let may_skip = is_same && self.may_compare();
            let skipped = if may_skip { self.skip(earlier, course, steps) } else { None };
            if skipped.is_some() {
                *warp = Warp::default();
                return skipped;
            }
            if is_same && steps < warp.gap {
                return None;
            }
        }
        if course.periods < 2 || !self.may_copy() {
            return None;
        }
        self.copied = self.hierarchy.simulated;
        let line = 1 << self.line_bits;
        // After this many periods the shift is a multiple of a line.
        let least = line >> shift.unsigned_abs().trailing_zeros().min(self.line_bits);
        warp.gap = (2 * warp.gap).max(least);
        warp.earlier = Some(Box::new(Earlier {
            index: course.index,
            shift,
            states: self.hierarchy.caches().iter().map(|cache| cache.state()).collect(),
            counts: self.counts_of(course.sites),
            new_lines: self.hierarchy.new_lines.position(),
        }));
        None
    }

    /// Skips the coming periods if the last ones, since an earlier state, repeat themselves.
    fn skip(&mut self, earlier: &Earlier, course: &Course<'_>, steps: u64) -> Option<u64> {
        let distance = earlier.shift.checked_mul(i64::try_from(steps).ok()?)?;
        let line = 1i64 << self.line_bits;
        let times = course.periods.checked_div(steps)?;
        if times == 0 || distance % line != 0 {
            return None;
        }
        let by = distance / line;
        let mut compared = 0;
        let mut both = self.hierarchy.caches().iter().zip(&earlier.states);
        let is_shifted = both.all(|(cache, state)| cache.is_shifted(state, by, &mut compared));
        self.compared += compared;
        if !is_shifted {
            return None;
        }
        let new_lines = self.new_lines(&self.hierarchy.new_lines, earlier)?;
        let clusters = clusters(course.reaches, distance, self.line_bits);
        let is_alike = |cluster: &(u64, u64)| {
            repeats_new_lines(self.hierarchy.seen_by_one(), *cluster, &new_lines, by, times)
        };
        if !clusters.iter().all(is_alike) {
            return None;
        }
        for (site, before) in &earlier.counts {
            let counts = &mut self.sites.counts[*site as usize];
            let once = *counts - *before;
            *counts += once.times(times);
        }
        let seen = self.hierarchy.seen();
        for (first, count) in ranges(&new_lines) {
            shifted_ranges(first, count, by, times, |first, count| seen.insert_all(first, count));
        }
        for cache in self.hierarchy.caches_mut() {
            cache.shift(by * times as i64);
        }
        // Whoever compares logs would not see what was skipped.
        self.hierarchy.inputs.iter_mut().for_each(Log::clear);
        self.hierarchy.new_lines.clear();
        Some(steps * times)
    }

    /// The lines that were accessed for the first time since an earlier state.
    fn new_lines(&self, log: &Log, earlier: &Earlier) -> Option<HashSet<u64>> {
        let new = log.between(earlier.new_lines, log.position())?;
        Some(new.iter().copied().collect())
    }
}

/// The ranges of lines that references have accessed while they advanced by a distance, joined where they
/// overlap.
fn clusters(reaches: &[Reach], distance: i64, line_bits: u32) -> Vec<(u64, u64)> {
    let range = |reach: &Reach| {
        let earlier = |address: u64| address.wrapping_add_signed(-distance);
        let low = reach.low.min(earlier(reach.low)) >> line_bits;
        (low, reach.high.max(earlier(reach.high)) >> line_bits)
    };
    let mut ranges: Vec<(u64, u64)> = reaches.iter().map(range).collect();
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (low, high) in ranges {
        match joined.last_mut() {
            Some((_, end)) if low <= *end + 1 => *end = high.max(*end),
            _ => joined.push((low, high)),
        }
    }
    joined
}

/// Whether each line of a range would be new (or not) again and again, if all accesses were repeated so many
/// times, each time shifted by `by` lines. `new` has the lines that were new in the accesses to be repeated.
///
/// A line that was not new, `y`, stands for `y + by`, `y + 2 by` … These are not new if they were seen already,
/// or once one of them is surely accessed before. A line that was new stands for lines that were never seen.
fn repeats_new_lines(
    seen: &Seen,
    (low, high): (u64, u64),
    new: &HashSet<u64>,
    by: i64,
    times: u64,
) -> bool {
    let (length, step) = (high - low + 1, by.unsigned_abs());
    let Some(reach) = step.checked_mul(times) else { return false };
    if length > MOST_LINES {
        return false;
    }
    let beyond = match by > 0 {
        true => (high + 1, high.saturating_add(reach)),
        false => (low.saturating_sub(reach), low.saturating_sub(1)),
    };
    let any_beyond = seen.has_any(beyond.0, beyond.1);
    let all_beyond = any_beyond && seen.has_all(beyond.0, beyond.1);
    // From the far end: for each line, whether one it stands for was seen, and whether all were or will be.
    let line = |at: u64| if by > 0 { high - at } else { low + at };
    let mut states: Vec<(bool, bool)> = Vec::with_capacity(length as usize);
    for at in 0..length {
        let state = match at.checked_sub(step) {
            None => (any_beyond, all_beyond),
            Some(next) => {
                let (any, all) = states[next as usize];
                let next = line(next);
                let is_seen = seen.contains(next);
                (is_seen || any, is_seen && (new.contains(&next) || all))
            }
        };
        states.push(state);
        let (any, all) = state;
        let was_seen = seen.contains(line(at)) && !new.contains(&line(at));
        if if was_seen { !all } else { any } {
            return false;
        }
    }
    true
}

/// A set of lines as ranges: first line, number of lines.
fn ranges(lines: &HashSet<u64>) -> Vec<(u64, u64)> {
    let mut sorted: Vec<u64> = lines.iter().copied().collect();
    sorted.sort_unstable();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for line in sorted {
        match ranges.last_mut() {
            Some((first, count)) if *first + *count == line => *count += 1,
            _ => ranges.push((line, 1)),
        }
    }
    ranges
}

/// The range shifted once, twice … `times` times.
fn shifted_ranges(first: u64, count: u64, by: i64, times: u64, mut each: impl FnMut(u64, u64)) {
    let step = by.unsigned_abs();
    let last = first.wrapping_add_signed(by * times as i64);
    if count >= step {
        // They overlap or touch.
        let nearest = first.wrapping_add_signed(by);
        return each(nearest.min(last), step * (times - 1) + count);
    }
    (1..=times as i64).for_each(|time| each(first.wrapping_add_signed(by * time), count));
}
