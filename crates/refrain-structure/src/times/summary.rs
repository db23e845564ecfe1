//! What a file keeps of the durations of a key.

use refrain_signature::stats::{Spread, Stats};
use refrain_timing::floating;
use refrain_timing::{BUCKETS, LogHistogram};

/// Means are in sixteenths of a tick.
const PARTS: u64 = 16;

/// Bits behind the leading one: of the mean, of the shortest and the longest, of the deviation, of the mean interval,
/// and of the median interval.
pub(super) const MEAN_BITS: u32 = 10;
pub(super) const LIMIT_BITS: u32 = 4;
pub(super) const DEVIATION_BITS: u32 = 3;
pub(super) const GAP_BITS: u32 = 5;
pub(super) const MEDIAN_BITS: u32 = 2;

/// The distribution is in these parts.
pub(super) const WHOLE: u32 = 64;

/// Larger numbers are stored as this one.
const MOST: u64 = 1 << 60;

/// Durations of the calls of a key and intervals before them, rounded: numbers as floating-point numbers of few bits
/// ([`floating`]), the distribution of durations in 64ths.
///
/// | | within |
/// |---|---|
/// | mean | 0.05 %, or a 32nd of a tick |
/// | shortest | at most 6.25 % less |
/// | longest | at most 6.25 % more |
/// | standard deviation | 6.25 %, or a 32nd of a tick |
/// | mean interval before a call | 1.6 %, or a 32nd of a tick |
/// | median interval | a factor of two |
/// | durations below a power of two | 0.8 % of all |
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub(super) mean: u32,
    pub(super) low: u32,
    pub(super) high: u32,
    pub(super) deviation: u32,
    pub(super) gap: u32,
    pub(super) gap_median: u32,
    /// Whether all durations are equal; then only the means are stored.
    pub(super) is_single: bool,
    /// 64ths of the durations in each bucket of a [`LogHistogram`].
    pub(super) shares: [u8; BUCKETS],
}

/// The smallest number in a cell.
pub(super) fn first<const M: u32>(cell: u32) -> u64 {
    let (high, open) = floating::bits::<M>(cell.min(floating::cells::<M>() - 1));
    high << open
}

/// The cell whose smallest number is next.
fn nearest<const M: u32>(number: u64) -> u32 {
    let number = number.min(MOST);
    let below = floating::cell::<M>(number);
    let is_up = first::<M>(below + 1) - number < number - first::<M>(below);
    below + u32::from(is_up)
}

/// The cell whose smallest number is this one or the next above.
fn above<const M: u32>(number: u64) -> u32 {
    let number = number.min(MOST);
    let below = floating::cell::<M>(number);
    below + u32::from(first::<M>(below) < number)
}

/// A mean in parts of ticks.
fn mean(sum: u64, count: u64) -> u64 {
    let mean =
        (u128::from(sum) * u128::from(PARTS) + u128::from(count / 2)) / u128::from(count.max(1));
    u64::try_from(mean).unwrap_or(u64::MAX)
}

impl Summary {
    /// Of exact statistics.
    pub fn of(stats: &Stats) -> Summary {
        let spread = stats.whole_spread();
        let median = spread.gaps.quantile(0.5, 0, MOST).unwrap_or(0);
        let single = Summary {
            mean: nearest::<MEAN_BITS>(mean(stats.sum, stats.count)),
            gap: nearest::<GAP_BITS>(mean(stats.gaps, stats.count)),
            gap_median: nearest::<MEDIAN_BITS>(median),
            is_single: stats.min == stats.max,
            ..Summary::default()
        };
        if single.is_single {
            return single;
        }
        let counts = spread.durations.counts();
        let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        let mut shares = [0; BUCKETS];
        let (mut sum, mut before) = (0u64, 0);
        for (share, count) in shares.iter_mut().zip(counts) {
            sum += u64::from(*count);
            let up_to = (sum * u64::from(WHOLE) + all / 2) / all.max(1);
            *share = (up_to - before) as u8;
            before = up_to;
        }
        Summary {
            low: floating::cell::<LIMIT_BITS>(stats.min.min(MOST)),
            high: above::<LIMIT_BITS>(stats.max),
            deviation: nearest::<DEVIATION_BITS>((stats.deviation() * PARTS as f64) as u64),
            shares,
            ..single
        }
    }

    /// The mean duration in ticks.
    pub fn mean(&self) -> f64 {
        first::<MEAN_BITS>(self.mean) as f64 / PARTS as f64
    }

    /// The mean interval since the task's previous call, in ticks.
    pub fn gap(&self) -> f64 {
        first::<GAP_BITS>(self.gap) as f64 / PARTS as f64
    }

