//! Statistics of a signature: durations of its calls, and the intervals before them.

use crate::cells::{self, Cells};
use refrain_timing::LogHistogram;

/// Sums over the calls of a signature, in ticks.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Intervals since the task's previous call, summed.
    pub gaps: u64,
    /// Their distribution, if there was more than one call.
    pub spread: Option<Box<Spread>>,
}

/// Distributions of times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Durations.
    pub durations: LogHistogram,
    /// Intervals since the task's previous call.
    pub gaps: LogHistogram,
}

impl Spread {
    #[inline]
    fn note(&mut self, duration: u64, gap: u64) {
        self.durations.note(duration);
        self.gaps.note(gap);
    }
}

impl Stats {
    /// Adds a call.
    #[inline]
    pub fn note(&mut self, duration: u64, gap: u64) {
        match &mut self.spread {
            Some(spread) => spread.note(duration, gap),
            None => self.begin_spread(duration, gap),
        }
        self.min = if self.count == 0 { duration } else { self.min.min(duration) };
        self.max = self.max.max(duration);
        self.count += 1;
        self.sum = self.sum.wrapping_add(duration);
        self.squares += duration as f64 * duration as f64;
        self.gaps = self.gaps.wrapping_add(gap);
    }

    /// Many signatures have a single call, which the sums describe completely.
    #[cold]
    fn begin_spread(&mut self, duration: u64, gap: u64) {
        if self.count > 0 {
            let mut spread = self.whole_spread();
            spread.note(duration, gap);
            self.spread = Some(Box::new(spread));
        }
    }

    /// The distributions, also for a single call.
    pub fn whole_spread(&self) -> Spread {
        match &self.spread {
            Some(spread) => (**spread).clone(),
            None => {
                let mut spread = Spread::default();
                if self.count > 0 {
                    spread.note(self.sum, self.gaps);
                }
                spread
            }
        }
    }

    /// Adds the calls of another signature.
    pub fn add(&mut self, other: &Stats) {
        if other.count == 0 {
            return;
        }
        let (mut spread, more) = (self.whole_spread(), other.whole_spread());
        spread.durations.add(&more.durations);
        spread.gaps.add(&more.gaps);
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.squares += other.squares;
        self.gaps = self.gaps.wrapping_add(other.gaps);
        self.spread = (self.count > 1).then(|| Box::new(spread));
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
        if self.count > 1 {
            let spread = self.whole_spread();
            spread.durations.put(out);
            spread.gaps.put(out);
        }
    }

    /// Reads it.
    pub fn get(cells: &mut Cells<'_>) -> Option<Stats> {
        let mut next = || cells.get_unsigned();
        let (count, sum, min, max, gaps) = (next()?, next()?, next()?, next()?, next()?);
        let squares = f32::from_bits((next()? as u32) << 8).into();
        let mut histogram = || {
            let (histogram, length) = LogHistogram::get(cells.rest()).ok()?;
            cells.take(length)?;
            Some(histogram)
        };
        let spread = match count {
            0 | 1 => None,
            _ => Some(Box::new(Spread { durations: histogram()?, gaps: histogram()? })),
        };
        Some(Stats { count, sum, min, max, squares, gaps, spread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(times: &[(u32, u32)]) -> Stats {
        let mut stats = Stats::default();
        times.iter().for_each(|(duration, gap)| stats.note((*duration).into(), (*gap).into()));
        stats
    }

    proptest! {
        #[test]
        fn calls_of_two_add_up(a: Vec<(u32, u32)>, b: Vec<(u32, u32)>) {
            let mut sum = of(&a);
            sum.add(&of(&b));
            let whole = of(&[&a[..], &b].concat());
            prop_assert!((sum.squares - whole.squares).abs() <= whole.squares * 1e-9);
            prop_assert_eq!(Stats { squares: whole.squares, ..sum }, whole);
        }

        #[test]
        fn it_reads_back_as_written(times: Vec<(u32, u32)>) {
            let stats = of(&times);
            let mut bytes = Vec::new();
            stats.put(&mut bytes);
            let mut cells = Cells::new(&bytes);
            let read = Stats::get(&mut cells).expect("it reads");
            prop_assert!(cells.is_empty());
            prop_assert_eq!(Stats { squares: stats.squares, ..read }, stats);
        }
    }
}
