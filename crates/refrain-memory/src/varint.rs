//! Numbers as bytes: LEB128, and zigzag for signed ones, so that small is short.

use crate::error::MemoryError;

/// Appends an unsigned number.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, zigzag(value));
}

/// Appends a length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A signed number as an unsigned one, small where its magnitude is.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Takes one byte.
pub fn take_byte(input: &mut &[u8]) -> Result<u8, MemoryError> {
    let (&byte, rest) = input.split_first().ok_or(MemoryError::Truncated)?;
    *input = rest;
    Ok(byte)
}

/// Takes an unsigned number.
pub fn take(input: &mut &[u8]) -> Result<u64, MemoryError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(input)?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(MemoryError::OutOfRange("number"))
}

/// Takes an unsigned number of 32 bits; `what` names it in the error.
pub fn take_u32(input: &mut &[u8], what: &'static str) -> Result<u32, MemoryError> {
    u32::try_from(take(input)?).map_err(|_| MemoryError::OutOfRange(what))
}

/// Takes a signed number.
pub fn take_signed(input: &mut &[u8]) -> Result<i64, MemoryError> {
    Ok(unzigzag(take(input)?))
}

/// Takes a count of things that take at least one byte each of what follows.
pub fn take_count(input: &mut &[u8], what: &'static str) -> Result<usize, MemoryError> {
    let count = take(input)?;
    if count > input.len() as u64 {
        return Err(MemoryError::OutOfRange(what));
    }
    Ok(count as usize)
}

/// Takes a length and so many bytes.
pub fn take_bytes<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], MemoryError> {
    let count = usize::try_from(take(input)?).map_err(|_| MemoryError::Truncated)?;
    let (bytes, rest) = input.split_at_checked(count).ok_or(MemoryError::Truncated)?;
    *input = rest;
    Ok(bytes)
}
