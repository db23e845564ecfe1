//! A chunk in three parts: skeleton, numbers, bulk.
//!
//! The *skeleton* is the structure: shapes, the sequence of executions, and the number of runs of each
//! stream. Threads (and processes) that ran the same code have equal skeletons. So their *numbers*
//! (logical addresses, strides, trip counts) can be compared one by one and written as functions of the
//! thread. Streams with many runs are *bulk*, stored per thread.

use std::sync::Arc;

use crate::align::HOLE;
use crate::block::Blocks;
use crate::bulk;
use crate::chunk::{Entry, Finished, Stream};
use crate::error::MemoryError;
use crate::runs::Runs;
use crate::shape::{Node, Shape};
use refrain_bytes::varint;

/// Streams with more runs than this are bulk. No cycle has more.
const MOST_RUNS: usize = 24;
/// Longer sequences of executions are bulk.
const MOST_SEQUENCE: usize = 4096;
/// The most numbers of all bulk streams of a chunk.
pub const MOST_BULK: usize = 4 * bulk::MOST_NUMBERS;

/// A chunk taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The structure.
    pub skeleton: Vec<u8>,
    /// The numbers, in the order of the skeleton; `None` for a number that is not used.
    pub numbers: Vec<Option<i64>>,
    /// The long irregular streams: numbers, then lengths of runs (none if all are 1).
    pub bulk: Vec<Vec<i64>>,
}

impl Finished {
    /// Takes the chunk apart.
    pub(crate) fn to_parts(&self) -> Parts {
        let mut parts = Parts::default();
        varint::put(&mut parts.skeleton, self.entries.len() as u64);
        for entry in &self.entries {
            entry.shape.node.encode(&mut parts.skeleton);
            for stream in &entry.streams {
                parts.put_runs(&stream.firsts, false);
                for (from_starts, runs) in &stream.steps {
                    parts.put_runs(runs, *from_starts);
                }
            }
        }
        // A hole is the entry after the last.
        let hole = self.entries.len() as u32;
        let sequence = self.sequence.iter().map(|&e| if e == HOLE { hole } else { e });
        if self.sequence.len() <= MOST_SEQUENCE {
            varint::put(&mut parts.skeleton, 1 + self.sequence.len() as u64);
            sequence.for_each(|entry| varint::put(&mut parts.skeleton, u64::from(entry)));
        } else {
            varint::put(&mut parts.skeleton, 0);
            parts.bulk.push(sequence.map(i64::from).collect());
        }
        varint::put(&mut parts.skeleton, self.cuts.len() as u64);
        let mut before = 0;
        for &(at, steps) in &self.cuts {
            varint::put(&mut parts.skeleton, (at - before) as u64);
            parts.numbers.push(Some(steps as i64));
            before = at;
        }
        parts
    }

    /// Puts a chunk together, which may have holes; `numbers` has a number for each of
    /// [`Parts::numbers`].
    pub(crate) fn from_parts(
        mut skeleton: &[u8],
        numbers: &[i64],
        bulk: Vec<Vec<i64>>,
        blocks: &Blocks,
    ) -> Result<Self, MemoryError> {
        let input = &mut skeleton;
        let mut source = Source { numbers: numbers.iter(), bulk: &bulk, used: 0, most: MOST_BULK };
        let mut chunk = Self::default();
        for _ in 0..varint::take_count(input, "number of shapes")? {
            let shape = Arc::new(Shape::compile(Node::decode(input)?, blocks)?);
            let mut streams = Vec::with_capacity(shape.slots.len().min(input.len()));
            for slot in &shape.slots {
                let (_, firsts) = source.take_runs(input)?;
                let steps = (0..slot.depth).map(|_| source.take_runs(input));
                streams.push(Stream { firsts, steps: steps.collect::<Result<_, _>>()? });
            }
            chunk.entries.push(Entry { shape, streams });
        }
        chunk.sequence = source.take_sequence(input, chunk.entries.len())?;
        let mut at = 0usize;
        for _ in 0..varint::take_count(input, "number of cuts")? {
            at = at.saturating_add(varint::take(input)? as usize);
            chunk.cuts.push((at, source.number()? as u64));
        }
        Ok(chunk)
    }

