//! How the numbers of a key are coded: by an adaptive range coder, each predicted from the numbers before it.
//!
//! Keys are in ascending order, so consecutive ones mostly have the same function and often the same objects. The
//! shortest and the longest duration are near the mean; the first bucket of the distribution follows from the
//! shortest.

use super::summary::{
    DEVIATION_BITS, GAP_BITS, LIMIT_BITS, MEAN_BITS, MEDIAN_BITS, Summary, WHOLE, first,
};
use refrain_bytes::number::Number;
use refrain_bytes::range::{Bit, Coder};
use refrain_bytes::varint::{unzigzag, zigzag};
use refrain_signature::timekey::MOST_HANDLES;
use refrain_timing::{BUCKETS, LogHistogram, floating};

/// A key as numbers: indices in tables that follow from the structure.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyNumbers {
    pub function: u32,
    /// 0 for none.
    pub site: u32,
    /// 0 for another one, 2n + 1 for a predefined one, 2n + 2 for one that the task made.
    pub handles: Vec<u32>,
    pub size: u32,
}

/// Numbers that are near a prediction, or below or above it.
#[derive(Default)]
struct Near(Number);

impl Near {
    fn code(&mut self, coder: &mut impl Coder, predicted: u32, given: u32) -> u32 {
        let difference = i64::from(given) - i64::from(predicted);
        let difference = unzigzag(self.0.code(coder, zigzag(difference)));
        i64::from(predicted).saturating_add(difference).clamp(0, u32::MAX.into()) as u32
    }
}

/// Codes a number that is at least this.
fn at_least(model: &mut Number, coder: &mut impl Coder, least: u32, given: u32) -> u32 {
    let more = model.code(coder, u64::from(given.saturating_sub(least)));
    u64::from(least).saturating_add(more).min(u32::MAX.into()) as u32
}

/// Positions of a bucket relative to that of the mean.
const POSITIONS: usize = 8;

/// The models of everything that is known of keys.
pub(super) struct Model {
    function: Number,
    site: Number,
    new_site: Near,
    same_handles: Bit,
    handles: Number,
    same_handle: Bit,
    handle: Number,
    larger: Number,
    has_size: Bit,
    size: Near,
    mean: Near,
    is_single: Bit,
    low: Number,
    high: Number,
    deviation: Near,
    none: [Bit; POSITIONS],
    rest: [Bit; POSITIONS],
    gap: Near,
    gap_median: Near,
    /// The last size that is not 0.
    last_size: u32,
    last: Summary,
    sum: u32,
}

impl Default for Model {
    fn default() -> Self {
        Model {
            function: Number::default(),
            site: Number::default(),
            new_site: Near::default(),
            same_handles: Bit::EVEN,
            handles: Number::default(),
            same_handle: Bit::EVEN,
            handle: Number::default(),
            larger: Number::default(),
            has_size: Bit::EVEN,
            size: Near::default(),
            mean: Near::default(),
            is_single: Bit::EVEN,
            low: Number::default(),
            high: Number::default(),
            deviation: Near::default(),
            none: [Bit::EVEN; POSITIONS],
            rest: [Bit::EVEN; POSITIONS],
            gap: Near::default(),
            gap_median: Near::default(),
            last_size: 0,
            last: Summary::default(),
            sum: 0,
        }
    }
}

impl Model {
    /// Codes a key that is greater than the last.
    pub fn key(
        &mut self,
        coder: &mut impl Coder,
        last: &KeyNumbers,
        given: &KeyNumbers,
    ) -> KeyNumbers {
        let function = at_least(&mut self.function, coder, last.function, given.function);
        let site = match function == last.function {
            true => at_least(&mut self.site, coder, last.site, given.site),
            false => self.new_site.code(coder, last.site, given.site),
        };
        let is_like = (function, site) == (last.function, last.site);
        let mut handles = last.handles.clone();
        let has_same = coder.bit(&mut self.same_handles, given.handles == last.handles);
        if !has_same {
            let n = self.handles.code(coder, given.handles.len() as u64).min(MOST_HANDLES as u64);
            handles.resize(n as usize, 0);
            for (i, handle) in handles.iter_mut().enumerate() {
                let wanted = given.handles.get(i).copied().unwrap_or(0);
                if !coder.bit(&mut self.same_handle, wanted == *handle) {
                    *handle = self.handle.code(coder, wanted.into()).min(u32::MAX.into()) as u32;
                }
            }
        }
        let size = if is_like && has_same {
            at_least(&mut self.larger, coder, last.size, given.size)
        } else if coder.bit(&mut self.has_size, given.size > 0) {
            self.size.code(coder, self.last_size, given.size)
        } else {
            0
        };
        if size > 0 {
            self.last_size = size;
        }
        KeyNumbers { function, site, handles, size }
    }

