//! Exact times.
//!
//! Each time, in units of the clock's [`Quantum`], is split like a floating-point number: a symbol
//! with exponent and two mantissa bits, and the remaining bits as they are. Symbols are coded by the
//! expectation at the call's position. Little more is possible: the low bits of times are noise.

use crate::bits::MOST_BITS;
use crate::bytes::{Reader, put_number};
use crate::position::{MOST_SYMBOL, Pair};
use crate::quantum::Quantum;
use crate::symbols::{Scratch, SymbolReader};
use crate::{Calls, Times, TimingError, floating};

/// Mantissa bits of a symbol.
const MANTISSA: u32 = 2;

/// If more than one time in this many is not a multiple, the clock has no quantum.
const ODD: usize = 16;

/// The times of a column that are not multiples of the quantum: call and remainder.
#[derive(Debug, Default)]
struct Rests(Vec<(usize, u64)>);

impl Rests {
    /// Divides a time; notes the remainder if there is one.
    #[cold]
    fn divide(&mut self, call: usize, value: u64, quantum: Quantum) -> u64 {
        self.0.push((call, value % quantum.ticks()));
        value / quantum.ticks()
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, self.0.len() as u64);
        let mut next = 0;
        for (call, rest) in &self.0 {
            put_number(out, (call - next) as u64);
            put_number(out, *rest);
            next = call + 1;
        }
    }

    /// Reads the remainders of a column with the given number of calls.
    fn get(reader: &mut Reader<'_>, calls: usize) -> Result<Rests, TimingError> {
        let n = reader.amount()?;
        let mut next = 0;
        let rest = |_| {
            let call = reader.number()?.checked_add(next).filter(|call| *call < calls as u64);
            let call = call.ok_or(TimingError::Damaged("a call's number"))?;
            next = call + 1;
            Ok((call as usize, reader.number()?))
        };
        Ok(Rests((0..n).map(rest).collect::<Result<_, TimingError>>()?))
    }

    /// Adds the remainders to the column.
    fn add_to(&self, column: &mut [u64]) -> Result<(), TimingError> {
        for (call, rest) in &self.0 {
            let value = column.get_mut(*call).ok_or(TimingError::Damaged("a call's number"))?;
            *value = value.checked_add(*rest).ok_or(TimingError::Damaged("a time"))?;
        }
        Ok(())
    }
}

/// Appends the times. Inlined into each caller, which may be compiled for newer processors.
#[inline(always)]
pub(crate) fn encode(calls: &Calls<'_>, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let both = calls.gaps.iter().zip(calls.durations).flat_map(|(gap, duration)| [*gap, *duration]);
    let mut quantum = Quantum::of(both);
    let most = calls.terminals.len() / ODD + 1;
    let rests = loop {
        let rests = note(calls, quantum, scratch);
        // Division by 1 leaves no remainders.
        if rests.iter().map(|rests| rests.0.len()).sum::<usize>() <= most {
            break rests;
        }
        quantum = Quantum::new(1);
    };
    put_number(out, quantum.ticks());
    rests.iter().for_each(|rests| rests.put(out));
    scratch.classify(calls.before, calls.terminals);
    scratch.encode(out);
}

/// Splits times into symbols and remaining bits.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "there are two columns")]
fn note(calls: &Calls<'_>, quantum: Quantum, scratch: &mut Scratch) -> [Rests; 2] {
    let mut rests = [Rests::default(), Rests::default()];
    scratch.calls.clear();
    scratch.calls.resize(calls.terminals.len(), Pair::default());
    let mut bits = scratch.bits.begin(calls.terminals.len() * 128);
    let both = calls.gaps.iter().zip(calls.durations);
    for (call, ((gap, duration), room)) in both.zip(&mut scratch.calls).enumerate() {
        let mut quotient = |column: usize, value: u64| match quantum.divide(value) {
            Some(quotient) => quotient,
            None => rests[column].divide(call, value, quantum),
        };
        let (gap, duration) = (quotient(0, *gap), quotient(1, *duration));
        let gap_symbol = floating::cell::<MANTISSA>(gap);
        let duration_symbol = floating::cell::<MANTISSA>(duration);
        let (_, gap_open) = floating::bits::<MANTISSA>(gap_symbol);
        let (_, duration_open) = floating::bits::<MANTISSA>(duration_symbol);
        let gap = gap & !(u64::MAX << gap_open);
        let duration = duration & !(u64::MAX << duration_open);
        if gap_open + duration_open <= MOST_BITS {
            bits.push(gap | duration << gap_open, gap_open + duration_open);
        } else {
            bits.push_wide(gap, gap_open);
            bits.push_wide(duration, duration_open);
        }
        *room = Pair::new(gap_symbol as u16, duration_symbol as u16);
    }
    bits.end();
    rests
}

/// Reads the times of these calls.
pub(crate) fn decode(
    before: &[u32],
    terminals: &[u32],
    reader: &mut Reader<'_>,
    times: &mut Times,
) -> Result<(), TimingError> {
    let quantum = reader.number()?;
    let rests = [Rests::get(reader, terminals.len())?, Rests::get(reader, terminals.len())?];
    let mut symbols = SymbolReader::new(before, reader)?;
    for terminal in terminals {
        let both = symbols.next(*terminal)?;
        for (symbol, column) in both.into_iter().zip([&mut times.gaps, &mut times.durations]) {
            let (high, open) = floating::bits::<MANTISSA>(symbol.into());
            let value = high << open | symbols.bits.read(open)?;
            column.push(value.checked_mul(quantum).ok_or(TimingError::Damaged("a time"))?);
        }
    }
    symbols.finish()?;
    rests[0].add_to(&mut times.gaps)?;
    rests[1].add_to(&mut times.durations)
}

const _: () = assert!(floating::cells::<MANTISSA>() as usize <= MOST_SYMBOL as usize + 1);
