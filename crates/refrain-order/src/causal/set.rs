//! Several indices that completed at once, reported in ascending order.
//!
//! MPI libraries walk through the array, so the order within the call says nothing, and only the
//! set is coded: by places in the order of recency, where requests that wait longest are first.
//! For a pool of receives from any source, which complete in the order they were posted, these
//! are the first places, always.

use crate::coding::coder::Coder;
use crate::coding::number::Number;
use crate::coding::recency::Recency;
use crate::error::OrderError;

/// Steps from place to place are learnt separately by how many indices there are, ...
const SEVERAL: usize = 4;
/// ... and which of them this one is.
const WHICH: usize = 3;

/// An adaptive model of sets.
#[derive(Clone, Debug, Default)]
pub struct SetModel {
    /// How many indices never completed before.
    unknown: Number,
    steps: [[Number; WHICH]; SEVERAL],
    /// From one such index to the next.
    distance: Number,
    /// The places of the set at hand.
    places: Vec<usize>,
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
        let place = |index: &u32| recency.place(*index);
        let places = &mut self.places;
        places.clear();
        places.extend(given.iter().filter_map(place));
        places.sort_unstable();
        let unknown = self.unknown.code(coder, given.len().saturating_sub(places.len()) as u64);
        let unknown = usize::try_from(unknown).unwrap_or(usize::MAX);
        let known = several.checked_sub(unknown).ok_or(OrderError::OutOfRange("set"))?;
        let mut next = 0;
        for which in 0..known {
            let step = places.get(which).map_or(0, |place| place.saturating_sub(next));
            let model = &mut self.steps[(several - 2).min(SEVERAL - 1)][which.min(WHICH - 1)];
            let step = usize::try_from(model.code(coder, step as u64)).unwrap_or(usize::MAX);
            let place = next.saturating_add(step);
            let index = recency.at(place).ok_or(OrderError::OutOfRange("set"))?;
            picks.push(index);
            next = place + 1;
        }
        let mut last = 0u32;
        let mut new = given.iter().filter(|index| place(index).is_none());
        for _ in 0..unknown {
            let index = new.next().copied().unwrap_or(0);
            let distance = self.distance.code(coder, u64::from(index.wrapping_sub(last)));
            last = last.wrapping_add(distance as u32);
            picks.push(last);
        }
        if let Some(own) = picks.get_mut(from..) {
            own.sort_unstable();
        }
        Ok(())
    }
}
