//! The signatures of a task, numbered by first occurrence.
//!
//! A signature has the function, the call site, the inputs and the outputs that follow from them,
//! as cells. Its number is the terminal in the task's grammar. Because numbers follow first
//! occurrence, two tasks with the same calls have the same numbers.

use crate::task::put_some;
use refrain_bytes::table;
use refrain_signature::cells::{Cells, numbers, put_bytes, put_unsigned};
use refrain_signature::stats::Stats;

/// A range of a table's bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    length: u32,
}

/// A signature and its state.
#[derive(Clone, Debug)]
pub struct Signature {
    cells: Span,
    /// The outcome of its first call.
    first: Span,
    hash: u32,
    /// The pool of the requests that it creates, or [`NONE`].
    pub pool: u32,
    /// Its index in [`Task::varying`](crate::task::Task::varying), or [`NONE`].
    pub varies: u32,
    /// Its index in [`Task::polls`](crate::task::Task::polls), or [`NONE`].
    pub polls: u32,
    /// How often it occurs in the task's sequence.
    pub emitted: u64,
    /// Number and durations of its calls.
    pub stats: Stats,
}

/// Means that there is no entry.
pub const NONE: u32 = u32::MAX;

/// All signatures of a task.
#[derive(Debug, Default)]
pub struct Signatures {
    all: Vec<Signature>,
    bytes: Vec<u8>,
    /// A hash table with open addressing: signature number plus 1, or 0 if free.
    index: Vec<u32>,
    /// The previous one, while its signatures are added to the new one: how many are. To add all at once would
    /// take milliseconds, during which the program waits.
    old: Vec<u32>,
    moved: usize,
}

/// How many signatures are added to a new index with each new signature.
const MOVED: usize = 8;

