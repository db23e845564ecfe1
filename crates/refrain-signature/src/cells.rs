//! Cells: signatures and outcomes are flat lists of numbers, each a zigzag varint.
//!
//! Small numbers of either sign take one byte. Since a signature has *only* such numbers, whatever its
//! function, the merge compares and fits it position by position over ranks without knowing what the
//! numbers mean.

use refrain_bytes::varint::{self, take, take_bytes, take_signed, take_slice};

pub use refrain_bytes::varint::{put as put_unsigned, put_bytes, put_signed as put};

/// Appends the number of items, then the items.
pub fn put_list<T>(
    out: &mut Vec<u8>,
    all: impl ExactSizeIterator<Item = T>,
    mut each: impl FnMut(&mut Vec<u8>, T),
) {
    put_unsigned(out, all.len() as u64);
    all.for_each(|one| each(out, one));
}

/// Reads cells; `None` where the bytes end or are no number.
#[derive(Clone, Copy, Debug)]
pub struct Cells<'a> {
    rest: &'a [u8],
}

impl<'a> Cells<'a> {
    /// Reads from the first of these bytes on.
    pub fn new(bytes: &'a [u8]) -> Cells<'a> {
        Cells { rest: bytes }
    }

    /// The next number.
    #[inline]
    pub fn get(&mut self) -> Option<i64> {
        take_signed(&mut self.rest).ok()
    }

    /// The next number, as an unsigned one.
    #[inline]
    pub fn get_unsigned(&mut self) -> Option<u64> {
        take(&mut self.rest).ok()
    }

    /// A number of items, of which each takes at least one of the bytes that follow.
    pub fn get_length(&mut self) -> Option<usize> {
        varint::take_count(&mut self.rest, "length").ok()
    }

    /// The next number, if it is one from 0 to `most`.
    pub fn get_checked(&mut self, most: usize) -> Option<usize> {
        usize::try_from(self.get()?).ok().filter(|n| *n <= most)
    }

    /// The next `n` bytes as they are.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        take_slice(&mut self.rest, n as u64).ok()
    }

    /// A number of bytes, then the bytes.
    pub fn get_bytes(&mut self) -> Option<&'a [u8]> {
        take_bytes(&mut self.rest).ok()
    }

    /// A number of items, then the items, each of at least a byte.
    pub fn get_list<T>(&mut self, mut each: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let n = self.get_length()?;
        (0..n).map(|_| each(self)).collect()
    }

    /// The next number, if it fits.
    pub fn get_u32(&mut self) -> Option<u32> {
        varint::take_u32(&mut self.rest, "number").ok()
    }

    /// The length of a text, then the text.
    pub fn get_text(&mut self) -> Option<String> {
        String::from_utf8(self.get_bytes()?.to_vec()).ok()
    }

    /// Whether nothing follows.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The remaining bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// All numbers of a signature; `None` if the bytes are malformed.
pub fn numbers(bytes: &[u8]) -> Option<Vec<i64>> {
    let mut cells = Cells::new(bytes);
    let mut all = Vec::with_capacity(bytes.len());
    while !cells.is_empty() {
        all.push(cells.get()?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_read_back_as_written(values: Vec<i64>) {
            let mut bytes = Vec::new();
            values.iter().for_each(|v| put(&mut bytes, *v));
            prop_assert_eq!(numbers(&bytes), Some(values));
        }

        #[test]
        fn any_bytes_are_numbers_or_none(bytes: Vec<u8>) {
            if let Some(values) = numbers(&bytes) {
                prop_assert!(values.len() <= bytes.len());
            }
        }
    }
}
