//! Values that come again and again, each by a small number of its own.
//!
//! Where messages come from at random, how often each source follows each other is all there is to
//! be learnt. So a value's number is coded digit by digit, in tables of chances for the
//! circumstances: a line for each digit.

use crate::coding::coder::Coder;
use crate::coding::mixer::{ASKED, Mixer, Prediction};
use crate::coding::symbol::mix;
use refrain_bytes::table::Map;

/// More values than this are not numbered.
const MOST: usize = 1 << 12;
/// Bits of a digit.
const DIGIT: u32 = 4;
/// Lines that circumstances share without regard to each other.
const LINES: usize = 1 << 11;

/// Chances of the answers that lead to a digit: of the first, of the second by the first, ...
type Line = [Prediction; 1 << DIGIT];

/// Chances by circumstances.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// Empty until the first use: most streams of most records are short.
    lines: Vec<Line>,
}

impl Lines {
    /// The lines for circumstances, none twice.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "remainders of half the length")]
    fn of(&mut self, circumstances: [u64; ASKED]) -> [&mut Line; ASKED] {
        if self.lines.is_empty() {
            self.lines.resize(LINES, [Prediction::EVEN; 1 << DIGIT]);
        }
        // Each has its half of the table.
        let halves = self.lines.split_at_mut(LINES / ASKED);
        let [one, other] = circumstances.map(|which| which as usize % (LINES / ASKED));
        [&mut halves.0[one], &mut halves.1[other]]
    }
}

/// Values and their numbers, in the order of their first coming.
#[derive(Clone, Debug, Default)]
pub struct Alphabet {
    values: Vec<u32>,
    numbers: Map<u32, u32>,
    /// By which bit of a digit it is.
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
        lines: &mut Lines,
        circumstances: [u64; ASKED],
        number: u32,
    ) -> u32 {
        let bits = usize::BITS - self.values.len().saturating_sub(1).leading_zeros();
        let mut coded = 0;
        for digit in (0..bits.div_ceil(DIGIT)).rev() {
            let so_far = u64::from(coded << DIGIT | digit);
            let [one, other] = lines.of(circumstances.map(|which| mix(which, so_far)));
            let mut node = 1;
            for (bit, mixer) in (0..DIGIT).zip(&mut self.mixer).rev() {
                let given = number >> (digit * DIGIT + bit) & 1 == 1;
                // What leads to a digit is shorter than one.
                let asked = [&mut one[node % (1 << DIGIT)], &mut other[node % (1 << DIGIT)]];
                let answer = mixer.code(coder, asked, given);
                node = node << 1 | usize::from(answer);
            }
            coded = coded << DIGIT | (node as u32 & ((1 << DIGIT) - 1));
        }
        // A number without a value comes from damaged bytes alone; any value will do.
        self.values.get(coded as usize).copied().unwrap_or(0)
    }
}
