//! One execution of a shape: an element of the compressor's stack.

use std::sync::Arc;

use crate::series::Series;
use crate::shape::{Node, Shape};
use crate::shapes::ShapeId;

/// Nests that executed no more blocks than this are also stored block by block: a shape may not be worth its
/// bytes.
pub const SMALL: u64 = 24;

/// One execution of a shape.
#[derive(Clone, Debug)]
pub struct Item {
    /// The number of the shape.
    pub id: ShapeId,
    /// The shape.
    pub shape: Arc<Shape>,
    /// The values of the shape's slots; empty for a single block, whose values are in the journal.
    pub series: Vec<Series>,
    /// How many blocks were executed.
    pub executed: u64,
    /// How many times loops were begun, including those with no iteration.
    pub entered: u64,
    /// For each executed block, its number and its logical addresses; complete while the item is small.
    pub journal: Vec<u64>,
    /// Whether it ended inside an inner loop, after [`Item::steps`] steps.
    pub cut: bool,
}

impl Item {
    /// Whether it executed so little that it is stored block by block.
    pub fn is_small(&self) -> bool {
        self.executed <= SMALL
    }

    /// How many steps it took: blocks executed and loops begun.
    pub fn steps(&self) -> u64 {
        self.executed + self.entered
    }

    /// Whether it is a single block.
    pub fn is_block(&self) -> bool {
        matches!(self.shape.node, Node::Block(_))
    }

    /// Whether this and `next`, which has the same shape, may become iterations of a loop.
    pub fn folds_with(&self, next: &Self) -> bool {
        self.id == next.id
            && !self.cut
            && !next.cut
            && self.series.iter().zip(&next.series).all(|(series, more)| series.can_append(more))
    }

    /// The values of the slots, whatever the shape.
    fn into_series(self) -> Vec<Series> {
        match self.is_block() {
            true => self.journal.iter().skip(1).map(|&logical| Series::of(logical)).collect(),
            false => self.series,
        }
    }

    /// Appends to `all` the values of two iterations of a loop. Returns whether that was possible.
    pub fn fold_into(self, next: Self, all: &mut Vec<Series>) -> bool {
        let mut series = self.into_series();
        let next = next.into_series();
        let done = series.iter_mut().zip(&next).fold(true, |all, (s, n)| s.fold(n) && all);
        all.append(&mut series);
        done
    }

    /// How many runs it holds.
    pub fn runs(&self) -> usize {
        self.series.iter().map(Series::runs).sum()
    }
}
