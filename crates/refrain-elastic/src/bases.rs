//! Many numbers as affine functions of a few shared bases.
//!
//! Numbers that differ between ids mostly differ in the same way. All addresses in a thread's share of the
//! rows follow from the first row of the share, which is affine in the thread for an even static schedule,
//! and piecewise affine (floor and ceiling) for an uneven one. So each number is a constant, or affine in
//! the id or in one of a few *bases*; each base is a [`Column`] over the ids.

use crate::column::Column;
use crate::idlist::IdList;

/// A number as a function of the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affine {
    /// The same for every id.
    Constant(i64),
    /// `scale * base + offset`. Base 0 is the id itself; base n is `ColumnSet::bases[n - 1]`.
    Over {
        /// Which base.
        base: u32,
        /// The factor.
        scale: i64,
        /// The summand.
        offset: i64,
    },
}

/// A value for each id of a list that several numbers are affine in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// Any values.
    Column(Column),
    /// 0 for the first id, 1 for the others. (A program's initial thread starts deep in its stack, other
    /// threads at the top of theirs.)
    Others,
    /// The sum over all earlier ids of `scale * base + plus`, where `base` is an earlier base. If that
    /// base is the size of each id's share, this is where the share begins.
    Sum {
        /// Which base, from 1.
        of: u32,
        /// The factor.
        scale: i64,
        /// The summand.
        plus: i64,
    },
}

/// Numbers over the ids of a list.
///
/// ```
/// use refrain_elastic::{Affine, ColumnSet, IdList};
///
/// // Three threads have shares of 5, 5 and 4 rows of 80 bytes: first row, its address, number of rows.
/// let threads = IdList::range(0, 3);
/// let numbers = [[0, 9000, 5], [5, 9400, 5], [10, 9800, 4]].map(|row| row.map(Some).to_vec());
/// let set = ColumnSet::fit(&threads, &numbers);
/// assert_eq!(set.columns[1], Affine::Over { base: 0, scale: 400, offset: 9000 });
/// assert_eq!(set.bases.len(), 1);
/// assert_eq!(set.values(&threads, 2), [10, 9800, 4]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnSet {
    /// The bases that the columns share.
    pub bases: Vec<Base>,
    /// One entry for each number.
    pub columns: Vec<Affine>,
}

impl ColumnSet {
    /// Fits the numbers. `numbers` has all numbers of each id of the list, in ascending order of the ids;
    /// `None` means any value.
    pub fn fit(ids: &IdList, numbers: &[Vec<Option<i64>>]) -> Self {
        let mut fitted = Self::default();
        let mut bases: Vec<Vec<i64>> = vec![ids.iter().map(i64::from).collect()];
        for at in 0..numbers.first().map_or(0, Vec::len) {
            let value = |numbers: &Vec<Option<i64>>| numbers.get(at).copied().flatten();
            let values: Vec<Option<i64>> = numbers.iter().map(value).collect();
            let affine = bases.iter().enumerate().find_map(|(i, base)| affine(&values, base, i));
            fitted.columns.push(affine.unwrap_or_else(|| {
                let (base, scale, offset) = new_base(&values);
                let column = || Base::Column(Column::fit_over(ids, &base));
                let base_is = match base.split_first() {
                    Some((0, others)) if others.iter().all(|other| *other == 1) => {
                        Some(Base::Others)
                    }
                    _ => (1..bases.len())
                        .filter(|of| matches!(fitted.bases.get(of - 1), Some(Base::Column(_))))
                        .find_map(|of| sum(&base, bases.get(of)?, of)),
                };
                fitted.bases.push(base_is.unwrap_or_else(column));
                bases.push(base);
                Affine::Over { base: bases.len() as u32 - 1, scale, offset }
            }));
        }
        fitted
    }

