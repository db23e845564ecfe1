//! Outcomes: what MPI decided, stored separately from what the program asked for.
//!
//! The calls of a signature mostly have the same outcome, which is stored once. Where outcomes vary, the
//! distinct ones are a list, and the sequence is predicted: after an outcome comes the one that came
//! after it the last time. Only mispredictions are stored, as the number of hits before each and the
//! actual outcome. A deterministic program stores none; one with a random order stores about a byte per call.

use crate::cells::{self, Cells};
use std::borrow::Cow;

/// The outcome of a call that has not returned, if the program ignores its status. Otherwise it is empty.
pub const IGNORES_STATUS: i64 = 1;

/// Predicts the next outcome: the one that followed the current outcome the last time.
#[derive(Clone, Debug, Default)]
pub struct Predictor {
    /// The outcome before.
    pub last: u32,
    /// For each row, the row that followed it last.
    pub followers: Vec<u32>,
}

impl Predictor {
    /// The predicted outcome.
    #[inline]
    pub fn expected(&self) -> u32 {
        self.followers.get(self.last as usize).copied().unwrap_or(0)
    }

    /// Learns the actual outcome.
    #[inline]
    pub fn note(&mut self, row: u32) {
        let last = self.last as usize;
        if self.followers.len() <= last.max(row as usize) {
            let from = self.followers.len() as u32;
            self.followers.extend(from..=(last as u32).max(row));
        }
        if let Some(follower) = self.followers.get_mut(last) {
            *follower = row;
        }
        self.last = row;
    }
}

/// The outcomes of a signature, as stored in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredOutcomes {
    /// Distinct outcomes.
    pub rows: Vec<Vec<u8>>,
    /// Varints: hits before each miss.
    pub runs: Vec<u8>,
    /// Varints: the actual outcome at each miss.
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

    /// How often each row occurs in `calls` calls; `None` if the data is malformed.
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
            // After as many correct predictions as there are rows, the sequence is a cycle.
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
            // One round of the cycle is counted already.
            if let Some(hits) = &mut reader.hits {
                *hits -= (rounds - 1) * length;
            }
            left -= rows + rounds * length;
        }
        Some(counts)
    }
}

/// Makes [`StoredOutcomes`] of the outcomes of a signature, one call after the other.
#[derive(Clone, Debug, Default)]
pub struct OutcomeWriter {
    /// The predictor after the last call.
    pub predictor: Predictor,
    /// Correct predictions since the last miss.
    pub hits: u64,
    /// For each miss, the number of hits before it.
    pub runs: Vec<u8>,
    /// For each miss, the row of the actual outcome; a new outcome has the next row number.
    pub misses: Vec<u8>,
}

impl OutcomeWriter {
    /// Adds the outcome of the next call: which of the distinct outcomes it is.
    pub fn note(&mut self, row: u32) {
        if row == self.predictor.expected() {
            self.hits += 1;
        } else {
            cells::put_unsigned(&mut self.runs, self.hits);
            cells::put_unsigned(&mut self.misses, row.into());
            self.hits = 0;
        }
        self.predictor.note(row);
    }

    /// The outcomes so far; `rows` are the distinct ones.
    pub fn stored(&self, rows: Vec<Vec<u8>>) -> StoredOutcomes {
        StoredOutcomes { rows, runs: self.runs.clone(), misses: self.misses.clone() }
    }
}

/// Decodes the outcomes of a signature, one call after the other.
#[derive(Clone, Debug)]
pub struct OutcomeReader<'a> {
    rows: usize,
    runs: Varints<'a>,
    misses: Varints<'a>,
    predictor: Predictor,
    /// Hits until the next miss; `None` when no miss follows.
    hits: Option<u64>,
}

