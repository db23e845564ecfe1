//! A fast hash for small keys inside one process. Nothing on disk depends on it.

use std::hash::{BuildHasherDefault, Hasher};

/// A map with that hash.
pub type Map<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Mix>>;

/// Multiplies and folds.
#[derive(Default)]
pub struct Mix(u64);

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Mix {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(of(bytes));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value).wrapping_mul(u128::from(ODD));
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

/// The hash of some bytes.
#[inline]
pub fn of(bytes: &[u8]) -> u64 {
    let mut state = bytes.len() as u64 ^ ODD;
    let mut mix = |word: u64| {
        let product = u128::from(state ^ word).wrapping_mul(u128::from(ODD));
        state = (product >> 64) as u64 ^ product as u64;
    };
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        mix(u64::from_le_bytes(eight));
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let mut eight = [0; 8];
        eight[..rest.len()].copy_from_slice(rest);
        mix(u64::from_le_bytes(eight));
    }
    state
}
