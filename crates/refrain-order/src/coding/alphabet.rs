//! An alphabet: recurring values, each with a small number.
//!
//! If messages come from random sources, only the frequency with which one source follows another can be learnt. So a
//! value's number is coded digit by digit, with a row of probabilities for each digit and context.

use crate::coding::coder::Coder;
use crate::coding::mixer::{Mixer, Prediction, SHORT_CONTEXTS};
use crate::coding::symbol::mix;
use refrain_bytes::table::Map;

/// The most values that are numbered.
const MOST: usize = 1 << 12;
/// Bits of a digit.
const DIGIT: u32 = 4;
/// The number of rows; contexts are hashed to them.
const ROWS: usize = 1 << 11;

/// Predictions of the bits of a digit: of the first bit, of the second given the first, and so on.
type Row = [Prediction; 1 << DIGIT];

/// Predictions by context.
#[derive(Clone, Debug, Default)]
pub struct PredictionTable {
    /// Empty until the first use: most streams of most records are short.
    rows: Vec<Row>,
}

impl PredictionTable {
    /// The rows of the contexts; they are distinct.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "remainders of half the length")]
    fn of(&mut self, contexts: [u64; SHORT_CONTEXTS]) -> [&mut Row; SHORT_CONTEXTS] {
        if self.rows.is_empty() {
            self.rows.resize(ROWS, [Prediction::EVEN; 1 << DIGIT]);
        }
        // Each context has its own half of the table.
        let halves = self.rows.split_at_mut(ROWS / SHORT_CONTEXTS);
        let [one, other] = contexts.map(|which| which as usize % (ROWS / SHORT_CONTEXTS));
        [&mut halves.0[one], &mut halves.1[other]]
    }
}

/// Values and their numbers, in the order of their first occurrence.
#[derive(Clone, Debug, Default)]
pub struct Alphabet {
    values: Vec<u32>,
    numbers: Map<u32, u32>,
    /// A mixer for each bit of a digit.
    mixer: [Mixer; DIGIT as usize],
}

impl Alphabet {
    /// A value's number.
    #[inline]
    pub fn number(&self, value: u32) -> Option<u32> {
        self.numbers.get(&value).copied()
    }

    /// Numbers a value that has none, unless there are too many.
    pub fn add(&mut self, value: u32) {
        if self.values.len() < MOST {
            self.numbers.insert(value, self.values.len() as u32);
            self.values.push(value);
        }
    }

    /// Codes a value that has a number.
    #[inline(never)]
    #[expect(clippy::indexing_slicing, reason = "remainders of the length")]
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        rows: &mut PredictionTable,
        contexts: [u64; SHORT_CONTEXTS],
        number: u32,
    ) -> u32 {
        let bits = usize::BITS - self.values.len().saturating_sub(1).leading_zeros();
        let mut coded = 0;
        for digit in (0..bits.div_ceil(DIGIT)).rev() {
            let so_far = u64::from(coded << DIGIT | digit);
            let [one, other] = rows.of(contexts.map(|which| mix(which, so_far)));
            let mut node = 1;
            for (bit, mixer) in (0..DIGIT).zip(&mut self.mixer).rev() {
                let given = number >> (digit * DIGIT + bit) & 1 == 1;
                // The bits before a digit's last are fewer than a digit.
                let asked = [&mut one[node % (1 << DIGIT)], &mut other[node % (1 << DIGIT)]];
                let answer = mixer.code(coder, asked, given);
                node = node << 1 | usize::from(answer);
            }
            coded = coded << DIGIT | (node as u32 & ((1 << DIGIT) - 1));
        }
        // Only damaged bytes give a number without a value; any value is fine then.
        self.values.get(coded as usize).copied().unwrap_or(0)
    }
}
