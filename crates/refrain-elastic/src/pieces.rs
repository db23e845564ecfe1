//! Finds the formulas of a column if one formula is not enough.
//!
//! Columns are divided in several ways, and the shortest encoding is used:
//!
//! - by a residual that takes few values, with a piece for each value;
//! - greedily: first a formula that holds for many ranks, then another for the remaining ranks, and so
//!   on, until no formula holds for a fair share of them; the last ranks are a table;
//! - as one table.
//!
//! The piece whose list of ranks is the longest becomes the rest, which needs no list.

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
/// The number of first formulas that are tried for the greedy split.
const BEGINNINGS: usize = 4;
/// A column with more formulas is not regrouped.
pub const MOST_REGROUPED: usize = 5;
/// Formulas of at most this many bytes are not compared with a table.
const SHORT_ENOUGH: usize = 16;
/// A formula must hold for at least one rank in this many.
const FAIR_SHARE: usize = 12;
/// A table must be this many bytes shorter than formulas, because formulas are readable, merge without
/// expansion, and do not grow with the number of ranks.
const TABLE_HANDICAP: usize = 8;

/// The shortest column found; ranks ascend strictly, and there is at least one.
pub fn fit(list: IdList, ranks: &[u32], values: &[i64]) -> Column {
    let mut best = Best { list: &list, found: None };
    if let Some(formula) = single::formula(ranks, values) {
        best.offer(Vec::new(), Form::Formula(formula));
        // Nothing is shorter than one formula of less than a byte per rank.
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

/// The column that assigns each rank to one of the `formulas` that gives its value; `None` if a rank has
/// none.
///
/// If several formulas give a rank's value, any of them may have it, so each formula is once the first to
/// choose.
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
            let mut lists = fitting.map(|(_, held)| held);
            lists.next()?.push(rank);
            disputed |= lists.next().is_some();
        }
        let parts = held.iter().zip(ordered).filter(|(ranks, _)| !ranks.is_empty());
        best.offer_parts(parts.map(|(ranks, formula)| formula_piece(ranks, formula)).collect());
        if !disputed {
            break;
        }
    }
    best.found.is_some().then(|| best.into_column(values))
}

/// The shortest division found so far.
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

    /// Replaces the best division if this one is shorter.
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

    /// The best division, or a table if there is none.
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

/// Divides pieces that cover all ranks into pieces and rest: the piece with the longest list of ranks becomes
/// the rest. `None` if all are tables.
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

/// The residuals by which grouping is tried.
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
    // One formula for all ranks except likely exceptions: no neighbour, the first or the last rank.
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

/// The formula of all ranks except the exceptions, and a lower bound on the number of ranks for which it holds.
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

/// Splits off the ranks for which `formula` holds, then those of the best formula for the remaining ones,
/// and so on.
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
