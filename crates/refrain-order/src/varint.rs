//! Numbers as bytes: LEB128, and zigzag for signed ones, so that small is short.

use crate::error::OrderError;

/// Appends an unsigned number.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A signed number as an unsigned one, small for small.
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The reverse of [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Takes one byte.
pub fn take_byte(input: &mut &[u8]) -> Result<u8, OrderError> {
    let (&byte, rest) = input.split_first().ok_or(OrderError::Truncated)?;
    *input = rest;
    Ok(byte)
}

/// Takes `count` bytes.
pub fn take_bytes<'a>(input: &mut &'a [u8], count: u64) -> Result<&'a [u8], OrderError> {
    let count = usize::try_from(count).map_err(|_| OrderError::Truncated)?;
    let (bytes, rest) = input.split_at_checked(count).ok_or(OrderError::Truncated)?;
    *input = rest;
    Ok(bytes)
}

/// Takes an unsigned number.
pub fn take(input: &mut &[u8]) -> Result<u64, OrderError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(input)?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return Err(OrderError::OutOfRange("number"));
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(OrderError::OutOfRange("number"))
}

/// Takes an unsigned number that must fit 32 bits; `what` names it in the error.
pub fn take_u32(input: &mut &[u8], what: &'static str) -> Result<u32, OrderError> {
    u32::try_from(take(input)?).map_err(|_| OrderError::OutOfRange(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_come_back() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put(&mut bytes, value);
                assert_eq!(take(&mut &bytes[..]), Ok(value));
                assert_eq!(zigzag(unzigzag(value)), value);
            }
        }
        assert!(take(&mut &[0xff; 10][..]).is_err());
        assert_eq!(take(&mut &[0x80; 3][..]), Err(OrderError::Truncated));
    }
}
