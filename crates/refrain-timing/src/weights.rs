//! Frequencies of symbols, in a few bits per symbol.
//!
//! A frequency is stored as one of [`LEVELS`] levels, each a third more than the one below. An error of
//! a sixth costs a hundredth of a bit per symbol; exact counts would cost more. Neighbouring symbols
//! have similar frequencies (the distribution of times is bell-shaped, Pilgrim figure 3), so a level is
//! stored as its difference from the previous one.

use crate::TimingError;
use crate::bits::{BitReader, BitWriter};
use crate::floating;
use crate::rans::SCALE;

/// The highest level, that of the most frequent symbol; level 0 means that a symbol does not occur.
const LEVELS: u8 = 28;

/// Bits of a small difference.
const SMALL: u32 = 1;

/// The most bits of a table.
pub(crate) const MOST_BITS: usize = 16 + 256 * (1 + LEVELS as usize + 2);

/// Weights of the levels: 4/3 to the level.
#[expect(clippy::indexing_slicing, reason = "evaluated when it is compiled")]
const WEIGHTS: [u32; LEVELS as usize + 1] = {
    let mut weights = [0; LEVELS as usize + 1];
    // In units of 1/256, to round only once.
    let (mut level, mut weight) = (1, 256 * 16);
    while level < weights.len() {
        weights[level] = (weight + 128) / 256;
        weight = weight * 4 / 3;
        level += 1;
    }
    weights
};

/// The symbols from the first to the last that occurs, with their frequencies.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Frequencies {
    pub first: u8,
    pub each: Vec<u32>,
}

/// Bits by which a ratio is looked up.
const LOOK: u32 = 3;

/// For each ratio to the highest weight, the level whose weight is nearest.
#[expect(clippy::indexing_slicing, reason = "evaluated when it is compiled")]
static NEAREST: [u8; 128] = {
    let mut nearest = [1; 128];
    let mut cell = 0;
    while cell < nearest.len() as u32 {
        let open = (cell >> LOOK).saturating_sub(1);
        let middle = ((cell - (open << LOOK)) << open) + (1 << open) / 2;
        let mut level = 1;
        // The range of a level ends halfway to the next: at 7/6 of its weight.
        while level < LEVELS && WEIGHTS[level as usize] * 7 < middle * 6 {
            level += 1;
        }
        nearest[cell as usize] = level;
        cell += 1;
    }
    nearest
};

/// The level of a symbol that occurs `count` times if the most frequent one occurs `most` times.
#[expect(clippy::indexing_slicing, reason = "the last of the levels; a remainder of the length")]
fn level(count: u32, most: u32) -> u8 {
    let highest = u64::from(WEIGHTS[usize::from(LEVELS)]);
    let share = u64::from(count) * highest / u64::from(most.max(1));
    NEAREST[floating::cell::<LOOK>(share) as usize % NEAREST.len()]
}

/// Writes approximate frequencies; returns what was written.
#[expect(clippy::indexing_slicing, reason = "both indices are in the list, in order")]
pub(crate) fn put(counts: &[u32; 256], bits: &mut BitWriter<'_>) -> Frequencies {
    let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(first);
    let most = counts[first..=last].iter().copied().max().unwrap_or(0);
    bits.push(first as u64, 8);
    bits.push((last - first) as u64, 8);
    let mut levels = [0; 256];
    let levels = &mut levels[..=last - first];
    let mut before = LEVELS;
    for (count, room) in counts[first..=last].iter().zip(levels.iter_mut()) {
        bits.push(u64::from(*count > 0), 1);
        if *count > 0 {
            *room = level(*count, most);
            let difference = i32::from(*room) - i32::from(before);
            bits.push_rice((difference << 1 ^ difference >> 31) as u32, SMALL);
            before = *room;
        }
    }
    Frequencies { first: first as u8, each: frequencies(levels) }
}

