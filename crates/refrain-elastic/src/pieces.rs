//! Finding a column's formulas when one does not do.
//!
//! Columns are taken apart in several ways, and the shortest encoding wins:
//!
//! - by a residual that takes few values, a piece for each;
//! - greedily: a formula that holds for many ranks, then the same for the ranks it leaves, until
//!   few are left or nothing holds for a fair share of them, which is then a table;
//! - as one table.
//!
//! Among the pieces, the one whose ranks are the longest to write becomes the rest, which needs
//! no ranks.

use crate::column::{Column, Form, Piece, encode_body};
use crate::formula::{Formula, TreeStep};
use crate::idlist::IdList;
use crate::residual::{Class, Residual, frequent_slope};
use crate::single;
use crate::table::Table;

/// The most pieces that residuals are split into.
const MOST_CLASSES: usize = 64;
/// The most pieces that are split off greedily.
const MOST_PIECES: usize = 24;
/// How many ways to begin the greedy split are tried.
const BEGINNINGS: usize = 4;
/// More formulas than so many are not worth dealing out again.
pub const MOST_REGROUPED: usize = 5;
/// Formulas of no more bytes than this need no comparison with a table.
const SHORT_ENOUGH: usize = 16;
/// A formula that holds for fewer than one rank in so many is none.
const FAIR_SHARE: usize = 12;
/// A table must be so many bytes shorter than formulas: these can be read, merge without being
/// counted out, and do not grow with the number of ranks.
const TABLE_HANDICAP: usize = 8;

/// The shortest column found; ranks ascend strictly, and there is at least one.
pub fn fit(list: IdList, ranks: &[u32], values: &[i64]) -> Column {
    let mut best = Best { list: &list, found: None };
    if let Some(formula) = single::formula(ranks, values) {
        best.offer(Vec::new(), Form::Formula(formula));
        // What one formula says in less than a byte a rank, no other way says shorter.
        if best.size() <= ranks.len() {
            return best.into_column(values);
        }
    }
    for (formula, _) in candidates(ranks, values).into_iter().take(BEGINNINGS) {
        best.offer_parts(greedily(ranks, values, formula));
    }
    for residual in residuals(ranks, values) {
        if let Some(classes) = residual.classes(ranks, values, MOST_CLASSES) {
            let piece = |class: Class| formula_piece(&class.ranks, class.formula);
            best.offer_parts(classes.into_iter().map(piece).collect());
        }
    }
    let formulas = best.found.as_ref().and_then(|found| formulas(&found.pieces, &found.rest));
    if let Some(formulas) = formulas.filter(|formulas| formulas.len() <= MOST_REGROUPED)
        && let Some(found) = regroup(&list, ranks, values, &formulas)
    {
        best.offer(found.pieces, found.rest);
    }
    if best.size() > SHORT_ENOUGH {
        best.offer(Vec::new(), Form::Table(Table::new(values.to_vec())));
    }
    best.into_column(values)
}

fn formula_piece(ranks: &[u32], formula: Formula) -> Piece {
    Piece { ranks: IdList::from_sorted(ranks), values: Form::Formula(formula) }
}

/// All formulas of a column, if it has no tables.
pub fn formulas(pieces: &[Piece], rest: &Form) -> Option<Vec<Formula>> {
    let forms = pieces.iter().map(|piece| &piece.values).chain([rest]);
    forms
        .map(|form| match form {
            Form::Formula(formula) => Some(*formula),
            Form::Table(_) => None,
        })
        .collect()
}

/// The column in which each rank goes to one of the `formulas` that gives its value, if there is
/// one for every rank.
///
/// Where two formulas agree on a rank, either may have it: every formula has its turn to choose
/// first.
pub fn regroup(
    list: &IdList,
    ranks: &[u32],
    values: &[i64],
    formulas: &[Formula],
) -> Option<Column> {
    let mut best = Best { list, found: None };
    for first in 0..formulas.len() {
        let mut ordered = formulas.to_vec();
        ordered.swap(0, first);
        let mut held = vec![Vec::new(); ordered.len()];
        let mut disputed = false;
        for (&rank, &value) in ranks.iter().zip(values) {
            let fitting = ordered.iter().zip(&mut held).filter(|(f, _)| f.eval(rank) == value);
            let mut places = fitting.map(|(_, held)| held);
            places.next()?.push(rank);
            disputed |= places.next().is_some();
        }
        let parts = held.iter().zip(ordered).filter(|(ranks, _)| !ranks.is_empty());
        best.offer_parts(parts.map(|(ranks, formula)| formula_piece(ranks, formula)).collect());
        if !disputed {
            break;
        }
    }
    best.found.is_some().then(|| best.into_column(values))
}

/// The shortest way found so far.
struct Best<'a> {
    list: &'a IdList,
    found: Option<Found>,
}

struct Found {
    pieces: Vec<Piece>,
    rest: Form,
    size: usize,
}

