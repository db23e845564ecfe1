//! Times compressed by libraries for fields of floating-point numbers.
//!
//! Such a library guarantees a bound for well-behaved numbers only. Times of a program may be 0 and
//! 10^19 side by side, and they are rounded to ticks in the end. So each column is decompressed at
//! once, and times that are not within the bound are stored exactly beside it. Such a library also
//! trusts its input. So it is given only bytes with the hash of the bytes that it wrote, which detects
//! damage, but does not stop an adversary.

use crate::TimingError;
use crate::bytes::{Reader, put_bytes, put_number};
use refrain_bytes::stable::{FNV_BASIS, FNV_PRIME};
use std::collections::HashMap;

/// A library.
pub(crate) trait Library {
    /// Its name.
    const NAME: &'static str;

    /// Compresses at least one number.
    fn compress(&self, numbers: &mut [f64]) -> Option<Vec<u8>>;

    /// Restores `n` numbers.
    fn decompress(&self, bytes: &[u8], n: usize) -> Option<Vec<f64>>;
}

/// Converts between times and the numbers that a library compresses.
pub(crate) trait Scale {
    /// The number for the time of that call.
    fn number(&self, call: usize, time: u64) -> f64;

    /// The time for a number, of that call.
    fn time(&self, call: usize, number: f64) -> u64;

    /// Whether a time may be decoded as this number.
    fn is_within(&self, call: usize, time: u64, number: f64) -> bool;
}

/// The order in which the times of calls are compressed: program order, or by signature (Pilgrim
/// §2.3.2).
pub(crate) fn order(terminals: &[u32], clustered: bool) -> Vec<usize> {
    let mut order: Vec<_> = (0..terminals.len()).collect();
    if clustered {
        let mut first = HashMap::new();
        terminals.iter().enumerate().for_each(|(i, terminal)| {
            first.entry(*terminal).or_insert(i);
        });
        order.sort_by_key(|call| first.get(&terminals[*call]));
    }
    order
}

/// Appends a column.
pub(crate) fn encode<L: Library>(
    library: &L,
    scale: &impl Scale,
    order: &[usize],
    times: &[u64],
    out: &mut Vec<u8>,
) -> Result<(), TimingError> {
    if order.is_empty() {
        return Ok(());
    }
    let failed = || TimingError::Library(L::NAME);
    let mut numbers: Vec<_> = order.iter().map(|call| scale.number(*call, times[*call])).collect();
    let bytes = library.compress(&mut numbers).ok_or_else(failed)?;
    let numbers = library.decompress(&bytes, order.len()).ok_or_else(failed)?;
    let is_off = |(_, (call, number)): &(usize, (&usize, &f64))| {
        !scale.is_within(**call, times[**call], **number)
    };
    let off: Vec<_> = order.iter().zip(&numbers).enumerate().filter(is_off).collect();
    put_number(out, off.len() as u64);
    let mut next = 0;
    for (at, (call, _)) in off {
        put_number(out, (at - next) as u64);
        put_number(out, times[*call]);
        next = at + 1;
    }
    out.extend_from_slice(&hash(&bytes).to_le_bytes());
    put_bytes(out, &bytes);
    Ok(())
}

/// Reads a column.
pub(crate) fn decode<L: Library>(
    library: &L,
    scale: &impl Scale,
    order: &[usize],
    reader: &mut Reader<'_>,
    column: &mut Vec<u64>,
) -> Result<(), TimingError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut exact = Vec::new();
    let mut next = 0u64;
    for _ in 0..reader.amount()? {
        let at = reader.number()?.checked_add(next).filter(|at| *at < order.len() as u64);
        let at = at.ok_or(TimingError::Damaged("a call's number"))?;
        exact.push((order[at as usize], reader.number()?));
        next = at + 1;
    }
    let expected = reader.take(8)?;
    let bytes = reader.bytes()?;
    if hash(bytes).to_le_bytes() != expected {
        return Err(TimingError::Damaged("wrong hash of the bytes of a library"));
    }
    let numbers = library.decompress(bytes, order.len());
    let numbers = numbers.ok_or(TimingError::Library(L::NAME))?;
    column.resize(order.len(), 0);
    for (call, number) in order.iter().zip(numbers) {
        column[*call] = scale.time(*call, number);
    }
    for (call, time) in exact {
        column[call] = time;
    }
    Ok(())
}

/// FNV-1a over words of eight bytes.
fn hash(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FNV_PRIME).rotate_left(29);
    let (words, rest) = bytes.as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let hash = words.fold(bytes.len() as u64 ^ FNV_BASIS, mix);
    rest.iter().fold(hash, |hash, byte| mix(hash, (*byte).into()))
}
