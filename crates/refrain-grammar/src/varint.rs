//! Numbers of varying length, seven bits to a byte, least significant first; the high bit says
//! that another byte follows. Signed numbers are folded to unsigned ones (0, -1, 1, -2, …).

use crate::error::GrammarError;

/// Appends a number.
pub(crate) fn write(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Folds a signed number.
pub(crate) fn fold(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// The opposite of [`fold`].
pub(crate) fn unfold(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Reads numbers from bytes.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Offset of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    /// How many bytes are left: no more numbers than that can follow.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next number.
    pub fn number(&mut self) -> Result<u64, GrammarError> {
        let start = self.at;
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or(GrammarError::Truncated)?;
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(GrammarError::NumberTooLarge { at: start })
    }

    /// The next number, of things that take a byte at least and follow.
    pub fn amount(&mut self) -> Result<usize, GrammarError> {
        let amount = usize::try_from(self.number()?).map_err(|_| GrammarError::Truncated)?;
        if amount > self.left() { Err(GrammarError::Truncated) } else { Ok(amount) }
    }

    /// Makes sure that nothing is left.
    pub fn finish(&self) -> Result<(), GrammarError> {
        match self.left() {
            0 => Ok(()),
            _ => Err(GrammarError::TrailingBytes { at: self.at }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_of_number_survives() {
        for bits in 0..64 {
            for number in [(1_u64 << bits) - 1, 1 << bits, u64::MAX >> bits] {
                let mut bytes = Vec::new();
                write(number, &mut bytes);
                let mut reader = Reader::new(&bytes);
                assert_eq!(reader.number(), Ok(number));
                assert_eq!(reader.finish(), Ok(()));
                assert_eq!(unfold(fold(number as i64)), number as i64);
            }
        }
    }

    #[test]
    fn a_number_of_65_bits_is_too_large() {
        let mut bytes = [0xff; 10];
        bytes[9] = 3;
        assert_eq!(Reader::new(&bytes).number(), Err(GrammarError::NumberTooLarge { at: 0 }));
        assert_eq!(Reader::new(&[0x80; 11]).number(), Err(GrammarError::NumberTooLarge { at: 0 }));
        assert_eq!(Reader::new(&[0x80; 9]).number(), Err(GrammarError::Truncated));
    }
}
