//! Long irregular sequences as bytes.
//!
//! Sequences that no section describes (gathered indices, chased pointers, the accesses of a sort) are still far
//! from random: neighbours are close, the range is narrow, or the next sweep repeats the whole sequence.
//! A sequence is laid out in several ways, each is packed, and the shortest is kept:
//!
//! - as variable-length numbers, which suits small numbers with a few large ones among them;
//! - as planes: the lowest byte of every number, then the next byte of every number and so on,
//!   which suits numbers of similar size, because each plane has its own statistics;
//! - as planes of the running sums, which suits differences of values from a narrow range.

use std::cell::RefCell;

use zstd::bulk::Compressor;

use crate::error::MemoryError;
use refrain_bytes::varint;

/// The packing level: higher ones gain little on planes.
const LEVEL: i32 = 3;
/// How far back repetitions are searched (log₂ of bytes): about a chunk.
const WINDOW_LOG: u32 = 24;
/// From this length on, zstd's long-distance matching is used. The normal search gives up on bytes that look
/// random, and would miss that the next sweep repeats them all.
const FAR: usize = 1 << 16;
/// Shorter bytes are not packed.
const WORTH_PACKING: usize = 48;
/// Shorter sequences are written as variable-length numbers only.
const WORTH_TRYING: usize = 48;
/// How many numbers are laid out in every way, to choose one.
const SAMPLE: usize = 1 << 14;
/// The most numbers that a sequence may unpack to.
pub const MOST_NUMBERS: usize = 1 << 24;

const NUMBERS: u8 = 0;
const PLANES: u8 = 1;
const SUMS: u8 = 2;

fn pack(bytes: &[u8]) -> Option<Vec<u8>> {
    let long = bytes.len() > FAR;
    PACKERS.with_borrow_mut(|[short, far]| {
        let packer = if long { far } else { short };
        if packer.is_none() {
            *packer = new_packer(long);
        }
        let packed = packer.as_mut()?.compress(bytes).ok()?;
        Some(packed).filter(|packed| packed.len() < bytes.len())
    })
}

thread_local! {
    /// Reusable compressors, for up to [`FAR`] bytes and for more: creating one takes longer than using it.
    static PACKERS: RefCell<[Option<Compressor<'static>>; 2]> = const { RefCell::new([None, None]) };
}

fn new_packer(long: bool) -> Option<Compressor<'static>> {
    let mut packer = Compressor::new(LEVEL).ok()?;
    if long {
        packer.window_log(WINDOW_LOG).ok()?;
        packer.long_distance_matching(true).ok()?;
    }
    Some(packer)
}

/// Appends bytes, packed where that is shorter.
pub fn put_packed(out: &mut Vec<u8>, bytes: &[u8]) {
    let packed = (bytes.len() >= WORTH_PACKING).then(|| pack(bytes)).flatten();
    varint::put(out, (bytes.len() as u64) << 1 | u64::from(packed.is_some()));
    match packed {
        Some(packed) => varint::put_bytes(out, &packed),
        None => out.extend_from_slice(bytes),
    }
}

/// Decodes what [`put_packed`] wrote.
pub fn take_packed(input: &mut &[u8]) -> Result<Vec<u8>, MemoryError> {
    let head = varint::take(input)?;
    let size = usize::try_from(head >> 1).map_err(|_| MemoryError::Truncated)?;
    if head & 1 == 0 {
        let (bytes, rest) = input.split_at_checked(size).ok_or(MemoryError::Truncated)?;
        *input = rest;
        return Ok(bytes.to_vec());
    }
    if size > 10 * MOST_NUMBERS {
        return Err(MemoryError::OutOfRange("unpacked size"));
    }
    let packed = varint::take_bytes(input)?;
    let bytes = zstd::bulk::decompress(packed, size)
        .map_err(|error| MemoryError::Packed(error.to_string()))?;
    match bytes.len() == size {
        true => Ok(bytes),
        false => Err(MemoryError::Packed("wrong size".into())),
    }
}

/// Appends a sequence in the shortest way.
pub fn put_numbers(out: &mut Vec<u8>, numbers: &[i64]) {
    varint::put(out, numbers.len() as u64);
    if numbers.len() < WORTH_TRYING {
        return put_as(NUMBERS, out, numbers);
    }
    // A sample from the middle decides which way is used. But sums may hide that a long stretch is
    // repeated, so planes are tried as well.
    let from = (numbers.len() - numbers.len().min(SAMPLE)) / 2;
    let sample = &numbers[from..numbers.len().min(from + SAMPLE)];
    let tried = [NUMBERS, PLANES, SUMS].map(|way| {
        let mut bytes = Vec::new();
        put_as(way, &mut bytes, sample);
        (bytes.len(), way, bytes)
    });
    let Some((_, way, mut bytes)) = tried.into_iter().min_by_key(|(size, ..)| *size) else {
        return;
    };
    if sample.len() == numbers.len() {
        out.append(&mut bytes);
        return;
    }
    bytes.clear();
    put_as(way, &mut bytes, numbers);
    if way == SUMS {
        let mut planes = Vec::new();
        put_as(PLANES, &mut planes, numbers);
        if planes.len() < bytes.len() {
            bytes = planes;
        }
    }
    out.append(&mut bytes);
}

