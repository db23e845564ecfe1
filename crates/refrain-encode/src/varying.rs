//! The outcomes of a signature while they are recorded; [`refrain_signature::outcome`] defines how they are stored.

use refrain_bytes::table::Map;
use refrain_signature::cells::{self, Cells};
use refrain_signature::outcome::{OutcomeWriter, Predictor, StoredOutcomes};

/// The outcomes of a signature that has had at least two different ones.
#[derive(Clone, Debug, Default)]
pub struct Varying {
    /// Distinct outcomes in the order of their first occurrence; the first is that of the signature's
    /// first call.
    rows: Vec<Box<[u8]>>,
    numbers: Map<Box<[u8]>, u32>,
    /// What they take, approximately.
    rows_memory: usize,
    sequence: OutcomeWriter,
}

impl Varying {
    /// The state after `calls` calls that all had the outcome `first`.
    pub fn new(first: &[u8], calls: u64) -> Varying {
        let mut varying = Varying::default();
        varying.row(first);
        varying.sequence.hits = calls;
        varying
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let OutcomeWriter { runs, misses, .. } = &self.sequence;
        self.rows_memory + runs.capacity() + misses.capacity()
    }

    fn row(&mut self, outcome: &[u8]) -> u32 {
        if let Some(row) = self.numbers.get(outcome) {
            return *row;
        }
        let row = self.rows.len() as u32;
        self.rows.push(outcome.into());
        self.rows_memory += 2 * outcome.len() + 64;
        self.numbers.insert(outcome.into(), row);
        row
    }

    /// Adds the outcome of the next call.
    pub fn note(&mut self, outcome: &[u8]) {
        let row = self.row(outcome);
        self.sequence.note(row);
    }

    /// Writes the state, so that recording can continue from it.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.stored().put(out);
        let OutcomeWriter { predictor, hits, .. } = &self.sequence;
        cells::put_unsigned(out, predictor.last.into());
        cells::put_list(out, predictor.followers.iter(), |out, row| {
            cells::put_unsigned(out, (*row).into());
        });
        cells::put_unsigned(out, *hits);
    }

    /// Reads the state that [`Varying::put`] wrote.
    pub fn get(cells: &mut Cells<'_>) -> Option<Varying> {
        let StoredOutcomes { rows, runs, misses } = StoredOutcomes::get(cells)?;
        let mut varying = Varying::default();
        rows.iter().for_each(|row| {
            varying.row(row);
        });
        let last = cells.get_u32()?;
        let followers = cells.get_list(Cells::get_u32)?;
        let is_row = |row: &u32| (*row as usize) < rows.len();
        if followers.len() > rows.len() || ![last].iter().chain(&followers).all(is_row) {
            return None;
        }
        let predictor = Predictor { last, followers };
        let hits = cells.get_unsigned()?;
        varying.sequence = OutcomeWriter { predictor, hits, runs, misses };
        Some(varying)
    }

    /// The outcomes as a trace stores them.
    pub fn stored(&self) -> StoredOutcomes {
        self.sequence.stored(self.rows.iter().map(|row| row.to_vec()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use refrain_signature::outcome::{OutcomeReader, PollReader, Polls};

    fn stored(outcomes: &[Vec<u8>]) -> StoredOutcomes {
        let mut varying = Varying::new(&outcomes[0], 1);
        outcomes[1..].iter().for_each(|outcome| varying.note(outcome));
        varying.stored()
    }

    #[test]
    fn outcomes_in_cyclic_order_are_predicted() {
        let turns: Vec<Vec<u8>> = (0..10_000).map(|i| vec![(i % 5) as u8]).collect();
        assert!(stored(&turns).miss_count() <= 6);
    }

    proptest! {
        #[test]
        fn outcomes_read_back_as_noted(
            numbers in proptest::collection::vec(0u8..5, 1..200), same in 0usize..50,
        ) {
            let mut outcomes = vec![vec![numbers[0]]; same];
            outcomes.extend(numbers.iter().map(|n| vec![*n]));
            let stored = stored(&outcomes);
            let mut bytes = Vec::new();
            stored.put(&mut bytes);
            let again = StoredOutcomes::get(&mut Cells::new(&bytes)).unwrap();
            prop_assert_eq!(&again, &stored);
            let mut reader = OutcomeReader::new(&again);
            for outcome in &outcomes {
                let row = reader.next_row().and_then(|row| again.rows.get(row));
                prop_assert_eq!(row, Some(outcome));
            }
            let counts = again.counts(outcomes.len() as u64).unwrap();
            for (row, count) in again.rows.iter().zip(counts) {
                prop_assert_eq!(outcomes.iter().filter(|o| *o == row).count() as u64, count);
            }
        }

        #[test]
        fn polls_read_back_as_noted(counts in proptest::collection::vec(0u64..4, 0..100)) {
            let mut polls = Polls::new(&[1], 2);
            counts.iter().for_each(|n| polls.note(*n));
            let mut reader = PollReader::new(&polls);
            prop_assert_eq!((reader.next_count(), reader.next_count()), (0, 0));
            for n in &counts {
                prop_assert_eq!(reader.next_count(), *n);
            }
            prop_assert_eq!(polls.total(), counts.iter().sum::<u64>());
        }
    }
}
