//! The times of every call, where they are asked for.
//!
//! A thread's times are a list beside its sequence of calls, in the same order: that of return. A
//! call has an *interval*, from the last return before it ([`Ends`]) to its start, and a *duration*.
//! Some thousand calls at a time are a block, encoded by [`refrain_timing`] and sealed.
//!
//! Blocks name calls by *ids*, in order of first appearance in this list ([`Ids`]), since the numbers
//! of signatures may be others when the trace has been merged.

use crate::cells::{Cells, put, put_list, put_unsigned};

/// The most calls of a block.
pub const BLOCK: usize = 16_384;

/// With lossy times, the start of every call whose index in its block is a multiple of this is stored exactly, so
/// errors add up over fewer calls than this.
pub const EXACT_EVERY: usize = 256;

/// How many calls before a block its decoding depends on.
pub const BEFORE: usize = 2;

/// Writes the starts that are stored exactly, after the start of the block.
pub fn put_starts(first: u64, starts: impl ExactSizeIterator<Item = u64>, out: &mut Vec<u8>) {
    let mut before = first;
    put_list(out, starts, |out, start| {
        // An outer call began before those inside of it.
        put(out, start.wrapping_sub(before) as i64);
        before = start;
    });
}

/// Ids for terminals, in order of first appearance.
#[derive(Clone, Debug, Default)]
pub struct Ids {
    /// By terminal, its id plus 1.
    ids: Vec<u32>,
    count: u32,
}

impl Ids {
    /// The id of a terminal.
    #[inline]
    pub fn id(&mut self, terminal: u32) -> u32 {
        match self.ids.get(terminal as usize) {
            Some(id) if *id > 0 => *id - 1,
            _ => self.new_id(terminal),
        }
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Writes them.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_list(out, self.ids.iter(), |out, id| put_unsigned(out, (*id).into()));
    }

    /// Reads them.
    pub fn get(cells: &mut Cells<'_>) -> Option<Ids> {
        let ids = cells.get_list(Cells::get_u32)?;
        let count = ids.iter().copied().max().unwrap_or(0);
        Some(Ids { ids, count })
    }

    #[cold]
    fn new_id(&mut self, terminal: u32) -> u32 {
        let index = terminal as usize;
        if self.ids.len() <= index {
            self.ids.resize(index + 1, 0);
        }
        self.count += 1;
        if let Some(id) = self.ids.get_mut(index) {
            *id = self.count;
        }
        self.count - 1
    }
}

/// When the calls of a thread ended: intervals are counted from there.
///
/// A call made inside another returns first, so it comes before the outer call in the list. The outer call began
/// earlier, so its interval counts from the last return that was not inside of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// By depth, the end of the last call at that depth; ends do not decrease with depth.
    ends: Vec<u64>,
}

/// Calls deeper than this count as calls at this depth.
const DEEPEST: u32 = 255;

impl Ends {
    /// When the interval before a call at that depth began; 0 if it is the first call.
    #[inline]
    pub fn before(&self, depth: u32) -> u64 {
        match depth {
            0 => self.ends.first().copied().unwrap_or(0),
            _ => {
                let index = depth.min(DEEPEST) as usize;
                self.ends.get(index).or(self.ends.last()).copied().unwrap_or(0)
            }
        }
    }

    /// Notes the return of a call at that depth.
    #[inline]
    pub fn note(&mut self, depth: u32, end: u64) {
        match (depth, self.ends.as_mut_slice()) {
            (0, [last]) => *last = end,
            _ => self.note_deep(depth.min(DEEPEST) as usize, end),
        }
    }

    /// Writes them.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_list(out, self.ends.iter(), |out, end| put_unsigned(out, *end));
    }

    /// Reads them.
    pub fn get(cells: &mut Cells<'_>) -> Option<Ends> {
        Some(Ends { ends: cells.get_list(Cells::get_unsigned)? })
    }

    #[cold]
    fn note_deep(&mut self, depth: usize, end: u64) {
        self.ends.truncate(depth);
        let outer = self.ends.last().copied().unwrap_or(0);
        self.ends.resize(depth, outer);
        self.ends.push(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_count_from_the_last_return_outside_of_the_call() {
        let mut ends = Ends::default();
        assert_eq!((ends.before(0), ends.before(3)), (0, 0));
        ends.note(0, 10);
        assert_eq!((ends.before(0), ends.before(1)), (10, 10));
        // Two calls inside one that began at 11 and ends at 40.
        ends.note(1, 15);
        ends.note(1, 20);
        assert_eq!((ends.before(0), ends.before(1), ends.before(2)), (10, 20, 20));
        ends.note(0, 40);
        assert_eq!((ends.before(0), ends.before(1)), (40, 40));
        // Deep at once.
        ends.note(3, 50);
        assert_eq!((ends.before(0), ends.before(2), ends.before(9)), (40, 40, 50));
    }

    #[test]
    fn ids_count_by_first_appearance() {
        let mut ids = Ids::default();
        let got: Vec<u32> = [7, 3, 7, 0, 3].into_iter().map(|terminal| ids.id(terminal)).collect();
        assert_eq!(got, [0, 1, 0, 2, 1]);
    }
}
