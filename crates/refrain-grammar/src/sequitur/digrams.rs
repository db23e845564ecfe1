//! The index of digrams: the position of each pair of neighbouring symbols.
//!
//! Every structural step looks up, adds or removes a pair, so Sequitur's speed depends on this
//! table. It uses open addressing with linear probing. A slot holds the index of the pair's first
//! node and 32 bits of the pair's hash. The hash bits also give the slot's home, so probing, removing
//! and growing touch nodes only if the hashes agree.
//!
//! A table that is full gets a successor of twice its size, and each later addition moves a few slots to
//! it: to move all at once would take milliseconds, during which the program waits.

use super::nodes::{Id, Node};
use refrain_bytes::stable::GOLDEN;

/// A slot: the hash above the node, which is 0 in an empty slot. Node 0 is a guard and begins no digram.
/// A plain number, because fresh memory is full of such slots already.
type Slot = u64;

const EMPTY: Slot = 0;
const LEAST_BITS: u32 = 6;

/// How many slots are moved at a time, at least.
const MOVED: usize = 16;

fn slot(hash: u32, node: Id) -> Slot {
    u64::from(hash) << 32 | u64::from(node)
}

fn hash_of(slot: Slot) -> u32 {
    (slot >> 32) as u32
}

fn node_of(slot: Slot) -> Id {
    slot as Id
}

/// A hash table of some size.
#[derive(Clone, Debug, Default)]
struct Table {
    slots: Vec<Slot>,
    bits: u32,
}

/// Maps the hash of a digram to its only occurrence.
#[derive(Clone, Debug)]
pub(super) struct Digrams {
    table: Table,
    used: usize,
    /// The previous table, while its slots are being moved.
    old: Table,
    /// The next slot of it to be moved, and how many have been looked at. The slot before is empty.
    at: usize,
    seen: usize,
}

/// The hash of two neighbours with their repetition counts.
#[inline(always)]
pub(super) fn hash(left: &Node, right: &Node) -> u32 {
    let word = |node: &Node, salt: u64| {
        (u64::from(node.value) | (node.kind as u64) << 32)
            ^ node.count.wrapping_mul(0xd6e8_feb8_6659_fd93)
            ^ salt
    };
    let product = u128::from(word(left, GOLDEN)) * u128::from(word(right, 0xc2b2_ae3d_27d4_eb4f));
    let folded = (product as u64) ^ (product >> 64) as u64;
    (folded.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 32) as u32
}

impl Table {
    fn new(bits: u32) -> Table {
        Table { slots: vec![EMPTY; 1 << bits], bits }
    }

    #[inline(always)]
    fn home(&self, hash: u32) -> usize {
        (hash >> (u32::BITS - self.bits)) as usize
    }

    #[inline(always)]
    fn mask(&self) -> usize {
        self.slots.len().wrapping_sub(1)
    }

    /// The occurrence of a digram that `equal` accepts, or the index of the slot where it belongs.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "masked to the length, a power of two")]
    fn find(&self, hash: u32, equal: impl Fn(Id) -> bool) -> Result<Id, usize> {
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return Err(at);
            }
            if hash_of(slot) == hash && equal(node_of(slot)) {
                return Ok(node_of(slot));
            }
            at = (at + 1) & self.mask();
        }
    }

    /// Adds a slot that the table does not have.
    #[expect(clippy::indexing_slicing, reason = "masked to the length, a power of two")]
    fn add(&mut self, slot: Slot) {
        let mut at = self.home(hash_of(slot));
        while self.slots[at] != EMPTY {
            at = (at + 1) & self.mask();
        }
        self.slots[at] = slot;
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "masked to the length, a power of two")]
    fn position(&self, hash: u32, node: Id) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return None;
            }
            if node_of(slot) == node {
                return Some(at);
            }
            at = (at + 1) & self.mask();
        }
    }

    /// Empties a slot.
    #[expect(clippy::indexing_slicing, reason = "masked to the length, a power of two")]
    fn remove(&mut self, mut hole: usize) {
        // No tombstones: the following slots of the cluster move up, but not before their home.
        let mask = self.mask();
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot == EMPTY {
                break;
            }
            let from_home = at.wrapping_sub(self.home(hash_of(slot))) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
    }
}

impl Digrams {
    pub fn new() -> Digrams {
        let (table, old) = (Table::new(LEAST_BITS), Table::default());
        Digrams { table, used: 0, old, at: 0, seen: 0 }
    }

