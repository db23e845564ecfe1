//! Merges the traces of many processes (ScalaMemTrace §2.3).
//!
//! Each group of threads of a process is merged with the equal groups of other processes: processes in
//! which the group has the same skeleton form a [`RankGroup`], and every number is a [`Column`] over the
//! ranks. So rank 0, whose first thread does more than the first threads of other ranks, still shares the
//! groups of its other threads.
//!
//! [`Processes::join`] merges two traces, in any order. A binary tree over the processes therefore takes
//! log₂(processes) rounds, and a join of regular traces costs the same for any number of ranks on
//! either side.

use refrain_elastic::columns::{Columns, Side};
use refrain_elastic::{Column, Formula, IdList, RankList, tree};

use crate::bulk;
use crate::error::MemoryError;
use crate::parts;
use crate::thread_groups::{Group, MOST_THREADS, Merged};
use crate::thread_numbers::{MOST_VALUES, ThreadNumbers, take_bases};
use refrain_bytes::varint;

/// The most processes.
pub const MOST_RANKS: u32 = 1 << 24;

/// Processes in which a group of threads has the same structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankGroup {
    /// The ranks of the processes.
    pub ranks: RankList,
    /// The threads and their structure.
    skeleton: Vec<u8>,
    /// The numbers; 0 where there is a column.
    numbers: Vec<i64>,
    /// The numbers that differ between ranks.
    columns: Columns,
    /// Irregular streams: for each, one for all ranks, or one for each in ascending order.
    bulk: Vec<Vec<Vec<i64>>>,
    /// The version of the structure's bytes.
    version: u8,
}

/// The traces of several processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    groups: Vec<RankGroup>,
}

impl Processes {
    /// The trace of one process.
    pub fn of(rank: u32, merged: &Merged) -> Self {
        let group = |group: &Group| {
            let (skeleton, numbers, bulk) = group.take_apart();
            RankGroup {
                ranks: RankList::single(rank),
                skeleton,
                numbers,
                columns: Columns::default(),
                bulk: bulk.into_iter().map(|stream| vec![stream]).collect(),
                version: crate::VERSION,
            }
        };
        Self { groups: merged.groups.iter().map(group).collect() }
    }

    /// The traces of the processes of both, which must have no process in common.
    pub fn join(mut self, other: Self) -> Self {
        for group in other.groups {
            let like = |known: &&mut RankGroup| {
                known.skeleton == group.skeleton && known.bulk.len() == group.bulk.len()
            };
            match self.groups.iter_mut().find(like) {
                Some(known) => known.join(group),
                None => self.groups.push(group),
            }
        }
        self.groups.sort_by_key(|group| group.ranks.first());
        self
    }

    /// The traces of the processes of all of these, no two of which may have a process in common.
    pub fn join_all(traces: impl IntoIterator<Item = Self>) -> Self {
        tree::reduce(traces, Self::join).unwrap_or_default()
    }

    /// The groups, by their first rank.
    pub fn groups(&self) -> &[RankGroup] {
        &self.groups
    }

    /// The trace of a process.
    pub fn process(&self, rank: u32) -> Result<Merged, MemoryError> {
        let mine = self.groups.iter().filter(|group| group.ranks.contains(rank));
        Ok(Merged::in_order(mine.map(|group| group.of(rank)).collect::<Result<_, _>>()?))
    }

    /// Appends the version and the groups. Only irregular streams are packed here. Structures are similar to
    /// each other, so the container packs them better together.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(crate::VERSION);
        varint::put(out, self.groups.len() as u64);
        for group in &self.groups {
            group.ranks.encode(out);
            varint::put_bytes(out, &group.skeleton);
            put_columns(out, &group.numbers, &group.columns);
            varint::put(out, group.bulk.len() as u64);
            for streams in &group.bulk {
                out.push(u8::from(streams.len() > 1));
                streams.iter().for_each(|stream| bulk::put_numbers(out, stream));
            }
        }
    }

    /// Decodes groups.
    pub fn decode(input: &mut &[u8]) -> Result<Self, MemoryError> {
        let version = parts::take_version(input)?;
        let count = varint::take_count(input, "number of groups")?;
        let groups = (0..count).map(|_| RankGroup::decode(input, version));
        let groups = groups.collect::<Result<_, _>>()?;
        Ok(Self { groups })
    }
}

