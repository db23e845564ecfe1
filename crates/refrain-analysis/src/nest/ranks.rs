//! A number of each rank as text: what a reader of the program would have written.
//!
//! Stored columns have whatever formula is shortest. With few ranks that is often one that no program has, and it may
//! hide that a number is a constant with a name (`MPI_PROC_NULL` is -1 in some MPIs, and so is `rank - 1` on rank 0).

use refrain_reader::refrain_elastic::{Column, Formula, IdList};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Ranks are given at most so many different values, or a range of them.
const MOST_PIECES: usize = 3;
/// Longer formulas are not clear.
const LONGEST_FORMULA: usize = 32;
/// Formulas with more than two numbers in them are believed from so many ranks on.
const ENOUGH_RANKS: usize = 8;

/// How numbers are written.
pub struct Words<'w> {
    /// The name of a number that stands for something else.
    pub name: &'w dyn Fn(i64) -> Option<String>,
    /// Any other number.
    pub number: &'w dyn Fn(i64) -> String,
    /// Whether numbers are ranks.
    pub are_ranks: bool,
}

/// The numbers of ranks, ascending by rank.
pub fn over_ranks(all: &[(u32, i64)], words: &Words<'_>) -> String {
    let Some((_, first)) = all.first() else { return "?".to_owned() };
    if all.iter().all(|(_, value)| value == first) {
        return (words.name)(*first).unwrap_or_else(|| (words.number)(*first));
    }
    let mut pieces: Vec<(Vec<u32>, String)> = Vec::new();
    let mut named: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    let mut plain: Vec<(u32, i64)> = Vec::new();
    for (rank, value) in all {
        match (words.name)(*value) {
            Some(_) => named.entry(*value).or_default().push(*rank),
            None => plain.push((*rank, *value)),
        }
    }
    if !plain.is_empty() {
        pieces.extend(plain_pieces(&plain, words));
    }
    for (value, ranks) in named {
        pieces.push((ranks, (words.name)(value).unwrap_or_default()));
    }
    if let [(_, only)] = pieces.as_slice() {
        return only.clone();
    }
    // The piece with most ranks is what the others have.
    let largest =
        (0..pieces.len()).max_by_key(|at| (pieces[*at].0.len(), Reverse(*at))).unwrap_or(0);
    let (_, rest) = pieces.remove(largest);
    pieces.sort();
    let piece =
        |(ranks, text): &(Vec<u32>, String)| format!("{}: {text}", IdList::from_sorted(ranks));
    let pieces: Vec<String> = pieces.iter().map(piece).collect();
    format!("{{{}; else {rest}}}", pieces.join("; "))
}

/// Numbers without names: ranks and what they have.
fn plain_pieces(all: &[(u32, i64)], words: &Words<'_>) -> Vec<(Vec<u32>, String)> {
    let ranks: Vec<u32> = all.iter().map(|(rank, _)| *rank).collect();
    let values: Vec<i64> = all.iter().map(|(_, value)| *value).collect();
    let are_two = BTreeSet::from_iter(&values).len() == 2 && !words.are_ranks && ranks.len() > 2;
    if let Some(pieces) = pieces(all, words).filter(|_| are_two) {
        return pieces;
    }
    let clear = formula(&ranks, &values, words).or_else(|| torus(&ranks, &values));
    if let Some(text) = clear {
        return vec![(ranks, text)];
    }
    if let Some(pieces) = pieces(all, words) {
        return pieces;
    }
    let mut distinct = values;
    distinct.sort_unstable();
    distinct.dedup();
    let text = match distinct.as_slice() {
        [low, .., high] if distinct.len() > 4 => {
            format!("{}..{} by rank", (words.number)(*low), (words.number)(*high))
        }
        few => {
            let few: Vec<String> = few.iter().map(|value| (words.number)(*value)).collect();
            format!("{} by rank", few.join(" or "))
        }
    };
    vec![(ranks, text)]
}

/// One formula for all ranks, if it is clear.
fn formula(ranks: &[u32], values: &[i64], words: &Words<'_>) -> Option<String> {
    let column = Column::fit(ranks, values);
    let formula = column.formula()?;
    let is_clear = match formula {
        Formula::Constant(value) => return Some((words.number)(*value)),
        Formula::Affine { scale, .. } => *scale == 1 && words.are_ranks || ranks.len() > 2,
        Formula::Modulo { .. } | Formula::Xor { .. } => ranks.len() > 3,
        Formula::Tree { .. } | Formula::Grid(_) => ranks.len() >= ENOUGH_RANKS,
    };
    let text = formula.to_string();
    let text = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(&text);
    let is_balanced = text.find(')') >= text.find('(');
    let text = if is_balanced { text.to_owned() } else { formula.to_string() };
    (is_clear && text.len() <= LONGEST_FORMULA).then_some(text)
}

