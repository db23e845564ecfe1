//! The elastic value: a number for each rank of a list, as formulas.
//!
//! A column has *pieces*, each with a list of ranks and a formula, and a formula for the *rest*, which
//! needs no list: on a grid, the border is a piece and the interior is the rest. Values that fit no
//! formula are a [`Table`], for the ranks of a piece or for all.

use std::fmt;

use crate::error::ElasticError;
use crate::formula::{Formula, TABLE_CODE};
use crate::idlist::IdList;
use crate::pieces;
use crate::single;
use crate::table::Table;
use refrain_bytes::varint;

/// How the values of some ranks are given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// By a formula.
    Formula(Formula),
    /// By a list of values.
    Table(Table),
}

/// Some of a column's ranks, and their values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The ranks.
    pub ranks: IdList,
    /// Their values.
    pub values: Form,
}

/// A number for each rank of a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    pub(crate) ranks: IdList,
    /// The first piece that contains a rank gives its value.
    pub(crate) pieces: Vec<Piece>,
    /// The values of the ranks that no piece contains; a table here has an entry for every rank of the column.
    pub(crate) rest: Form,
}

impl Default for Column {
    /// The column of no rank.
    fn default() -> Self {
        Self::of(IdList::default(), Formula::Constant(0))
    }
}

impl Column {
    /// The column of one formula for all `ranks`.
    pub fn of(ranks: IdList, formula: Formula) -> Self {
        Self { ranks, pieces: Vec::new(), rest: Form::Formula(formula) }
    }

    /// The column of one rank.
    pub fn single(rank: u32, value: i64) -> Self {
        Self::of(IdList::single(rank), Formula::Constant(value))
    }

    /// The shortest column found that gives each of the `ranks` its value.
    ///
    /// Ranks should ascend; if they do not, they are sorted first, and of several values for a
    /// rank the first counts. A rank without a value, or a value without a rank, is left out.
    pub fn fit(ranks: &[u32], values: &[i64]) -> Self {
        let count = ranks.len().min(values.len());
        let (ranks, values) = (ranks.get(..count), values.get(..count));
        let (ranks, values) = (ranks.unwrap_or_default(), values.unwrap_or_default());
        if ranks.is_sorted_by(|a, b| a < b) {
            return Self::fit_listed(IdList::from_sorted(ranks), ranks, values);
        }
        let mut pairs: Vec<(u32, i64)> =
            ranks.iter().copied().zip(values.iter().copied()).collect();
        pairs.sort_by_key(|&(rank, _)| rank);
        pairs.dedup_by_key(|&mut (rank, _)| rank);
        let (ranks, values): (Vec<u32>, Vec<i64>) = pairs.into_iter().unzip();
        Self::fit_listed(IdList::from_sorted(&ranks), &ranks, &values)
    }

    /// [`Column::fit`] for ranks that are a list already, with their values in ascending order of
    /// the ranks. Saves describing the ranks again for each of many columns.
    pub fn fit_over(ranks: &IdList, values: &[i64]) -> Self {
        let expanded = ranks.to_vec();
        if expanded.len() != values.len() {
            return Self::fit(&expanded, values);
        }
        Self::fit_listed(ranks.clone(), &expanded, values)
    }

    /// [`Column::fit`] for strictly ascending ranks, as many values, and their list.
    pub(crate) fn fit_listed(list: IdList, ranks: &[u32], values: &[i64]) -> Self {
        if ranks.is_empty() {
            return Self::default();
        }
        match single::line(ranks, values) {
            Some(line) => Self::of(list, line),
            None => pieces::fit(list, ranks, values),
        }
    }

    /// The ranks that have a value.
    pub fn ranks(&self) -> &IdList {
        &self.ranks
    }

    /// The pieces; the first that contains a rank gives its value.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The values of the ranks that no piece contains.
    pub fn rest(&self) -> &Form {
        &self.rest
    }

    /// The number of values in tables.
    pub fn held(&self) -> usize {
        let forms = self.pieces.iter().map(|piece| &piece.values).chain([&self.rest]);
        forms.map(|form| if let Form::Table(table) = form { table.values().len() } else { 0 }).sum()
    }

    /// Whether no rank has a value.
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// The formula, if one holds for all ranks.
    pub fn formula(&self) -> Option<&Formula> {
        match (&self.pieces[..], &self.rest) {
            ([], Form::Formula(formula)) => Some(formula),
            _ => None,
        }
    }

    /// The value of `rank`, if the column has one.
    pub fn eval(&self, rank: u32) -> Option<i64> {
        if !self.ranks.contains(rank) {
            return None;
        }
        let piece = self.pieces.iter().find(|piece| piece.ranks.contains(rank));
        let (ranks, values) =
            piece.map_or((&self.ranks, &self.rest), |piece| (&piece.ranks, &piece.values));
        match values {
            Form::Formula(formula) => Some(formula.eval(rank)),
            Form::Table(table) => table.values().get(ranks.position(rank)?).copied(),
        }
    }

    /// The value of each of the `ranks`; 0 for ranks that have none.
    pub fn values(&self, ranks: &[u32]) -> Vec<i64> {
        ranks.iter().map(|&rank| self.eval(rank).unwrap_or(0)).collect()
    }