impl RankGroup {
    fn join(&mut self, other: Self) {
        let ranks = self.ranks.union(&other.ranks);
        let (ours, theirs) = (self.side(), other.side());
        self.columns = Columns::merge(ours, theirs, &ranks);
        // Where there is a column, the plain number is not used.
        for (index, _) in &self.columns {
            self.numbers[*index as usize] = 0;
        }
        let (mine, others) = (self.ranks.to_vec(), other.ranks.to_vec());
        for (streams, more) in self.bulk.iter_mut().zip(other.bulk) {
            if streams.len() == 1 && more.len() == 1 && streams == &more {
                continue;
            }
            let each = |streams: &[Vec<i64>], ranks: &[u32]| -> Vec<(u32, Vec<i64>)> {
                let stream = |at: usize| streams.get(at).or(streams.first()).cloned();
                ranks.iter().enumerate().map(|(i, &r)| (r, stream(i).unwrap_or_default())).collect()
            };
            let mut all = each(streams, &mine);
            all.extend(each(&more, &others));
            all.sort_by_key(|(rank, _)| *rank);
            *streams = all.into_iter().map(|(_, stream)| stream).collect();
        }
        self.ranks = ranks;
    }

    fn side(&self) -> Side<'_> {
        Side { numbers: &self.numbers, columns: &self.columns, ids: &self.ranks }
    }

    /// The threads of one of the processes.
    pub fn of(&self, rank: u32) -> Result<Group, MemoryError> {
        let at = self.ranks.position(rank).unwrap_or(0);
        let mut numbers = self.numbers.clone();
        let applied = self.columns.apply(rank, &mut numbers);
        applied.ok_or(MemoryError::OutOfRange("rank"))?;
        let stream = |each: &Vec<Vec<i64>>| each.get(at).or(each.first()).cloned();
        let bulk: Option<Vec<_>> = self.bulk.iter().map(stream).collect();
        let bulk = bulk.ok_or(MemoryError::Truncated)?;
        Group::put_together(&self.skeleton, &numbers, bulk, self.version)
    }

    fn decode(input: &mut &[u8], version: u8) -> Result<Self, MemoryError> {
        let ranks = RankList::decode(input, MOST_RANKS).map_err(MemoryError::Elastic)?;
        let skeleton = varint::take_bytes(input)?.to_vec();
        let (numbers, columns) = take_columns(input, &ranks, version)?;
        let mut most = parts::MOST_BULK;
        let mut all = Vec::new();
        for _ in 0..varint::take_count(input, "number of streams")? {
            let count = if varint::take_byte(input)? == 0 { 1 } else { ranks.len() };
            let mut streams = Vec::new();
            for _ in 0..count {
                let stream = bulk::take_numbers(input, most)?;
                most -= stream.len();
                streams.push(stream);
            }
            all.push(streams);
        }
        Ok(Self { ranks, skeleton, numbers, columns, bulk: all, version })
    }
}

/// Appends numbers and columns: how many numbers; if there are columns, the lengths of runs of numbers
/// that have none or have one, in turn; the numbers that have none; the columns.
fn put_columns(out: &mut Vec<u8>, numbers: &[i64], columns: &Columns) {
    let is_constant: Vec<bool> =
        (0u32..).zip(numbers).map(|(index, _)| columns.get(index).is_none()).collect();
    varint::put(out, (numbers.len() as u64) << 1 | u64::from(!columns.is_empty()));
    if !columns.is_empty() {
        if is_constant.first() == Some(&false) {
            varint::put(out, 0);
        }
        for run in is_constant.chunk_by(|a, b| a == b) {
            varint::put(out, run.len() as u64);
        }
    }
    let constants = numbers.iter().zip(&is_constant).filter(|(_, is_constant)| **is_constant);
    constants.for_each(|(number, _)| varint::put_signed(out, *number));
    columns.iter().for_each(|(_, column)| column.encode_values(out));
}

