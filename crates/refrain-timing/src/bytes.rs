//! Reads and writes numbers and byte strings.

use crate::TimingError;
use refrain_bytes::varint;

pub(crate) use refrain_bytes::varint::{put as put_number, put_bytes};

/// Reads a sequence of numbers and byte strings.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, TimingError> {
        Ok(varint::take_byte(&mut self.rest)?)
    }

    /// The next number.
    pub fn number(&mut self) -> Result<u64, TimingError> {
        Ok(varint::take(&mut self.rest)?)
    }

    /// The next number, which counts items of at least one byte that follow.
    pub fn amount(&mut self) -> Result<usize, TimingError> {
        let amount = usize::try_from(self.number()?).ok();
        amount.filter(|n| *n <= self.rest.len()).ok_or(TimingError::Truncated)
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], TimingError> {
        Ok(varint::take_slice(&mut self.rest, n as u64)?)
    }

    /// A length and that many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], TimingError> {
        let n = self.amount()?;
        self.take(n)
    }

    /// All bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Checks that no bytes are left.
    pub fn finish(&self) -> Result<(), TimingError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(TimingError::Damaged("surplus bytes at its end"))
        }
    }
}
