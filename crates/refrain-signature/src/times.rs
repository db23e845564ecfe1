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

/// Of every so manieth call of a block, the start is kept exactly, where times are not exact: errors add
/// up in between, and no further.
pub const EXACT_EVERY: usize = 256;

/// Calls before a block that its decoding may look at.
pub const BEFORE: usize = 2;

/// Writes starts that are kept exactly, behind that of the block.
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
        let place = terminal as usize;
        if self.ids.len() <= place {
            self.ids.resize(place + 1, 0);
        }
        self.count += 1;
        if let Some(id) = self.ids.get_mut(place) {
            *id = self.count;
        }
        self.count - 1
    }
}

/// When the calls of a thread ended, to count intervals from.
///
/// A call made inside another returns first, and so stands before it in the list. The outer call
/// began before that, so its interval counts from the last return outside of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// By depth, the end of the last call there; none is earlier than those before it.
    ends: Vec<u64>,
}

/// Calls deeper than this count as if they were not.
const DEEPEST: u32 = 255;

impl Ends {
    /// Where the interval of a call at that depth counts from: 0 if it is the first.
    #[inline]
    pub fn before(&self, depth: u32) -> u64 {
        match depth {
            0 => self.ends.first().copied().unwrap_or(0),
            _ => {
                let place = depth.min(DEEPEST) as usize;
                self.ends.get(place).or(self.ends.last()).copied().unwrap_or(0)
            }
        }
    }

    /// A call at that depth has returned.
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
