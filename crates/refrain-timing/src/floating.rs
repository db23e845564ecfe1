//! The leading bits of a number, as a floating-point number has them: exponent and a few mantissa bits.
//!
//! Each number below 2^(M + 1) is a cell of its own. Each power of two above has 2^M cells of equal
//! width. Cells are numbered in ascending order.

/// The cell of a number, with M mantissa bits.
///
/// Uses the processor's conversion to floating point, which is faster than counting leading zeros:
/// not every x86-64 has an instruction for that.
#[inline(always)]
pub fn cell<const M: u32>(number: u64) -> u32 {
    if number >> 53 != 0 {
        return large_cell::<M>(number);
    }
    let bits = (number as i64 as f64).to_bits() >> (52 - M);
    let cell = (bits as u32).wrapping_sub((1022 + M) << M);
    if number < 1 << M { number as u32 } else { cell }
}

/// The same for numbers that the conversion to floating point would round.
#[cold]
fn large_cell<const M: u32>(number: u64) -> u32 {
    let open = 63 - M - number.leading_zeros();
    (open << M) + (number >> open) as u32
}

/// The leading bits that all numbers of a cell have in common, and the number of bits that follow.
#[inline(always)]
pub fn bits<const M: u32>(cell: u32) -> (u64, u32) {
    let open = (cell >> M).saturating_sub(1);
    (u64::from(cell - (open << M)), open)
}

/// The number of cells.
pub const fn cells<const M: u32>() -> u32 {
    (65 - M) << M
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const M: u32>() {
        let mut highest = 0;
        for shift in 0..64 {
            for number in [0, (1 << shift) - 1, 1 << shift, u64::MAX >> shift, 0b1011 << shift] {
                let cell = cell::<M>(number);
                let (high, open) = bits::<M>(cell);
                assert_eq!(high << open, number >> open << open, "{number}");
                assert!(number < 1 << (M + 1) || high >> M == 1, "{number}");
                highest = highest.max(cell);
            }
        }
        assert_eq!(highest + 1, cells::<M>());
    }

    #[test]
    fn all_numbers_of_a_cell_have_the_same_leading_bits() {
        check::<2>();
        check::<6>();
    }
}
