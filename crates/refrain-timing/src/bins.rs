//! Exponential bins: intervals of times within which every value is correct up to a relative error.
//!
//! The limits of bins are integers, computed in integer arithmetic from the bound (in units of 2^-32).
//! So encoder and decoder agree, and the bound holds for every integer, not only before rounding. Bin
//! 0 contains 0 alone.

use crate::bounds::Relative;
use crate::floating;

/// One in units of [`Relative`].
const ONE: u128 = 1 << 32;

/// Mantissa bits by which a value is looked up.
const LOOK: u32 = 6;

/// Bounds below this (in units of 2^-32: about 0.01) have too many bins for a table.
const FINEST: u64 = 1 << 25;

/// Which value represents a bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representative {
    /// Its largest value: decoded values are too large by up to the bound. These are the bins of
    /// Pilgrim §2.3.2, where `ceil(log(d) / log(1 + e))` is the number of d's bin.
    Top,
    /// A value in the middle, with errors of either sign: half as many bins.
    Middle,
}

/// A bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bin {
    pub first: u64,
    pub last: u64,
    /// The value that its values are decoded as.
    pub value: u64,
}

/// The bins of one bound.
#[derive(Clone, Debug)]
pub(crate) enum Bins {
    /// As wide as the bound allows.
    Table(Table),
    /// A number of equally wide bins in each power of two, for bounds so small that a table would be large.
    Even(u64),
}

/// Bins as wide as the bound allows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    bins: Vec<Bin>,
    /// The last value of each bin.
    lasts: Vec<u64>,
    /// For each cell of [`floating`], the bin of its first number.
    first_bins: Vec<u16>,
}

impl Table {
    fn new(units: u128, representative: Representative) -> Table {
        let mut bins = vec![Bin { first: 0, last: 0, value: 0 }];
        let mut last = 0;
        while last < u64::MAX {
            let first = last + 1;
            // The largest value that `first` may be decoded as.
            let most = u128::from(first) + ((u128::from(first) * units) >> 32);
            let top = match representative {
                Representative::Top => most,
                Representative::Middle => most * ONE / (ONE - units),
            };
            last = u64::try_from(top).unwrap_or(u64::MAX);
            let value = u64::try_from(most).unwrap_or(u64::MAX).min(last);
            bins.push(Bin { first, last, value });
        }
        let first_bin = |cell| {
            let (high, open) = floating::bits::<LOOK>(cell);
            bins.partition_point(|bin| bin.last < high << open) as u16
        };
        let first_bins = (0..floating::cells::<LOOK>()).map(first_bin).collect();
        let lasts = bins.iter().map(|bin| bin.last).collect();
        Table { bins, lasts, first_bins }
    }

    /// The number of the bin of a value.
    #[inline(always)]
    #[expect(
        clippy::indexing_slicing,
        reason = "`first_bins` has an entry for every cell, and the last bin holds the largest value"
    )]
    pub fn number(&self, value: u64) -> usize {
        let mut number = usize::from(self.first_bins[floating::cell::<LOOK>(value) as usize]);
        // Cells are narrower than bins, so this is at most one step, except for the smallest bins.
        while self.lasts[number] < value {
            number += 1;
        }
        number
    }
}

impl Bins {
    /// The bins of a bound.
    pub fn new(bound: Relative, representative: Representative) -> Bins {
        let units = bound.units();
        if units >= FINEST {
            return Bins::Table(Table::new(units.into(), representative));
        }
        // A bin that begins at 2^k or above is no wider than the bound on 2^k. (Half as many bins
        // would suffice for real numbers; with integers, the middle of two would be too far off.)
        Bins::Even((ONE as u64).div_ceil(units))
    }

    /// The number of the bin of a value.
    #[inline(always)]
    pub fn number(&self, value: u64) -> u64 {
        match self {
            Bins::Table(table) => table.number(value) as u64,
            Bins::Even(n) => {
                if value == 0 {
                    return 0;
                }
                let power = 63 - value.leading_zeros();
                let within = value - (1 << power);
                1 + u64::from(power) * n + ((u128::from(within) * u128::from(*n)) >> power) as u64
            }
        }
    }

    /// The bin of a number; the last one for numbers too large.
    #[expect(clippy::indexing_slicing, reason = "limited to the last; a table has a bin")]
    pub fn bin(&self, number: u64) -> Bin {
        match self {
            Bins::Table(Table { bins, .. }) => {
                bins[usize::try_from(number).unwrap_or(usize::MAX).min(bins.len() - 1)]
            }
            Bins::Even(_) if number == 0 => Bin { first: 0, last: 0, value: 0 },
            Bins::Even(n) => {
                let number = number.min(64 * n) - 1;
                let (power, step) = (number / n, number % n);
                let limit = |step: u64| {
                    let within = (u128::from(step) << power).div_ceil((*n).into());
                    (1u128 << power) + within
                };
                let (first, next) = (limit(step), limit(step + 1));
                let last = (next - 1).max(first) as u64;
                let first = first as u64;
                Bin { first, last, value: first + (last - first) / 2 }
            }
        }
    }

    /// The number of bins.
    pub fn len(&self) -> u64 {
        match self {
            Bins::Table(Table { bins, .. }) => bins.len() as u64,
            Bins::Even(n) => 64 * n + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bounds;
    use proptest::prelude::*;

    fn values() -> impl Strategy<Value = u64> {
        let near_a_power = (0..64u32, any::<u8>())
            .prop_map(|(power, more)| (1u64 << power).wrapping_add(more.into()).wrapping_sub(128));
        prop_oneof![
            0..5000u64,
            any::<u64>(),
            near_a_power,
            any::<u64>().prop_map(|v| v >> (v % 64))
        ]
    }

    fn fractions() -> impl Strategy<Value = f64> {
        prop_oneof![
            Just(0.1),
            Just(0.5),
            Just(0.01),
            Just(1.0 / 128.0),
            1e-6..0.5,
            (1..20i32).prop_map(|n| 2f64.powi(-n)),
        ]
    }

    proptest! {
        #[test]
        fn a_bin_contains_its_values_and_represents_them_within_the_bound(
            value in values(), fraction in fractions(), top: bool,
        ) {
            let bound = Bounds::relative(fraction).unwrap().levels()[0];
            let bins = Bins::new(bound, if top { Representative::Top } else { Representative::Middle });
            let number = bins.number(value);
            prop_assert!(number < bins.len());
            let bin = bins.bin(number);
            prop_assert!((bin.first..=bin.last).contains(&value), "{value} in {number} {bin:?}");
            prop_assert!((bin.first..=bin.last).contains(&bin.value));
            for value in [value, bin.first, bin.last] {
                let off = u128::from(value.abs_diff(bin.value));
                prop_assert!(off * ONE <= u128::from(value) * u128::from(bound.units()));
            }
        }

        #[test]
        fn bins_follow_each_other(fraction in fractions(), number: u64) {
            let bound = Bounds::relative(fraction).unwrap().levels()[0];
            let bins = Bins::new(bound, Representative::Middle);
            let bin = bins.bin(number % bins.len());
            if bin.last < u64::MAX {
                prop_assert_eq!(bins.bin(bins.number(bin.last + 1)).first, bin.last + 1);
            }
        }
    }
}
