//! Numbers of every length survive; damaged ones are refused.

use proptest::prelude::*;
use refrain_bytes::{BytesError, varint};

/// Every length of number, at both of its ends.
fn edges() -> impl Iterator<Item = u64> {
    (0..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits, u64::MAX >> bits])
}

#[test]
fn numbers_of_every_length_come_back() {
    for value in edges() {
        let mut bytes = Vec::new();
        varint::put(&mut bytes, value);
        assert_eq!(bytes.len(), (64 - value.leading_zeros()).div_ceil(7).max(1) as usize);
        varint::put_signed(&mut bytes, value as i64);
        let input = &mut &bytes[..];
        assert_eq!(varint::take(input), Ok(value));
        assert_eq!(varint::take_signed(input), Ok(value as i64));
        assert!(input.is_empty());
        assert_eq!(varint::read(&mut &bytes[..]).unwrap(), Some(value));
    }
}

#[test]
fn a_number_of_more_than_64_bits_is_refused() {
    let mut bytes = [0xff; 10];
    bytes[9] = 1;
    assert_eq!(varint::take(&mut &bytes[..]), Ok(u64::MAX));
    for last in [2, 3, 0x7f, 0x80, 0x81, 0xff] {
        bytes[9] = last;
        assert_eq!(varint::take(&mut &bytes[..]), Err(BytesError::Overlong));
        let error = varint::read(&mut &bytes[..]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    }
    assert_eq!(varint::take(&mut &[0x80; 20][..]), Err(BytesError::Overlong));
}

#[test]
fn a_number_that_ends_in_the_middle_is_refused() {
    for length in 0..10 {
        let bytes = vec![0x80; length];
        assert_eq!(varint::take(&mut &bytes[..]), Err(BytesError::Truncated));
        match (length, varint::read(&mut &bytes[..])) {
            (0, read) => assert_eq!(read.unwrap(), None),
            (_, read) => {
                assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
            }
        }
    }
}

#[test]
fn fields_are_held_to_their_ranges() {
    let take_count = |bytes: &[u8]| varint::take_count(&mut &bytes[..], "count");
    assert_eq!(take_count(&[2, 7, 7]), Ok(2));
    assert_eq!(take_count(&[3, 7, 7]), Err(BytesError::OutOfRange("count")));
    let mut bytes = Vec::new();
    varint::put(&mut bytes, 1 << 32);
    assert_eq!(varint::take_u32(&mut &bytes[..], "rank"), Err(BytesError::OutOfRange("rank")));
    assert_eq!(varint::take_bytes(&mut &[2, 7][..]), Err(BytesError::Truncated));
    assert_eq!(varint::take_slice(&mut &[7][..], u64::MAX), Err(BytesError::Truncated));
}

proptest! {
    #[test]
    fn sequences_come_back(
        values: Vec<u64>,
        signed: Vec<i64>,
        texts in proptest::collection::vec(any::<Vec<u8>>(), 0..8),
    ) {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| varint::put(&mut bytes, *value));
        signed.iter().for_each(|value| varint::put_signed(&mut bytes, *value));
        texts.iter().for_each(|text| varint::put_bytes(&mut bytes, text));
        let input = &mut &bytes[..];
        for value in values {
            prop_assert_eq!(varint::take(input), Ok(value));
        }
        for value in signed {
            prop_assert_eq!(varint::take_signed(input), Ok(value));
        }
        for text in &texts {
            prop_assert_eq!(varint::take_bytes(input), Ok(&text[..]));
        }
        prop_assert!(input.is_empty());
    }

    #[test]
    fn any_bytes_are_taken_or_refused(bytes: Vec<u8>) {
        let mut input = &bytes[..];
        let mut stream = &bytes[..];
        while !input.is_empty() {
            let before = input.len();
            let (taken, read) = (varint::take(&mut input), varint::read(&mut stream));
            prop_assert_eq!(taken.ok(), read.ok().flatten());
            prop_assert!(input.len() < before);
            if taken.is_err() {
                break;
            }
        }
    }
}
