//! Times as the most frequent bins of their signature: HIST of Pilgrim §2.3.2.
//!
//! Choices that the paper leaves open:
//!
//! - Each signature has its own bins (table 2 of the paper: HIST is clustered by signature): those of
//!   its first [`SAMPLES`] calls in the block, separately for intervals and durations.
//! - A time in one of these bins is a bit and the bin's index, in as few bits as the indices in use
//!   need, and at most K. (The paper says K + 1 bits; but with K = 8 and 64-bit times that cannot
//!   give the ratio of 15 that it measures.)
//! - Any other time is a bit and 64 bits.
//! - The bins themselves precede the times, as differences.

use crate::bins::{Bins, Representative};
use crate::bits::{BitBuffer, BitReader};
use crate::bytes::{Reader, put_number};
use crate::{Bounds, Calls, Times, TimingError};
use std::collections::HashMap;

/// K: the 2^K most frequent bins have a short code.
const K: u32 = 8;

/// M: samples from which frequencies are taken.
const SAMPLES: usize = 100;

/// The bins of one signature in one column, by number.
#[derive(Debug, Default)]
struct Top {
    bins: Vec<u64>,
}

impl Top {
    /// The most frequent of these samples.
    fn of(samples: &[u64]) -> Top {
        let mut counts = HashMap::new();
        samples.iter().for_each(|bin| *counts.entry(*bin).or_insert(0u32) += 1);
        let mut bins: Vec<_> = counts.into_iter().collect();
        bins.sort_unstable_by_key(|(bin, count)| (std::cmp::Reverse(*count), *bin));
        bins.truncate(1 << K);
        let mut bins: Vec<_> = bins.into_iter().map(|(bin, _)| bin).collect();
        bins.sort_unstable();
        Top { bins }
    }

    /// Bits of an index.
    fn width(&self) -> u32 {
        self.bins.len().next_power_of_two().trailing_zeros()
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.bins.len() as u64);
        let mut next = 0;
        for bin in &self.bins {
            put_number(out, bin - next);
            next = bin + 1;
        }
    }

    fn get(reader: &mut Reader<'_>) -> Result<Top, TimingError> {
        let damaged = TimingError::Damaged("malformed bins of a signature");
        let n = reader.amount()?;
        if n > 1 << K {
            return Err(damaged);
        }
        let mut next = 0u64;
        let mut bins = Vec::with_capacity(n);
        for _ in 0..n {
            let bin = next.checked_add(reader.number()?).filter(|bin| *bin < u64::MAX);
            let bin = bin.ok_or(damaged.clone())?;
            bins.push(bin);
            next = bin + 1;
        }
        Ok(Top { bins })
    }
}

/// The number of signatures, and for each call the number of its signature by first appearance.
fn signatures(terminals: &[u32]) -> (usize, Vec<usize>) {
    let mut numbers = HashMap::new();
    let number = |terminal: &u32| {
        let next = numbers.len();
        *numbers.entry(*terminal).or_insert(next)
    };
    let all = terminals.iter().map(number).collect();
    (numbers.len(), all)
}

/// Appends the times.
#[expect(
    clippy::indexing_slicing,
    reason = "`Bounds` returns only indices of existing levels, and level 0 exists; columns are as long as the list of terminals, and there is a list for every signature"
)]
pub(crate) fn encode(bounds: &Bounds, calls: &Calls<'_>, out: &mut Vec<u8>) {
    bounds.put(calls.terminals, out);
    let levels = levels(bounds);
    let (n, numbers) = signatures(calls.terminals);
    let mut buffer = BitBuffer::default();
    let mut bits = buffer.begin(calls.terminals.len() * 2 * 65);
    for column in [calls.gaps, calls.durations] {
        let bin =
            |call: usize| levels[bounds.level_index(calls.terminals[call])].number(column[call]);
        let mut samples = vec![Vec::new(); n];
        for (call, number) in numbers.iter().enumerate() {
            if samples[*number].len() < SAMPLES {
                samples[*number].push(bin(call));
            }
        }
        let tops: Vec<_> = samples.iter().map(|samples| Top::of(samples)).collect();
        tops.iter().for_each(|top| top.put(out));
        for (call, number) in numbers.iter().enumerate() {
            let top = &tops[*number];
            match top.bins.binary_search(&bin(call)) {
                Ok(found) => bits.push((found as u64) << 1 | 1, top.width() + 1),
                Err(_) => {
                    bits.push(0, 1);
                    bits.push_wide(column[call], 64);
                }
            }
        }
    }
    bits.end();
    out.extend_from_slice(buffer.written());
}

/// Reads the times of these calls.
#[expect(
    clippy::indexing_slicing,
    reason = "`Bounds` returns only indices of existing levels, and level 0 exists; there is a list for every signature"
)]
pub(crate) fn decode(
    terminals: &[u32],
    reader: &mut Reader<'_>,
    times: &mut Times,
) -> Result<(), TimingError> {
    let bounds = Bounds::get(terminals, reader)?;
    let levels = levels(&bounds);
    let (n, numbers) = signatures(terminals);
    let mut tops = || (0..n).map(|_| Top::get(reader)).collect::<Result<Vec<_>, _>>();
    // The bits of both columns follow the bins of both.
    let tops = [tops()?, tops()?];
    let mut bits = BitReader::new(reader.rest());
    for (tops, column) in tops.iter().zip([&mut times.gaps, &mut times.durations]) {
        for (number, terminal) in numbers.iter().zip(terminals) {
            let top = &tops[*number];
            column.push(match bits.read(1)? {
                0 => bits.read(64)?,
                _ => {
                    let bin = top.bins.get(bits.read(top.width())? as usize);
                    let bin = *bin.ok_or(TimingError::Damaged("index of a bin out of range"))?;
                    levels[bounds.level_index(*terminal)].bin(bin).value
                }
            });
        }
    }
    bits.finish()
}

fn levels(bounds: &Bounds) -> Vec<Bins> {
    bounds.levels().iter().map(|bound| Bins::new(*bound, Representative::Top)).collect()
}
