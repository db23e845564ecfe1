//! Numbers as bytes: LEB128, seven bits to a byte, least significant first; the high bit says that
//! another byte follows. Signed numbers are folded to unsigned ones (zigzag: 0, -1, 1, -2, …), so
//! that small magnitudes are short.
//!
//! A number of more than 64 bits is refused. Trailing zero groups (`80 00` for 0) are not: no
//! writer of ours produces them, and refusing them would cost a comparison per number.
//!
//! `put…` functions append to a vector, `take…` functions remove from the front of a slice.

use crate::BytesError;
use std::io::{self, Read};

/// Appends an unsigned number.
#[inline(always)]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number.
#[inline(always)]
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, zigzag(value));
}

/// Appends bytes behind their length.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A signed number as an unsigned one, small where its magnitude is small.
#[inline(always)]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline(always)]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Takes one byte.
#[inline(always)]
pub fn take_byte(input: &mut &[u8]) -> Result<u8, BytesError> {
    let (&byte, rest) = input.split_first().ok_or(BytesError::Truncated)?;
    *input = rest;
    Ok(byte)
}

/// Takes an unsigned number.
#[inline]
pub fn take(input: &mut &[u8]) -> Result<u64, BytesError> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = take_byte(input)?;
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(BytesError::Overlong)
}

/// Takes a signed number.
#[inline]
pub fn take_signed(input: &mut &[u8]) -> Result<i64, BytesError> {
    take(input).map(unzigzag)
}

/// Takes an unsigned number that must fit 32 bits; `what` names it in the error.
#[inline]
pub fn take_u32(input: &mut &[u8], what: &'static str) -> Result<u32, BytesError> {
    u32::try_from(take(input)?).map_err(|_| BytesError::OutOfRange(what))
}

/// Takes the number of items that follow, of at least one byte each; so damaged bytes cannot ask
/// for more memory than they occupy. `what` names the number in the error.
#[inline]
pub fn take_count(input: &mut &[u8], what: &'static str) -> Result<usize, BytesError> {
    let count = usize::try_from(take(input)?).ok();
    count.filter(|count| *count <= input.len()).ok_or(BytesError::OutOfRange(what))
}

/// Takes `count` bytes.
#[inline]
pub fn take_slice<'a>(input: &mut &'a [u8], count: u64) -> Result<&'a [u8], BytesError> {
    let count = usize::try_from(count).map_err(|_| BytesError::Truncated)?;
    let (bytes, rest) = input.split_at_checked(count).ok_or(BytesError::Truncated)?;
    *input = rest;
    Ok(bytes)
}

/// Takes a length and that many bytes.
#[inline]
pub fn take_bytes<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], BytesError> {
    let count = take(input)?;
    take_slice(input, count)
}

/// Reads an unsigned number from a stream; `None` where the stream has ended before it.
pub fn read(input: &mut (impl Read + ?Sized)) -> io::Result<Option<u64>> {
    let mut bytes = [0; 10];
    for at in 0..bytes.len() {
        let Some(next) = bytes.get_mut(at..=at) else { break };
        match input.read_exact(next) {
            Err(error) if at == 0 && error.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(None);
            }
            result => result?,
        }
        if next.iter().all(|byte| *byte < 0x80) {
            break;
        }
    }
    take(&mut &bytes[..])
        .map(Some)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
