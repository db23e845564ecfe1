//! The quantum of a clock: the step by which it advances.
//!
//! Many processors' counters advance by more than one at a time (by about 26 on AMD's, which count a
//! base clock of 100 MHz times a factor). Then nearly all times are multiples of one number, and
//! dividing by it saves bits. Not all are: now and then a clock is corrected.

/// Values in a sampled group.
const GROUP: usize = 6;

/// Sampled groups.
const GROUPS: usize = 9;

/// A divisor with exact division by multiplication: a multiple of an odd number times the inverse of
/// that number modulo 2^64 is the quotient; any other value gives something larger than every
/// quotient (T. Granlund, P. Montgomery, "Division by invariant integers using multiplication", 1994,
/// section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantum {
    ticks: u64,
    /// The inverse of the divisor without its factors of two.
    inverse: u64,
    twos: u32,
    largest: u64,
}

impl Quantum {
    /// A quantum of that many ticks; at least 1.
    pub fn new(ticks: u64) -> Quantum {
        let ticks = ticks.max(1);
        let twos = ticks.trailing_zeros();
        let odd = ticks >> twos;
        // Correct in three bits; each Newton step doubles that.
        let inverse = (0..5).fold(odd, |inverse, _| {
            inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)))
        });
        Quantum { ticks, inverse, twos, largest: u64::MAX / ticks }
    }

    /// The number that most of these values are multiples of; 1 if that is unclear.
    pub fn of(values: impl Iterator<Item = u64>) -> Quantum {
        let mut found = [0; GROUPS];
        for (i, value) in values.filter(|value| *value > 0).take(GROUP * GROUPS).enumerate() {
            if let Some(group) = found.get_mut(i / GROUP) {
                *group = gcd(*group, value);
            }
        }
        // A value that is not a multiple, or values that share a larger factor, spoil a group or two,
        // but not the median group.
        found.sort_unstable();
        Quantum::new(found[GROUPS / 2])
    }

    /// The quantum in ticks.
    pub fn ticks(self) -> u64 {
        self.ticks
    }

    /// The quotient, if the value is a multiple.
    #[inline(always)]
    pub fn divide(self, value: u64) -> Option<u64> {
        let quotient = value.wrapping_mul(self.inverse).rotate_right(self.twos);
        (quotient <= self.largest).then_some(quotient)
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn multiples_divide_and_others_do_not(
            value: u64,
            ticks in prop_oneof![1..100u64, 1..=u64::MAX],
        ) {
            for value in [value, value / ticks * ticks, 0, u64::MAX, value % 1000] {
                let quotient = value.is_multiple_of(ticks).then_some(value / ticks);
                prop_assert_eq!(Quantum::new(ticks).divide(value), quotient);
            }
        }
    }

    #[test]
    fn a_few_other_values_do_not_hide_the_quantum() {
        let values = (0..200u64).map(|i| if i % 50 == 3 { i * i } else { 26 * (i * i % 61) });
        assert_eq!(Quantum::of(values).ticks(), 26);
        assert_eq!(Quantum::of([].into_iter()).ticks(), 1);
        assert_eq!(Quantum::of((0..100).map(|i| i * i + 7)).ticks(), 1);
    }
}
