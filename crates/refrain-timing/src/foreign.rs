//! Times through libraries made for fields of floating-point numbers.
//!
//! Such a library promises a bound for numbers as it likes them; times of a program are not always
//! so (0 and 10^19 side by side), and they are rounded to ticks in the end. So what it made of a
//! column is decompressed at once, and each time that is not within its bound is kept beside it,
//! exactly. And a library trusts its input, as a trace must not: it is given only bytes whose hash
//! is that of the bytes it wrote. That finds damage; it does not stop an adversary.

use crate::TimingError;
use crate::bytes::{Reader, put_bytes, put_number};
use refrain_bytes::stable::{FNV_BASIS, FNV_PRIME};
use std::collections::HashMap;

/// A library.
pub(crate) trait Library {
    /// Its name.
    const NAME: &'static str;

    /// Numbers, of which there is one at least, as bytes.
    fn compress(&self, numbers: &mut [f64]) -> Option<Vec<u8>>;

    /// So many numbers again.
    fn decompress(&self, bytes: &[u8], n: usize) -> Option<Vec<f64>>;
}

/// How a time becomes a number, and a number a time.
pub(crate) trait Scale {
    /// The number for the time of that call.
    fn number(&self, call: usize, time: u64) -> f64;

    /// The time for a number, of that call.
    fn time(&self, call: usize, number: f64) -> u64;

    /// Whether a time may be decoded as this number.
    fn is_within(&self, call: usize, time: u64, number: f64) -> bool;
}

/// The calls in the order in which their times are compressed: as they are, or signature by
/// signature (Pilgrim §2.3.2).
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
        return Err(TimingError::Damaged("what a library wrote"));
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

/// FNV-1a, by eight bytes at a time.
fn hash(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(FNV_PRIME).rotate_left(29);
    let (words, rest) = bytes.as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let hash = words.fold(bytes.len() as u64 ^ FNV_BASIS, mix);
    rest.iter().fold(hash, |hash, byte| mix(hash, (*byte).into()))
}
