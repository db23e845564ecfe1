//! Durations of the calls of a signature: a few numbers that are kept for free.

use crate::cells::{self, Cells};

/// Sums over the calls of a signature, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// How many there were.
    pub count: u64,
    /// Their durations, summed.
    pub sum: u64,
    /// The shortest.
    pub min: u64,
    /// The longest.
    pub max: u64,
    /// Squares of the durations, summed.
    pub squares: f64,
    /// Times since the task's call before, summed.
    pub gaps: u64,
}

impl Stats {
    /// Takes in a call.
    #[inline]
    pub fn note(&mut self, duration: u64, gap: u64) {
        self.min = if self.count == 0 { duration } else { self.min.min(duration) };
        self.max = self.max.max(duration);
        self.count += 1;
        self.sum = self.sum.wrapping_add(duration);
        self.squares += duration as f64 * duration as f64;
        self.gaps = self.gaps.wrapping_add(gap);
    }

    /// Takes in the calls of another.
    pub fn add(&mut self, other: &Stats) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.squares += other.squares;
        self.gaps = self.gaps.wrapping_add(other.gaps);
    }

    /// The standard deviation of the durations.
    pub fn deviation(&self) -> f64 {
        let n = self.count as f64;
        let mean = self.sum as f64 / n;
        if self.count == 0 { 0.0 } else { (self.squares / n - mean * mean).max(0.0).sqrt() }
    }

    /// Writes it.
    pub fn put(&self, out: &mut Vec<u8>) {
        for value in [self.count, self.sum, self.min, self.max, self.gaps] {
            cells::put_unsigned(out, value);
        }
        // Eight significant bits are plenty for a deviation, and leave most bytes zero.
        let squares = (self.squares as f32).to_bits() >> 8;
        cells::put_unsigned(out, squares.into());
    }

    /// Reads it.
    pub fn get(cells: &mut Cells<'_>) -> Option<Stats> {
        let mut next = || cells.get_unsigned();
        let (count, sum, min, max, gaps) = (next()?, next()?, next()?, next()?, next()?);
        let squares = f32::from_bits((next()? as u32) << 8).into();
        Some(Stats { count, sum, min, max, squares, gaps })
    }
}
