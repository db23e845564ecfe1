//! Times within a relative bound, clustered by position in the program's loops.
//!
//! A time is stored as the number of its bin. Bins are as wide as the bound allows, twice as wide as
//! those of Pilgrim §2.3.2. Their numbers are symbols, which are coded by the expectation at the
//! call's position.
//!
//! With a relative bound, the few large times may be off by far more ticks than all others together,
//! and dominate the error of any sum and the signal-to-noise ratio. So the bins of the largest times
//! are divided into steps of equal width: the smallest width that takes at most one bit per [`FINE`]
//! calls of the block.

use crate::bins::{Bin, Bins, Representative};
use crate::bounds::Relative;
use crate::bytes::Reader;
use crate::position::{MOST_SYMBOL, Pair};
use crate::symbols::{self, SymbolReader};
use crate::{Bounds, Calls, Times, TimingError};

/// In each column, one bit per this many calls is spent on the largest times.
const FINE: u64 = 8;

/// At least this many bits are spent on them.
const FINE_LEAST: u64 = 128;

/// The bins of one bound, and how their numbers become symbols.
#[derive(Debug)]
struct Level {
    bound: Relative,
    bins: Bins,
    /// Low bits of the bin number that are not part of the symbol.
    low: u32,
}

impl Level {
    fn new(bound: Relative) -> Level {
        let bins = Bins::new(bound, Representative::Middle);
        let most = bins.len() - 1;
        let low = (0..64).find(|low| most >> low <= MOST_SYMBOL.into()).unwrap_or(63);
        Level { bound, bins, low }
    }

    #[inline(always)]
    fn symbol(&self, value: u64) -> u8 {
        (self.bins.number(value) >> self.low) as u8
    }

    /// The last bin with that symbol.
    fn last_bin(&self, symbol: u8) -> Bin {
        let next = (u64::from(symbol) + 1) << self.low;
        self.bins.bin((next - 1).min(self.bins.len() - 1))
    }
}

/// What the encoder reuses from block to block.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    levels: Vec<Level>,
}

impl Scratch {
    /// Computes the bins of these bounds, unless they are known.
    fn prepare(&mut self, bounds: &Bounds) {
        let same = |(level, bound): (&Level, &Relative)| level.bound == *bound;
        if self.levels.len() != bounds.levels().len()
            || !self.levels.iter().zip(bounds.levels()).all(same)
        {
            self.levels = bounds.levels().iter().map(|bound| Level::new(*bound)).collect();
        }
    }
}

/// The width of steps, as a power of two of ticks. Bins of a column that are at least two steps wide
/// are divided into steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Steps(u32);

impl Steps {
    /// The smallest width whose bits stay within the budget for these symbols.
    fn choose(level: &Level, counts: &[u32; 256], calls: usize) -> Steps {
        let budget = calls as u64 / FINE + FINE_LEAST;
        let bins = counts.iter().zip(0..=u8::MAX).filter(|(n, _)| **n > 0);
        let widths: Vec<_> = bins
            .map(|(n, symbol)| {
                let bin = level.last_bin(symbol);
                (u64::from(*n), bin.last - bin.first)
            })
            .collect();
        let cost = |steps: &u32| {
            let bits = |(n, width): &(u64, u64)| n * u64::from(Steps(*steps).bits(*width));
            widths.iter().map(bits).sum::<u64>()
        };
        Steps((0..64).rev().take_while(|steps| cost(steps) <= budget).last().unwrap_or(63))
    }

    /// Bits of a step index in a bin of that width (last value minus first).
    #[inline]
    fn bits(self, width: u64) -> u32 {
        match width >> self.0 {
            0 | 1 => 0,
            steps => 64 - steps.leading_zeros(),
        }
    }

    /// The middle of a step.
    fn middle(self, bin: Bin, step: u64) -> Result<u64, TimingError> {
        let first = u128::from(bin.first) + (u128::from(step) << self.0);
        let middle = first + ((1 << self.0) - 1) / 2;
        match first <= bin.last.into() {
            true => Ok(middle.min(bin.last.into()) as u64),
            false => Err(TimingError::Damaged("step beyond its bin")),
        }
    }
}

