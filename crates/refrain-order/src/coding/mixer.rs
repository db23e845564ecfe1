//! Mixes several predictions of one bit, weighted by their past success.
//!
//! The next sender depends on the last one, and also on the one before: if ranks share cores, each core has its own
//! order. No single table of probabilities captures both, and the most certain prediction should count most. So
//! predictions are summed as the logarithms of their odds, with weights that are learnt ([`refrain_bytes::logistic`]).

use crate::coding::coder::Coder;
use refrain_bytes::logistic::{chance_of, odds_of};

/// The number of short contexts, each of which predicts.
pub const SHORT_CONTEXTS: usize = 2;
/// The number of predictions: each context has a fast and a slow one.
const PREDICTIONS: usize = 2 * SHORT_CONTEXTS;
/// After this many bits the weight of a new bit stays the same, for the fast and for the slow prediction.
const QUICK: usize = 20;
const SLOW: usize = 255;
/// The learning rate of the weights.
const RATE: i32 = 20;
/// The weight one.
const ONE: i32 = 1 << 16;
/// The weight of the n-th bit, in 32768ths.
static WEIGHTS: [u16; 256] = weights();

#[expect(clippy::indexing_slicing, reason = "evaluated when it is compiled")]
const fn weights() -> [u16; 256] {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        table[n] = (65_536 / (2 * n as u32 + 3)) as u16;
        n += 1;
    }
    table
}

/// The probability of one bit in one context.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    quick: u16,
    slow: u16,
    seen: u16,
}

impl Prediction {
    /// Both values are equally likely.
    pub const EVEN: Prediction = Prediction { quick: 1 << 15, slow: 1 << 15, seen: 0 };

    #[inline]
    fn odds(self) -> [i32; 2] {
        [self.quick, self.slow].map(|chance| odds_of(chance >> 4))
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "limited to less than the length")]
    fn learn(&mut self, answer: bool) {
        let seen = usize::from(self.seen).min(SLOW);
        for (chance, most) in [(&mut self.quick, QUICK), (&mut self.slow, SLOW)] {
            let target = if answer { 65_535 } else { 0 };
            let weight = i32::from(WEIGHTS[seen.min(most)]);
            // Both factors are below 2^16, and the product within 32 bits.
            let step = ((target - i32::from(*chance)) * weight) >> 15;
            *chance = (i32::from(*chance) + step).clamp(0, 65_535) as u16;
        }
        self.seen += u16::from(seen < SLOW);
    }
}

/// The weights of predictions.
#[derive(Clone, Debug)]
pub struct Mixer {
    weights: [i32; PREDICTIONS],
}

impl Default for Mixer {
    fn default() -> Self {
        Self { weights: [ONE / 3; PREDICTIONS] }
    }
}

impl Mixer {
    /// Codes a bit, and learns from it.
    #[inline]
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        predictions: [&mut Prediction; SHORT_CONTEXTS],
        answer: bool,
    ) -> bool {
        let [[a, b], [c, d]] = [predictions[0].odds(), predictions[1].odds()];
        let odds = [a, b, c, d];
        let weighed = odds.iter().zip(&self.weights).map(|(odds, weight)| odds * (weight >> 2));
        // Weights are bounded, so that the sum of all stays within 32 bits.
        let chance = chance_of(weighed.sum::<i32>() >> 14);
        let answer = coder.coin((chance << 4) as u16, answer);
        let error = (i32::from(answer) << 12) - chance;
        for (weight, odds) in self.weights.iter_mut().zip(odds) {
            let step = (odds * error * RATE + (1 << 15)) >> 16;
            *weight = (*weight + step).clamp(-4 * ONE, 4 * ONE);
        }
        predictions.into_iter().for_each(|prediction| prediction.learn(answer));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::coder::{Decoder, Encoder};
    use proptest::prelude::*;

    /// Codes bits; each comes with the contexts of two models, four bits each.
    fn answers(coder: &mut impl Coder, given: &[(bool, u8)]) -> Vec<bool> {
        let mut mixer = Mixer::default();
        let mut tables = [[Prediction::EVEN; 16]; 2];
        let code = |(answer, which): &(bool, u8)| {
            let [one, other] = &mut tables;
            let asked = [&mut one[usize::from(which & 15)], &mut other[usize::from(which >> 4)]];
            mixer.code(coder, asked, *answer)
        };
        given.iter().map(code).collect()
    }

    proptest! {
        #[test]
        fn mixed_bits_are_restored(given in prop::collection::vec((any::<bool>(), any::<u8>()), 0..3000)) {
            let mut encoder = Encoder::default();
            answers(&mut encoder, &given);
            let bytes = encoder.finish();
            let expected: Vec<bool> = given.iter().map(|(answer, _)| *answer).collect();
            prop_assert_eq!(answers(&mut Decoder::new(&bytes), &given), expected);
        }
    }

    /// One context determines the bit, the other is noise: soon only the first counts.
    #[test]
    fn a_context_that_predicts_well_gets_the_weight() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 24
        };
        let given: Vec<(bool, u8)> = (0..20_000)
            .map(|_| (next() as u8, next() as u8))
            .map(|(a, b)| (a & 1 == 1, a & 1 | b << 4))
            .collect();
        let mut encoder = Encoder::default();
        answers(&mut encoder, &given);
        let size = encoder.finish().len();
        assert!(size < 100, "{size} bytes");
    }
}
