//! The head of a signature: its first cells.
//!
//! The first cell is `function << 3 | flags` (bit 0: the calls never returned, bit 1: a depth follows, bit 2: the
//! number of the call site's string follows). No other code reads or writes these bits.

use crate::cells::{Cells, put};
use crate::notes;

const UNFINISHED: i64 = 1;
const HAS_DEPTH: i64 = 2;
const HAS_SITE: i64 = 4;
const FLAG_BITS: u32 = 3;

/// The first cells of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Head {
    /// The function's number.
    pub function: u16,
    /// Whether its calls returned. One that did not was open when the trace ended, or was left by `longjmp`, an
    /// exception, or the end of its thread.
    pub returned: bool,
    /// Nesting depth of its calls: inside how many calls of the thread callbacks made them.
    pub depth: u32,
    /// The string of the call site.
    pub site: Option<u32>,
}

impl Head {
    /// The head of a note ([`notes`]).
    pub fn note(function: u16) -> Head {
        Head { function, returned: true, depth: 0, site: None }
    }

    /// Appends the cells.
    #[inline]
    pub fn put(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, flag: i64| if is_set { flag } else { 0 };
        let flags = flag(!self.returned, UNFINISHED)
            | flag(self.depth > 0, HAS_DEPTH)
            | flag(self.site.is_some(), HAS_SITE);
        put(out, i64::from(self.function) << FLAG_BITS | flags);
        if self.depth > 0 {
            put(out, self.depth.into());
        }
        if let Some(site) = self.site {
            put(out, site.into());
        }
    }

    /// Reads the cells; the arguments follow.
    pub fn read(cells: &mut Cells<'_>) -> Option<Head> {
        let first = cells.get()?;
        let mut number = |flag: i64| match first & flag {
            0 => Some(None),
            _ => cells.get().and_then(|number| u32::try_from(number).ok()).map(Some),
        };
        let depth = number(HAS_DEPTH)?.unwrap_or(0);
        let site = number(HAS_SITE)?;
        let function = u16::try_from(first >> FLAG_BITS).ok()?;
        Some(Head { function, returned: first & UNFINISHED == 0, depth, site })
    }

    /// How many cells it takes.
    pub fn cells(&self) -> usize {
        1 + usize::from(self.depth > 0) + usize::from(self.site.is_some())
    }

    /// Whether it is the head of a note, not of a call.
    pub fn is_note(&self) -> bool {
        self.function >= notes::FIRST
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heads_read_back_as_written(
            function: u16, returned: bool, depth: u32, site: Option<u32>, more: i64,
        ) {
            let head = Head { function, returned, depth, site };
            let mut bytes = Vec::new();
            head.put(&mut bytes);
            let cells = crate::cells::numbers(&bytes).unwrap();
            prop_assert_eq!(cells.len(), head.cells());
            put(&mut bytes, more);
            let mut cells = Cells::new(&bytes);
            prop_assert_eq!(Head::read(&mut cells), Some(head));
            prop_assert_eq!((cells.get(), cells.is_empty()), (Some(more), true));
        }
    }
}
