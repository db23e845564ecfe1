//! A list of cells over ranks. Lists of the same length are stored once, with a column for each cell
//! that differs between ranks.
//!
//! If lengths differ (an array with one element per neighbour, for example), there is one *variant*
//! per length, with its ranks.

use refrain_elastic::columns::{Columns, Side};
use refrain_elastic::{Column, RankList};
use refrain_signature::cells;
use std::borrow::Cow;

/// The lists of some ranks, all of the same length.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The ranks; `None` if there is only one variant, which covers all ranks.
    pub ranks: Option<RankList>,
    /// The cells. A cell that has a column has an arbitrary value here.
    pub cells: Vec<u8>,
    /// The cells that differ between ranks.
    pub columns: Columns,
}

/// A list of cells over ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct Elastic {
    /// One variant per length.
    pub variants: Vec<Variant>,
}

/// The number of cells in a list: the last byte of each cell is below 0x80.
fn length(cells: &[u8]) -> usize {
    cells.iter().filter(|byte| **byte < 0x80).count()
}

impl Variant {
    /// The list of a rank, as numbers.
    pub fn numbers(&self, rank: u32) -> Option<Vec<i64>> {
        let mut numbers = cells::numbers(&self.cells)?;
        self.columns.apply(rank, &mut numbers)?;
        Some(numbers)
    }

    /// The column of the cell with that index, if ranks differ in it.
    pub fn column(&self, index: u32) -> Option<&Column> {
        self.columns.get(index)
    }

    /// Merges another variant of the same length. `mine` are the ranks of this one, `theirs` those of
    /// the other, `all` their union.
    fn absorb(&mut self, other: Variant, mine: &RankList, theirs: &RankList, all: &RankList) {
        if self.cells == other.cells && self.columns.is_empty() && other.columns.is_empty() {
            return;
        }
        let numbers = |v: &Variant| cells::numbers(&v.cells).unwrap_or_default();
        let (ours, others) = (numbers(self), numbers(&other));
        let ours = Side { numbers: &ours, columns: &self.columns, ids: mine };
        let others = Side { numbers: &others, columns: &other.columns, ids: theirs };
        self.columns = Columns::merge(ours, others, all);
    }
}

impl Elastic {
    /// The list of a single rank.
    pub fn single(cells: Vec<u8>) -> Elastic {
        Elastic { variants: vec![Variant { ranks: None, cells, columns: Columns::default() }] }
    }

    /// The variant of a rank.
    pub fn variant(&self, rank: u32) -> Option<&Variant> {
        let mut all = self.variants.iter();
        all.find(|v| v.ranks.as_ref().is_none_or(|ranks| ranks.contains(rank)))
    }

    /// The list of a rank, as bytes.
    pub fn cells(&self, rank: u32) -> Option<Cow<'_, [u8]>> {
        let variant = self.variant(rank)?;
        if variant.columns.is_empty() {
            return Some(Cow::Borrowed(&variant.cells));
        }
        let mut out = Vec::with_capacity(variant.cells.len());
        variant.numbers(rank)?.into_iter().for_each(|n| cells::put(&mut out, n));
        Some(Cow::Owned(out))
    }

    /// The list, if it is the same for all ranks.
    pub fn constant(&self) -> Option<&[u8]> {
        match self.variants.as_slice() {
            [Variant { cells, columns, .. }] if columns.is_empty() => Some(cells),
            _ => None,
        }
    }

    /// Merges the lists of other ranks.
    pub fn absorb(&mut self, other: Elastic, mine: &RankList, theirs: &RankList, all: &RankList) {
        if let ([ours], [others]) = (self.variants.as_mut_slice(), other.variants.as_slice())
            && (ours.cells == others.cells || length(&ours.cells) == length(&others.cells))
        {
            if let Some(others) = other.variants.into_iter().next() {
                ours.absorb(others, mine, theirs, all);
            }
            return;
        }
        for variant in &mut self.variants {
            variant.ranks.get_or_insert_with(|| mine.clone());
        }
        for mut variant in other.variants {
            let ranks = variant.ranks.take().unwrap_or_else(|| theirs.clone());
            let same = |v: &&mut Variant| length(&v.cells) == length(&variant.cells);
            match self.variants.iter_mut().find(same) {
                Some(ours) => {
                    let before = ours.ranks.take().unwrap_or_else(|| mine.clone());
                    let both = before.union(&ranks);
                    ours.absorb(variant, &before, &ranks, &both);
                    ours.ranks = Some(both);
                }
                None => {
                    variant.ranks = Some(ranks);
                    self.variants.push(variant);
                }
            }
        }
    }
}