    /// All ranks, ascending, and their values. Faster than [`Column::eval`] for each.
    pub fn expand(&self) -> (Vec<u32>, Vec<i64>) {
        let ranks = self.ranks.to_vec();
        let mut values: Vec<i64> = match &self.rest {
            Form::Formula(formula) => ranks.iter().map(|&rank| formula.eval(rank)).collect(),
            Form::Table(table) => table.values().to_vec(),
        };
        values.resize(ranks.len(), 0);
        for piece in self.pieces.iter().rev() {
            let mut at = 0;
            for (i, rank) in piece.ranks.iter().enumerate() {
                at += ranks.get(at..).unwrap_or_default().partition_point_near(rank);
                let found = ranks.get(at).filter(|&&r| r == rank);
                let Some(slot) = found.and_then(|_| values.get_mut(at)) else {
                    continue;
                };
                *slot = match &piece.values {
                    Form::Formula(formula) => formula.eval(rank),
                    Form::Table(table) => table.values().get(i).copied().unwrap_or(0),
                };
            }
        }
        (ranks, values)
    }

    /// Appends the ranks and the values.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.ranks.encode(out);
        self.encode_values(out);
    }

    /// Appends the values only; [`Column::decode_values`] needs the ranks.
    pub fn encode_values(&self, out: &mut Vec<u8>) {
        encode_body(&self.ranks, &self.pieces, &self.rest, out);
    }

    /// The number of bytes that [`Column::encode_values`] appends.
    pub(crate) fn values_size(&self) -> usize {
        let mut bytes = Vec::new();
        self.encode_values(&mut bytes);
        bytes.len()
    }

    /// Reads a column whose ranks must all be below `most`.
    ///
    /// Formulas take memory in proportion to the input. A table takes eight bytes per rank, however
    /// short its encoding is, so a column takes at most sixteen bytes per rank. Callers that read many
    /// columns of untrusted input should bound `most`.
    pub fn decode(input: &mut &[u8], most: u32) -> Result<Self, ElasticError> {
        let ranks = IdList::decode(input, most)?;
        Self::decode_values(input, &ranks)
    }

    /// Reads the values of a column of these ranks, as [`Column::encode_values`] wrote them.
    pub fn decode_values(input: &mut &[u8], ranks: &IdList) -> Result<Self, ElasticError> {
        let head = varint::take(input)?;
        let most = ranks.last().map_or(0, |last| last.saturating_add(1));
        let mut pieces = Vec::new();
        let mut left = ranks.len();
        for _ in 0..head >> 4 {
            let list = IdList::decode(input, most)?;
            left = left
                .checked_sub(list.len())
                .filter(|_| !list.is_empty())
                .ok_or(ElasticError::OutOfRange("piece"))?;
            let code = varint::take_byte(input)?;
            let values = Form::decode(input, code, &list)?;
            pieces.push(Piece { ranks: list, values });
        }
        let rest = Form::decode(input, (head & 15) as u8, ranks)?;
        Ok(Self { ranks: ranks.clone(), pieces, rest })
    }
}

/// Appends pieces and rest of a column of `ranks`: the number of pieces with the code of the rest
/// in its low four bits, then each piece, then the rest.
pub(crate) fn encode_body(ranks: &IdList, pieces: &[Piece], rest: &Form, out: &mut Vec<u8>) {
    varint::put(out, (pieces.len() as u64) << 4 | u64::from(rest.code()));
    for piece in pieces {
        piece.ranks.encode(out);
        out.push(piece.values.code());
        piece.values.encode(&piece.ranks, out);
    }
    rest.encode(ranks, out);
}

impl Form {
    fn code(&self) -> u8 {
        match self {
            Self::Formula(formula) => formula.code(),
            Self::Table(_) => TABLE_CODE,
        }
    }

    fn encode(&self, ranks: &IdList, out: &mut Vec<u8>) {
        match self {
            Self::Formula(formula) => formula.encode_numbers(out),
            Self::Table(table) => table.encode(ranks, out),
        }
    }

    fn decode(input: &mut &[u8], code: u8, ranks: &IdList) -> Result<Self, ElasticError> {
        match code {
            TABLE_CODE => Table::decode(input, ranks).map(Self::Table),
            _ => Formula::decode_numbers(input, code).map(Self::Formula),
        }
    }
}

/// Search in a sorted slice for an element that is usually near the beginning.
trait Near {
    /// The number of elements smaller than `rank`, in time logarithmic in the result.
    fn partition_point_near(&self, rank: u32) -> usize;
}

impl Near for [u32] {
    fn partition_point_near(&self, rank: u32) -> usize {
        let mut end = 1;
        while end < self.len() && self.get(end - 1).is_some_and(|r| *r < rank) {
            end *= 2;
        }
        let end = end.min(self.len());
        self.get(..end).unwrap_or_default().partition_point(|&r| r < rank)
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Formula(formula) => formula.fmt(f),
            Self::Table(table) => write!(f, "a table of {} values", table.values().len()),
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            write!(f, "{}: {}; ", piece.ranks, piece.values)?;
        }
        if !self.pieces.is_empty() {
            f.write_str("else ")?;
        }
        self.rest.fmt(f)
    }
}
