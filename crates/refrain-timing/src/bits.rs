//! A bit stream: numbers of any number of bits, least significant bit first.

use crate::TimingError;

/// The most bits that [`BitWriter::push`] takes at once.
pub(crate) const MOST_BITS: u32 = 56;

/// Memory for a bit stream, reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct BitBuffer {
    /// The memory; `length` bytes are in use.
    bytes: Vec<u8>,
    length: usize,
}

impl BitBuffer {
    /// Begins a new stream with room for the given number of bits.
    pub fn begin(&mut self, bits: usize) -> BitWriter<'_> {
        // A whole word is written at the position of the last bit.
        let room = bits / 8 + 9;
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        BitWriter { bytes: &mut self.bytes, length: &mut self.length, at: 0, last: 0, filled: 0 }
    }

    /// The bytes that were written.
    pub fn written(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Writes a bit stream. Bits beyond the requested room are lost.
#[derive(Debug)]
pub(crate) struct BitWriter<'a> {
    bytes: &'a mut [u8],
    length: &'a mut usize,
    /// Whole bytes.
    at: usize,
    /// Bits that do not fill a byte: fewer than 8.
    last: u64,
    filled: u32,
}

impl BitWriter<'_> {
    /// Appends the lowest `bits` (up to [`MOST_BITS`]) of `value`; the others are 0.
    ///
    /// Always writes eight bytes: a branch would cost more, since it cannot be predicted.
    #[inline(always)]
    pub fn push(&mut self, value: u64, bits: u32) {
        self.last |= value << self.filled;
        let filled = self.filled + bits;
        if let Some(room) = self.bytes.get_mut(self.at..).and_then(<[u8]>::first_chunk_mut) {
            *room = self.last.to_le_bytes();
        }
        self.at += filled as usize / 8;
        self.last >>= filled & !7;
        self.filled = filled & 7;
    }

    /// Appends up to 64 bits.
    #[inline]
    pub fn push_wide(&mut self, value: u64, bits: u32) {
        let low = bits.min(32);
        self.push(value & 0xffff_ffff, low);
        self.push(value >> 32, bits - low);
    }

    /// Appends a small number in a Rice code with `small` low bits.
    pub fn push_rice(&mut self, value: u32, small: u32) {
        let high = value >> small;
        let low = u64::from(value & ((1 << small) - 1));
        if high + 1 + small <= MOST_BITS {
            return self.push(((1 << high) - 1) | low << (high + 1), high + 1 + small);
        }
        (0..high).for_each(|_| self.push(1, 1));
        self.push(low << 1, small + 1);
    }

    /// Ends the stream.
    pub fn end(mut self) {
        // Pad to a whole byte.
        self.push(0, (8 - self.filled) & 7);
        *self.length = self.at.min(self.bytes.len());
    }
}

/// Reads a bit stream.
#[derive(Clone, Debug)]
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    /// The position of the next bit.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub fn new(bytes: &'a [u8]) -> BitReader<'a> {
        BitReader { bytes, at: 0 }
    }

    /// The next number of up to 64 bits.
    #[inline]
    pub fn read(&mut self, bits: u32) -> Result<u64, TimingError> {
        let end = self.at + bits as usize;
        if end > self.bytes.len() * 8 {
            return Err(TimingError::Truncated);
        }
        let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
        let window = self.window(self.at / 8) >> (self.at % 8);
        self.at = end;
        Ok(window as u64 & mask)
    }

    /// 16 bytes from that position on, padded with zeros.
    #[inline]
    fn window(&self, from: usize) -> u128 {
        let rest = self.bytes.get(from..).unwrap_or_default();
        if let Some(whole) = rest.first_chunk() {
            return u128::from_le_bytes(*whole);
        }
        let mut window = [0; 16];
        window.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        u128::from_le_bytes(window)
    }

    /// The opposite of [`BitWriter::push_rice`]; fails beyond `most`.
    pub fn read_rice(&mut self, small: u32, most: u32) -> Result<u32, TimingError> {
        let mut high = 0;
        while self.read(1)? == 1 {
            high += 1;
            if high > most >> small {
                return Err(TimingError::Damaged("a number is too large"));
            }
        }
        Ok(high << small | self.read(small)? as u32)
    }

    /// Checks that no whole byte is left.
    pub fn finish(&self) -> Result<(), TimingError> {
        match self.bytes.len() == self.at.div_ceil(8) {
            true => Ok(()),
            false => Err(TimingError::Damaged("surplus bits at its end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_read_back_as_written(numbers: Vec<(u64, u8)>) {
            let mut buffer = BitBuffer::default();
            let mut writer = buffer.begin(numbers.len() * (64 + 67));
            let numbers: Vec<_> = numbers
                .into_iter()
                .map(|(n, bits)| (n, u32::from(bits % 65)))
                .map(|(n, bits)| (n & u64::MAX.checked_shr(64 - bits).unwrap_or(0), bits))
                .collect();
            for (n, bits) in &numbers {
                writer.push_wide(*n, *bits);
                writer.push_rice(*bits, 2);
            }
            writer.end();
            let mut reader = BitReader::new(buffer.written());
            for (n, bits) in numbers {
                prop_assert_eq!(reader.read(bits), Ok(n));
                prop_assert_eq!(reader.read_rice(2, 64), Ok(bits));
            }
            prop_assert_eq!(reader.finish(), Ok(()));
            prop_assert!(reader.read(8).is_err());
        }
    }
}
