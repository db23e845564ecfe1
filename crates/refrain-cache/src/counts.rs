//! What is counted, and for whom.

use std::ops::{AddAssign, Sub};

use crate::geometry::MOST_LEVELS;

/// Why a line was not in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Miss {
    /// This cache has never held it.
    Cold,
    /// A fully associative cache of the same size would not hold it either.
    Capacity,
    /// A fully associative cache of the same size would hold it.
    Conflict,
    /// Another thread has written to it since (MESI).
    Coherence,
}

impl Miss {
    /// All kinds, in the order of [`Counts::misses`].
    pub const ALL: [Self; 4] = [Self::Cold, Self::Capacity, Self::Conflict, Self::Coherence];
}

/// Accesses and misses. An access is to one line: a reference that spans two lines makes two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses to the first level.
    pub accesses: u64,
    /// Misses of each level, by kind. What misses a level is an access to the next one.
    pub misses: [[u64; 4]; MOST_LEVELS],
}

impl Counts {
    /// All misses of a level (from 0).
    pub fn missed(&self, level: usize) -> u64 {
        self.misses[level].iter().sum()
    }

    /// Counts so many hits.
    pub fn add_hits(&mut self, hits: u64, times: u64) {
        self.accesses = self.accesses.wrapping_add(hits.wrapping_mul(times));
    }

    /// These counts, many times. The counts of a damaged trace may be too large, and are of no meaning then.
    pub fn times(mut self, times: u64) -> Self {
        self.accesses = self.accesses.wrapping_mul(times);
        let misses = self.misses.as_flattened_mut();
        misses.iter_mut().for_each(|count| *count = count.wrapping_mul(times));
        self
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.accesses = self.accesses.wrapping_add(other.accesses);
        let both = self.misses.as_flattened_mut().iter_mut().zip(other.misses.as_flattened());
        both.for_each(|(count, more)| *count = count.wrapping_add(*more));
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(mut self, other: Self) -> Self {
        self.accesses = self.accesses.wrapping_sub(other.accesses);
        let both = self.misses.as_flattened_mut().iter_mut().zip(other.misses.as_flattened());
        both.for_each(|(count, less)| *count = count.wrapping_sub(*less));
        self
    }
}
