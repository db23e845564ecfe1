//! Numbers and texts as bytes.

use crate::error::TraceError;

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
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends bytes with their length in front.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes an unsigned number.
pub fn take(input: &mut &[u8]) -> Result<u64, TraceError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first().ok_or(TraceError::Short)?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(TraceError::Short)
}

/// Takes a signed number.
pub fn take_signed(input: &mut &[u8]) -> Result<i64, TraceError> {
    let value = take(input)?;
    Ok((value >> 1) as i64 ^ -((value & 1) as i64))
}

/// Takes a number of 32 bits.
pub fn take_u32(input: &mut &[u8]) -> Result<u32, TraceError> {
    u32::try_from(take(input)?).map_err(|_| TraceError::Short)
}

/// Takes bytes.
pub fn take_bytes<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], TraceError> {
    let length = usize::try_from(take(input)?).map_err(|_| TraceError::Short)?;
    let (bytes, rest) = input.split_at_checked(length).ok_or(TraceError::Short)?;
    *input = rest;
    Ok(bytes)
}

/// Takes a text.
pub fn take_text(input: &mut &[u8]) -> Result<String, TraceError> {
    Ok(String::from_utf8_lossy(take_bytes(input)?).into_owned())
}
