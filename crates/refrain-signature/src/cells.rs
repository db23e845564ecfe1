//! Cells: signatures and outcomes are flat lists of numbers, each a zigzag varint.
//!
//! Small numbers of either sign take one byte. That a signature is *only* such numbers, whatever
//! its function, lets the merge compare and fit it position by position over ranks without
//! knowing what the numbers mean.

/// Appends a number.
#[inline(always)]
pub fn put(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a number that is never negative.
#[inline(always)]
pub fn put_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends bytes with their number in front.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_unsigned(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends things with their number in front.
pub fn put_list<T>(
    out: &mut Vec<u8>,
    all: impl ExactSizeIterator<Item = T>,
    mut each: impl FnMut(&mut Vec<u8>, T),
) {
    put_unsigned(out, all.len() as u64);
    all.for_each(|one| each(out, one));
}

/// Reads cells; gives `None` where the bytes end or make no number.
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
        let value = self.get_unsigned()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// The next number that is never negative.
    #[inline]
    pub fn get_unsigned(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }

    /// A number of things of which each takes at least a byte of what follows.
    pub fn get_length(&mut self) -> Option<usize> {
        let n = usize::try_from(self.get_unsigned()?).ok()?;
        (n <= self.rest.len()).then_some(n)
    }

    /// The next number, if it is one from 0 to `most`.
    pub fn get_checked(&mut self, most: usize) -> Option<usize> {
        usize::try_from(self.get()?).ok().filter(|n| *n <= most)
    }

    /// The next `n` bytes as they are.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    /// Bytes with their number in front.
    pub fn get_bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.get_length()?;
        self.take(n)
    }

    /// Things with their number in front, each of at least a byte.
    pub fn get_list<T>(&mut self, mut each: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let n = self.get_length()?;
        (0..n).map(|_| each(self)).collect()
    }

    /// The next number, if it fits.
    pub fn get_u32(&mut self) -> Option<u32> {
        u32::try_from(self.get_unsigned()?).ok()
    }

    /// Text with its length in front.
    pub fn get_text(&mut self) -> Option<String> {
        String::from_utf8(self.get_bytes()?.to_vec()).ok()
    }

    /// Whether nothing follows.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What follows.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// All numbers of a signature; `None` if the bytes are none.
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