    /// The statistics of so many calls of the key.
    pub fn stats(&self, count: u64) -> Stats {
        if count == 0 {
            return Stats::default();
        }
        let times = |mean: u64| {
            let sum =
                (u128::from(mean) * u128::from(count) + u128::from(PARTS / 2)) / u128::from(PARTS);
            u64::try_from(sum).unwrap_or(u64::MAX)
        };
        let mean = self.mean();
        let deviation = first::<DEVIATION_BITS>(self.deviation) as f64 / PARTS as f64;
        // Rounding may move the mean beyond the limits.
        let (mut min, mut max) = (mean as u64, mean.ceil() as u64);
        let mut shares = self.shares;
        if self.is_single {
            if let Some(share) = shares.get_mut(LogHistogram::bucket(min)) {
                *share = WHOLE as u8;
            }
        } else {
            min = min.min(first::<LIMIT_BITS>(self.low));
            max = max.max(first::<LIMIT_BITS>(self.high));
        }
        let mut durations = [0; BUCKETS];
        let (mut part, mut before) = (0u128, 0u128);
        for (bucket, share) in durations.iter_mut().zip(shares) {
            part += u128::from(share);
            let up_to = (part * u128::from(count) + u128::from(WHOLE / 2)) / u128::from(WHOLE);
            *bucket = u32::try_from(up_to - before).unwrap_or(u32::MAX);
            before = up_to;
        }
        let mut gaps = [0; BUCKETS];
        if let Some(bucket) =
            gaps.get_mut(LogHistogram::bucket(first::<MEDIAN_BITS>(self.gap_median)))
        {
            *bucket = u32::try_from(count).unwrap_or(u32::MAX);
        }
        let sum = times(first::<MEAN_BITS>(self.mean));
        // With the mean that the sum gives, or the deviation would be lost.
        let exact = sum as f64 / count as f64;
        Stats {
            count,
            sum,
            min,
            max,
            squares: count as f64 * (deviation * deviation + exact * exact),
            gaps: times(first::<GAP_BITS>(self.gap)),
            spread: (count > 1).then(|| {
                let (durations, gaps) = (LogHistogram::of(durations), LogHistogram::of(gaps));
                Box::new(Spread { durations, gaps })
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(times: &[(u64, u64)]) -> Stats {
        let mut stats = Stats::default();
        times.iter().for_each(|(duration, gap)| stats.note(*duration, *gap));
        stats
    }

    fn times() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let time = || (any::<u32>(), 0..32u32).prop_map(|(time, shift)| u64::from(time >> shift));
        prop::collection::vec((time(), time()), 1..200)
    }

    fn is_near(found: f64, right: f64, part: f64, ticks: f64) -> bool {
        (found - right).abs() <= right * part + ticks
    }

    proptest! {
        #[test]
        fn a_summary_is_as_precise_as_it_says(times in times()) {
            let exact = of(&times);
            let n = exact.count;
            let read = Summary::of(&exact).stats(n);
            let mean = |sum: u64| sum as f64 / n as f64;
            prop_assert_eq!(read.count, n);
            prop_assert!(is_near(mean(read.sum), mean(exact.sum), 0.0005, 0.6 / 16.0 + 0.5 / n as f64));
            prop_assert!(is_near(mean(read.gaps), mean(exact.gaps), 0.016, 0.6 / 16.0 + 0.5 / n as f64));
            if exact.min < exact.max {
                prop_assert!(read.min <= exact.min && read.max >= exact.max);
            }
            prop_assert!(is_near(read.min as f64, exact.min as f64, 0.0625, 1.0));
            prop_assert!(is_near(read.max as f64, exact.max as f64, 0.0625, 1.0));
            // What the mean lost in rounding is in the deviation, too.
            let slack = 0.1 + exact.max as f64 * 1e-3;
            prop_assert!(is_near(read.deviation(), exact.deviation(), 0.0625, slack));
            let (read, exact) = (read.whole_spread(), exact.whole_spread());
            prop_assert_eq!(read.durations.count(), n);
            let (mut a, mut b) = (0, 0);
            for (read, exact) in read.durations.counts().iter().zip(exact.durations.counts()) {
                (a, b) = (a + u64::from(*read), b + u64::from(*exact));
                prop_assert!(a.abs_diff(b) as f64 <= n as f64 / 128.0 + 1.0);
            }
            let median = |spread: &Spread| spread.gaps.quantile(0.5, 0, 1 << 60).unwrap().max(16);
            let (read, exact) = (median(&read), median(&exact));
            prop_assert!(read <= exact * 2 && exact <= read * 2, "{} {}", read, exact);
        }
    }

    #[test]
    fn no_calls_have_no_times() {
        assert_eq!(Summary::of(&Stats::default()).stats(0), Stats::default());
        assert_eq!(Summary::of(&Stats::default()).stats(7).sum, 0);
    }
}