    /// A skeleton with other block numbers; `blocks` is indexed by the old numbers. Nothing else of it changes.
    pub(crate) fn renumber_skeleton(
        mut skeleton: &[u8],
        bulk: &[Vec<i64>],
        columns: usize,
        numbers: &[u32],
        blocks: &Blocks,
    ) -> Result<Vec<u8>, MemoryError> {
        let input = &mut skeleton;
        let indices: Vec<i64> = (0..columns as i64).collect();
        let mut source = Source { numbers: indices.iter(), bulk, used: 0, most: MOST_BULK };
        let mut out = Vec::new();
        let count = varint::take_count(input, "number of shapes")?;
        varint::put(&mut out, count as u64);
        for _ in 0..count {
            let node = Node::decode(input)?;
            let renumbered = node.renumbered(numbers);
            renumbered.ok_or(MemoryError::OutOfRange("block"))?.encode(&mut out);
            let shape = Shape::compile(node, blocks)?;
            let before = *input;
            for slot in &shape.slots {
                for _ in 0..=slot.depth {
                    source.take_runs(input)?;
                }
            }
            out.extend_from_slice(&before[..before.len() - input.len()]);
        }
        out.extend_from_slice(input);
        Ok(out)
    }

    /// The bytes of the chunk, without those of other chunks: version, skeleton, numbers, bulk.
    pub fn to_bytes(&self) -> Vec<u8> {
        let parts = self.to_parts();
        let mut out = vec![crate::VERSION];
        bulk::put_packed(&mut out, &parts.skeleton);
        let numbers: Vec<i64> = parts.numbers.iter().map(|number| number.unwrap_or(0)).collect();
        bulk::put_numbers(&mut out, &numbers);
        put_bulk(&mut out, &parts.bulk);
        out
    }

    /// Decodes a chunk from the front of `input`.
    pub fn decode(input: &mut &[u8], blocks: &Blocks) -> Result<Self, MemoryError> {
        take_version(input)?;
        let skeleton = bulk::take_packed(input)?;
        let numbers = bulk::take_numbers(input, bulk::MOST_NUMBERS)?;
        let bulk = take_bulk(input)?;
        let chunk = Self::from_parts(&skeleton, &numbers, bulk, blocks)?;
        match chunk.sequence.contains(&HOLE) {
            false => Ok(chunk),
            true => Err(MemoryError::OutOfRange("shape in the sequence")),
        }
    }
}

/// Decodes the version, and checks that this crate can read it.
pub fn take_version(input: &mut &[u8]) -> Result<u8, MemoryError> {
    match varint::take_byte(input)? {
        version @ 1..=crate::VERSION => Ok(version),
        version => Err(MemoryError::Version(version)),
    }
}

/// Appends bulk streams.
pub fn put_bulk(out: &mut Vec<u8>, streams: &[Vec<i64>]) {
    varint::put(out, streams.len() as u64);
    streams.iter().for_each(|stream| bulk::put_numbers(out, stream));
}

/// Decodes bulk streams.
pub fn take_bulk(input: &mut &[u8]) -> Result<Vec<Vec<i64>>, MemoryError> {
    let mut most = MOST_BULK;
    let mut streams = Vec::new();
    for _ in 0..varint::take_count(input, "number of streams")? {
        let stream = bulk::take_numbers(input, most)?;
        most -= stream.len();
        streams.push(stream);
    }
    Ok(streams)
}

impl Parts {
    fn put_runs(&mut self, runs: &Runs, from_starts: bool) {
        let cyclic = (runs.count() > 2).then(|| runs.as_cycle()).flatten();
        let runs = cyclic.as_ref().unwrap_or(runs);
        let count = runs.count();
        let class = if count > MOST_RUNS { 0 } else { count.max(1) as u64 };
        let head = class << 2 | u64::from(cyclic.is_some()) << 1 | u64::from(from_starts);
        varint::put(&mut self.skeleton, head);
        if class != 0 && cyclic.is_some() {
            varint::put(&mut self.skeleton, runs.cycle() as u64);
        }
        if class == 0 {
            self.put_bulk_runs(runs);
        } else if count == 0 {
            self.numbers.push(None);
        } else {
            for (at, (number, length)) in runs.iter().enumerate() {
                self.numbers.push(Some(number));
                // The last run ends with the stream, so its length is not stored.
                if at + 1 < count || cyclic.is_some() {
                    self.numbers.push(Some(length as i64));
                }
            }
        }
    }
}

