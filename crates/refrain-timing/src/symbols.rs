//! Two columns of symbols, intervals and durations, each symbol coded in its class.
//!
//! The encoder makes three passes over a block. The mode finds the symbols and writes the bits that
//! are not part of them. Then classes are found and symbols counted. Then symbols are coded, last to
//! first. Intervals and durations are two independent chains, which the processor executes in
//! parallel.

use crate::TimingError;
use crate::bits::{BitBuffer, BitReader, BitWriter};
use crate::bytes::{Reader, put_bytes, put_number};
use crate::position::{CLASSES, Pair, Positions, SlotFinder};
use crate::rans::{Decoder, Encoder, Spans, Step};
use crate::weights::{self, Frequencies};

/// A class with fewer symbols shares a table.
const FEWEST: u32 = 48;

/// Counts of one column, by class and symbol.
type Counts = [[u16; 256]; CLASSES];

/// Memory that the encoder reuses from block to block.
#[derive(Debug)]
pub(crate) struct Scratch {
    positions: Positions,
    /// For each call, the symbols of interval and duration, each below its class.
    pub calls: Vec<Pair>,
    counts: Box<[Counts; 2]>,
    steps: [Vec<Step>; 2],
    words: [Vec<u32>; 2],
    /// The bits that are not part of symbols.
    pub bits: BitBuffer,
    tables: BitBuffer,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            positions: Positions::new(),
            calls: Vec::new(),
            counts: Box::new([[[0; 256]; CLASSES]; 2]),
            steps: Default::default(),
            words: Default::default(),
            bits: BitBuffer::default(),
            tables: BitBuffer::default(),
        }
    }
}

impl Scratch {
    /// Finds the classes of all calls, whose symbols are set, and counts symbols by class.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "there is a count for every symbol of every class")]
    pub fn classify(&mut self, before: &[u32], terminals: &[u32]) {
        self.positions.clear();
        let [gaps, durations] = &mut *self.counts;
        let (gaps, durations) = (gaps.as_flattened_mut(), durations.as_flattened_mut());
        gaps.fill(0);
        durations.fill(0);
        let mut finder = SlotFinder::after(before);
        for (call, terminal) in self.calls.iter_mut().zip(terminals) {
            let slots = finder.next(*terminal);
            let symbols = *call;
            *call = Pair(symbols.0 | self.positions.expect(slots).0);
            self.positions.learn(slots, symbols);
            gaps[usize::from(call.get(0))] += 1;
            durations[usize::from(call.get(1))] += 1;
        }
    }

    /// How often each symbol of a column occurs.
    #[expect(clippy::indexing_slicing, reason = "there are two columns")]
    pub fn totals(&self, column: usize) -> [u32; 256] {
        sum(&self.counts[column], u64::MAX)
    }

    /// Writes the classified symbols and the remaining bits.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "there are two columns")]
    pub fn encode(&mut self, out: &mut Vec<u8>) {
        let mut bits = self.tables.begin(2 * (CLASSES + 2) * weights::MOST_BITS);
        let bases = [0, 1]
            .map(|column| put_tables(&self.counts[column], &mut bits, &mut self.steps[column]));
        bits.end();
        put_bytes(out, self.tables.written());
        put_bytes(out, self.bits.written());
        self.put_symbols(&bases, out);
    }

    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "there are two columns; bases lead to steps")]
    fn put_symbols(&mut self, bases: &[[u32; CLASSES]; 2], out: &mut Vec<u8>) {
        let room = Encoder::room(self.calls.len());
        let [gaps, durations] = &mut self.words;
        for words in [&mut *gaps, &mut *durations] {
            words.resize(room.max(words.len()), 0);
        }
        let (mut gap, mut duration) = (Encoder::new(), Encoder::new());
        let step = |column: usize, call: &Pair| {
            let [symbol, class] = call.get(column).to_le_bytes();
            let base = bases[column][usize::from(class) % CLASSES];
            &self.steps[column][base.wrapping_add(symbol.into()) as usize]
        };
        for call in self.calls.iter().rev() {
            gap.put(step(0, call), gaps);
            duration.put(step(1, call), durations);
        }
        for words in [gap.finish(gaps), duration.finish(durations)] {
            put_number(out, words.len() as u64 * 4);
            out.extend(words.iter().rev().flat_map(|word| word.to_le_bytes()));
        }
    }
}

/// The classes with their own table, as a bit set.
fn classes_with_own(counts: &Counts) -> u64 {
    let own = |class: &[u16; 256]| class.iter().map(|n| u32::from(*n)).sum::<u32>() >= FEWEST;
    counts.iter().rev().fold(0, |bits, class| bits << 1 | u64::from(own(class)))
}