/// Reads what [`put`] wrote.
pub(crate) fn get(bits: &mut BitReader<'_>) -> Result<Frequencies, TimingError> {
    let first = bits.read(8)? as u8;
    let length = bits.read(8)? as usize + 1;
    if usize::from(first) + length > 256 {
        return Err(TimingError::Damaged("malformed symbols of a table"));
    }
    let mut levels = vec![0; length];
    let mut before = LEVELS;
    for level in &mut levels {
        if bits.read(1)? == 1 {
            let folded = bits.read_rice(SMALL, 2 * u32::from(LEVELS))?;
            let difference = (folded >> 1) as i32 ^ -((folded & 1) as i32);
            let found = i32::from(before) + difference;
            if !(1..=i32::from(LEVELS)).contains(&found) {
                return Err(TimingError::Damaged("malformed frequency of a symbol"));
            }
            *level = found as u8;
            before = *level;
        }
    }
    if levels.iter().all(|level| *level == 0) {
        return Err(TimingError::Damaged("a table without symbols"));
    }
    Ok(Frequencies { first, each: frequencies(&levels) })
}

/// Frequencies that add up to 2 to the [`SCALE`], at least 1 for each symbol that occurs.
#[expect(clippy::indexing_slicing, reason = "limited to the last")]
fn frequencies(levels: &[u8]) -> Vec<u32> {
    let weight = |level: &u8| WEIGHTS[usize::from(*level).min(LEVELS.into())];
    let sum: u32 = levels.iter().map(weight).sum::<u32>().max(1);
    let scaled = |level: &u8| match weight(level) {
        0 => 0,
        weight => (((weight << SCALE) + sum / 2) / sum).max(1),
    };
    let mut each: Vec<u32> = levels.iter().map(scaled).collect();
    let mut left = (1i32 << SCALE) - each.iter().sum::<u32>() as i32;
    // The rounding error is distributed in steps, over the largest frequencies.
    while left != 0 {
        let Some(largest) = each.iter_mut().max() else { break };
        let change = left.max(-((*largest as i32) / 2)).min(left.abs());
        *largest = (*largest as i32 + change) as u32;
        left -= change;
    }
    each
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::BitBuffer;
    use proptest::prelude::*;

    fn counts() -> impl Strategy<Value = Vec<(u8, u16)>> {
        prop::collection::vec((any::<u8>(), prop_oneof![1..4u16, 1..=u16::MAX]), 1..256)
    }

    proptest! {
        #[test]
        fn frequencies_read_back_add_up_and_include_every_symbol(some in counts()) {
            let mut counts = [0; 256];
            some.iter().for_each(|(symbol, n)| counts[usize::from(*symbol)] += u32::from(*n));
            let mut buffer = BitBuffer::default();
            let mut bits = buffer.begin(MOST_BITS);
            let written = put(&counts, &mut bits);
            bits.end();
            prop_assert_eq!(get(&mut BitReader::new(buffer.written())), Ok(written.clone()));
            prop_assert_eq!(written.each.iter().sum::<u32>(), 1 << SCALE);
            for (symbol, count) in counts.iter().enumerate() {
                let index = symbol.checked_sub(written.first.into());
                let given = index.and_then(|index| written.each.get(index)).copied().unwrap_or(0);
                prop_assert_eq!(given > 0, *count > 0);
            }
        }

        #[test]
        fn any_bits_are_frequencies_or_an_error(bytes: Vec<u8>) {
            if let Ok(read) = get(&mut BitReader::new(&bytes)) {
                prop_assert_eq!(read.each.iter().sum::<u32>(), 1 << SCALE);
            }
        }
    }

    #[test]
    fn a_level_is_close_to_the_frequency() {
        for count in 1..=10_000u32 {
            let weight = f64::from(WEIGHTS[usize::from(level(count, 10_000))]);
            let stands_for = weight / f64::from(WEIGHTS[usize::from(LEVELS)]) * 10_000.0;
            let off = stands_for / f64::from(count);
            assert!(count < 5 || (0.8..1.25).contains(&off), "{count} is kept as {stands_for}");
        }
    }
}
