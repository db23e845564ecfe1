//! The traces of many processes as one (ScalaMemTrace §2.3).
//!
//! What is done for threads is done once more for processes, for each of their groups of threads:
//! processes in which that has the same skeleton form a group with a ranklist, and every number is
//! a [`Column`] over the ranks. So a master that does more than the others, in its first thread,
//! still shares what the other threads do.
//!
//! Traces are joined two at a time, in any order, so a binary tree over the processes takes as
//! many rounds as the logarithm of their number, and a join of regular traces costs the same
//! whatever the number of ranks on either side.

use refrain_elastic::{Column, RankList};

use crate::bulk;
use crate::error::MemoryError;
use crate::lines::{Lines, MOST_VALUES, take_bases};
use crate::parts;
use crate::threads::{Group, MOST_THREADS, Merged};
use crate::varint;

/// The most processes.
pub const MOST_RANKS: u32 = 1 << 24;

/// Processes in which a group of threads has the same structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankGroup {
    /// The ranks of the processes.
    pub ranks: RankList,
    /// The threads and their structure.
    skeleton: Vec<u8>,
    /// The numbers, over the ranks.
    numbers: Vec<Column>,
    /// Irregular streams: for each, one for all ranks, or one for each in ascending order.
    bulk: Vec<Vec<Vec<i64>>>,
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
                numbers: numbers.into_iter().map(|number| Column::single(rank, number)).collect(),
                bulk: bulk.into_iter().map(|stream| vec![stream]).collect(),
            }
        };
        Self { groups: merged.groups.iter().map(group).collect() }
    }

    /// The traces of the processes of both, which must be different ones.
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

    /// The groups, by their first rank.
    pub fn groups(&self) -> &[RankGroup] {
        &self.groups
    }

    /// The trace of a process.
    pub fn process(&self, rank: u32) -> Result<Merged, MemoryError> {
        let mine = self.groups.iter().filter(|group| group.ranks.contains(rank));
        let mut groups = mine.map(|group| group.of(rank)).collect::<Result<Vec<_>, _>>()?;
        groups.sort_by_key(|group| group.threads.first());
        Ok(Merged { groups })
    }

    /// Appends the version and the groups. Only irregular streams are packed: structures are much
    /// alike, and whoever packs the whole finds that.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(crate::VERSION);
        varint::put(out, self.groups.len() as u64);
        for group in &self.groups {
            group.ranks.encode(out);
            varint::put_bytes(out, &group.skeleton);
            let mut numbers = Vec::new();
            group.numbers.iter().for_each(|number| number.encode_values(&mut numbers));
            varint::put(out, group.numbers.len() as u64);
            varint::put_bytes(out, &numbers);
            varint::put(out, group.bulk.len() as u64);
            for streams in &group.bulk {
                out.push(u8::from(streams.len() > 1));
                streams.iter().for_each(|stream| bulk::put_numbers(out, stream));
            }
        }
    }

    /// Takes groups.
    pub fn decode(input: &mut &[u8]) -> Result<Self, MemoryError> {
        parts::take_version(input)?;
        let count = varint::take_count(input, "number of groups")?;
        let groups = (0..count).map(|_| RankGroup::decode(input)).collect::<Result<_, _>>()?;
        Ok(Self { groups })
    }
}

impl RankGroup {
    fn join(&mut self, other: Self) {
        let ranks = self.ranks.union(&other.ranks);
        let numbers = std::mem::take(&mut self.numbers).into_iter().zip(other.numbers);
        self.numbers = numbers.map(|(a, b)| Column::merge_over(a, b, &ranks)).collect();
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

    /// The threads of one of the processes.
    pub fn of(&self, rank: u32) -> Result<Group, MemoryError> {
        let at = self.ranks.position(rank).unwrap_or(0);
        let numbers: Vec<i64> = self.numbers.iter().map(|n| n.eval(rank).unwrap_or(0)).collect();
        let stream = |each: &Vec<Vec<i64>>| each.get(at).or(each.first()).cloned();
        let bulk: Option<Vec<_>> = self.bulk.iter().map(stream).collect();
        Group::put_together(&self.skeleton, &numbers, bulk.ok_or(MemoryError::Truncated)?)
    }

    fn decode(input: &mut &[u8]) -> Result<Self, MemoryError> {
        let ranks = RankList::decode(input, MOST_RANKS).map_err(MemoryError::Elastic)?;
        let skeleton = varint::take_bytes(input)?.to_vec();
        let count = varint::take(input)?;
        let columns = varint::take_bytes(input)?;
        if count > columns.len() as u64 || count * ranks.len() as u64 > MOST_VALUES as u64 {
            return Err(MemoryError::OutOfRange("number of columns"));
        }
        let columns = &mut &*columns;
        let numbers = (0..count).map(|_| Column::decode_values(columns, &ranks));
        let numbers = numbers.collect::<Result<_, _>>().map_err(MemoryError::Elastic)?;
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
        Ok(Self { ranks, skeleton, numbers, bulk: all })
    }
}

impl Group {
    /// Structure, numbers and irregular streams.
    fn take_apart(&self) -> (Vec<u8>, Vec<i64>, Vec<Vec<i64>>) {
        let mut skeleton = Vec::new();
        self.threads.encode(&mut skeleton);
        varint::put_bytes(&mut skeleton, &self.skeleton);
        varint::put(&mut skeleton, self.lines.bases.len() as u64);
        self.lines.bases.iter().for_each(|base| base.encode_values(&mut skeleton));
        varint::put_bytes(&mut skeleton, &self.lines.kinds());
        varint::put(&mut skeleton, self.bulk.len() as u64);
        for streams in &self.bulk {
            varint::put(&mut skeleton, streams.len() as u64);
        }
        (skeleton, self.lines.plain(), self.bulk.iter().flatten().cloned().collect())
    }

    fn put_together(
        mut skeleton: &[u8],
        numbers: &[i64],
        bulk: Vec<Vec<i64>>,
    ) -> Result<Self, MemoryError> {
        let input = &mut skeleton;
        let mut all = bulk.into_iter();
        let threads = RankList::decode(input, MOST_THREADS).map_err(MemoryError::Elastic)?;
        let skeleton = varint::take_bytes(input)?.to_vec();
        let bases = take_bases(input, &threads)?;
        let lines = Lines::assemble(bases, varint::take_bytes(input)?, numbers)?;
        let mut bulk = Vec::new();
        for _ in 0..varint::take_count(input, "number of streams")? {
            let count = usize::try_from(varint::take(input)?).unwrap_or(usize::MAX);
            bulk.push(all.by_ref().take(count).collect());
        }
        Ok(Self { threads, skeleton, lines, bulk })
    }
}