/// The counts of all these classes together.
fn sum(counts: &Counts, classes: u64) -> [u32; 256] {
    let mut sum = [0; 256];
    for (class, counts) in counts.iter().enumerate() {
        if classes >> class & 1 == 1 {
            sum.iter_mut().zip(counts).for_each(|(sum, n)| *sum += u32::from(*n));
        }
    }
    sum
}

/// Writes the tables of a column; returns for each class the index of its steps, minus its first
/// symbol.
fn put_tables(counts: &Counts, bits: &mut BitWriter<'_>, steps: &mut Vec<Step>) -> [u32; CLASSES] {
    let own = classes_with_own(counts);
    bits.push_wide(own, 64);
    steps.clear();
    let mut table = |counts: &[u32; 256], bits: &mut BitWriter<'_>| {
        let Frequencies { first, each } = weights::put(counts, bits);
        let base = (steps.len() as u32).wrapping_sub(first.into());
        let mut before = 0;
        for frequency in each {
            steps.push(if frequency > 0 { Step::new(before, frequency) } else { Step::default() });
            before += frequency;
        }
        base
    };
    let others = sum(counts, !own);
    let any = others.iter().any(|n| *n > 0);
    bits.push(any.into(), 1);
    let shared = if any { table(&others, bits) } else { 0 };
    let mut bases = [shared; CLASSES];
    for (class, base) in bases.iter_mut().enumerate() {
        if own >> class & 1 == 1 {
            *base = table(&sum(counts, 1 << class), bits);
        }
    }
    bases
}

/// The tables of a column, for decoding.
struct Tables {
    own: Vec<Option<Spans>>,
    shared: Option<Spans>,
}

impl Tables {
    fn get(bits: &mut BitReader<'_>) -> Result<Tables, TimingError> {
        let spans = |bits: &mut BitReader<'_>| {
            let Frequencies { first, each } = weights::get(bits)?;
            let symbols = (first..=u8::MAX).zip(each).filter(|(_, frequency)| *frequency > 0);
            Ok::<_, TimingError>(Spans::new(symbols))
        };
        let own = bits.read(64)?;
        let shared = if bits.read(1)? == 1 { Some(spans(bits)?) } else { None };
        let table = |class: usize| match own >> class & 1 {
            1 => spans(bits).map(Some),
            _ => Ok(None),
        };
        Ok(Tables { own: (0..CLASSES).map(table).collect::<Result<_, _>>()?, shared })
    }

    fn of(&self, class: u8) -> Result<&Spans, TimingError> {
        let own = self.own.get(usize::from(class)).and_then(Option::as_ref);
        own.or(self.shared.as_ref()).ok_or(TimingError::Damaged("class without a table"))
    }
}

/// Reads symbols call by call.
pub(crate) struct SymbolReader<'a> {
    positions: Positions,
    finder: SlotFinder,
    tables: [Tables; 2],
    columns: [Decoder<'a>; 2],
    /// The bits that are not part of symbols.
    pub bits: BitReader<'a>,
}

impl<'a> SymbolReader<'a> {
    /// Reads what [`Scratch::encode`] wrote.
    pub fn new(before: &[u32], reader: &mut Reader<'a>) -> Result<SymbolReader<'a>, TimingError> {
        let mut tables = BitReader::new(reader.bytes()?);
        let both = [Tables::get(&mut tables)?, Tables::get(&mut tables)?];
        tables.finish()?;
        let bits = BitReader::new(reader.bytes()?);
        let columns = [Decoder::new(reader.bytes()?)?, Decoder::new(reader.bytes()?)?];
        let (positions, finder) = (Positions::new(), SlotFinder::after(before));
        Ok(SymbolReader { positions, finder, tables: both, columns, bits })
    }

    /// The symbols of the interval and the duration of the next call.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "there are two columns")]
    pub fn next(&mut self, terminal: u32) -> Result<[u8; 2], TimingError> {
        let slots = self.finder.next(terminal);
        let classes = self.positions.expect(slots);
        let mut symbol = |column: usize| {
            let [_, class] = classes.get(column).to_le_bytes();
            self.columns[column].get(self.tables[column].of(class)?)
        };
        let symbols = [symbol(0)?, symbol(1)?];
        self.positions.learn(slots, Pair::new(symbols[0].into(), symbols[1].into()));
        Ok(symbols)
    }

    /// Checks that everything was read.
    pub fn finish(&self) -> Result<(), TimingError> {
        self.bits.finish()?;
        self.columns.iter().try_for_each(Decoder::finish)
    }
}