/// Appends the times.
#[expect(
    clippy::indexing_slicing,
    reason = "`Bounds` returns only indices of existing levels, and level 0 exists; there are two columns, as long as the list of terminals"
)]
pub(crate) fn encode(
    bounds: &Bounds,
    calls: &Calls<'_>,
    known: &mut Scratch,
    scratch: &mut symbols::Scratch,
    out: &mut Vec<u8>,
) {
    known.prepare(bounds);
    let levels = &known.levels[..];
    let first = &levels[0];
    let values = calls.gaps.iter().zip(calls.durations);
    scratch.calls.clear();
    if let (Bins::Table(table), true, 0) = (&first.bins, bounds.is_uniform(), first.low) {
        scratch.calls.extend(values.map(|(gap, duration)| {
            Pair::new(table.number(*gap) as u16, table.number(*duration) as u16)
        }));
    } else {
        let symbols = values.zip(calls.terminals).map(|((gap, duration), terminal)| {
            let level = &levels[bounds.level_index(*terminal)];
            Pair::new(level.symbol(*gap).into(), level.symbol(*duration).into())
        });
        scratch.calls.extend(symbols);
    }
    scratch.classify(calls.before, calls.terminals);
    let steps =
        [0, 1].map(|column| Steps::choose(first, &scratch.totals(column), calls.terminals.len()));
    bounds.put(calls.terminals, out);
    out.extend(steps.map(|steps| steps.0 as u8));
    note_open_bits(bounds, levels, calls, steps, scratch);
    scratch.encode(out);
}

/// Notes the bits that are not part of symbols: low bits of bin numbers, steps within bins.
#[expect(
    clippy::indexing_slicing,
    reason = "`Bounds` returns only indices of existing levels, and level 0 exists; there are two columns, as long as the list of terminals"
)]
fn note_open_bits(
    bounds: &Bounds,
    levels: &[Level],
    calls: &Calls<'_>,
    steps: [Steps; 2],
    scratch: &mut symbols::Scratch,
) {
    let mut bits = scratch.bits.begin(calls.terminals.len() * 2 * 128);
    // The first symbol with such bits. Bins grow with their numbers.
    let open = |level: &Level, steps: Steps| {
        let wide = |symbol: &u8| {
            let bin = level.last_bin(*symbol);
            level.low > 0 || steps.bits(bin.last - bin.first) > 0
        };
        (0..=u8::MAX).find(wide).map_or(256, u16::from)
    };
    let open: Vec<_> = levels.iter().map(|level| steps.map(|steps| open(level, steps))).collect();
    for (i, call) in scratch.calls.iter().enumerate() {
        let index = bounds.level_index(calls.terminals[i]);
        for column in 0..2 {
            if call.get(column) & 0xff < open[index][column] {
                continue;
            }
            let level = &levels[index];
            let value = [calls.gaps, calls.durations][column][i];
            let number = level.bins.number(value);
            bits.push(number & !(u64::MAX << level.low), level.low);
            let bin = level.bins.bin(number);
            let more = steps[column].bits(bin.last - bin.first);
            if more > 0 {
                bits.push_wide((value - bin.first) >> steps[column].0, more);
            }
        }
    }
    bits.end();
}

/// Reads the times of these calls.
#[expect(
    clippy::indexing_slicing,
    reason = "`Bounds` returns only indices of existing levels, and level 0 exists; there are two columns, as long as the list of terminals"
)]
pub(crate) fn decode(
    before: &[u32],
    terminals: &[u32],
    reader: &mut Reader<'_>,
    times: &mut Times,
) -> Result<(), TimingError> {
    let bounds = Bounds::get(terminals, reader)?;
    let levels: Vec<_> = bounds.levels().iter().map(|bound| Level::new(*bound)).collect();
    let mut steps = || match reader.byte()? {
        steps @ 0..64 => Ok(Steps(steps.into())),
        _ => Err(TimingError::Damaged("malformed steps")),
    };
    let steps = [steps()?, steps()?];
    let mut symbols = SymbolReader::new(before, reader)?;
    for terminal in terminals {
        let both = symbols.next(*terminal)?;
        let level = &levels[bounds.level_index(*terminal)];
        for (column, room) in [&mut times.gaps, &mut times.durations].into_iter().enumerate() {
            let low = symbols.bits.read(level.low)?;
            let bin = level.bins.bin(u64::from(both[column]) << level.low | low);
            let bits = steps[column].bits(bin.last - bin.first);
            room.push(match bits {
                0 => bin.value,
                _ => steps[column].middle(bin, symbols.bits.read(bits)?)?,
            });
        }
    }
    symbols.finish()
}
