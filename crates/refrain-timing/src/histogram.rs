//! The distribution of times in a few bytes: a histogram over powers of two.
//!
//! Each signature has one, updated at every call by a conversion and an addition. On disk, a
//! signature with similar times takes a few bytes.

use crate::TimingError;
use crate::bytes::{Reader, put_number};
use crate::floating;

/// The number of buckets of a [`LogHistogram`].
pub const BUCKETS: usize = 32;

/// Bits of times that are all in the first bucket.
const SMALLEST: u32 = 4;

/// Counts of times by powers of two.
///
/// The first bucket has the times below 16 ticks, the next those below 32, and so on; the last has
/// all from 2^34 ticks on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHistogram {
    counts: [u32; BUCKETS],
}

impl LogHistogram {
    /// With these counts.
    pub fn of(counts: [u32; BUCKETS]) -> LogHistogram {
        LogHistogram { counts }
    }

    /// The counts of all buckets.
    pub fn counts(&self) -> &[u32; BUCKETS] {
        &self.counts
    }

    /// The bucket of a time.
    #[inline(always)]
    pub fn bucket(time: u64) -> usize {
        let bucket = floating::cell::<0>(time).saturating_sub(SMALLEST) as usize;
        bucket.min(BUCKETS - 1)
    }

    /// The smallest and the largest time of a bucket.
    pub fn limits(bucket: usize) -> (u64, u64) {
        let bucket = bucket.min(BUCKETS - 1);
        let first = if bucket == 0 { 0 } else { 1 << (bucket as u32 + SMALLEST - 1) };
        let last = match bucket == BUCKETS - 1 {
            true => u64::MAX,
            false => (1 << (bucket as u32 + SMALLEST)) - 1,
        };
        (first, last)
    }

    /// Adds a time.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "limited to the last")]
    pub fn note(&mut self, time: u64) {
        let count = &mut self.counts[LogHistogram::bucket(time)];
        *count = count.saturating_add(1);
    }

    /// Adds the times of another histogram.
    pub fn add(&mut self, other: &LogHistogram) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }

    /// The number of times.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// The buckets that are not empty: the smallest and the largest time of the bucket, and the number
    /// of times in it.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(move |(bucket, count)| {
            let (first, last) = LogHistogram::limits(bucket);
            (first, last, *count)
        })
    }

    /// An estimate of a quantile (0.5 for the median), given the smallest and the largest time; `None`
    /// if there are no times. It is correct within a factor of two, and better if times are spread
    /// evenly.
    pub fn quantile(&self, part: f64, smallest: u64, largest: u64) -> Option<u64> {
        let mut wanted = part.clamp(0.0, 1.0) * self.count() as f64;
        for (first, last, count) in self.buckets() {
            let count = f64::from(count);
            if wanted <= count {
                let (first, last) = (first.max(smallest), last.min(largest));
                let within = last.saturating_sub(first) as f64 * (wanted / count);
                return Some(
                    first.saturating_add(within as u64).clamp(smallest, largest.max(smallest)),
                );
            }
            wanted -= count;
        }
        (self.count() > 0).then_some(largest)
    }

    /// Writes the first bucket in use, the number of buckets, and a count for each.
    pub fn put(&self, out: &mut Vec<u8>) {
        let first = self.counts.iter().position(|count| *count > 0);
        let last = self.counts.iter().rposition(|count| *count > 0);
        let (Some(first), Some(last)) = (first, last) else { return put_number(out, 0) };
        // Offset by 32; smaller numbers mean an empty histogram.
        put_number(out, (last - first + 1) as u64 * BUCKETS as u64 + first as u64);
        let counts = self.counts.get(first..=last).unwrap_or_default();
        counts.iter().for_each(|count| put_number(out, (*count).into()));
    }

    /// Reads what [`put`](LogHistogram::put) wrote at the beginning of these bytes; also returns the
    /// number of bytes read.
    pub fn get(bytes: &[u8]) -> Result<(LogHistogram, usize), TimingError> {
        let mut reader = Reader::new(bytes);
        let head = reader.number()? as usize;
        let (length, first) = (head / BUCKETS, head % BUCKETS);
        let mut histogram = LogHistogram::default();
        let counts = first.checked_add(length).and_then(|end| histogram.counts.get_mut(first..end));
        for count in counts.ok_or(TimingError::Damaged("malformed buckets of a histogram"))? {
            let read = u32::try_from(reader.number()?);
            *count = read.map_err(|_| TimingError::Damaged("malformed count of a histogram"))?;
        }
        Ok((histogram, bytes.len() - reader.rest().len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(times: &[u64]) -> LogHistogram {
        let mut histogram = LogHistogram::default();
        times.iter().for_each(|time| histogram.note(*time));
        histogram
    }

    proptest! {
        #[test]
        fn it_reads_back_as_written_and_adds_up(a: Vec<u64>, b: Vec<u64>, shift in 0..64u32) {
            let small: Vec<_> = b.iter().map(|time| time >> shift).collect();
            let mut sum = of(&a);
            sum.add(&of(&small));
            prop_assert_eq!(&sum, &of(&[&a[..], &small].concat()));
            let mut bytes = Vec::new();
            sum.put(&mut bytes);
            let length = bytes.len();
            bytes.push(7);
            prop_assert_eq!(LogHistogram::get(&bytes), Ok((sum.clone(), length)));
            prop_assert!(LogHistogram::get(&bytes[..length - 1]).is_err());
            prop_assert_eq!(sum.count(), (a.len() + b.len()) as u64);
        }

        #[test]
        fn every_time_is_within_its_bucket(time: u64, shift in 0..64u32) {
            let time = time >> shift;
            let found = of(&[time]);
            let (first, last, count) = found.buckets().next().unwrap();
            prop_assert!((first..=last).contains(&time) && count == 1);
        }

        #[test]
        fn a_quantile_is_right_to_a_factor_of_two(
            mut times in prop::collection::vec(16..1_000_000u64, 1..100), part in 0.0..1.0,
        ) {
            times.sort_unstable();
            let (smallest, largest) = (times[0], times[times.len() - 1]);
            let found = of(&times).quantile(part, smallest, largest).unwrap();
            let index = (part * times.len() as f64).ceil() as usize;
            let right = times[index.saturating_sub(1)];
            prop_assert!(found <= right * 2 && right <= found * 2, "{found} for {right}");
        }

        #[test]
        fn any_bytes_are_a_histogram_or_an_error(bytes: Vec<u8>) {
            if let Ok((histogram, length)) = LogHistogram::get(&bytes) {
                prop_assert!(length <= bytes.len());
                let _ = histogram.quantile(0.5, 0, u64::MAX);
            }
        }
    }

    #[test]
    fn similar_times_take_few_bytes() {
        let times: Vec<u64> = (0..10_000).map(|i| 900 + i * i % 700).collect();
        let mut bytes = Vec::new();
        of(&times).put(&mut bytes);
        assert!(bytes.len() <= 6, "{}", bytes.len());
        assert_eq!(of(&[]).quantile(0.5, 0, 0), None);
    }
}