    /// The numbers of an id of the list.
    pub fn values(&self, ids: &IdList, id: u32) -> Vec<i64> {
        let bases: Vec<i64> = (0..self.bases.len()).map(|at| self.base(ids, id, at)).collect();
        let number = |affine: &Affine| match *affine {
            Affine::Constant(value) => value,
            Affine::Over { base: 0, scale, offset } => {
                scale.wrapping_mul(i64::from(id)).wrapping_add(offset)
            }
            Affine::Over { base, scale, offset } => {
                let base = bases.get(base as usize - 1).copied().unwrap_or(0);
                scale.wrapping_mul(base).wrapping_add(offset)
            }
        };
        self.columns.iter().map(number).collect()
    }

    /// A base of an id of the list.
    fn base(&self, ids: &IdList, id: u32, at: usize) -> i64 {
        let Some(base) = self.bases.get(at) else { return 0 };
        match base {
            Base::Column(column) => column.eval(id).unwrap_or(0),
            Base::Others => i64::from(ids.first() != Some(id)),
            Base::Sum { of, scale, plus } => {
                // Only columns are summed up.
                let column = match self.bases.get((*of as usize).wrapping_sub(1)) {
                    Some(Base::Column(column)) => column,
                    _ => return 0,
                };
                let before = ids.iter().take_while(|before| *before < id);
                before.fold(0i64, |sum, before| {
                    let base = column.eval(before).unwrap_or(0);
                    sum.wrapping_add(scale.wrapping_mul(base)).wrapping_add(*plus)
                })
            }
        }
    }
}

/// A base as the sum of another, if it is one.
fn sum(base: &[i64], of: &[i64], at: usize) -> Option<Base> {
    if base.first() != Some(&0) || base.len() < 3 {
        return None;
    }
    let steps: Vec<Option<i64>> = base
        .iter()
        .zip(base.iter().skip(1))
        .map(|(one, next)| Some(next.wrapping_sub(*one)))
        .collect();
    match affine(&steps, of.get(..steps.len())?, at)? {
        Affine::Over { base, scale, offset } => Some(Base::Sum { of: base, scale, plus: offset }),
        Affine::Constant(_) => None,
    }
}

/// The values as a constant, or as affine in the base of index `at`.
fn affine(values: &[Option<i64>], base: &[i64], at: usize) -> Option<Affine> {
    let mut known = values.iter().zip(base).filter_map(|(value, base)| Some(((*value)?, *base)));
    let Some((first, first_base)) = known.next() else { return Some(Affine::Constant(0)) };
    let Some((other, other_base)) = known.clone().find(|(value, _)| *value != first) else {
        return Some(Affine::Constant(first));
    };
    let (rise, run) = (other.wrapping_sub(first), other_base.wrapping_sub(first_base));
    if run == 0 || rise.checked_rem(run)? != 0 {
        return None;
    }
    let scale = rise / run;
    let offset = first.wrapping_sub(scale.wrapping_mul(first_base));
    let holds = |(value, base): (i64, i64)| scale.wrapping_mul(base).wrapping_add(offset) == value;
    known.all(holds).then_some(Affine::Over { base: at as u32, scale, offset })
}

/// A base for values that are not affine in any other base. Offset and common divisor are taken out, so
/// that addresses of rows become indices of rows. Returns base, scale and offset. For `None`, the base
/// repeats the previous value.
fn new_base(values: &[Option<i64>]) -> (Vec<i64>, i64, i64) {
    let offset = values.iter().copied().flatten().next().unwrap_or(0);
    let mut near = 0;
    let distances = values.iter().map(|value| {
        near = value.map_or(near, |value| value.wrapping_sub(offset));
        near
    });
    let distances: Vec<i64> = distances.collect();
    let divisor = distances.iter().fold(0, |divisor, d| common_divisor(divisor, d.unsigned_abs()));
    match i64::try_from(divisor) {
        Ok(scale @ 1..) => (distances.iter().map(|d| d / scale).collect(), scale, offset),
        _ => (distances, 1, offset),
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
