//! Reads numbers and tracks their offsets, for error messages.

use crate::error::GrammarError;

use refrain_bytes::{BytesError, varint};

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

    /// The number of bytes that are left, which limits how many numbers can follow.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next number.
    pub fn number(&mut self) -> Result<u64, GrammarError> {
        let at = self.at;
        let mut rest = self.bytes.get(at..).unwrap_or_default();
        let number = varint::take(&mut rest);
        self.at = self.bytes.len() - rest.len();
        number.map_err(|error| match error {
            BytesError::Truncated => GrammarError::Truncated,
            _ => GrammarError::NumberTooLarge { at },
        })
    }

    /// The next number, which counts items of at least one byte that follow.
    pub fn amount(&mut self) -> Result<usize, GrammarError> {
        let amount = usize::try_from(self.number()?).map_err(|_| GrammarError::Truncated)?;
        if amount > self.left() { Err(GrammarError::Truncated) } else { Ok(amount) }
    }

    /// Checks that no bytes are left.
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
    fn a_number_of_65_bits_is_too_large() {
        let mut bytes = [0xff; 10];
        bytes[9] = 3;
        assert_eq!(Reader::new(&bytes).number(), Err(GrammarError::NumberTooLarge { at: 0 }));
        assert_eq!(Reader::new(&[0x80; 11]).number(), Err(GrammarError::NumberTooLarge { at: 0 }));
        assert_eq!(Reader::new(&[0x80; 9]).number(), Err(GrammarError::Truncated));
    }
}
