//! Compares the memory segments of the records with those of the trace.
//!
//! A trace names a segment by a thread and a number. While a segment lives, no other segment has its
//! name, and an address in it equals its anchor plus the offset.

use std::collections::{BTreeMap, HashMap};

/// A segment's name: the thread that used it first, and a number.
pub type Name = (u32, u32);

#[derive(Clone, Copy, Debug)]
struct Segment {
    end: u64,
    anchor: u64,
    name: Option<Name>,
}

/// The live segments of a process.
#[derive(Debug, Default)]
pub struct Memory {
    live: BTreeMap<u64, Segment>,
    named: HashMap<Name, u64>,
}

impl Memory {
    /// A record announces a segment. A known segment stays; overlapping ones are removed.
    pub fn announce(&mut self, base: u64, bytes: u64, anchor: u64) {
        let end = base.saturating_add(bytes.max(1));
        if self.live.get(&base).is_some_and(|s| (s.end, s.anchor) == (end, anchor)) {
            return;
        }
        let below = self.live.range(..=base).next_back().filter(|(_, s)| s.end > base);
        let above = self.live.range(base.saturating_add(1)..end.max(base.saturating_add(1)));
        let gone: Vec<u64> = below.into_iter().chain(above).map(|(base, _)| *base).collect();
        gone.into_iter().for_each(|base| self.release(base));
        self.live.insert(base, Segment { end, anchor, name: None });
    }

    /// A record says that a segment was freed.
    pub fn release(&mut self, base: u64) {
        if let Some(Segment { name: Some(name), .. }) = self.live.remove(&base) {
            self.named.remove(&name);
        }
    }

    /// The offset of an address in its segment.
    pub fn offset(&self, address: u64) -> Option<i64> {
        let (_, segment) = self.live.range(..=address).next_back()?;
        (address <= segment.end).then(|| address.wrapping_sub(segment.anchor) as i64)
    }

    /// Checks that an address has this name and offset; the error describes what it should be.
    pub fn check(&mut self, address: u64, name: Name, offset: i64) -> Result<(), String> {
        let found = self.live.range_mut(..=address).next_back();
        let Some((base, segment)) = found.filter(|(_, s)| address <= s.end) else {
            return Err(format!("{address:#x}, in no segment"));
        };
        let expected = address.wrapping_sub(segment.anchor) as i64;
        if offset != expected {
            return Err(format!("{address:#x}, {expected:+} in its segment"));
        }
        match segment.name {
            Some(known) if known == name => Ok(()),
            Some((thread, number)) => {
                Err(format!("{address:#x}, in segment {number} of thread {thread}"))
            }
            None => match self.named.get(&name) {
                Some(other) => {
                    Err(format!("{address:#x}, in another segment than that at {other:#x}"))
                }
                None => {
                    segment.name = Some(name);
                    self.named.insert(name, *base);
                    Ok(())
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_segment_while_it_lives() {
        let mut memory = Memory::default();
        memory.announce(0x1000, 0x100, 0x1000);
        memory.announce(0x2000, 0x100, 0x2080);
        assert_eq!(memory.check(0x1010, (0, 1), 0x10), Ok(()));
        assert_eq!(memory.check(0x2000, (0, 2), -0x80), Ok(()));
        assert!(memory.check(0x1010, (0, 1), 0x11).is_err(), "another offset");
        assert!(memory.check(0x1010, (0, 3), 0x10).is_err(), "another name");
        assert!(memory.check(0x3000, (0, 3), 0).is_err(), "no segment");
        memory.announce(0x1000, 0x100, 0x1000);
        assert!(memory.check(0x1010, (0, 3), 0x10).is_err(), "it is the same still");
        memory.release(0x1000);
        memory.announce(0x5000, 1, 0x5000);
        assert_eq!(memory.check(0x5001, (0, 1), 1), Ok(()), "the name is free again");
        memory.announce(0x2050, 0x10, 0x2050);
        assert!(memory.check(0x2000, (0, 2), -0x80).is_err(), "another lies over it");
    }
}
