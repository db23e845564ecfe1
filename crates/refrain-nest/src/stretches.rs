//! Where a list of keys has ended in the same way before.
//!
//! Two stretches of at least two nodes that are alike end with the same two keys. So positions are indexed by pairs of keys:
//! in a sequence without structure hardly a pair occurs twice, and a search for repetitions ends at once.

use crate::folded::mix;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// The base of the hash of stretches.
pub(crate) const BASE: u64 = 0x0100_0000_01b3_9e3d;

/// The keys of a list, hashed, and where each pair of keys is.
#[derive(Debug)]
pub(crate) struct Stretches {
    keys: Vec<u64>,
    /// For each position, the hash of all keys before it.
    hashes: Vec<u64>,
    /// For each loop of the list: the number of nodes of its body, and the hash of their keys. No nodes for others.
    bodies: Vec<(u32, u64)>,
    /// The powers of the base.
    powers: Vec<u64>,
    /// The pairs of all positions, ascending. A loop has two: that of its key, and that of the end of its body.
    entries: Vec<Entry>,
    /// The last entry of each pair.
    last: KeyMap<u32>,
}

/// A map from keys.
pub(crate) type KeyMap<T> = HashMap<u64, T, BuildHasherDefault<Mixed>>;
/// A set of keys.
pub(crate) type Keys = HashSet<u64, BuildHasherDefault<Mixed>>;

#[derive(Clone, Copy, Debug)]
struct Entry {
    pair: u64,
    position: u32,
    /// The entry of the same pair before it, plus one.
    before: u32,
}

/// Keys are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = mix(self.0 ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

impl Default for Stretches {
    fn default() -> Stretches {
        Stretches {
            keys: Vec::new(),
            hashes: vec![0],
            bodies: Vec::new(),
            powers: vec![1],
            entries: Vec::new(),
            last: HashMap::default(),
        }
    }
}

impl Stretches {
    pub(crate) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Appends a node with the keys of its body, if it is a loop over several nodes.
    pub(crate) fn push(&mut self, key: u64, body: &[u64]) {
        let before = self.keys.last().copied();
        let position = self.keys.len() as u32;
        let hash = self.hashes.last().copied().unwrap_or(0);
        self.hashes.push(next_hash(hash, key));
        self.keys.push(key);
        if self.powers.len() <= self.keys.len() {
            let last = self.powers.last().copied().unwrap_or(1);
            self.powers.push(last.wrapping_mul(BASE));
        }
        self.bodies.push((0, 0));
        if let Some(before) = before {
            self.enter(pair(before, key), position);
        }
        if let [.., last, end] = body {
            self.enter(pair(*last, *end), position);
        }
        self.set_last_body(body);
    }

    /// The last node has become a loop.
    pub(crate) fn set_last_body(&mut self, body: &[u64]) {
        if let Some(last) = self.bodies.last_mut() {
            *last = (body.len() as u32, body.iter().fold(0, |hash, key| next_hash(hash, *key)));
        }
    }

    fn enter(&mut self, pair: u64, position: u32) {
        let this = self.entries.len() as u32 + 1;
        let before = self.last.insert(pair, this).unwrap_or(0);
        self.entries.push(Entry { pair, position, before });
    }

    /// Removes the nodes from a position on.
    pub(crate) fn cut(&mut self, from: usize) {
        while let Some(Entry { pair, position, before }) = self.entries.last().copied() {
            if (position as usize) < from {
                break;
            }
            match before {
                0 => self.last.remove(&pair),
                before => self.last.insert(pair, before),
            };
            self.entries.pop();
        }
        self.keys.truncate(from);
        self.hashes.truncate(from + 1);
        self.bodies.truncate(from);
    }

    /// The hash of the keys from a position to another.
    fn hash(&self, from: usize, to: usize) -> u64 {
        self.hashes[to].wrapping_sub(self.hashes[from].wrapping_mul(self.powers[to - from]))
    }

    /// The end of the list as the second of two stretches that are alike, or as one more iteration of a loop: the position of
    /// the first stretch or loop, whether it is a loop, and where the end begins. Of `tries` candidates the nearest that
    /// `is_wanted`, given where the end begins.
    pub(crate) fn repetition(
        &self,
        tries: usize,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Option<(usize, bool)> {
        let [.., before, key] = self.keys.as_slice() else { return None };
        let end = self.keys.len();
        let mut next = self.last.get(&pair(*before, *key)).copied().unwrap_or(0);
        for _ in 0..tries {
            let Entry { position, before, .. } =
                *self.entries.get((next as usize).checked_sub(1)?)?;
            next = before;
            let at = position as usize;
            // The stretch has at least two nodes.
            if at + 2 >= end {
                continue;
            }
            let length = end - 1 - at;
            let hash = self.hash(at + 1, end);
            let is_loop = self.bodies[at] == (length as u32, hash);
            let is_pair = || at + 1 >= length && self.hash(at + 1 - length, at + 1) == hash;
            if (is_loop || is_pair()) && is_wanted(at + 1) {
                return Some((if is_loop { at } else { at + 1 - length }, is_loop));
            }
        }
        None
    }
}

fn pair(before: u64, key: u64) -> u64 {
    mix(before.rotate_left(17)) ^ key
}

fn next_hash(before: u64, key: u64) -> u64 {
    before.wrapping_mul(BASE).wrapping_add(mix(key))
}
