//! Numbers as bytes: LEB128, and zigzag for signed ones, so that small is short.

use crate::error::ElasticError;

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

/// Takes one byte.
pub fn take_byte(input: &mut &[u8]) -> Result<u8, ElasticError> {
    let (&byte, rest) = input.split_first().ok_or(ElasticError::Truncated)?;
    *input = rest;
    Ok(byte)
}

/// Takes `count` bytes.
pub fn take_bytes<'a>(input: &mut &'a [u8], count: u64) -> Result<&'a [u8], ElasticError> {
    let count = usize::try_from(count).map_err(|_| ElasticError::Truncated)?;
    let (bytes, rest) = input.split_at_checked(count).ok_or(ElasticError::Truncated)?;
    *input = rest;
    Ok(bytes)
}

/// Takes an unsigned number.
pub fn take(input: &mut &[u8]) -> Result<u64, ElasticError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(input)?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return Err(ElasticError::Overlong);
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(ElasticError::Overlong)
}

/// Takes an unsigned number that must fit 32 bits; `what` names it in the error.
pub fn take_u32(input: &mut &[u8], what: &'static str) -> Result<u32, ElasticError> {
    u32::try_from(take(input)?).map_err(|_| ElasticError::OutOfRange(what))
}

/// Takes a signed number.
pub fn take_signed(input: &mut &[u8]) -> Result<i64, ElasticError> {
    let value = take(input)?;
    Ok((value >> 1) as i64 ^ -((value & 1) as i64))
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
                put_signed(&mut bytes, value as i64);
                let input = &mut &bytes[..];
                assert_eq!(take(input), Ok(value));
                assert_eq!(take_signed(input), Ok(value as i64));
                assert!(input.is_empty());
            }
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused() {
        assert_eq!(take(&mut &[0xff; 10][..]), Err(ElasticError::Overlong));
        assert_eq!(take(&mut &[0x80; 20][..]), Err(ElasticError::Overlong));
        assert_eq!(take(&mut &[0x80; 3][..]), Err(ElasticError::Truncated));
    }
}
