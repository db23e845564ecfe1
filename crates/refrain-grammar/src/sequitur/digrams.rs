//! The index of digrams: the position of each pair of neighbouring symbols.
//!
//! Every structural step looks up, adds or removes a pair, so Sequitur's speed depends on this
//! table. It uses open addressing with linear probing. A slot holds the index of the pair's first
//! node and 32 bits of the pair's hash. The hash bits also give the slot's home, so probing, removing
//! and growing touch nodes only if the hashes agree.

use super::nodes::{Id, Node};
use refrain_bytes::stable::GOLDEN;

/// A slot; node 0, which is a guard and begins no digram, marks an empty one.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u32,
    node: Id,
}

const EMPTY: Id = 0;
const LEAST_BITS: u32 = 6;

/// Maps the hash of a digram to its only occurrence.
#[derive(Clone, Debug)]
pub(super) struct Digrams {
    slots: Vec<Slot>,
    used: usize,
    bits: u32,
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

impl Digrams {
    pub fn new() -> Digrams {
        Digrams { slots: vec![Slot::default(); 1 << LEAST_BITS], used: 0, bits: LEAST_BITS }
    }

    /// Number of digrams.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    /// The occurrence of a digram that `equal` accepts. If there is none, `node` is inserted.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "masked to the length, a power of two")]
    pub fn find_or_insert(
        &mut self,
        hash: u32,
        node: Id,
        equal: impl Fn(Id) -> bool,
    ) -> Option<Id> {
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot.node == EMPTY {
                self.slots[at] = Slot { hash, node };
                self.used += 1;
                if self.used * 4 > self.slots.len() * 3 {
                    self.grow();
                }
                return None;
            }
            if slot.hash == hash && equal(slot.node) {
                return Some(slot.node);
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether `node` is the occurrence of the digram with this hash.
    pub fn contains(&self, hash: u32, node: Id) -> bool {
        self.position(hash, node).is_some()
    }

    /// Removes the digram with this hash, if `node` is its occurrence.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "masked to the length, a power of two")]
    pub fn remove(&mut self, hash: u32, node: Id) {
        let Some(mut hole) = self.position(hash, node) else { return };
        // No tombstones: the following slots of the cluster move up, but not before their home.
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.node == EMPTY {
                break;
            }
            let from_home = at.wrapping_sub(self.home(slot.hash)) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = Slot::default();
        self.used -= 1;
    }

    #[inline(always)]
    fn home(&self, hash: u32) -> usize {
        (hash >> (u32::BITS - self.bits)) as usize
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "masked to the length, a power of two")]
    fn position(&self, hash: u32, node: Id) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot.node == node {
                return Some(at);
            }
            if slot.node == EMPTY {
                return None;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    #[expect(clippy::indexing_slicing, reason = "masked to the length, a power of two")]
    fn grow(&mut self) {
        self.bits += 1;
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); 1 << self.bits]);
        let mask = self.slots.len() - 1;
        for slot in old.into_iter().filter(|slot| slot.node != EMPTY) {
            let mut at = self.home(slot.hash);
            while self.slots[at].node != EMPTY {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
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
    fn a_digram_with_another_occurrence_is_not_removed() {
        let mut digrams = Digrams::new();
        digrams.find_or_insert(5, 1, |_| false);
        digrams.remove(5, 2);
        assert!(digrams.contains(5, 1));
    }
}