/// Decodes numbers and columns over these ranks.
fn take_columns(
    input: &mut &[u8],
    ranks: &RankList,
    version: u8,
) -> Result<(Vec<i64>, Columns), MemoryError> {
    const WHAT: MemoryError = MemoryError::OutOfRange("number of columns");
    let head = varint::take(input)?;
    let (count, has_others) = if version > 1 { (head >> 1, head & 1 == 1) } else { (head, true) };
    if count > input.len() as u64 || count.saturating_mul(ranks.len() as u64) > MOST_VALUES as u64 {
        return Err(WHAT);
    }
    let mut is_constant = Vec::new();
    if version == 1 {
        varint::take(input)?; // how many bytes these are
        is_constant = vec![false; count as usize];
    }
    if !has_others {
        is_constant = vec![true; count as usize];
    }
    let mut next = true;
    while (is_constant.len() as u64) < count {
        let run = varint::take(input)?;
        if run > count - is_constant.len() as u64 || run == 0 && !is_constant.is_empty() {
            return Err(WHAT);
        }
        is_constant.extend(std::iter::repeat_n(next, run as usize));
        next = !next;
    }
    let mut numbers = vec![0; is_constant.len()];
    for (number, _) in numbers.iter_mut().zip(&is_constant).filter(|(_, is)| **is) {
        *number = varint::take_signed(input)?;
    }
    let mut columns = Vec::new();
    for (index, (number, _)) in
        (0u32..).zip(numbers.iter_mut().zip(&is_constant)).filter(|(_, (_, is))| !**is)
    {
        let column = Column::decode_values(input, ranks).map_err(MemoryError::Elastic)?;
        match column.formula() {
            // Version 1 has columns only.
            Some(Formula::Constant(value)) => *number = *value,
            _ => columns.push((index, column)),
        }
    }
    Ok((numbers, Columns::new(columns)))
}

impl Group {
    /// Structure, numbers and irregular streams.
    fn take_apart(&self) -> (Vec<u8>, Vec<i64>, Vec<Vec<i64>>) {
        let mut skeleton = Vec::new();
        self.threads.encode(&mut skeleton);
        varint::put_bytes(&mut skeleton, &self.skeleton);
        self.numbers.put_bases(&mut skeleton);
        varint::put_bytes(&mut skeleton, &self.numbers.kinds());
        varint::put(&mut skeleton, self.bulk.len() as u64);
        for streams in &self.bulk {
            varint::put(&mut skeleton, streams.len() as u64);
        }
        if self.hole != 0 {
            self.put_hole(&mut skeleton);
        }
        (skeleton, self.numbers.plain(), self.bulk.iter().flatten().cloned().collect())
    }

    fn put_together(
        mut skeleton: &[u8],
        numbers: &[i64],
        bulk: Vec<Vec<i64>>,
        version: u8,
    ) -> Result<Self, MemoryError> {
        let input = &mut skeleton;
        let mut all = bulk.into_iter();
        let threads = IdList::decode(input, MOST_THREADS).map_err(MemoryError::Elastic)?;
        let skeleton = varint::take_bytes(input)?.to_vec();
        let bases = take_bases(input, &threads, version)?;
        let numbers = ThreadNumbers::assemble(bases, varint::take_bytes(input)?, numbers, version)?;
        let mut bulk = Vec::new();
        for _ in 0..varint::take_count(input, "number of streams")? {
            let count = usize::try_from(varint::take(input)?).unwrap_or(usize::MAX);
            bulk.push(all.by_ref().take(count).collect());
        }
        let mut group = Self { threads, skeleton, numbers, bulk, hole: 0, substitutes: Vec::new() };
        if !input.is_empty() {
            group.take_hole(input)?;
        }
        Ok(group)
    }
}
