//! The size of a number, to a few bits: how a floating-point number begins.
//!
//! Numbers below 2^(M + 1) are cells of their own; each power of two above has 2^M cells, equally
//! wide. Cells are numbered in order.

/// The cell of a number, with M bits behind the first.
///
/// The processor's conversion to floating point does the work: it is faster than counting leading
/// zeros where that is not a single instruction of every x86-64.
#[inline(always)]
pub(crate) fn cell<const M: u32>(number: u64) -> u32 {
    if number >> 53 != 0 {
        return large_cell::<M>(number);
    }
    let bits = (number as i64 as f64).to_bits() >> (52 - M);
    let cell = (bits as u32).wrapping_sub((1022 + M) << M);
    if number < 1 << M { number as u32 } else { cell }
}

/// The same for numbers that a floating-point number would round.
#[cold]
fn large_cell<const M: u32>(number: u64) -> u32 {
    let open = 63 - M - number.leading_zeros();
    (open << M) + (number >> open) as u32
}

/// Of a cell's numbers: the bits that are the same in all, and how many follow.
#[inline(always)]
pub(crate) fn bits<const M: u32>(cell: u32) -> (u64, u32) {
    let open = (cell >> M).saturating_sub(1);
    (u64::from(cell - (open << M)), open)
}

/// How many cells there are.
pub(crate) const fn cells<const M: u32>() -> u32 {
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
    fn a_cell_is_what_its_numbers_begin_with() {
        check::<2>();
        check::<6>();
    }
}
