//! Numbers as bits: first the length, then the digits.
//!
//! Counts of failed polls, positions and gaps are mostly small, and if they are large their last digits are noise. So
//! the length in bits is learnt, and for each length the first three digits after the leading one; the rest is written
//! as raw bits.

use crate::range::{Bit, Coder};

const LENGTHS: usize = 24;
/// Longer numbers share the model of their digits.
const DIGITS: usize = 12;
const LEARNT: u32 = 3;

/// An adaptive model of a number.
#[derive(Clone, Debug)]
pub struct Number {
    longer: [Bit; LENGTHS],
    digits: [[Bit; 1 << LEARNT]; DIGITS],
}

impl Default for Number {
    fn default() -> Self {
        Self { longer: [Bit::EVEN; LENGTHS], digits: [[Bit::EVEN; 1 << LEARNT]; DIGITS] }
    }
}

/// The number of binary digits after the leading one of `value + 1`.
#[inline]
pub fn length(value: u64) -> u32 {
    value.checked_add(1).map_or(64, |next| 63 - next.leading_zeros())
}

impl Number {
    /// Codes one number. With 64 digits after it, the leading one overflows; the same happens when the largest number is
    /// increased, so it decodes correctly.
    #[expect(clippy::indexing_slicing, reason = "a length is limited above, and a node is masked")]
    pub fn code(&mut self, coder: &mut impl Coder, value: u64) -> u64 {
        let length = self.length(coder, length(value));
        let digit_set = (length as usize).min(DIGITS - 1);
        let given = value.wrapping_add(1);
        let mut coded = 1u64;
        let mut left = length;
        while left > 0 && length - left < LEARNT {
            left -= 1;
            let node = (coded as usize) & ((1 << LEARNT) - 1);
            let digit = coder.bit(&mut self.digits[digit_set][node], given >> left & 1 == 1);
            coded = coded << 1 | u64::from(digit);
        }
        while left > 0 {
            let count = left.min(16);
            left -= count;
            let digits = coder.raw(count, (given >> left) as u32 & ((1 << count) - 1));
            coded = coded << count | u64::from(digits);
        }
        coded.wrapping_sub(1)
    }

    #[expect(clippy::indexing_slicing, reason = "limited to less than the length")]
    fn length(&mut self, coder: &mut impl Coder, given: u32) -> u32 {
        let mut length = 0;
        while length < 64 {
            let at = (length as usize).min(LENGTHS - 1);
            if !coder.bit(&mut self.longer[at], length < given) {
                break;
            }
            length += 1;
        }
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::{Decoder, Encoder};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn coded_numbers_are_restored(given in prop::collection::vec((any::<u64>(), 0u32..64), 0..200)) {
            let given: Vec<u64> = given.iter().map(|(value, shift)| value >> shift).collect();
            let mut encoder = Encoder::default();
            let mut number = Number::default();
            for value in given.iter().chain(&[u64::MAX, 0]) {
                number.code(&mut encoder, *value);
            }
            let bytes = encoder.finish();
            let (mut decoder, mut number) = (Decoder::new(&bytes), Number::default());
            for value in given.iter().chain(&[u64::MAX, 0]) {
                prop_assert_eq!(number.code(&mut decoder, 0), *value);
            }
        }
    }
}
