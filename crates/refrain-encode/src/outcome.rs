//! Outcomes: what MPI decided, kept apart from what the program asked for.
//!
//! The calls of a signature mostly have the same outcome, which is kept once. Where outcomes
//! vary, the distinct ones are a list, and the sequence is predicted: what followed the last
//! outcome the time before follows it again. Only the misses are stored, as the number of hits
//! before each and the outcome that came instead. A program that is deterministic stores none;
//! one whose order is random stores about a byte for each call.

use crate::cells::{self, Cells};
use crate::hash::Map;

/// The outcomes of one signature, once two of them differed.
#[derive(Clone, Debug, Default)]
pub struct Varying {
    /// Distinct outcomes by first occurrence; the first is the signature's own.
    rows: Vec<Box<[u8]>>,
    numbers: Map<Box<[u8]>, u32>,
    predictor: Predictor,
    /// Right predictions since the last miss.
    hits: u64,
    /// For each miss the hits before it.
    runs: Vec<u8>,
    /// For each miss the outcome: a row's number; the next free one with a new row.
    misses: Vec<u8>,
}

/// What is expected next.
#[derive(Clone, Debug, Default)]
struct Predictor {
    last: u32,
    /// For each row the one that followed it last.
    followers: Vec<u32>,
}

impl Predictor {
    fn expected(&self) -> u32 {
        self.followers.get(self.last as usize).copied().unwrap_or(0)
    }

    fn note(&mut self, row: u32) {
        let last = self.last as usize;
        if self.followers.len() <= last.max(row as usize) {
            let from = self.followers.len() as u32;
            self.followers.extend(from..=(last as u32).max(row));
        }
        self.followers[last] = row;
        self.last = row;
    }
}

impl Varying {
    /// After `calls` calls with that outcome.
    pub fn new(first: &[u8], calls: u64) -> Varying {
        let mut varying = Varying::default();
        varying.row(first);
        varying.hits = calls;
        varying
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.rows.iter().map(|row| 2 * row.len() + 64).sum::<usize>()
            + self.runs.capacity()
            + self.misses.capacity()
    }

    fn row(&mut self, outcome: &[u8]) -> u32 {
        if let Some(row) = self.numbers.get(outcome) {
            return *row;
        }
        let row = self.rows.len() as u32;
        self.rows.push(outcome.into());
        self.numbers.insert(outcome.into(), row);
        row
    }

    /// The next call had that outcome.
    pub fn note(&mut self, outcome: &[u8]) {
        let row = self.row(outcome);
        if row == self.predictor.expected() {
            self.hits += 1;
        } else {
            cells::put_unsigned(&mut self.runs, self.hits);
            cells::put_unsigned(&mut self.misses, row.into());
            self.hits = 0;
        }
        self.predictor.note(row);
    }

    /// Writes it, to be gone on with.
    pub fn put(&self, out: &mut Vec<u8>) {
        self.stored().put(out);
        cells::put_unsigned(out, self.predictor.last.into());
        cells::put_list(out, self.predictor.followers.iter(), |out, row| {
            cells::put_unsigned(out, (*row).into());
        });
        cells::put_unsigned(out, self.hits);
    }

    /// Reads it.
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
        varying.predictor = Predictor { last, followers };
        varying.hits = cells.get_unsigned()?;
        (varying.runs, varying.misses) = (runs, misses);
        Some(varying)
    }

    /// What is stored.
    pub fn stored(&self) -> StoredOutcomes {
        StoredOutcomes {
            rows: self.rows.iter().map(|row| row.to_vec()).collect(),
            runs: self.runs.clone(),
            misses: self.misses.clone(),
        }
    }
}

/// Outcomes of a signature as a file holds them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredOutcomes {
    /// Distinct outcomes.
    pub rows: Vec<Vec<u8>>,
    /// Varints: hits before each miss.
    pub runs: Vec<u8>,
    /// Varints: what came instead.
    pub misses: Vec<u8>,
}

impl StoredOutcomes {
    /// Writes it.
    pub fn put(&self, out: &mut Vec<u8>) {
        cells::put_unsigned(out, self.rows.len() as u64);
        self.rows.iter().for_each(|row| cells::put_bytes(out, row));
        cells::put_bytes(out, &self.runs);
        cells::put_bytes(out, &self.misses);
    }

    /// Reads it.
    pub fn get(cells: &mut Cells<'_>) -> Option<StoredOutcomes> {
        let rows = cells.get_length()?;
        let rows = (0..rows).map(|_| cells.get_bytes().map(<[u8]>::to_vec));
        Some(StoredOutcomes {
            rows: rows.collect::<Option<_>>()?,
            runs: cells.get_bytes()?.to_vec(),
            misses: cells.get_bytes()?.to_vec(),
        })
    }

    /// How often a prediction missed.
    pub fn miss_count(&self) -> usize {
        self.runs.iter().filter(|byte| **byte < 0x80).count()
    }

    /// How often each row came in `calls` calls; `None` if the data makes no sense.
    pub fn counts(&self, calls: u64) -> Option<Vec<u64>> {
        let mut counts = vec![0; self.rows.len()];
        let rows = self.rows.len() as u64;
        let mut reader = OutcomeReader::new(self);
        let mut left = calls;
        while left > 0 {
            let certain = reader.hits.unwrap_or(left).min(left);
            if certain <= 3 * rows {
                *counts.get_mut(reader.next_row()?)? += 1;
                left -= 1;
                continue;
            }
            // After as many right predictions as there are rows, they go round in a circle.
            for _ in 0..rows {
                *counts.get_mut(reader.next_row()?)? += 1;
            }
            let (start, mut circle) = (reader.predictor.last as usize, Vec::new());
            while circle.last() != Some(&start) {
                circle.push(reader.next_row()?);
            }
            let length = circle.len() as u64;
            let rounds = (certain - rows) / length;
            for row in circle {
                *counts.get_mut(row)? += rounds;
            }
            // The first round has been gone.
            if let Some(hits) = &mut reader.hits {
                *hits -= (rounds - 1) * length;
            }
            left -= rows + rounds * length;
        }
        Some(counts)
    }
}

