//! Numbers and bytes, one after the other.

use crate::TimingError;

/// Appends a number, seven bits to a byte, least significant first.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends bytes with their number in front.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what was appended.
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
        let (&byte, rest) = self.rest.split_first().ok_or(TimingError::Truncated)?;
        self.rest = rest;
        Ok(byte)
    }

    /// The next number.
    pub fn number(&mut self) -> Result<u64, TimingError> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(TimingError::Damaged("a number of more than 64 bits"))
    }

    /// The next number, of things of which each takes a byte at least of what follows.
    pub fn amount(&mut self) -> Result<usize, TimingError> {
        let amount = usize::try_from(self.number()?).ok();
        amount.filter(|n| *n <= self.rest.len()).ok_or(TimingError::Truncated)
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], TimingError> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(TimingError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    /// Bytes with their number in front.
    pub fn bytes(&mut self) -> Result<&'a [u8], TimingError> {
        let n = self.amount()?;
        self.take(n)
    }

    /// All bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Makes sure that nothing is left.
    pub fn finish(&self) -> Result<(), TimingError> {
        if self.rest.is_empty() { Ok(()) } else { Err(TimingError::Damaged("bytes at its end")) }
    }
}
