//! Histograms of values (ScalaTrace II §2.3), and drawing from them.

use std::collections::BTreeMap;

/// How often each value occurs: absolutely, and as a distance from the rank.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    absolute: BTreeMap<i64, u64>,
    relative: BTreeMap<i64, u64>,
    /// If values may be ranks: how many ranks there are.
    ranks: Option<u32>,
}

/// How often values occur. With more different values than bins, a bin is a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Values are distances from the rank, modulo this number of ranks. Negative values are no ranks, and stay as they
    /// are.
    pub relative: Option<u32>,
    /// The bins, ascending.
    pub bins: Vec<Bin>,
}

/// Values from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bin {
    /// The smallest value.
    pub low: i64,
    /// The largest value.
    pub high: i64,
    /// How often they occur.
    pub count: u64,
    /// By how much they exceed `low`, in total.
    pub excess: u64,
}

impl Bin {
    fn add(&mut self, value: i64, count: u64) {
        self.high = value;
        self.count = self.count.saturating_add(count);
        let excess = value.abs_diff(self.low).saturating_mul(count);
        self.excess = self.excess.saturating_add(excess);
    }

    /// The mean of the values.
    pub fn mean(&self) -> f64 {
        self.low as f64 + self.excess as f64 / self.count.max(1) as f64
    }

    /// The value that is drawn at a position from 0 to `count - 1`. Values are spread evenly below and above the mean, in
    /// such numbers that the mean of all is that of the bin.
    fn at(&self, position: u64) -> i64 {
        // Numbers have 16 binary digits after the point.
        let span = u128::from(self.high.abs_diff(self.low)) << 16;
        let count = u128::from(self.count.max(1));
        let mean = (u128::from(self.excess) << 16) / count;
        if span == 0 || mean > span {
            return self.low;
        }
        let (position, below) = (u128::from(position), count.saturating_mul(span - mean) / span);
        let excess = match position < below {
            // Of two values, nothing is in between.
            _ if span == 1 << 16 => u128::from(position >= below) << 16,
            true => (2 * position + 1).saturating_mul(mean) / (2 * below),
            false => {
                let above = count - below;
                let part = (2 * (position - below) + 1).saturating_mul(span - mean);
                mean.saturating_add(part / (2 * above).max(1))
            }
        };
        let rounded = (excess.min(span) + (1 << 15)) >> 16;
        self.low.saturating_add_unsigned(rounded as u64)
    }
}

impl Tally {
    /// Values of a job with so many ranks, if they may be ranks.
    pub fn new(ranks: Option<u32>) -> Tally {
        Tally { ranks: ranks.filter(|ranks| *ranks > 0), ..Tally::default() }
    }

    /// Counts a value of a rank.
    pub fn add(&mut self, rank: u32, value: i64, count: u64) {
        let times = self.absolute.entry(value).or_default();
        *times = times.saturating_add(count);
        if let Some(ranks) = self.ranks {
            let distance = match value < 0 {
                true => value,
                false => value.wrapping_sub(rank.into()).rem_euclid(ranks.into()),
            };
            let times = self.relative.entry(distance).or_default();
            *times = times.saturating_add(count);
        }
    }

    /// Counts what another one has counted.
    pub fn absorb(&mut self, other: &Tally) {
        let pairs = [(&mut self.absolute, &other.absolute), (&mut self.relative, &other.relative)];
        for (ours, theirs) in pairs {
            for (value, count) in theirs {
                let times = ours.entry(*value).or_default();
                *times = times.saturating_add(*count);
            }
        }
        self.ranks = self.ranks.or(other.ranks);
    }

    /// The values and how often each occurs, ascending.
    pub fn values(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        self.absolute.iter().map(|(value, count)| (*value, *count))
    }

    /// How many different values there are.
    pub fn distinct(&self) -> usize {
        self.absolute.len()
    }

    /// The histogram, with at most so many bins: of distances if they are fewer.
    pub fn histogram(&self, bins: u64) -> Histogram {
        let bins = bins.max(1);
        match self.ranks.filter(|_| self.relative.len() <= self.absolute.len()) {
            Some(ranks) => Histogram { relative: Some(ranks), bins: binned(&self.relative, bins) },
            None => Histogram { relative: None, bins: binned(&self.absolute, bins) },
        }
    }
}

/// At most so many bins, of about as many occurrences each. Negative values are mostly constants of MPI, and share no bin
/// with others if there is room.
fn binned(all: &BTreeMap<i64, u64>, most: u64) -> Vec<Bin> {
    let bin =
        |(value, count): (&i64, &u64)| Bin { low: *value, high: *value, count: *count, excess: 0 };
    if all.len() as u64 <= most {
        return all.iter().map(bin).collect();
    }
    let negative = all.range(..0).count() as u64;
    let apart = if 2 * negative <= most { negative } else { 0 };
    let mut bins: Vec<Bin> = all.iter().take(apart as usize).map(bin).collect();
    let rest = || all.iter().skip(apart as usize);
    let total: u128 = rest().map(|(_, count)| u128::from(*count)).sum();
    let (mut before, mut last) = (0u128, None);
    for (value, count) in rest() {
        let number = before * u128::from(most - apart) / total.max(1);
        before += u128::from(*count);
        match bins.last_mut().filter(|_| last == Some(number)) {
            Some(bin) => bin.add(*value, *count),
            None => bins.push(bin((value, count))),
        }
        last = Some(number);
    }
    bins
}

impl Histogram {
    /// How many values there are.
    pub fn total(&self) -> u64 {
        self.bins.iter().fold(0, |sum, bin| sum.saturating_add(bin.count))
    }

    /// The value for a number that counts the visits of all ranks: numbers from 0 to [`Histogram::total`] - 1 give each value
    /// as often as it occurred, in an order that `key` determines.
    pub fn draw(&self, key: u64, number: u64, rank: u32) -> Option<i64> {
        let mut position = scattered(key, number, self.total())?;
        for bin in &self.bins {
            if position >= bin.count {
                position -= bin.count;
                continue;
            }
            let value = bin.at(position);
            return Some(match self.relative {
                Some(ranks) if value >= 0 => {
                    (i64::from(rank) + value).rem_euclid(i64::from(ranks.max(1)))
                }
                _ => value,
            });
        }
        None
    }
}

/// Another number below `total`; different numbers below it become different numbers.
pub(super) fn scattered(key: u64, number: u64, total: u64) -> Option<u64> {
    let rest = number.checked_rem(total)?;
    let mut factor = 1 + mixed(key) % total;
    while divisor(factor, total) != 1 {
        factor = factor % total + 1;
    }
    let shift = mixed(key ^ 0x5bd1_e995) % total;
    let product = u128::from(rest) * u128::from(factor) + u128::from(shift);
    Some((product % u128::from(total)) as u64)
}

/// The greatest common divisor.
fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A number that looks random (the finalizer of MurmurHash3).
pub(super) fn mixed(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ x >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 33
}
