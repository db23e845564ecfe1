//! Compact, lossless coding of arrays of numbers.
//!
//! MPI programs pass regular arrays: all counts the same, displacements in equal
//! steps or the running sum of the counts before them, the same array twice. An array of two or
//! more numbers is coded as a *mode* and the cells that this mode needs. The number of elements comes first.

use crate::cells::{self, Cells};

/// How the elements of an array follow from its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// A cell is an element.
    Plain = 0,
    /// One cell, for all elements.
    Constant = 1,
    /// The first element, and the step.
    Steps = 2,
    /// The first element, and a factor: each next is the last plus the factor times the element of the array before.
    Sums = 3,
    /// No cell: the same as the array before.
    Again = 4,
    /// The first element, then differences.
    Differences = 5,
}

impl Mode {
    /// The mode with that code.
    pub fn from_code(code: i64) -> Option<Mode> {
        let all =
            [Mode::Plain, Mode::Constant, Mode::Steps, Mode::Sums, Mode::Again, Mode::Differences];
        all.get(usize::try_from(code).ok()?).copied()
    }

    /// How many cells an array of `length` elements has.
    pub fn cells(self, length: usize) -> usize {
        match self {
            Mode::Plain | Mode::Differences => length,
            Mode::Constant => 1,
            Mode::Steps | Mode::Sums => 2,
            Mode::Again => 0,
        }
    }

    /// The elements, from the cells and the call's array before this one.
    pub fn elements(self, cells: &[i64], length: usize, before: &[i64]) -> Option<Vec<i64>> {
        match (self, cells) {
            (Mode::Plain, all) => Some(all.to_vec()),
            (Mode::Constant, [value]) => Some(vec![*value; length]),
            (Mode::Steps, [first, step]) => {
                let element = |i: i64| first.wrapping_add(step.wrapping_mul(i));
                Some((0..length as i64).map(element).collect())
            }
            (Mode::Sums, [first, factor]) if before.len() == length => {
                let mut next = *first;
                let step = |b: &i64| {
                    let this = next;
                    next = next.wrapping_add(factor.wrapping_mul(*b));
                    this
                };
                Some(before.iter().map(step).collect())
            }
            (Mode::Again, _) if before.len() == length => Some(before.to_vec()),
            (Mode::Differences, all) => {
                let mut next = 0i64;
                let step = |difference: &i64| {
                    next = next.wrapping_add(*difference);
                    next
                };
                Some(all.iter().map(step).collect())
            }
            _ => None,
        }
    }
}

/// Appends the elements of an array; `before` is the call's array before this one.
pub fn put(out: &mut Vec<u8>, values: &[i64], before: &[i64]) {
    let (Some(&first), Some(&second)) = (values.first(), values.get(1)) else {
        values.iter().for_each(|v| cells::put(out, *v));
        return;
    };
    let step = second.wrapping_sub(first);
    if differences(values).all(|difference| difference == step) {
        let mode = if step == 0 { Mode::Constant } else { Mode::Steps };
        cells::put(out, mode as i64);
        cells::put(out, first);
        if mode == Mode::Steps {
            cells::put(out, step);
        }
    } else if values == before {
        cells::put(out, Mode::Again as i64);
    } else if let Some(factor) = factor_of_sums(values, before) {
        cells::put(out, Mode::Sums as i64);
        cells::put(out, first);
        cells::put(out, factor);
    } else {
        put_each(out, values, first);
    }
}

/// Each element less the one before it.
fn differences(values: &[i64]) -> impl Iterator<Item = i64> {
    values.iter().zip(values.iter().skip(1)).map(|(before, value)| value.wrapping_sub(*before))
}

/// Appends elements, or their differences if these take fewer bytes.
fn put_each(out: &mut Vec<u8>, values: &[i64], first: i64) {
    let size = |v: i64| 64 - (v ^ (v >> 63)).leading_zeros();
    let plain: u32 = values.iter().map(|v| size(*v) / 7).sum();
    let different: u32 = differences(values).map(|difference| size(difference) / 7).sum();
    if different + size(first) / 7 < plain {
        cells::put(out, Mode::Differences as i64);
        cells::put(out, first);
        differences(values).for_each(|difference| cells::put(out, difference));
    } else {
        cells::put(out, Mode::Plain as i64);
        values.iter().for_each(|v| cells::put(out, *v));
    }
}

fn factor_of_sums(values: &[i64], before: &[i64]) -> Option<i64> {
    if values.len() != before.len() {
        return None;
    }
    let at = before.iter().position(|b| *b != 0)?;
    let step = values.get(at + 1)?.wrapping_sub(*values.get(at)?);
    let factor = step.checked_div(*before.get(at)?)?;
    let fits = |(step, before): (i64, &i64)| step == before.wrapping_mul(factor);
    differences(values).zip(before).all(fits).then_some(factor)
}

/// Reads `n` elements; more than `most` are taken for damage.
pub fn get(cells: &mut Cells<'_>, n: usize, most: usize, before: &[i64]) -> Option<Vec<i64>> {
    if n > most {
        return None;
    }
    if n < 2 {
        return (0..n).map(|_| cells.get()).collect();
    }
    let mode = Mode::from_code(cells.get()?)?;
    let count = mode.cells(n);
    (count <= cells.rest().len()).then_some(())?;
    let values: Vec<i64> = (0..count).map(|_| cells.get()).collect::<Option<_>>()?;
    mode.elements(&values, n, before)
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