impl Best<'_> {
    fn size(&self) -> usize {
        self.found.as_ref().map_or(usize::MAX, |found| found.size)
    }

    /// Takes what is offered if it is shorter.
    fn offer(&mut self, pieces: Vec<Piece>, rest: Form) {
        let forms = pieces.iter().map(|piece| &piece.values).chain([&rest]);
        let tables = forms.filter(|form| matches!(form, Form::Table(_))).count();
        let size = size(self.list, &pieces, &rest) + tables * TABLE_HANDICAP;
        if size < self.size() {
            self.found = Some(Found { pieces, rest, size });
        }
    }

    /// The same for pieces that cover all ranks.
    fn offer_parts(&mut self, parts: Vec<Piece>) {
        if let Some((pieces, rest)) = with_rest(parts) {
            self.offer(pieces, rest);
        }
    }

    /// What was found; a table where nothing was.
    fn into_column(self, values: &[i64]) -> Column {
        let ranks = self.list.clone();
        match self.found {
            Some(Found { pieces, rest, .. }) => Column { ranks, pieces, rest },
            None => {
                let rest = Form::Table(Table::new(values.to_vec()));
                Column { ranks, pieces: Vec::new(), rest }
            }
        }
    }
}

/// Pieces that cover all ranks, with the one whose ranks are the longest to write as the rest;
/// none if all are tables.
fn with_rest(mut parts: Vec<Piece>) -> Option<(Vec<Piece>, Form)> {
    let mut bytes = Vec::new();
    let mut cost = |piece: &Piece| {
        bytes.clear();
        piece.ranks.encode(&mut bytes);
        bytes.len()
    };
    let (longest, _) = parts
        .iter()
        .enumerate()
        .filter(|(_, piece)| matches!(piece.values, Form::Formula(_)))
        .max_by_key(|(i, piece)| (cost(piece), piece.ranks.len(), std::cmp::Reverse(*i)))?;
    let rest = parts.remove(longest).values;
    Some((parts, rest))
}

fn size(list: &IdList, pieces: &[Piece], rest: &Form) -> usize {
    let mut bytes = Vec::new();
    encode_body(list, pieces, rest, &mut bytes);
    bytes.len()
}

/// The residuals worth grouping by.
fn residuals(ranks: &[u32], values: &[i64]) -> Vec<Residual> {
    let mut residuals = vec![Residual::Value, Residual::Minus(1), Residual::Xor];
    match frequent_slope(ranks, values) {
        None | Some(0 | 1) => {}
        Some(slope) => residuals.push(Residual::Minus(slope)),
    }
    residuals
}

/// Formulas that hold for a fair share of the ranks, the largest share first.
fn candidates(ranks: &[u32], values: &[i64]) -> Vec<(Formula, usize)> {
    let mut found: Vec<(Formula, usize)> = Vec::new();
    for residual in residuals(ranks, values) {
        found.extend(residual.mode(ranks, values));
    }
    let most = found.iter().map(|&(_, count)| count).max().unwrap_or(0);
    if most < ranks.len() / 4 * 3 {
        for step in TreeStep::ALL {
            found.extend(Residual::Tree(step).mode(ranks, values));
        }
    }
    // One formula for all but the exceptions that are likely: no neighbour, the first or the last.
    let frequent = found.first().map(|&(formula, _)| formula);
    let negative = |_: u32, value: i64| value < 0;
    let usual = |rank: u32, value: i64| frequent.is_some_and(|f| f.eval(rank) == value);
    found.extend(single_without(ranks, values, usual));
    found.extend(single_without(ranks, values, negative));
    let inner = 1..ranks.len().saturating_sub(1);
    for part in [inner.start..ranks.len(), 0..inner.end, inner] {
        let (Some(some_ranks), Some(some_values)) = (ranks.get(part.clone()), values.get(part))
        else {
            continue;
        };
        if let Some(formula) = single::formula(some_ranks, some_values) {
            found.push((formula, some_ranks.len()));
        }
    }
    found.retain(|&(_, count)| count >= 2 && count * FAIR_SHARE >= ranks.len());
    found.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let mut distinct: Vec<(Formula, usize)> = Vec::new();
    for (formula, count) in found {
        if distinct.iter().all(|(other, _)| *other != formula) {
            distinct.push((formula, count));
        }
    }
    distinct
}

/// The formula of all ranks but the exceptions, and for how many it holds at least.
fn single_without(
    ranks: &[u32],
    values: &[i64],
    exception: impl Fn(u32, i64) -> bool,
) -> Option<(Formula, usize)> {
    let regular = ranks.iter().copied().zip(values.iter().copied());
    let (ranks, values): (Vec<u32>, Vec<i64>) =
        regular.filter(|&(rank, value)| !exception(rank, value)).unzip();
    Some((single::formula(&ranks, &values)?, ranks.len()))
}

/// Splits off the ranks for which `formula` holds, then those of the best formula for what is
/// left, and so on.
fn greedily(ranks: &[u32], values: &[i64], formula: Formula) -> Vec<Piece> {
    let mut parts = Vec::new();
    let mut next = Some(formula);
    let (mut ranks, mut values) = (ranks.to_vec(), values.to_vec());
    while !ranks.is_empty() {
        let Some(formula) = next.filter(|_| parts.len() < MOST_PIECES) else {
            let list = IdList::from_sorted(&ranks);
            parts.push(Piece { ranks: list, values: Form::Table(Table::new(values)) });
            break;
        };
        let mut held = Vec::new();
        let (mut left, mut left_values) = (Vec::new(), Vec::new());
        for (&rank, &value) in ranks.iter().zip(&values) {
            if formula.eval(rank) == value {
                held.push(rank);
            } else {
                left.push(rank);
                left_values.push(value);
            }
        }
        parts.push(formula_piece(&held, formula));
        (ranks, values) = (left, left_values);
        next = single::formula(&ranks, &values)
            .or_else(|| candidates(&ranks, &values).first().map(|&(formula, _)| formula));
    }
    parts
}