/// Gives the outcomes of a signature back, one call after the other.
#[derive(Clone, Debug)]
pub struct OutcomeReader<'a> {
    stored: &'a StoredOutcomes,
    runs: Cells<'a>,
    misses: Cells<'a>,
    predictor: Predictor,
    /// Hits until the next miss; `None` when no miss follows.
    hits: Option<u64>,
}

impl<'a> OutcomeReader<'a> {
    /// From the first call on.
    pub fn new(stored: &'a StoredOutcomes) -> OutcomeReader<'a> {
        let (mut runs, misses) = (Cells::new(&stored.runs), Cells::new(&stored.misses));
        let hits = runs.get_unsigned();
        OutcomeReader { stored, runs, misses, predictor: Predictor::default(), hits }
    }

    /// The row of the next call.
    pub fn next_row(&mut self) -> Option<usize> {
        let row = match &mut self.hits {
            Some(0) => {
                self.hits = self.runs.get_unsigned();
                u32::try_from(self.misses.get_unsigned()?).ok()?
            }
            Some(hits) => {
                *hits -= 1;
                self.predictor.expected()
            }
            None => self.predictor.expected(),
        };
        if row as usize >= self.stored.rows.len() {
            return None;
        }
        self.predictor.note(row);
        Some(row as usize)
    }

    /// The outcome of the next call.
    pub fn next_outcome(&mut self) -> Option<&'a [u8]> {
        let row = self.next_row()?;
        self.stored.rows.get(row).map(Vec::as_slice)
    }
}

/// How many polls failed before each call of a signature that polls.
///
/// A test that fails and is repeated is one call with a count, or the number of repetitions,
/// which means nothing, would spoil the grammar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polls {
    /// The outcome of a poll that failed.
    pub failed: Vec<u8>,
    /// Calls since the last one with failed polls before it.
    quiet: u64,
    /// Varints: calls without failed polls, then a number of them, and so on.
    counts: Vec<u8>,
}

impl Polls {
    /// After `calls` calls without failed polls; a failed one has that outcome.
    pub fn new(failed: &[u8], calls: u64) -> Polls {
        Polls { failed: failed.to_vec(), quiet: calls, counts: Vec::new() }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.failed.capacity() + self.counts.capacity()
    }

    /// The next call came after so many.
    pub fn note(&mut self, polls: u64) {
        if polls == 0 {
            self.quiet += 1;
        } else {
            cells::put_unsigned(&mut self.counts, self.quiet);
            cells::put_unsigned(&mut self.counts, polls);
            self.quiet = 0;
        }
    }

    /// Writes it.
    pub fn put(&self, out: &mut Vec<u8>) {
        cells::put_bytes(out, &self.failed);
        cells::put_bytes(out, &self.counts);
    }

    /// Reads it.
    pub fn get(cells: &mut Cells<'_>) -> Option<Polls> {
        let (failed, counts) = (cells.get_bytes()?.to_vec(), cells.get_bytes()?.to_vec());
        Some(Polls { failed, quiet: 0, counts })
    }

    /// Writes it, to be gone on with.
    pub fn put_whole(&self, out: &mut Vec<u8>) {
        self.put(out);
        cells::put_unsigned(out, self.quiet);
    }

    /// Reads it.
    pub fn get_whole(cells: &mut Cells<'_>) -> Option<Polls> {
        let polls = Polls::get(cells)?;
        Some(Polls { quiet: cells.get_unsigned()?, ..polls })
    }

    /// All failed polls.
    pub fn total(&self) -> u64 {
        let mut cells = Cells::new(&self.counts);
        let mut sum = 0u64;
        while let (Some(_), Some(polls)) = (cells.get_unsigned(), cells.get_unsigned()) {
            sum = sum.saturating_add(polls);
        }
        sum
    }
}

/// Gives the counts back.
#[derive(Clone, Debug)]
pub struct PollReader<'a> {
    cells: Cells<'a>,
    quiet: Option<u64>,
}

impl<'a> PollReader<'a> {
    /// From the first call on.
    pub fn new(polls: &'a Polls) -> PollReader<'a> {
        let mut cells = Cells::new(&polls.counts);
        let quiet = cells.get_unsigned();
        PollReader { cells, quiet }
    }

    /// How many polls failed before the next call.
    pub fn next_count(&mut self) -> u64 {
        match &mut self.quiet {
            Some(0) => {
                let count = self.cells.get_unsigned().unwrap_or(0);
                self.quiet = self.cells.get_unsigned();
                count
            }
            Some(quiet) => {
                *quiet -= 1;
                0
            }
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stored(outcomes: &[Vec<u8>]) -> StoredOutcomes {
        let mut varying = Varying::new(&outcomes[0], 1);
        outcomes[1..].iter().for_each(|outcome| varying.note(outcome));
        varying.stored()
    }

    #[test]
    fn outcomes_that_come_in_turns_are_predicted() {
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
                prop_assert_eq!(reader.next_outcome(), Some(outcome.as_slice()));
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