    /// Number of digrams.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        (self.table.slots.capacity() + self.old.slots.capacity()) * size_of::<Slot>()
    }

    /// The occurrence of a digram that `equal` accepts. If there is none, `node` is inserted.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "`find` returns an index of the table")]
    pub fn find_or_insert(
        &mut self,
        hash: u32,
        node: Id,
        equal: impl Fn(Id) -> bool,
    ) -> Option<Id> {
        let free = match self.table.find(hash, &equal) {
            Ok(found) => return Some(found),
            Err(free) => free,
        };
        if !self.old.slots.is_empty()
            && let Ok(found) = self.old.find(hash, equal)
        {
            return Some(found);
        }
        self.table.slots[free] = slot(hash, node);
        self.used += 1;
        if !self.old.slots.is_empty() {
            self.move_some();
        } else if self.used * 4 > self.table.slots.len() * 3 {
            self.grow();
        }
        None
    }

    /// Whether `node` is the occurrence of the digram with this hash.
    pub fn contains(&self, hash: u32, node: Id) -> bool {
        self.table.position(hash, node).is_some() || self.old.position(hash, node).is_some()
    }

    /// Removes the digram with this hash, if `node` is its occurrence.
    #[inline]
    pub fn remove(&mut self, hash: u32, node: Id) {
        if let Some(hole) = self.table.position(hash, node) {
            self.table.remove(hole);
        } else if let Some(hole) = self.old.position(hash, node) {
            self.old.remove(hole);
        } else {
            return;
        }
        self.used -= 1;
    }

    #[cold]
    fn grow(&mut self) {
        let new = Table::new(self.table.bits + 1);
        self.old = std::mem::replace(&mut self.table, new);
        // A quarter of the slots is empty.
        let empty = self.old.slots.iter().position(|slot| *slot == EMPTY).unwrap_or(0);
        (self.at, self.seen) = ((empty + 1) & self.old.mask(), 0);
    }

    /// Moves some slots of the old table: whole clusters, so that the others are still found.
    #[cold]
    #[expect(clippy::indexing_slicing, reason = "masked to the length, a power of two")]
    fn move_some(&mut self) {
        let (mask, mut moved) = (self.old.mask(), 0);
        while self.seen < self.old.slots.len() {
            let slot = std::mem::replace(&mut self.old.slots[self.at], EMPTY);
            (self.at, self.seen, moved) = ((self.at + 1) & mask, self.seen + 1, moved + 1);
            if slot != EMPTY {
                self.table.add(slot);
            } else if moved >= MOVED {
                return;
            }
        }
        self.old = Table::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_digrams_are_found_after_removals_from_a_crowded_table() {
        let mut digrams = Digrams::new();
        let hash = |node: Id| (node % 7) << 29 | node;
        for node in 1..=40 {
            assert_eq!(digrams.find_or_insert(hash(node), node, |other| other == node), None);
        }
        for node in (1..=40).step_by(3) {
            digrams.remove(hash(node), node);
        }
        for node in 1..=40 {
            assert_eq!(digrams.contains(hash(node), node), node % 3 != 1);
        }
        assert_eq!(digrams.len(), 26);
    }

    #[test]
    fn digrams_are_found_while_the_table_grows() {
        let mut digrams = Digrams::new();
        let hash = |node: Id| node.wrapping_mul(0x9e37_79b9) & 0xffff_0fff;
        for node in 1..=20_000 {
            assert_eq!(digrams.find_or_insert(hash(node), node, |other| other == node), None);
            let other = node.wrapping_mul(7919) % node + 1;
            assert_eq!(digrams.contains(hash(other), other), other % 5 != 0);
            if node % 5 == 0 {
                digrams.remove(hash(node), node);
            }
        }
        for node in 1..=20_000 {
            assert_eq!(digrams.contains(hash(node), node), node % 5 != 0);
            let found = digrams.find_or_insert(hash(node), node, |other| other == node);
            assert_eq!(found, (node % 5 != 0).then_some(node));
        }
        assert_eq!(digrams.len(), 20_000);
    }

    #[test]
    fn a_digram_with_another_occurrence_is_not_removed() {
        let mut digrams = Digrams::new();
        digrams.find_or_insert(5, 1, |_| false);
        digrams.remove(5, 2);
        assert!(digrams.contains(5, 1));
    }
}
