//! Innermost loops: references that advance by constant strides.

use crate::geometry::Geometry;
use crate::simulate::Simulator;
use crate::sites::Place;
use crate::warp::{Course, Reach, Warp};

/// A loop of this many iterations may repeat the state of the caches.
const LONG: u64 = 1 << 12;

/// A reference of the loop.
struct Row {
    place: Place,
    address: u64,
    stride: i64,
    /// For how many more iterations it stays in its lines.
    stays: u64,
}

impl Row {
    /// The first and the last line that it accesses.
    #[inline]
    fn lines(&self, line_bits: u32) -> (u64, u64) {
        let last = self.address.wrapping_add(u64::from(self.place.size) - 1);
        (self.address >> line_bits, last >> line_bits)
    }

    /// Whether it changes its line in every iteration.
    fn moves(&self, line: u64) -> bool {
        self.stride.unsigned_abs() >= line
    }

    /// How many lines it may access in an iteration.
    fn most_lines(&self, line: u64) -> u64 {
        let size = u64::from(self.place.size);
        let is_aligned = size.is_power_of_two()
            && size <= line
            && self.address.is_multiple_of(size)
            && self.stride.unsigned_abs().is_multiple_of(size);
        if is_aligned { 1 } else { (size - 1) / line + 2 }
    }
}

/// For how many iterations the lines of references that change them each time surely do not replace those of
/// references that stay; 0 if there are not both sorts.
fn between(rows: &[Row], geometry: &Geometry) -> u64 {
    let ways = geometry.levels.first().map_or(0, |level| u64::from(level.ways));
    let (mut moving, mut staying) = (0, 0);
    for row in rows {
        match row.moves(geometry.line) {
            true => moving += row.most_lines(geometry.line),
            false => staying += row.most_lines(geometry.line),
        }
    }
    match (moving, staying) {
        (0, _) | (_, 0) => 0,
        _ => ways.saturating_sub(staying) / moving,
    }
}

