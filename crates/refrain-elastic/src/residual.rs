//! Groups ranks by residuals: what is left of a value after the rank is subtracted in some way.
//!
//! `value - rank` is the same for all ranks with a neighbour at the same distance, `value xor rank` for
//! all partners across the same dimension of a hypercube, the value itself for all ranks without a
//! neighbour. If a residual has few distinct values, each of them is a formula for some ranks; if one
//! value is frequent, it is a formula with exceptions.

use refrain_bytes::table::Map;

use crate::formula::{Formula, TreeStep};

/// The most ranks in which the most frequent residual is searched.
const SAMPLE: usize = 1024;

/// A way to subtract the rank from a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// The value as it is.
    Value,
    /// The value less a multiple of the rank.
    Minus(i64),
    /// The value xor the rank.
    Xor,
    /// The value less a step in a binary tree.
    Tree(TreeStep),
}

impl Residual {
    /// The residual of `value`.
    pub fn of(self, rank: u32, value: i64) -> i64 {
        match self {
            Self::Value => value,
            Self::Minus(scale) => value.wrapping_sub(scale.wrapping_mul(i64::from(rank))),
            Self::Xor => value ^ i64::from(rank),
            Self::Tree(step) => value.wrapping_sub(step.eval(rank)),
        }
    }

    /// The formula of the ranks with this residual.
    pub fn formula(self, residual: i64) -> Formula {
        match self {
            Self::Value => Formula::Constant(residual),
            Self::Minus(scale) => Formula::line(scale, residual),
            Self::Xor => Formula::Xor { mask: residual, offset: 0 },
            Self::Tree(step) => Formula::Tree { step, scale: 1, offset: residual },
        }
    }

    /// The formula that holds for most ranks, and for how many. Of many ranks only a sample is used to
    /// find it: a formula that matters is frequent there too.
    pub fn mode(self, ranks: &[u32], values: &[i64]) -> Option<(Formula, usize)> {
        let at = |i: usize| Some(self.of(*ranks.get(i)?, *values.get(i)?));
        let mode = most_frequent(sample(ranks.len()).filter_map(at))?;
        let residuals = ranks.iter().zip(values).map(|(&rank, &value)| self.of(rank, value));
        Some((self.formula(mode), residuals.filter(|&residual| residual == mode).count()))
    }

    /// The ranks of each distinct residual; `None` if there are more than `most`.
    pub fn classes(self, ranks: &[u32], values: &[i64], most: usize) -> Option<Vec<Class>> {
        let mut indices: Map<i64, usize> = Map::default();
        let mut classes: Vec<Class> = Vec::new();
        for (&rank, &value) in ranks.iter().zip(values) {
            let residual = self.of(rank, value);
            let index = *indices.entry(residual).or_insert(classes.len());
            if index == classes.len() {
                if index == most {
                    return None;
                }
                classes.push(Class { formula: self.formula(residual), ranks: Vec::new() });
            }
            classes.get_mut(index)?.ranks.push(rank);
        }
        Some(classes)
    }
}

/// Ranks that share a formula.
pub struct Class {
    /// The formula.
    pub formula: Formula,
    /// The ranks, ascending.
    pub ranks: Vec<u32>,
}

/// The most frequent increase of the value per rank.
pub fn frequent_slope(ranks: &[u32], values: &[i64]) -> Option<i64> {
    let slope = |i: usize| {
        let gap = i64::from(*ranks.get(i + 1)?) - i64::from(*ranks.get(i)?);
        let rise = values.get(i + 1)?.checked_sub(*values.get(i)?)?;
        (rise.checked_rem(gap)? == 0).then(|| rise / gap)
    };
    most_frequent(sample(ranks.len()).filter_map(slope))
}

/// All indices below `count`, or a pseudo-random sample of them.
fn sample(count: usize) -> impl Iterator<Item = usize> {
    let all = count <= 2 * SAMPLE;
    let mut state = 0u64;
    (0..if all { count } else { SAMPLE }).map(move |i| {
        if all {
            return i;
        }
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as usize % count
    })
}

/// The most frequent number; of several, the one that reached that frequency first.
fn most_frequent(numbers: impl Iterator<Item = i64>) -> Option<i64> {
    let mut counts: Map<i64, usize> = Map::default();
    let mut best = None;
    for number in numbers {
        let count = counts.entry(number).or_insert(0);
        *count += 1;
        if best.is_none_or(|(_, most)| *count > most) {
            best = Some((number, *count));
        }
    }
    best.map(|(number, _)| number)
}
