//! Mixes several predictions of one bit, weighted by their past success.
//!
//! The next sender depends on the last one, and also on the one before: if ranks share cores, each core has its own
//! order. No single table of probabilities captures both, and the most certain prediction should count most. So
//! predictions are summed as the logarithms of their odds, with weights that are learnt: logistic mixing (M. Mahoney,
//! Adaptive Weighing of Context Models for Lossless Data Compression, 2005). All arithmetic is in integers, so that
//! every machine reads what another has written.

use crate::coding::coder::Coder;

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
/// The largest odds, as logarithms in 256ths.
const MOST: i32 = 2047;

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

/// 4096 / (1 + exp(-x)) for x from -8 to 8 in steps of a half.
const LOGISTIC: [i32; 33] = [
    1, 2, 4, 6, 10, 17, 27, 45, 74, 120, 194, 311, 488, 747, 1102, 1546, 2048, 2550, 2994, 3349,
    3608, 3785, 3902, 3976, 4022, 4051, 4069, 4079, 4086, 4090, 4092, 4094, 4095,
];

/// The probability, in 4096ths, with these odds.
#[expect(clippy::indexing_slicing, reason = "odds are limited above, and so the step to 31")]
const fn chance_of(odds: i32) -> i32 {
    let odds = if odds > MOST {
        MOST
    } else if odds < -MOST {
        -MOST
    } else {
        odds
    };
    let (step, rest) = ((odds >> 7) + 16, odds & 127);
    (LOGISTIC[step as usize] * (128 - rest) + LOGISTIC[step as usize + 1] * rest + 64) >> 7
}

/// The odds, as logarithms, of probabilities in 4096ths.
static ODDS: [i16; 4096] = odds();

#[expect(clippy::indexing_slicing, reason = "evaluated when it is compiled")]
const fn odds() -> [i16; 4096] {
    let mut table = [MOST as i16; 4096];
    let (mut odds, mut chance) = (-MOST, 0);
    while odds <= MOST {
        while chance <= chance_of(odds) {
            table[chance as usize] = odds as i16;
            chance += 1;
        }
        odds += 1;
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
    #[expect(clippy::indexing_slicing, reason = "twelve bits, of as many entries")]
    fn odds(self) -> [i32; 2] {
        [self.quick, self.slow].map(|chance| ODDS[usize::from(chance >> 4)].into())
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

    #[test]
    fn odds_and_probabilities_are_inverse() {
        for odds in -MOST..=MOST {
            let back = i32::from(ODDS[chance_of(odds) as usize]);
            // Near certainty many odds have the same probability, and the table has the smallest of them.
            assert_eq!(chance_of(back), chance_of(odds));
        }
        assert!(
            (1..4096).contains(&chance_of(i32::MIN)) && (1..4096).contains(&chance_of(i32::MAX))
        );
        assert!(ODDS.is_sorted());
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