impl Simulator<'_> {
    /// Simulates `iterations` iterations after those of `rows`.
    pub fn sweep(&mut self, rows: &[(Place, Reach)], iterations: u64) {
        let line = self.geometry.line;
        let mut rows: Vec<Row> = rows
            .iter()
            .map(|(place, reach)| {
                let address = reach.low.wrapping_add_signed(reach.shift);
                let stays = stays(address, place.size, reach.shift, line);
                Row { place: *place, address, stride: reach.shift, stays }
            })
            .collect();
        let mut warp = Warp::default();
        let is_uniform = rows.windows(2).all(|pair| pair[0].stride == pair[1].stride);
        let is_simple = self.is_lru() && self.hierarchy.reuse.is_none();
        // With so few lines, none of the iteration's lines can replace another (LRU).
        let lines: u64 = rows.iter().map(|row| row.most_lines(line)).sum();
        let ways = self.geometry.levels.first().map_or(0, |level| u64::from(level.ways));
        let surely_stay = is_simple && lines <= ways;
        let most_between = if is_simple { between(&rows, self.geometry) } else { 0 };
        let mut done = 0;
        while done < iterations {
            let count = self.block_of_iterations(&mut rows, most_between, iterations - done);
            done += count;
            if count > 0 {
                continue;
            }
            let stays = rows.iter().map(|row| row.stays).min().unwrap_or(u64::MAX);
            let count = stays.saturating_add(1).min(iterations - done);
            self.iteration(&rows);
            if count > 1 {
                self.repeat(&rows, count - 1, surely_stay);
            }
            advance(&mut rows, count, line);
            done += count;
            if is_uniform && iterations >= LONG && done < iterations {
                let skipped = self.warp_sweep(&mut warp, &rows, done, iterations - done);
                if skipped > 0 {
                    advance(&mut rows, skipped, line);
                    done += skipped;
                }
            }
        }
    }

    /// Simulates some iterations during which some references stay in their lines and the others change
    /// theirs each time. Only the first and the last access of those that stay matter for the order of use, as long
    /// as too few lines are accessed in between to replace theirs. Returns how many iterations, if it is possible.
    fn block_of_iterations(&mut self, rows: &mut [Row], most_between: u64, left: u64) -> u64 {
        if most_between == 0 {
            return 0;
        }
        let line = self.geometry.line;
        let staying = rows.iter().filter(|row| !row.moves(line)).map(|row| row.stays);
        let count = staying.min().unwrap_or(0).saturating_add(1).min(most_between).min(left);
        if count < 3 {
            return 0;
        }
        self.iteration(rows);
        for at in 1..count {
            for row in rows.iter_mut() {
                row.address = row.address.wrapping_add_signed(row.stride);
                if row.moves(line) && at + 1 < count {
                    self.access(row);
                }
            }
        }
        self.iteration(rows);
        for row in rows.iter_mut().filter(|row| !row.moves(line)) {
            let (first, last) = row.lines(self.line_bits);
            self.sites.counts[row.place.site as usize].add_hits(last - first + 1, count - 2);
            if row.stays != u64::MAX {
                row.stays -= count - 1;
            }
        }
        advance(rows, 1, line);
        count
    }

    /// One iteration.
    #[inline]
    fn iteration(&mut self, rows: &[Row]) {
        rows.iter().for_each(|row| self.access(row));
    }

    /// An access of one reference.
    #[inline]
    fn access(&mut self, row: &Row) {
        let (first, last) = row.lines(self.line_bits);
        for line in first..=last {
            let outcome = self.hierarchy.access(0, line, row.place.is_store);
            self.sites.counts[row.place.site as usize].add(outcome);
        }
    }

    /// The last iteration again, so many times: the same lines in the same order.
    fn repeat(&mut self, rows: &[Row], mut times: u64, surely_stay: bool) {
        if !surely_stay {
            let inputs = self.hierarchy.misses_of_first();
            let before = self.hierarchy.reuse.as_ref().map(|reuse| reuse.histogram().clone());
            self.iteration(rows);
            times -= 1;
            if self.hierarchy.misses_of_first() != inputs {
                (0..times).for_each(|_| self.iteration(rows));
                return;
            }
            if let (Some(reuse), Some(before)) = (&mut self.hierarchy.reuse, before) {
                reuse.histogram_mut().add_times(&before, times);
            }
        }
        // All are hits, and leave each set as it is.
        for row in rows {
            let (first, last) = row.lines(self.line_bits);
            self.sites.counts[row.place.site as usize].add_hits(last - first + 1, times);
        }
    }

    /// Skips iterations if the caches repeat themselves; returns how many.
    fn warp_sweep(&mut self, warp: &mut Warp, rows: &[Row], done: u64, left: u64) -> u64 {
        if !warp.is_due(self, done) {
            return 0;
        }
        let mut reaches = Vec::with_capacity(rows.len());
        for Row { place, address, stride, .. } in rows {
            // The iteration that was made last.
            let low = address.wrapping_add_signed(-stride);
            let high = low.wrapping_add(u64::from(place.size) - 1);
            reaches.push(Reach { low, high, shift: *stride, periods: left });
        }
        let mut sites: Vec<u32> = rows.iter().map(|row| row.place.site).collect();
        sites.sort_unstable();
        sites.dedup();
        let course = Course { index: done, periods: left, reaches: &reaches, sites: &sites };
        self.warp(warp, &course).unwrap_or(0)
    }
}

/// For how many more iterations a reference stays in its lines.
#[inline]
fn stays(address: u64, size: u32, stride: i64, line: u64) -> u64 {
    if stride == 0 {
        return u64::MAX;
    }
    let distance = stride.unsigned_abs();
    if distance >= line {
        return 0;
    }
    let (first, last) = (address % line, address.wrapping_add(u64::from(size) - 1) % line);
    // Numbers this small are divided quickly.
    match stride > 0 {
        true => u64::from((line - 1 - first.max(last)) as u32 / distance as u32),
        false => u64::from(first.min(last) as u32 / distance as u32),
    }
}

fn advance(rows: &mut [Row], count: u64, line: u64) {
    for row in rows {
        row.address = row.address.wrapping_add_signed(row.stride.wrapping_mul(count as i64));
        row.stays = match row.stays {
            u64::MAX => u64::MAX,
            stays if stays >= count => stays - count,
            _ => stays(row.address, row.place.size, row.stride, line),
        };
    }
}