impl Parts {
    /// Writes runs as two bulk streams, or as a reference to an earlier stream that is equal. Equal streams
    /// are common: all fields of a list node advance by the same distances to the next node.
    fn put_bulk_runs(&mut self, runs: &Runs) {
        let numbers: Vec<i64> = runs.iter().map(|(number, _)| number).collect();
        let mut lengths: Vec<i64> = runs.iter().map(|(_, length)| length as i64).collect();
        if lengths[..lengths.len() - 1].iter().all(|&length| length == 1) {
            lengths.clear();
        }
        let same = |pair: &[Vec<i64>]| pair[0] == numbers && pair[1] == lengths;
        let known = self.bulk.chunks_exact(2).position(same);
        varint::put(&mut self.skeleton, known.map_or(0, |at| 1 + at as u64));
        if known.is_none() {
            self.bulk.extend([numbers, lengths]);
        }
    }
}

/// Numbers and bulk while a chunk is put together.
struct Source<'a> {
    numbers: std::slice::Iter<'a, i64>,
    bulk: &'a [Vec<i64>],
    /// How many bulk streams were used.
    used: usize,
    /// How many more numbers may come from bulk. The limit is needed because a stream can be referred to many
    /// times.
    most: usize,
}

impl Source<'_> {
    fn number(&mut self) -> Result<i64, MemoryError> {
        self.numbers.next().copied().ok_or(MemoryError::Truncated)
    }

    fn take_runs(&mut self, input: &mut &[u8]) -> Result<(bool, Runs), MemoryError> {
        let head = varint::take(input)?;
        let from_starts = head & 1 == 1;
        let class = head >> 2;
        let cycle = match head & 2 {
            2 if class != 0 => varint::take(input)?.clamp(1, class) as usize,
            _ => 0,
        };
        if class == 0 {
            return Ok((from_starts, self.take_bulk_runs(input)?));
        }
        let mut runs = Vec::new();
        for at in 1..=class {
            let number = self.number()?;
            let length = if at < class || cycle != 0 { self.number()? as u64 } else { 1 };
            runs.push((number, length.max(1)));
        }
        Ok((from_starts, Runs::cyclic(runs, cycle)))
    }

    fn take_bulk_runs(&mut self, input: &mut &[u8]) -> Result<Runs, MemoryError> {
        let at = match varint::take(input)? {
            0 => {
                self.used += 2;
                self.used - 2
            }
            known => usize::try_from(known - 1).unwrap_or(usize::MAX).saturating_mul(2),
        };
        let pair = self.bulk.get(at..at.saturating_add(2)).ok_or(MemoryError::Truncated)?;
        let most = self.most.checked_sub(pair[0].len());
        self.most = most.ok_or(MemoryError::OutOfRange("length of all streams"))?;
        let lengths = pair[1].iter().map(|&length| length as u64).chain(std::iter::repeat(1));
        Ok(pair[0].iter().copied().zip(lengths).collect())
    }

    fn take_sequence(
        &mut self,
        input: &mut &[u8],
        entries: usize,
    ) -> Result<Vec<u32>, MemoryError> {
        const WHAT: MemoryError = MemoryError::OutOfRange("shape in the sequence");
        let check = |entry: u64| match u32::try_from(entry) {
            Ok(entry) if (entry as usize) < entries => Ok(entry),
            Ok(entry) if entry as usize == entries => Ok(HOLE),
            _ => Err(WHAT),
        };
        match varint::take(input)? {
            0 => {
                let sequence = self.bulk.get(self.used).ok_or(MemoryError::Truncated)?;
                sequence.iter().map(|&entry| check(entry as u64)).collect()
            }
            length if length - 1 > input.len() as u64 => Err(MemoryError::Truncated),
            length => (1..length).map(|_| check(varint::take(input)?)).collect(),
        }
    }
}
