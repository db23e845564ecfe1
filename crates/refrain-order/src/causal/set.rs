//! The model of several indices that completed at once, reported in ascending order.
//!
//! MPI libraries walk through the array, so the order within the call carries no information, and only the set is
//! coded: by ranks in the order of recency, in which the requests that have waited longest are first. In a pool of
//! wildcard receives, which complete in posting order, these are always the first ranks.

use crate::coding::coder::Coder;
use crate::coding::number::Number;
use crate::coding::recency::Recency;
use crate::error::OrderError;

/// Steps from rank to rank are learnt separately by the number of indices ...
const SEVERAL: usize = 4;
/// ... and by the position of the index among them.
const WHICH: usize = 3;

/// An adaptive model of sets.
#[derive(Clone, Debug, Default)]
pub struct SetModel {
    /// How many indices never completed before.
    unknown: Number,
    steps: [[Number; WHICH]; SEVERAL],
    /// The distance from one such index to the next.
    distance: Number,
    /// The ranks of the current set.
    ranks: Vec<usize>,
}

impl SetModel {
    /// Codes `several` ascending indices, and appends them to `picks`.
    #[expect(
        clippy::indexing_slicing,
        reason = "each index is limited to its length; a set has two elements or more"
    )]
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        recency: &Recency,
        several: usize,
        given: &[u32],
        picks: &mut Vec<u32>,
    ) -> Result<(), OrderError> {
        let from = picks.len();
        let rank = |index: &u32| recency.rank(*index);
        let ranks = &mut self.ranks;
        ranks.clear();
        ranks.extend(given.iter().filter_map(rank));
        ranks.sort_unstable();
        let unknown = self.unknown.code(coder, given.len().saturating_sub(ranks.len()) as u64);
        let unknown = usize::try_from(unknown).unwrap_or(usize::MAX);
        let known = several.checked_sub(unknown).ok_or(OrderError::OutOfRange("set"))?;
        let mut next = 0;
        for which in 0..known {
            let step = ranks.get(which).map_or(0, |rank| rank.saturating_sub(next));
            let model = &mut self.steps[(several - 2).min(SEVERAL - 1)][which.min(WHICH - 1)];
            let step = usize::try_from(model.code(coder, step as u64)).unwrap_or(usize::MAX);
            let rank = next.saturating_add(step);
            let index = recency.at(rank).ok_or(OrderError::OutOfRange("set"))?;
            picks.push(index);
            next = rank + 1;
        }
        let mut last = 0u32;
        let mut new = given.iter().filter(|index| rank(index).is_none());
        for _ in 0..unknown {
            let index = new.next().copied().unwrap_or(0);
            let distance = self.distance.code(coder, u64::from(index.wrapping_sub(last)));
            last = last.wrapping_add(distance as u32);
            picks.push(last);
        }
        if let Some(coded) = picks.get_mut(from..) {
            coded.sort_unstable();
        }
        Ok(())
    }
}
