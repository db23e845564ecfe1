//! Merges the columns of disjoint sets of ranks.
//!
//! Columns are merged in a tree over the ranks, and each merge must be cheap if the program is
//! regular. Two columns with the same formula merge in constant time. If the formula of one side also
//! holds for the other, it is used for both. If both sides have the same few formulas, ranks are
//! distributed among them again. Only otherwise are both columns expanded and fitted again. So the
//! result is about as short as if all values had been fitted at once.

use crate::column::{Column, Form};
use crate::formula::Formula;
use crate::idlist::IdList;
use crate::pieces;
use crate::single;
use crate::table::Table;

/// Two tables of at least this many values each become one table: if neither half had a formula, the
/// whole has none.
const SETTLED_TABLE: usize = 64;
/// A regrouped column is accepted if it has at most this many bytes and at most a byte per four ranks.
/// Otherwise better formulas are searched.
const MOST_REGROUPED_BYTES: usize = 64;

impl Column {
    /// The column of the ranks of both. They should be disjoint; for a rank in both, the value of `a` is
    /// used.
    pub fn merge(a: Self, b: Self) -> Self {
        let ranks = a.ranks.union(&b.ranks);
        Self::merge_over(a, b, &ranks)
    }

    /// [`Column::merge`] for callers that already have the union of the ranks, which is the same for all
    /// columns of a group.
    pub fn merge_over(a: Self, b: Self, ranks: &IdList) -> Self {
        if a.is_empty() {
            return b;
        }
        if b.is_empty() {
            return a;
        }
        if let (Some(f), Some(g)) = (a.formula(), b.formula()) {
            let common = if f == g || agree(&b.ranks, f, g) {
                Some(f)
            } else if agree(&a.ranks, f, g) {
                Some(g)
            } else {
                None
            };
            if let Some(formula) = common {
                return Self::of(ranks.clone(), *formula);
            }
        }
        let (all_ranks, values) = interleave(a.expand(), b.expand());
        if all_ranks.len() != ranks.len() {
            return Self::fit(&all_ranks, &values);
        }
        if is_settled_table(&a) && is_settled_table(&b) {
            let rest = Form::Table(Table::new(values));
            return Self { ranks: ranks.clone(), pieces: Vec::new(), rest };
        }
        if let Some(formulas) = common_formulas(&a, &b) {
            if let Some(formula) = single::formula(&all_ranks, &values) {
                return Self::of(ranks.clone(), formula);
            }
            let most = MOST_REGROUPED_BYTES.min(all_ranks.len() / 4);
            let regrouped = pieces::regroup(ranks, &all_ranks, &values, &formulas);
            if let Some(column) = regrouped.filter(|column| column.values_size() <= most) {
                return column;
            }
        }
        Self::fit_listed(ranks.clone(), &all_ranks, &values)
    }
}

/// Whether two formulas give the same value for all of the ranks.
fn agree(ranks: &IdList, f: &Formula, g: &Formula) -> bool {
    ranks.iter().all(|rank| f.eval(rank) == g.eval(rank))
}

fn is_settled_table(column: &Column) -> bool {
    match &column.rest {
        Form::Table(table) => column.pieces.is_empty() && table.values().len() >= SETTLED_TABLE,
        Form::Formula(_) => false,
    }
}

/// Merges two expanded columns in ascending order of the ranks.
fn interleave(
    (a_ranks, a_values): (Vec<u32>, Vec<i64>),
    (b_ranks, b_values): (Vec<u32>, Vec<i64>),
) -> (Vec<u32>, Vec<i64>) {
    let mut ranks = Vec::with_capacity(a_ranks.len() + b_ranks.len());
    let mut values = Vec::with_capacity(ranks.capacity());
    let mut a = a_ranks.into_iter().zip(a_values).peekable();
    let mut b = b_ranks.into_iter().zip(b_values).peekable();
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some((r, _)), Some((s, _))) if r > s => b.next(),
            (Some((r, _)), Some((s, _))) if r == s => {
                b.next();
                a.next()
            }
            (Some(_), _) => a.next(),
            (None, _) => b.next(),
        };
        let Some((rank, value)) = next else { break };
        ranks.push(rank);
        values.push(value);
    }
    (ranks, values)
}

/// The formulas of the column that has more of them, if they are few and probably sufficient for both.
fn common_formulas(a: &Column, b: &Column) -> Option<Vec<Formula>> {
    let formulas = |column: &Column| pieces::formulas(&column.pieces, &column.rest);
    let (a, b) = (formulas(a)?, formulas(b)?);
    let (more, less) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let common = less.iter().all(|formula| more.contains(formula));
    (common && (2..=pieces::MOST_REGROUPED).contains(&more.len())).then_some(more)
}
