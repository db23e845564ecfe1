//! Reuse distances: how many other lines were accessed since the last access to the same line.
//!
//! A fully associative cache of `n` lines with LRU misses exactly the accesses with a distance of `n` or more,
//! and the first accesses. Distances are counted with a tree of partial sums over the times of the last
//! accesses (Bennett and Kruskal, *LRU Stack Processing*, 1975): logarithmic time for each access.

use std::collections::{BTreeMap, HashMap};

/// Times are numbered anew when this many more were used than there are lines.
const SLACK: usize = 1 << 16;

/// A histogram of reuse distances, exact.
#[derive(Clone, Debug, Default)]
pub struct ReuseDistances {
    /// The time of the last access to each line.
    last: HashMap<u64, usize>,
    /// Partial sums over times (a Fenwick tree): 1 if some line was last accessed then. Times begin at 1.
    sums: Vec<u32>,
    now: usize,
    latest: Option<u64>,
    histogram: Histogram,
}

/// How often each reuse distance occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// First accesses to a line.
    pub first: u64,
    /// Repeated accesses, by distance.
    pub distances: BTreeMap<u64, u64>,
}

impl Histogram {
    /// How many accesses a fully associative cache of so many lines would miss.
    pub fn misses(&self, lines: u64) -> u64 {
        self.first + self.distances.range(lines..).map(|(_, count)| count).sum::<u64>()
    }

    /// What was counted since an earlier state of this histogram, so many times more.
    pub(crate) fn add_times(&mut self, earlier: &Self, times: u64) {
        self.first += (self.first - earlier.first) * times;
        for (distance, count) in &mut self.distances {
            let before = earlier.distances.get(distance).copied().unwrap_or(0);
            *count += (*count - before) * times;
        }
    }

    fn add(&mut self, distance: u64, times: u64) {
        *self.distances.entry(distance).or_insert(0) += times;
    }
}

impl ReuseDistances {
    /// The histogram.
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    pub(crate) fn histogram_mut(&mut self) -> &mut Histogram {
        &mut self.histogram
    }

    /// A line is accessed.
    pub fn access(&mut self, line: u64) {
        if self.latest == Some(line) {
            return self.histogram.add(0, 1);
        }
        self.latest = Some(line);
        if self.now + 1 >= self.sums.len() {
            self.renumber();
        }
        self.now += 1;
        match self.last.insert(line, self.now) {
            None => self.histogram.first += 1,
            Some(before) => {
                let distance = self.last.len() as u64 - u64::from(self.sum(before));
                self.histogram.add(distance, 1);
                self.change(before, u32::MAX);
            }
        }
        self.change(self.now, 1);
    }

    /// Adds to the entry of a time.
    fn change(&mut self, mut time: usize, by: u32) {
        while let Some(sum) = self.sums.get_mut(time) {
            *sum = sum.wrapping_add(by);
            time += time & time.wrapping_neg();
        }
    }

    /// How many lines were last accessed at this time or before.
    fn sum(&self, mut time: usize) -> u32 {
        let mut sum = 0u32;
        while time > 0 {
            sum = sum.wrapping_add(self.sums[time]);
            time &= time - 1;
        }
        sum
    }

    /// Numbers the times of the last accesses from 1.
    fn renumber(&mut self) {
        let mut lines: Vec<(usize, u64)> =
            self.last.iter().map(|(line, time)| (*time, *line)).collect();
        lines.sort_unstable();
        self.sums = vec![0; 2 * lines.len() + SLACK];
        self.now = lines.len();
        for (time, (_, line)) in (1..).zip(lines) {
            self.last.insert(line, time);
            self.change(time, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn distances_are_positions_in_the_order_of_use(lines in prop::collection::vec(0u64..30, 0..400)) {
            let mut reuse = ReuseDistances::default();
            let (mut list, mut expected) = (Vec::<u64>::new(), Histogram::default());
            for (at, line) in lines.into_iter().enumerate() {
                match list.iter().position(|other| *other == line) {
                    None => expected.first += 1,
                    Some(at) => {
                        expected.add(at as u64, 1);
                        list.remove(at);
                    }
                }
                list.insert(0, line);
                reuse.access(line);
                if at % 50 == 49 {
                    reuse.renumber();
                }
            }
            prop_assert_eq!(reuse.histogram(), &expected);
        }
    }
}