    /// Codes the durations of a key.
    pub fn summary(&mut self, coder: &mut impl Coder, given: &Summary) -> Summary {
        let mut this = Summary {
            mean: self.number::<MEAN_BITS>(coder, |m| &mut m.mean, self.last.mean, given.mean),
            ..Summary::default()
        };
        let mean = first::<MEAN_BITS>(this.mean) / 16;
        this.is_single = coder.bit(&mut self.is_single, given.is_single);
        if !this.is_single {
            let cell = floating::cell::<LIMIT_BITS>(mean);
            // The mean may have been rounded down, to less than the shortest.
            let most = cell + 1;
            let less = self.low.code(coder, most.saturating_sub(given.low).into());
            this.low = most - less.min(most.into()) as u32;
            let high = at_least(&mut self.high, coder, cell, given.high);
            this.high = high.min(floating::cells::<LIMIT_BITS>() - 1);
            self.shares(coder, LogHistogram::bucket(mean), &mut this, given);
            let predicted = floating::cell::<DEVIATION_BITS>(this.estimated_deviation(mean));
            this.deviation = self
                .deviation
                .code(coder, predicted, given.deviation)
                .min(floating::cells::<DEVIATION_BITS>() - 1);
        }
        this.gap = self.number::<GAP_BITS>(coder, |m| &mut m.gap, self.last.gap, given.gap);
        let predicted = floating::cell::<MEDIAN_BITS>(first::<GAP_BITS>(this.gap) / 16);
        this.gap_median = self
            .gap_median
            .code(coder, predicted, given.gap_median)
            .min(floating::cells::<MEDIAN_BITS>() - 1);
        for number in [this.mean, this.low, this.high, this.deviation, this.gap, this.gap_median] {
            self.sum = self.sum.wrapping_mul(31).wrapping_add(number);
        }
        self.last = this.clone();
        this
    }

    /// A checksum of all durations so far, of 8 bits.
    pub fn check(&self) -> u32 {
        self.sum.to_le_bytes().into_iter().fold(0, |sum: u8, byte| sum ^ byte).into()
    }

    /// Codes a floating-point number: its exponent is near that of the last, its other bits are any.
    fn number<const M: u32>(
        &mut self,
        coder: &mut impl Coder,
        model: fn(&mut Model) -> &mut Near,
        last: u32,
        given: u32,
    ) -> u32 {
        let exponent =
            model(self).code(coder, last >> M, given >> M).min(floating::cells::<M>() >> M);
        let digits = coder.raw(M, given & ((1 << M) - 1));
        (exponent << M | digits).min(floating::cells::<M>() - 1)
    }

    fn shares(&mut self, coder: &mut impl Coder, mean: usize, this: &mut Summary, given: &Summary) {
        let limits =
            [this.low, this.high].map(|cell| LogHistogram::bucket(first::<LIMIT_BITS>(cell)));
        let [begin, end] = limits;
        let mut rest = WHOLE;
        for bucket in begin..=end {
            let position = (bucket + POSITIONS - 3).saturating_sub(mean).min(POSITIONS - 1);
            let wanted = u32::from(given.shares.get(bucket).copied().unwrap_or(0));
            let [none, all] = [&mut self.none, &mut self.rest].map(|bits| bits.get_mut(position));
            let (Some(none), Some(all)) = (none, all) else { break };
            let share = if bucket == end || rest == 0 {
                rest
            } else if coder.bit(none, wanted == 0) {
                0
            } else if coder.bit(all, wanted >= rest) {
                rest
            } else {
                let bits = 32 - rest.leading_zeros();
                coder.raw(bits, wanted.min(rest)).min(rest)
            };
            if let Some(kept) = this.shares.get_mut(bucket) {
                *kept = share as u8;
            }
            rest -= share;
        }
    }
}

impl Summary {
    /// The standard deviation that the distribution suggests, in sixteenths of a tick.
    fn estimated_deviation(&self, mean: u64) -> u64 {
        let (low, high) =
            (first::<LIMIT_BITS>(self.low) as f64, first::<LIMIT_BITS>(self.high) as f64);
        let mut squares = 0.0;
        for (bucket, share) in self.shares.iter().enumerate().take(BUCKETS) {
            let (first, last) = LogHistogram::limits(bucket);
            let middle = ((first as f64).max(low) + (last as f64).min(high)) / 2.0;
            let off = middle - mean as f64;
            squares += f64::from(*share) * off * off;
        }
        ((squares / f64::from(WHOLE)).sqrt() * 16.0) as u64
    }
}
