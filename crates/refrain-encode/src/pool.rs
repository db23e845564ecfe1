//! Numbers for objects: each object gets the smallest free number (Pilgrim §2.3.3).
//!
//! An object that is created and freed in every iteration therefore has the same number in every
//! iteration, whatever handle MPI returned.

use refrain_signature::cells::{Cells, put_list, put_unsigned};

/// Numbers in use.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    used: Bits,
    /// Numbers in use according to the stream of the creating thread alone. A number that another
    /// thread freed stays here: the decoder of this stream does not see that free.
    visible: Bits,
}

#[derive(Clone, Debug, Default)]
struct Bits {
    first: u64,
    more: Vec<u64>,
}

impl Bits {
    #[inline]
    fn smallest_free(&self) -> u32 {
        if self.first != u64::MAX {
            return self.first.trailing_ones();
        }
        let full = self.more.iter().take_while(|word| **word == u64::MAX).count();
        let inside = self.more.get(full).map_or(0, |word| word.trailing_ones());
        (64 * (full as u32 + 1)) + inside
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "resized just before; word 0 is not in `more`")]
    fn word(&mut self, number: u32) -> &mut u64 {
        let word = (number / 64) as usize;
        if word == 0 {
            return &mut self.first;
        }
        if self.more.len() < word {
            self.more.resize(word, 0);
        }
        &mut self.more[word - 1]
    }

    #[inline]
    fn set(&mut self, number: u32, value: bool) {
        let bit = 1 << (number % 64);
        let word = self.word(number);
        *word = if value { *word | bit } else { *word & !bit };
    }

    fn get(&self, number: u32) -> bool {
        let word = match (number / 64) as usize {
            0 => Some(&self.first),
            word => self.more.get(word - 1),
        };
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

impl Pool {
    /// Writes it.
    pub fn put(&self, out: &mut Vec<u8>) {
        for bits in [&self.used, &self.visible] {
            put_unsigned(out, bits.first);
            put_list(out, bits.more.iter(), |out, word| put_unsigned(out, *word));
        }
    }

    /// Reads it.
    pub fn get(cells: &mut Cells<'_>) -> Option<Pool> {
        let mut bits = || {
            let first = cells.get_unsigned()?;
            Some(Bits { first, more: cells.get_list(Cells::get_unsigned)? })
        };
        Some(Pool { used: bits()?, visible: bits()? })
    }

    /// The number that [`Pool::take`] would return.
    #[inline]
    pub fn next(&self) -> u32 {
        self.used.smallest_free()
    }

    /// Takes the smallest free number.
    #[inline]
    pub fn take(&mut self) -> u32 {
        let number = self.next();
        self.reserve(number);
        number
    }

    /// Marks a number as used.
    #[inline]
    pub fn reserve(&mut self, number: u32) {
        self.used.set(number, true);
        self.visible.set(number, true);
    }

    /// Frees a number; `same_thread`: the free is in the stream of the thread that took it.
    #[inline]
    pub fn release(&mut self, number: u32, same_thread: bool) {
        self.used.set(number, false);
        if same_thread {
            self.visible.set(number, false);
        }
    }

    /// Whether the number is in use according to the creating thread's stream.
    #[inline]
    pub fn seems_used(&self, number: u32) -> bool {
        self.visible.get(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_free_number_is_taken() {
        let mut pool = Pool::default();
        let all: Vec<u32> = (0..200).map(|_| pool.take()).collect();
        assert_eq!(all, (0..200).collect::<Vec<_>>());
        for number in [3, 64, 150] {
            pool.release(number, true);
        }
        assert_eq!([pool.take(), pool.take(), pool.take(), pool.take()], [3, 64, 150, 200]);
    }

    #[test]
    fn a_number_that_another_thread_frees_seems_used() {
        let mut pool = Pool::default();
        pool.take();
        pool.release(0, false);
        assert!(pool.seems_used(0));
        assert_eq!(pool.take(), 0);
    }
}