/// Diagonal neighbours in a grid of all ranks that wraps, as in multi-partition schemes; a number may be added.
fn torus(ranks: &[u32], values: &[i64]) -> Option<String> {
    let all = ranks.len() as i64;
    let base = *values.iter().min()?;
    if ranks.len() < ENOUGH_RANKS || ranks.iter().enumerate().any(|(at, rank)| at as u32 != *rank) {
        return None;
    }
    // Squares first.
    let mut widths: Vec<i64> = (2..=all / 2).filter(|width| all % width == 0).collect();
    widths.sort_by_key(|width| (width - all / width).abs());
    let first = values.first()? - base;
    for width in widths {
        let height = all / width;
        let (down, right) = (first / width, first % width);
        let at =
            |rank: i64| (rank / width + down) % height * width + (rank % width + right) % width;
        if (0..all).zip(values).any(|(rank, value)| at(rank) != value - base) {
            continue;
        }
        let step = |name: &str, by: i64, of: i64| match (by, of - by) {
            (0, _) => name.to_owned(),
            (by, back) if by <= back => format!("{name} + {by}"),
            (_, back) => format!("{name} - {back}"),
        };
        let base = if base == 0 { String::new() } else { format!("{base} + ") };
        let (row, column) = (step("row", down, height), step("column", right, width));
        return Some(format!("{base}({row}, {column}) in {height} x {width}"));
    }
    None
}

/// Few pieces with the same number, or the same distance from the rank.
fn pieces(all: &[(u32, i64)], words: &Words<'_>) -> Option<Vec<(Vec<u32>, String)>> {
    let mut left: Vec<(u32, i64)> = all.to_vec();
    let mut pieces = Vec::new();
    while !left.is_empty() {
        if pieces.len() == MOST_PIECES {
            return None;
        }
        // By (is no distance, number): how many ranks have it.
        let mut classes: BTreeMap<(bool, i64), usize> = BTreeMap::new();
        for (rank, value) in &left {
            *classes.entry((true, *value)).or_default() += 1;
            if words.are_ranks {
                *classes.entry((false, value.wrapping_sub(i64::from(*rank)))).or_default() += 1;
            }
        }
        let best = classes.iter().max_by_key(|(class, count)| (**count, !class.0))?;
        let (is_number, number) = *best.0;
        let is_in = |(rank, value): &(u32, i64)| match is_number {
            true => *value == number,
            false => value.wrapping_sub(i64::from(*rank)) == number,
        };
        let ranks = left.iter().filter(|one| is_in(one)).map(|(rank, _)| *rank).collect();
        left.retain(|one| !is_in(one));
        let text = match (is_number, number) {
            (true, number) => (words.number)(number),
            (false, 0) => "rank".to_owned(),
            (false, distance) if distance < 0 => format!("rank - {}", distance.unsigned_abs()),
            (false, distance) => format!("rank + {distance}"),
        };
        pieces.push((ranks, text));
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(values: &[i64], are_ranks: bool) -> String {
        let all: Vec<(u32, i64)> = (0..).zip(values.iter().copied()).collect();
        let name = |value: i64| (value == -1 && are_ranks).then(|| "NULL".to_owned());
        over_ranks(&all, &Words { name: &name, number: &|value| value.to_string(), are_ranks })
    }

    #[test]
    fn a_constant_with_a_name_is_no_neighbour() {
        assert_eq!(text(&[-1, 0, 1, 2], true), "{0: NULL; else rank - 1}");
        assert_eq!(text(&[-1, -1, 0, 1, 2, 3], true), "{0-1: NULL; else rank - 2}");
        assert_eq!(text(&[2, 3, -1, -1], true), "{2-3: NULL; else rank + 2}");
    }

    #[test]
    fn neighbours_on_rings_and_in_cubes_are_formulas() {
        assert_eq!(text(&[1, 2, 3, 0], true), "(rank + 1) mod 4");
        assert_eq!(text(&[2, 3, 0, 1], true), "rank xor 2");
        assert_eq!(text(&[0, 1, 2, 3], true), "rank");
    }

    #[test]
    fn diagonal_neighbours_are_steps_in_a_grid() {
        let to = |down: i64, right: i64| -> Vec<i64> {
            (0..16).map(|rank| (rank / 4 + down) % 4 * 4 + (rank % 4 + right) % 4).collect()
        };
        assert_eq!(text(&to(1, 3), true), "(row + 1, column - 1) in 4 x 4");
        assert_eq!(text(&to(3, 3), true), "(row - 1, column - 1) in 4 x 4");
        let tags: Vec<i64> = to(1, 3).iter().map(|rank| 7000 + rank).collect();
        assert_eq!(text(&tags, false), "7000 + (row + 1, column - 1) in 4 x 4");
    }

    #[test]
    fn two_numbers_are_better_than_a_formula() {
        let counts: Vec<i64> = (0..16).map(|rank| if rank < 13 { 40 } else { 35 }).collect();
        assert_eq!(text(&counts, false), "{13-15: 35; else 40}");
    }

    #[test]
    fn numbers_of_few_ranks_are_listed() {
        assert_eq!(text(&[64, 64, 64, 63], false), "{3: 63; else 64}");
        assert_eq!(text(&[64, 32, 64, 32], false), "{1-3:2: 32; else 64}");
        assert_eq!(text(&[9, 4, 7, 1], false), "1 or 4 or 7 or 9 by rank");
        assert_eq!(text(&[9, 4, 7, 1, 8, 25, 3, 14], false), "1..25 by rank");
    }
}
