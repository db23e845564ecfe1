//! Fast path: verifies many predicted iterations at once.
//!
//! In the stream, an innermost loop without branches is a fixed pattern of words: block numbers that stay
//! the same, and addresses that each advance by their stride. This module compares whole iterations with
//! the predicted words, several words per instruction, and updates the series once at the end.

use crate::item::Item;
use crate::segment::{Segments, Window};
use crate::shape::Op;

/// The predicted words of the next iteration.
#[derive(Clone, Debug, Default)]
pub struct FastPath {
    expected: Vec<u64>,
    strides: Vec<u64>,
    /// The slot of each word; none for block numbers.
    slots: Vec<Option<usize>>,
}

impl FastPath {
    /// Compares iterations of the body `ops` with `words`. Returns how many iterations matched the prediction
    /// (they are in the item's series then), and how many words an iteration has.
    pub fn run<'a>(
        &mut self,
        ops: impl Iterator<Item = &'a Op>,
        item: &mut Item,
        windows: &[Window],
        words: &[u64],
        segments: &Segments,
    ) -> (u64, usize) {
        if !self.expect(ops, item, windows, segments) {
            return (0, 0);
        }
        let width = self.expected.len();
        let mut iterations = compare(words, &mut self.expected, &self.strides);
        for (&slot, &stride) in self.slots.iter().zip(&self.strides) {
            if let Some(slot) = slot {
                let first = item.series[slot].last.wrapping_sub(windows[slot].shift);
                iterations = within(&windows[slot], first, stride, iterations);
            }
        }
        if iterations != 0 {
            for (&slot, &stride) in self.slots.iter().zip(&self.strides) {
                let Some(slot) = slot else { continue };
                let series = &mut item.series[slot];
                series.last = series.last.wrapping_add(stride.wrapping_mul(iterations));
                if let Some(runs) = series.levels.last_mut().and_then(|level| level.innermost()) {
                    runs.push_times(stride as i64, iterations);
                }
            }
        }
        (iterations, width)
    }

    /// Predicts the words of the next iteration; false if there is no basis for a prediction.
    fn expect<'a>(
        &mut self,
        ops: impl Iterator<Item = &'a Op>,
        item: &mut Item,
        windows: &[Window],
        segments: &Segments,
    ) -> bool {
        self.expected.clear();
        self.strides.clear();
        self.slots.clear();
        for op in ops {
            let Op::Block { block, slot, references } = *op else { return false };
            self.word(u64::from(block), 0, None);
            let slots = slot as usize..(slot + references) as usize;
            let series = item.series[slots.clone()].iter_mut();
            for ((slot, series), window) in slots.clone().zip(series).zip(&windows[slots]) {
                let Some(runs) = series.levels.last_mut().and_then(|level| level.innermost())
                else {
                    return false;
                };
                let (stride, length) = runs.current();
                let address = series.last.wrapping_sub(window.shift);
                if length == 0 || window.age != segments.age() || !window.holds(address) {
                    return false;
                }
                self.word(address.wrapping_add(stride as u64), stride as u64, Some(slot));
            }
        }
        !self.expected.is_empty()
    }

    fn word(&mut self, expected: u64, stride: u64, slot: Option<usize>) {
        self.expected.push(expected);
        self.strides.push(stride);
        self.slots.push(slot);
    }
}

/// How many of `iterations` steps of `stride` from `first` stay in the window.
fn within(window: &Window, first: u64, stride: u64, iterations: u64) -> u64 {
    let last = first.wrapping_add(stride.wrapping_mul(iterations));
    let span = i128::from(stride as i64) * i128::from(iterations);
    let inside = window.holds(last) && span.unsigned_abs() < u128::from(window.size);
    match stride {
        _ if inside => iterations,
        0 => iterations,
        _ => {
            let room = match (stride as i64) > 0 {
                true => window.base.wrapping_add(window.size - 1).wrapping_sub(first),
                false => first.wrapping_sub(window.base),
            };
            iterations.min(room / (stride as i64).unsigned_abs())
        }
    }
}

/// How many iterations of `words` match the prediction.
fn compare(words: &[u64], expected: &mut [u64], strides: &[u64]) -> u64 {
    match expected.len() {
        2 => compare_wide::<2>(words, expected, strides),
        3 => compare_wide::<3>(words, expected, strides),
        4 => compare_wide::<4>(words, expected, strides),
        5 => compare_wide::<5>(words, expected, strides),
        6 => compare_wide::<6>(words, expected, strides),
        7 => compare_wide::<7>(words, expected, strides),
        8 => compare_wide::<8>(words, expected, strides),
        width => {
            let mut iterations = 0;
            for record in words.chunks_exact(width) {
                let mut wrong = 0;
                for ((word, expected), stride) in
                    record.iter().zip(expected.iter_mut()).zip(strides)
                {
                    wrong |= word ^ *expected;
                    *expected = expected.wrapping_add(*stride);
                }
                if wrong != 0 {
                    break;
                }
                iterations += 1;
            }
            iterations
        }
    }
}

/// [`compare`] for a width that the compiler knows, so that all of it stays in registers.
fn compare_wide<const WIDTH: usize>(words: &[u64], expected: &[u64], strides: &[u64]) -> u64 {
    let (Ok(mut expected), Ok(strides)) =
        (<[u64; WIDTH]>::try_from(expected), <[u64; WIDTH]>::try_from(strides))
    else {
        return 0;
    };
    let mut iterations = 0;
    for record in words.as_chunks::<WIDTH>().0 {
        let mut wrong = 0;
        for at in 0..WIDTH {
            wrong |= record[at] ^ expected[at];
            expected[at] = expected[at].wrapping_add(strides[at]);
        }
        if wrong != 0 {
            break;
        }
        iterations += 1;
    }
    iterations
}
