//! Finds one formula that holds for every rank.
//!
//! Each kind of formula is guessed from a few ranks and then checked with all. A wrong guess fails
//! after a few ranks, so trying all kinds costs little more than reading the column once.

use crate::formula::{Formula, TreeStep};
use crate::grid::{Digit, Grid, MOST_DIGITS};

/// The number of pairs of neighbours from which a digit's scale is guessed.
const SLOPE_SAMPLES: usize = 16;

/// The formula that gives every value, if there is one.
pub fn formula(ranks: &[u32], values: &[i64]) -> Option<Formula> {
    line(ranks, values)
        .or_else(|| xor(ranks, values))
        .or_else(|| tree(ranks, values))
        .or_else(|| grid(ranks, values))
}

/// Whether `formula` gives every value.
pub fn holds(formula: &Formula, ranks: &[u32], values: &[i64]) -> bool {
    ranks.iter().zip(values).all(|(&rank, &value)| formula.eval(rank) == value)
}

/// The quotient, if it is whole.
fn exact(a: i64, b: i64) -> Option<i64> {
    (a.checked_rem(b)? == 0).then(|| a / b)
}

/// A constant or an affine function.
pub fn line(ranks: &[u32], values: &[i64]) -> Option<Formula> {
    let (&rank, &first) = (ranks.first()?, values.first()?);
    let (Some(&next), Some(&value)) = (ranks.get(1), values.get(1)) else {
        return Some(Formula::Constant(first));
    };
    if value == first {
        return values.iter().all(|&v| v == first).then_some(Formula::Constant(first));
    }
    let scale = exact(value.checked_sub(first)?, i64::from(next) - i64::from(rank))?;
    let offset = first.wrapping_sub(scale.wrapping_mul(i64::from(rank)));
    let on_line = |(&rank, &value): (&u32, &i64)| {
        scale.wrapping_mul(i64::from(rank)).wrapping_add(offset) == value
    };
    ranks.iter().zip(values).all(on_line).then_some(Formula::Affine { scale, offset })
}

/// The rank with some bits inverted, plus an offset.
fn xor(ranks: &[u32], values: &[i64]) -> Option<Formula> {
    let (&rank, &first) = (ranks.first()?, values.first()?);
    let smallest = values.iter().copied().min()?;
    [0, smallest].into_iter().find_map(|offset| {
        let mask = first.wrapping_sub(offset) ^ i64::from(rank);
        let formula = Formula::Xor { mask, offset };
        holds(&formula, ranks, values).then_some(formula)
    })
}

/// An affine function of a step in a binary tree.
fn tree(ranks: &[u32], values: &[i64]) -> Option<Formula> {
    TreeStep::ALL.into_iter().find_map(|step| {
        let (&rank, &first) = (ranks.first()?, values.first()?);
        let base = step.eval(rank);
        let (x, y) = ranks
            .iter()
            .zip(values)
            .map(|(&rank, &value)| (step.eval(rank), value))
            .find(|&(x, _)| x != base)?;
        let scale = exact(y.checked_sub(first)?, x - base)?;
        let offset = first.wrapping_sub(scale.wrapping_mul(base));
        let formula = Formula::Tree { step, scale, offset };
        holds(&formula, ranks, values).then_some(formula)
    })
}

/// A linear function of digits.
#[expect(clippy::indexing_slicing, reason = "a window is a pair")]
pub fn grid(ranks: &[u32], values: &[i64]) -> Option<Formula> {
    if ranks.len() < 3 {
        return None;
    }
    let mut digits = Vec::with_capacity(MOST_DIGITS);
    // If all ranks are a stride apart, their lowest digit is constant.
    let stride = ranks.windows(2).fold(0, |stride, w| gcd(w[1].abs_diff(w[0]), stride));
    let found = if stride > 1 {
        digits.push(Digit { radix: stride, shift: 0, scale: 0 });
        let above: Vec<u32> = ranks.iter().map(|rank| rank / stride).collect();
        peel(&above, values, &mut digits)
    } else {
        peel(ranks, values, &mut digits)
    };
    let (top, offset) = match found? {
        Formula::Constant(offset) => (0, offset),
        Formula::Affine { scale, offset } => (scale, offset),
        _ => return None,
    };
    let formula = Formula::grid(Grid::new(offset, &digits, top)?);
    holds(&formula, ranks, values).then_some(formula)
}

fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Removes digits from the ranks, from the lowest, until the rest is affine; returns that affine function.
fn peel(ranks: &[u32], values: &[i64], digits: &mut Vec<Digit>) -> Option<Formula> {
    if let Some(line) = line(ranks, values) {
        return Some(line);
    }
    if digits.len() == MOST_DIGITS {
        return None;
    }
    for digit in guess_digits(ranks, values) {
        let Some((above, rest)) = without_digit(ranks, values, digit) else { continue };
        digits.push(digit);
        if let Some(line) = peel(&above, &rest, digits) {
            return Some(line);
        }
        digits.pop();
    }
    None
}

/// The ranks and values without the lowest digit, if that digit explains how the values differ between
/// ranks with the same higher digits.
fn without_digit(ranks: &[u32], values: &[i64], digit: Digit) -> Option<(Vec<u32>, Vec<i64>)> {
    let only = Grid::new(0, &[digit], 0)?;
    let mut above: Vec<u32> = Vec::new();
    let mut rest: Vec<i64> = Vec::new();
    for (&rank, &value) in ranks.iter().zip(values) {
        let upper = rank / digit.radix;
        let value = value.wrapping_sub(only.eval(rank));
        if above.last() != Some(&upper) {
            above.push(upper);
            rest.push(value);
        } else if rest.last() != Some(&value) {
            return None;
        }
    }
    // A digit explains nothing if no two ranks have the same higher digits.
    (above.len() < ranks.len()).then_some((above, rest))
}

/// Guesses of the lowest digit, the best first.
///
/// Between ranks that differ only in the lowest digit, the value grows by its scale. The growth breaks
/// where the digit returns to 0: the breaks of an unrotated digit are a radix apart, and a rotated digit
/// falls by `scale * (radix - 1)` in between.
#[expect(clippy::indexing_slicing, reason = "breaks are indices of both lists after the first")]
fn guess_digits(ranks: &[u32], values: &[i64]) -> Vec<Digit> {
    let mut guesses = Vec::new();
    for scale in slopes(ranks, values) {
        let breaks = breaks(ranks, values, scale);
        let mut guess = |radix: i64, shift: i64| {
            let (Ok(radix), Ok(shift)) = (u32::try_from(radix), u32::try_from(shift)) else {
                return;
            };
            let digit = Digit { radix, shift, scale };
            if radix >= 2 && shift < radix && !guesses.contains(&digit) {
                guesses.push(digit);
            }
        };
        for &i in &breaks {
            let rank = i64::from(ranks[i]);
            let fall = values[i].checked_sub(values[i - 1]).and_then(|fall| exact(fall, scale));
            if let (1, Some(fall)) = (ranks[i] - ranks[i - 1], fall)
                && let Some(radix @ 2..) = 1i64.checked_sub(fall)
            {
                guess(radix, (-rank).rem_euclid(radix));
            }
        }
        match breaks[..] {
            [i, j] => {
                guess(i64::from(ranks[j]) - i64::from(ranks[i]), 0);
                guess(i64::from(ranks[j - 1]) - i64::from(ranks[i - 1]), 0);
            }
            [i] => {
                guess(i64::from(ranks[i]), 0);
                guess(i64::from(ranks[i - 1]) + 1, 0);
            }
            _ => {}
        }
    }
    guesses
}

/// The first two indices at which the value does not grow by `scale` per rank.
#[expect(clippy::indexing_slicing, reason = "indices of both lists after the first")]
fn breaks(ranks: &[u32], values: &[i64], scale: i64) -> Vec<usize> {
    let breaks = |&i: &usize| {
        let gap = i64::from(ranks[i]) - i64::from(ranks[i - 1]);
        values[i].wrapping_sub(values[i - 1]) != scale.wrapping_mul(gap)
    };
    (1..ranks.len().min(values.len())).filter(breaks).take(2).collect()
}

/// The increases of the value per rank among the first few ranks: up to three, the most frequent first.
#[expect(clippy::indexing_slicing, reason = "a window is a pair")]
fn slopes(ranks: &[u32], values: &[i64]) -> Vec<i64> {
    let mut found: Vec<(i64, usize)> = Vec::new();
    for (r, v) in ranks.windows(2).zip(values.windows(2)).take(SLOPE_SAMPLES) {
        let rise = v[1].checked_sub(v[0]);
        let slope = rise.and_then(|rise| exact(rise, i64::from(r[1]) - i64::from(r[0])));
        let Some(slope) = slope else { continue };
        match found.iter_mut().find(|(s, _)| *s == slope) {
            Some((_, count)) => *count += 1,
            None => found.push((slope, 1)),
        }
    }
    found.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    found.into_iter().take(3).map(|(slope, _)| slope).collect()
}
