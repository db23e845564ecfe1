//! Times kept exactly.
//!
//! Each time, in units of the clock's [`Quantum`], is split as a floating-point number is: a
//! symbol says how large it is, to two bits behind the first, and the bits below stand as they
//! are. Symbols are coded by what was expected at the call's position. There is
//! little to be had beyond that: the lowest bits of times are noise.

use crate::bits::MOST_BITS;
use crate::bytes::{Reader, put_number};
use crate::position::{MOST_SYMBOL, Pair};
use crate::quantum::Quantum;
use crate::symbols::{Scratch, SymbolReader};
use crate::{Calls, Times, TimingError, floating};

/// Bits behind the first that are part of the symbol.
const MANTISSA: u32 = 2;

/// If more than one call in so many has a time that is no multiple, the clock has no quantum.
const ODD: usize = 16;

/// Times of a column that are no multiples: the calls, and what is left of their times.
#[derive(Debug, Default)]
struct Rests(Vec<(usize, u64)>);

impl Rests {
    /// Takes in one of them; gives the quotient.
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

    /// Reads those of a column of so many calls.
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

    /// Adds them to the column.
    fn add_to(&self, column: &mut [u64]) -> Result<(), TimingError> {
        for (call, rest) in &self.0 {
            let value = column.get_mut(*call).ok_or(TimingError::Damaged("a call's number"))?;
            *value = value.checked_add(*rest).ok_or(TimingError::Damaged("a time"))?;
        }
        Ok(())
    }
}

/// Appends the times. Compiled into each caller, which may know more of the processor.
#[inline(always)]
pub(crate) fn encode(calls: &Calls<'_>, scratch: &mut Scratch, out: &mut Vec<u8>) {
    let both = calls.gaps.iter().zip(calls.durations).flat_map(|(gap, duration)| [*gap, *duration]);
    let mut quantum = Quantum::of(both);
    let most = calls.terminals.len() / ODD + 1;
    let rests = loop {
        let rests = note(calls, quantum, scratch);
        // By 1 nothing is left.
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

/// Finds the symbols, and the bits below them.
#[inline(always)]
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