/// Appends a sequence in the given way.
fn put_as(way: u8, out: &mut Vec<u8>, numbers: &[i64]) {
    out.push(way);
    match way {
        NUMBERS => put_packed(out, &as_varints(numbers)),
        PLANES => {
            let zigzag: Vec<u64> = numbers.iter().map(|&number| varint::zigzag(number)).collect();
            put_planes(out, &zigzag);
        }
        _ => {
            let (smallest, sums) = sums(numbers);
            varint::put_signed(out, smallest);
            put_planes(out, &sums);
        }
    }
}

/// Decodes what [`put_numbers`] wrote. More than `most` numbers are an error.
pub fn take_numbers(input: &mut &[u8], most: usize) -> Result<Vec<i64>, MemoryError> {
    let count = varint::take(input)?;
    if count > most.min(MOST_NUMBERS) as u64 {
        return Err(MemoryError::OutOfRange("length of a sequence"));
    }
    let count = count as usize;
    match varint::take_byte(input)? {
        NUMBERS => {
            let bytes = take_packed(input)?;
            let input = &mut &bytes[..];
            (0..count).map(|_| Ok(varint::take_signed(input)?)).collect()
        }
        PLANES => Ok(take_planes(input, count)?.into_iter().map(varint::unzigzag).collect()),
        SUMS => {
            let mut before = 0u64;
            let offset = varint::take_signed(input)? as u64;
            let planes = take_planes(input, count)?.into_iter();
            let numbers = planes.map(|sum| {
                let sum = sum.wrapping_add(offset);
                sum.wrapping_sub(std::mem::replace(&mut before, sum)) as i64
            });
            Ok(numbers.collect())
        }
        _ => Err(MemoryError::OutOfRange("way of writing a sequence")),
    }
}

fn as_varints(numbers: &[i64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(numbers.len() * 2);
    numbers.iter().for_each(|&number| varint::put_signed(&mut bytes, number));
    bytes
}

/// The smallest running sum, and how far each running sum is above it.
fn sums(numbers: &[i64]) -> (i64, Vec<u64>) {
    let mut sum = 0i64;
    let sums = numbers.iter().map(|number| {
        sum = sum.wrapping_add(*number);
        sum
    });
    let sums: Vec<i64> = sums.collect();
    let smallest = sums.iter().copied().min().unwrap_or(0);
    (smallest, sums.into_iter().map(|sum| sum.wrapping_sub(smallest) as u64).collect())
}

/// Appends the width in bytes, and each plane.
fn put_planes(out: &mut Vec<u8>, numbers: &[u64]) {
    let largest = numbers.iter().copied().max().unwrap_or(0);
    let width = (64 - largest.leading_zeros()).div_ceil(8) as u8;
    out.push(width);
    for plane in 0..width {
        let bytes: Vec<u8> = numbers.iter().map(|number| (number >> (8 * plane)) as u8).collect();
        put_packed(out, &bytes);
    }
}

fn take_planes(input: &mut &[u8], count: usize) -> Result<Vec<u64>, MemoryError> {
    let width = varint::take_byte(input)?;
    if width > 8 {
        return Err(MemoryError::OutOfRange("width of a sequence"));
    }
    let mut numbers = vec![0u64; count];
    for plane in 0..width {
        let bytes = take_packed(input)?;
        if bytes.len() != count {
            return Err(MemoryError::OutOfRange("length of a plane"));
        }
        for (number, &byte) in numbers.iter_mut().zip(&bytes) {
            *number |= u64::from(byte) << (8 * plane);
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(numbers: &[i64]) -> usize {
        let mut bytes = Vec::new();
        put_numbers(&mut bytes, numbers);
        let input = &mut &bytes[..];
        assert_eq!(take_numbers(input, MOST_NUMBERS).as_deref(), Ok(numbers));
        assert!(input.is_empty());
        bytes.len()
    }

    fn noise(seed: u64) -> impl FnMut(u64) -> i64 {
        let mut state = seed;
        move |below| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            ((state >> 33) % below) as i64
        }
    }

    #[test]
    fn every_kind_of_sequence_comes_back_and_is_short() {
        let mut random = noise(7);
        // Seventeen random bits: differences have eighteen, and variable-length numbers three bytes.
        let values: Vec<i64> = (0..100_000).map(|_| random(1 << 17)).collect();
        let mut before = 0;
        let differences: Vec<i64> =
            values.iter().map(|&v| v - std::mem::replace(&mut before, v)).collect();
        assert!(size(&differences) < 100_000 * 18 / 8);
        let small: Vec<i64> = (0..100_000).map(|_| random(4)).collect();
        assert!(size(&small) < 40_000);
        assert_eq!(size(&[]), 3);
        size(&[i64::MIN, i64::MAX, 0, -1]);
        size(&vec![i64::MIN; 100]);
    }
}
