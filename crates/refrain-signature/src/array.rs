//! Arrays of numbers, compactly but in full.
//!
//! MPI programs pass arrays that follow from little: all counts the same, displacements in equal
//! steps or the running sum of the counts before them, the same array twice. An array of two or
//! more numbers is a *mode* and what the mode needs; the number of elements stands in front.

use crate::cells::{self, Cells};

/// Every element.
const PLAIN: i64 = 0;
/// One number, for all elements.
const CONSTANT: i64 = 1;
/// The first, and the step.
const STEPS: i64 = 2;
/// The first, and a factor: each next is the last plus the factor times the element of the array
/// before.
const SUMS: i64 = 3;
/// The array before, again.
const AGAIN: i64 = 4;
/// The first, then differences.
const DIFFERENCES: i64 = 5;

/// Appends the elements of an array; `before` is the call's array before this one.
pub fn put(out: &mut Vec<u8>, values: &[i64], before: &[i64]) {
    let (Some(&first), Some(&second)) = (values.first(), values.get(1)) else {
        values.iter().for_each(|v| cells::put(out, *v));
        return;
    };
    let step = second.wrapping_sub(first);
    if values.windows(2).all(|w| w[1].wrapping_sub(w[0]) == step) {
        let mode = if step == 0 { CONSTANT } else { STEPS };
        cells::put(out, mode);
        cells::put(out, first);
        if mode == STEPS {
            cells::put(out, step);
        }
    } else if values == before {
        cells::put(out, AGAIN);
    } else if let Some(factor) = factor_of_sums(values, before) {
        cells::put(out, SUMS);
        cells::put(out, first);
        cells::put(out, factor);
    } else {
        put_each(out, values, first);
    }
}

/// Elements, or differences where those are smaller.
fn put_each(out: &mut Vec<u8>, values: &[i64], first: i64) {
    let size = |v: i64| 64 - (v ^ (v >> 63)).leading_zeros();
    let plain: u32 = values.iter().map(|v| size(*v) / 7).sum();
    let differences: u32 = values.windows(2).map(|w| size(w[1].wrapping_sub(w[0])) / 7).sum();
    if differences + size(first) / 7 < plain {
        cells::put(out, DIFFERENCES);
        cells::put(out, first);
        values.windows(2).for_each(|w| cells::put(out, w[1].wrapping_sub(w[0])));
    } else {
        cells::put(out, PLAIN);
        values.iter().for_each(|v| cells::put(out, *v));
    }
}

fn factor_of_sums(values: &[i64], before: &[i64]) -> Option<i64> {
    if values.len() != before.len() {
        return None;
    }
    let at = before.iter().position(|b| *b != 0)?;
    let step = values.get(at + 1)?.wrapping_sub(*values.get(at)?);
    let factor = step.checked_div(before[at])?;
    let fits = |i: usize| values[i + 1].wrapping_sub(values[i]) == before[i].wrapping_mul(factor);
    (0..values.len() - 1).all(fits).then_some(factor)
}

/// Reads `n` elements; `most` is the largest number of them that is believed.
pub fn get(cells: &mut Cells<'_>, n: usize, most: usize, before: &[i64]) -> Option<Vec<i64>> {
    if n > most {
        return None;
    }
    if n < 2 {
        return (0..n).map(|_| cells.get()).collect();
    }
    match cells.get()? {
        PLAIN => {
            (n <= cells.rest().len()).then_some(())?;
            (0..n).map(|_| cells.get()).collect()
        }
        CONSTANT => cells.get().map(|value| vec![value; n]),
        STEPS => {
            let (first, step) = (cells.get()?, cells.get()?);
            Some((0..n as i64).map(|i| first.wrapping_add(step.wrapping_mul(i))).collect())
        }
        SUMS => {
            let (mut next, factor) = (cells.get()?, cells.get()?);
            (before.len() == n).then_some(())?;
            let step = |b: &i64| {
                let this = next;
                next = next.wrapping_add(factor.wrapping_mul(*b));
                this
            };
            Some(before.iter().map(step).collect())
        }
        AGAIN => (before.len() == n).then(|| before.to_vec()),
        DIFFERENCES => {
            (n <= cells.rest().len()).then_some(())?;
            let mut next = cells.get()?;
            let mut all = vec![next];
            for _ in 1..n {
                next = next.wrapping_add(cells.get()?);
                all.push(next);
            }
            Some(all)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(values: &[i64], before: &[i64]) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, values, before);
        out
    }

    #[test]
    fn displacements_that_follow_from_counts_take_a_few_bytes() {
        let counts: Vec<i64> = (0..1000).map(|i| (i * i) % 97).collect();
        let sums: Vec<i64> =
            counts.iter().scan(8, |sum, c| Some(std::mem::replace(sum, *sum + 4 * c))).collect();
        assert!(bytes_of(&sums, &counts).len() <= 3);
        assert!(bytes_of(&counts, &counts).len() == 1);
        assert!(bytes_of(&[7; 1000], &counts).len() == 2);
    }

    proptest! {
        #[test]
        fn arrays_read_back_as_written(
            values: Vec<i64>, before: Vec<i64>, small in proptest::collection::vec(-3i64..3, 0..6),
        ) {
            let sums: Vec<i64> = small.iter().scan(5i64, |s, v| { *s += v; Some(*s) }).collect();
            for (values, before) in [(&values, &before), (&small, &small), (&sums, &small)] {
                let bytes = bytes_of(values, before);
                let mut cells = Cells::new(&bytes);
                let read = get(&mut cells, values.len(), usize::MAX, before);
                prop_assert_eq!(read.as_ref(), Some(values));
                prop_assert!(cells.is_empty());
            }
        }
    }
}