impl<'a> OutcomeReader<'a> {
    /// From the first call on.
    pub fn new(stored: &'a StoredOutcomes) -> OutcomeReader<'a> {
        OutcomeReader::of(stored.rows.len(), &stored.runs, &stored.misses)
    }

    /// From the parts of [`StoredOutcomes`], and the number of distinct outcomes.
    pub fn of(rows: usize, runs: &'a [u8], misses: &'a [u8]) -> OutcomeReader<'a> {
        OutcomeReader::from(rows, Cow::Borrowed(runs), Cow::Borrowed(misses))
    }

    /// From a copy of the stored outcomes.
    pub fn owned(stored: &StoredOutcomes) -> OutcomeReader<'static> {
        let (runs, misses) = (stored.runs.clone(), stored.misses.clone());
        OutcomeReader::from(stored.rows.len(), Cow::Owned(runs), Cow::Owned(misses))
    }

    fn from(rows: usize, runs: Cow<'a, [u8]>, misses: Cow<'a, [u8]>) -> OutcomeReader<'a> {
        let mut runs = Varints { bytes: runs, at: 0 };
        let hits = runs.next();
        let misses = Varints { bytes: misses, at: 0 };
        OutcomeReader { rows, runs, misses, predictor: Predictor::default(), hits }
    }

    /// Which of the distinct outcomes the next call has.
    pub fn next_row(&mut self) -> Option<usize> {
        let row = match &mut self.hits {
            Some(0) => {
                self.hits = self.runs.next();
                u32::try_from(self.misses.next()?).ok()?
            }
            Some(hits) => {
                *hits -= 1;
                self.predictor.expected()
            }
            None => self.predictor.expected(),
        };
        if row as usize >= self.rows {
            return None;
        }
        self.predictor.note(row);
        Some(row as usize)
    }
}

/// Borrowed or owned numbers, read one by one.
#[derive(Clone, Debug)]
struct Varints<'a> {
    bytes: Cow<'a, [u8]>,
    at: usize,
}

impl Varints<'_> {
    fn next(&mut self) -> Option<u64> {
        let mut cells = Cells::new(self.bytes.get(self.at..)?);
        let value = cells.get_unsigned();
        self.at = self.bytes.len() - cells.rest().len();
        value
    }
}

/// How many polls failed before each call of a signature that polls.
///
/// A test that fails and is repeated is one call with a count. The number of repetitions is arbitrary and
/// would prevent the grammar from finding loops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polls {
    /// The outcome of a poll that failed.
    pub failed: Vec<u8>,
    /// Calls since the last one with failed polls before it.
    quiet: u64,
    /// Varints, alternating: how many calls had no failed polls before them, then how many polls failed before the next call.
    counts: Vec<u8>,
}

impl Polls {
    /// Begins after `calls` calls without failed polls; failed polls have that outcome.
    pub fn new(failed: &[u8], calls: u64) -> Polls {
        Polls { failed: failed.to_vec(), quiet: calls, counts: Vec::new() }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.failed.capacity() + self.counts.capacity()
    }

    /// Counts the failed polls before the next call.
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

    /// Writes it so that counting can continue.
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

/// Decodes the counts.
#[derive(Clone, Debug)]
pub struct PollReader<'a> {
    counts: Varints<'a>,
    quiet: Option<u64>,
}

impl<'a> PollReader<'a> {
    /// From the first call on.
    pub fn new(polls: &'a Polls) -> PollReader<'a> {
        PollReader::of(Cow::Borrowed(&polls.counts))
    }

    /// From a copy of the counts.
    pub fn owned(polls: &Polls) -> PollReader<'static> {
        PollReader::of(Cow::Owned(polls.counts.clone()))
    }

    fn of(counts: Cow<'a, [u8]>) -> PollReader<'a> {
        let mut counts = Varints { bytes: counts, at: 0 };
        let quiet = counts.next();
        PollReader { counts, quiet }
    }

    /// How many polls failed before the next call.
    pub fn next_count(&mut self) -> u64 {
        match &mut self.quiet {
            Some(0) => {
                let count = self.counts.next().unwrap_or(0);
                self.quiet = self.counts.next();
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
