//! Calling a function of MPI with words.
//!
//! On x86-64, C passes integers, handles and addresses in the same registers and stack slots, whatever
//! their widths, and the callee ignores the upper bits of narrow ones. So one form per number of
//! arguments is enough for every function of every MPI. The only doubles are results.

use std::ffi::c_int;
use std::mem::transmute;

/// The most arguments that a function of MPI has.
pub const MOST_WORDS: usize = 13;

/// A type that functions of MPI return.
pub trait Returned: sealed::Sealed {}

impl Returned for c_int {}
impl Returned for usize {}
impl Returned for f64 {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for std::ffi::c_int {}
    impl Sealed for usize {}
    impl Sealed for f64 {}
}

macro_rules! by_arity {
    ($f:expr, $words:expr, $result:ty, $($n:literal: $($i:literal)*;)*) => {
        match $words.len() {
            $($n => Some(
                transmute::<*const (), unsafe extern "C-unwind" fn($(by_arity!(@word $i)),*) -> $result>($f)(
                    $($words[$i]),*
                ),
            ),)*
            _ => None,
        }
    };
    (@word $i:literal) => { usize };
}

/// Calls a function. `None`, without a call, if there are more than [`MOST_WORDS`] words.
///
/// # Safety
/// `f` must be a function of MPI that takes that many arguments, all of them integers, handles or
/// addresses, and returns an `R`. The words must be valid arguments.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "each arm has compared the length")]
pub unsafe fn invoke<R: Returned>(f: *const (), words: &[usize]) -> Option<R> {
    // SAFETY: the caller's promise.
    unsafe {
        by_arity!(f, words, R,
            0:;
            1: 0;
            2: 0 1;
            3: 0 1 2;
            4: 0 1 2 3;
            5: 0 1 2 3 4;
            6: 0 1 2 3 4 5;
            7: 0 1 2 3 4 5 6;
            8: 0 1 2 3 4 5 6 7;
            9: 0 1 2 3 4 5 6 7 8;
            10: 0 1 2 3 4 5 6 7 8 9;
            11: 0 1 2 3 4 5 6 7 8 9 10;
            12: 0 1 2 3 4 5 6 7 8 9 10 11;
            13: 0 1 2 3 4 5 6 7 8 9 10 11 12;
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_function_of_mpi_has_more_arguments() {
        let lengths = refrain_mpi::interface::functions().iter().map(|f| f.params.len());
        assert_eq!(lengths.max(), Some(MOST_WORDS));
    }

    /// The sum of its arguments, each times its position; the 4-byte ones of 32 bits.
    #[rustfmt::skip]
    unsafe extern "C" fn thirteen(
        a: c_int, b: u64, c: c_int, d: u64, e: c_int, f: u64, g: c_int, h: u64, i: c_int, j: u64, k: c_int, l: u64,
        m: c_int,
    ) -> c_int {
        let narrow = [a, c, e, g, i, k, m].into_iter().map(i64::from);
        let wide = [b, d, f, h, j, l].into_iter().map(|wide| wide as i64);
        let odd: i64 = narrow.zip([1, 3, 5, 7, 9, 11, 13]).map(|(value, place)| value * place).sum();
        let even: i64 = wide.zip([2, 4, 6, 8, 10, 12]).map(|(value, place)| value * place).sum();
        (odd + even) as c_int
    }

    #[test]
    fn narrow_and_wide_arguments_arrive_in_registers_and_on_the_stack() {
        let words: [usize; 13] = std::array::from_fn(|i| match i % 2 {
            // The upper bits of an int mean nothing.
            0 => 0xdead_beef_0000_0000 | (-(i as i32) as u32 as usize),
            _ => 100 + i,
        });
        let expected: i64 =
            (0..13i64).map(|i| if i % 2 == 0 { -i } else { 100 + i } * (i + 1)).sum();
        // SAFETY: the function takes thirteen integers and returns an int.
        let sum: Option<c_int> = unsafe { invoke(thirteen as *const (), &words) };
        assert_eq!(sum, Some(expected as c_int));
    }

    #[test]
    fn a_double_is_returned_and_too_many_words_are_refused() {
        unsafe extern "C" fn half(n: u64) -> f64 {
            n as f64 / 2.0
        }
        // SAFETY: the function takes an integer and returns a double. It is not called with 14 words.
        unsafe {
            assert_eq!(invoke(half as *const (), &[3]), Some(1.5));
            assert_eq!(invoke::<c_int>(half as *const (), &[0; MOST_WORDS + 1]), None);
        }
    }
}