impl Signatures {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.all.capacity() * size_of::<Signature>()
            + self.bytes.capacity()
            + (self.index.len() + self.old.len()) * 4
    }

    /// The signature of that number.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Signature> {
        self.all.get_mut(number as usize)
    }

    /// The signature of that number.
    pub fn get(&self, number: u32) -> Option<&Signature> {
        self.all.get(number as usize)
    }

    /// The cells of a signature.
    #[inline]
    pub fn cells(&self, number: u32) -> &[u8] {
        self.all.get(number as usize).map_or(&[], |s| self.at(s.cells))
    }

    /// The outcome of its first call.
    #[inline]
    pub fn first_outcome(&self, number: u32) -> &[u8] {
        self.all.get(number as usize).map_or(&[], |s| self.at(s.first))
    }

    #[inline]
    fn at(&self, span: Span) -> &[u8] {
        self.bytes.get(span.start as usize..(span.start + span.length) as usize).unwrap_or(&[])
    }

    /// The number of the signature with these cells, and whether it is new; `outcome` becomes the
    /// first outcome of a new signature. `guess` is compared first. `None` if the table is full.
    #[inline]
    pub fn find(
        &mut self,
        cells: &[u8],
        outcome: &[u8],
        guess: Option<u32>,
    ) -> Option<(u32, bool)> {
        if let Some(guess) = guess
            && self.cells(guess) == cells
        {
            return Some((guess, false));
        }
        self.look_up(cells, outcome)
    }

    #[expect(clippy::indexing_slicing, reason = "`probe` returns an entry of the index")]
    fn look_up(&mut self, cells: &[u8], outcome: &[u8]) -> Option<(u32, bool)> {
        if self.all.len() * 4 >= self.index.len() * 3 {
            self.grow();
        }
        let hash = table::hash(cells) as u32;
        let free = match self.probe(&self.index, hash, cells) {
            Ok(number) => return Some((number, false)),
            Err(free) => free,
        };
        if !self.old.is_empty()
            && let Ok(number) = self.probe(&self.old, hash, cells)
        {
            return Some((number, false));
        }
        let number = u32::try_from(self.all.len()).ok().filter(|n| *n < NONE - 1)?;
        let cells = self.keep(cells)?;
        let first = self.keep(outcome)?;
        self.all.push(Signature {
            cells,
            first,
            hash,
            pool: NONE,
            varies: NONE,
            polls: NONE,
            emitted: 0,
            stats: Stats::default(),
        });
        self.index[free] = number + 1;
        if !self.old.is_empty() {
            self.move_some();
        }
        Some((number, true))
    }

    /// The signature with these cells, or the free entry of the index where it belongs.
    #[inline]
    #[expect(
        clippy::indexing_slicing,
        reason = "masked to the length, a power of two; the index holds numbers of signatures, and always a free entry"
    )]
    fn probe(&self, index: &[u32], hash: u32, cells: &[u8]) -> Result<u32, usize> {
        let mask = index.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let Some(number) = index[at].checked_sub(1) else { return Err(at) };
            if self.all[number as usize].hash == hash && self.cells(number) == cells {
                return Ok(number);
            }
            at = (at + 1) & mask;
        }
    }

    /// Writes some of them; see [`put_some`].
    pub fn put_some(&self, at: &mut usize, out: &mut Vec<u8>, enough: usize) -> bool {
        put_some(&self.all, at, out, enough, |out, s| {
            put_bytes(out, self.at(s.cells));
            put_bytes(out, self.at(s.first));
            for value in [s.pool, s.varies, s.polls] {
                // NONE, the most frequent value, becomes 0 and takes one byte.
                put_unsigned(out, value.wrapping_add(1).into());
            }
            put_unsigned(out, s.emitted);
            s.stats.put(out);
        })
    }

    /// Reads them.
    pub fn read(cells: &mut Cells<'_>) -> Option<Signatures> {
        let mut table = Signatures::default();
        for number in 0..cells.get_length()? {
            let (signature, outcome) = (cells.get_bytes()?, cells.get_bytes()?);
            // Later steps rely on well-formed cells.
            (numbers(signature).is_some() && numbers(outcome).is_some()).then_some(())?;
            let (found, true) = table.look_up(signature, outcome)? else { return None };
            if found as usize != number {
                return None;
            }
            let mut index = || Some(cells.get_u32()?.wrapping_sub(1));
            let (pool, varies, polls) = (index()?, index()?, index()?);
            let (emitted, stats) = (cells.get_unsigned()?, Stats::get(cells)?);
            let s = table.get_mut(found)?;
            (s.pool, s.varies, s.polls) = (pool, varies, polls);
            (s.emitted, s.stats) = (emitted, stats);
        }
        Some(table)
    }

    fn keep(&mut self, bytes: &[u8]) -> Option<Span> {
        let start = u32::try_from(self.bytes.len()).ok()?;
        let length = u32::try_from(bytes.len()).ok()?;
        start.checked_add(length)?;
        self.bytes.extend_from_slice(bytes);
        Some(Span { start, length })
    }

    /// Begins a larger index.
    #[cold]
    fn grow(&mut self) {
        let size = (self.index.len() * 2).max(256);
        self.old = std::mem::replace(&mut self.index, vec![0; size]);
        self.moved = 0;
    }

    /// Adds some signatures of the old index to the new one.
    #[cold]
    #[expect(clippy::indexing_slicing, reason = "masked to the length, a power of two")]
    fn move_some(&mut self) {
        let mask = self.index.len() - 1;
        // The index grows when it is three quarters full: those after that are in the new one only.
        let most = (self.old.len() / 4 * 3).min(self.all.len());
        let end = (self.moved + MOVED).min(most);
        for number in self.moved..end {
            let mut at = self.all[number].hash as usize & mask;
            while self.index[at] != 0 {
                at = (at + 1) & mask;
            }
            self.index[at] = number as u32 + 1;
        }
        self.moved = end;
        if end == most {
            self.old = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_numbered_by_first_occurrence() {
        let mut table = Signatures::default();
        for i in 0..10_000u32 {
            assert_eq!(table.find(&i.to_le_bytes(), &[], None), Some((i, true)));
        }
        for i in (0..10_000u32).rev() {
            assert_eq!(table.find(&i.to_le_bytes(), &[], Some(5)), Some((i, false)));
            assert_eq!(table.cells(i), i.to_le_bytes());
        }
    }
}
