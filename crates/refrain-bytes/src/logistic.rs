//! Probabilities and the logarithms of their odds, in integers: for coders that mix predictions.
//!
//! Predictions are mixed as sums of the logarithms of their odds (M. Mahoney, Adaptive Weighing of Context Models for
//! Lossless Data Compression, 2005). All arithmetic is in integers, so that every machine reads what another has written.

/// The largest odds, as logarithms in 256ths.
pub const MOST: i32 = 2047;

/// 4096 / (1 + exp(-x)) for x from -8 to 8 in steps of a half.
const LOGISTIC: [i32; 33] = [
    1, 2, 4, 6, 10, 17, 27, 45, 74, 120, 194, 311, 488, 747, 1102, 1546, 2048, 2550, 2994, 3349,
    3608, 3785, 3902, 3976, 4022, 4051, 4069, 4079, 4086, 4090, 4092, 4094, 4095,
];

/// The probability, in 4096ths and neither 0 nor 1, with these odds.
#[expect(clippy::indexing_slicing, reason = "odds are limited above, and so the step to 31")]
pub const fn chance_of(odds: i32) -> i32 {
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

/// The odds, as logarithms, of a probability in 4096ths.
#[inline]
#[expect(clippy::indexing_slicing, reason = "twelve bits, of as many entries")]
pub fn odds_of(chance: u16) -> i32 {
    ODDS[usize::from(chance & 4095)].into()
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odds_and_probabilities_are_inverse() {
        for odds in -MOST..=MOST {
            let back = odds_of(chance_of(odds) as u16);
            // Near certainty many odds have the same probability, and the table has the smallest of them.
            assert_eq!(chance_of(back), chance_of(odds));
        }
        assert!(
            (1..4096).contains(&chance_of(i32::MIN)) && (1..4096).contains(&chance_of(i32::MAX))
        );
        assert!(ODDS.is_sorted());
    }
}
