//! The numbers of a list that differ between ids.
//!
//! The arguments of an MPI call, and the numbers of a memory trace, are lists of the same length on every
//! rank. Most of the numbers are equal on all ranks. [`Columns`] has the others; the owner of the list
//! stores the equal ones.

use crate::column::Column;
use crate::formula::Formula;
use crate::idlist::IdList;

/// The columns of those numbers of a list that differ between ids, by ascending index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns(Vec<(u32, Column)>);

/// One side of a [`Columns::merge`].
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The numbers. A number that has a column has an arbitrary value here.
    pub numbers: &'a [i64],
    /// The columns.
    pub columns: &'a Columns,
    /// The ids.
    pub ids: &'a IdList,
}

impl Columns {
    /// Columns with their indices, which must ascend: a column out of order is not found.
    pub fn new(columns: Vec<(u32, Column)>) -> Self {
        Self(columns)
    }

    /// Whether no number differs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers differ.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The columns with their indices.
    pub fn iter(&self) -> std::slice::Iter<'_, (u32, Column)> {
        self.0.iter()
    }

    /// The column of a number, if it differs between ids.
    pub fn get(&self, index: u32) -> Option<&Column> {
        let at = self.0.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        self.0.get(at).map(|(_, column)| column)
    }

    /// Replaces the numbers that differ by those of one id. `None` if a column lacks the id, or a number
    /// is missing.
    pub fn apply(&self, id: u32, numbers: &mut [i64]) -> Option<()> {
        for (index, column) in &self.0 {
            *numbers.get_mut(*index as usize)? = column.eval(id)?;
        }
        Some(())
    }

    /// The columns of two lists of the same length, over disjoint ids; `all` are the ids of both.
    pub fn merge(ours: Side<'_>, theirs: Side<'_>, all: &IdList) -> Self {
        let constant = |ids: &IdList, value: i64| Column::of(ids.clone(), Formula::Constant(value));
        let mut columns = Vec::new();
        for (index, (a, b)) in (0u32..).zip(ours.numbers.iter().zip(theirs.numbers)) {
            let (ours_is, theirs_is) = (ours.columns.get(index), theirs.columns.get(index));
            if ours_is.is_none() && theirs_is.is_none() && a == b {
                continue;
            }
            let ours_is = ours_is.cloned().unwrap_or_else(|| constant(ours.ids, *a));
            let theirs_is = theirs_is.cloned().unwrap_or_else(|| constant(theirs.ids, *b));
            columns.push((index, Column::merge_over(ours_is, theirs_is, all)));
        }
        Self(columns)
    }
}

impl<'a> IntoIterator for &'a Columns {
    type Item = &'a (u32, Column);
    type IntoIter = std::slice::Iter<'a, (u32, Column)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
