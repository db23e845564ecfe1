//! The hash of tables in memory: fast for small keys, without a seed, so that runs repeat. Nothing
//! in a file depends on it, and it does not withstand an adversary: keys come from the traced
//! program, and a collision costs time only.

use crate::stable::{GOLDEN, words};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map with the fast hash.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<TableHasher>>;

/// A set with the fast hash.
pub type Set<K> = HashSet<K, BuildHasherDefault<TableHasher>>;

/// Multiplies to 128 bits and folds the halves, per word: hash maps index by the low bits and
/// compare the high ones, and both depend on all bits of the key.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableHasher(u64);

impl Hasher for TableHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0 = fold(self.0, hash(bytes));
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.0 = fold(self.0, value);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

#[inline(always)]
fn fold(state: u64, word: u64) -> u64 {
    let product = u128::from(state ^ word) * u128::from(GOLDEN);
    (product >> 64) as u64 ^ product as u64
}

/// The hash of some bytes, for tables made by hand.
#[inline]
pub fn hash(bytes: &[u8]) -> u64 {
    words(bytes).fold(bytes.len() as u64 ^ GOLDEN, fold)
}

/// The `BITS` high bits of a key's product with the golden ratio: the slot of a key in a table of
/// `1 << BITS` slots (Fibonacci hashing).
#[inline(always)]
pub const fn slot<const BITS: u32>(key: u64) -> usize {
    (key.wrapping_mul(GOLDEN) >> (u64::BITS - BITS)) as usize
}
