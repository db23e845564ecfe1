//! The traces of a process's threads as one (EPRSD §III.B, ScalaMemTrace §2.2).
//!
//! Threads whose chunks have the same skeleton form a group with a ranklist: one structure for
//! all, and every number a function of the thread ([`crate::lines`]). Threads that differ only in
//! having too few iterations for a loop are first told in the shapes of a thread that has enough
//! (`guide`).

use refrain_elastic::RankList;

use crate::block::Blocks;
use crate::bulk;
use crate::chunk::{Chunk, Finished};
use crate::error::MemoryError;
use crate::guide;
use crate::lines::Lines;
use crate::parts::{self, Parts};
use crate::varint;

/// The most threads of a process.
pub const MOST_THREADS: u32 = 1 << 20;
/// How many groups a thread's chunk is tried with.
const TRIES: usize = 8;

/// Threads of the same structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The threads.
    pub threads: RankList,
    /// The structure.
    pub skeleton: Vec<u8>,
    /// The numbers over the threads.
    pub lines: Lines,
    /// Irregular streams: for each, one for all threads, or one for each.
    pub bulk: Vec<Vec<Vec<i64>>>,
}

/// A chunk of each of several threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The groups; each thread is in one of them.
    pub groups: Vec<Group>,
}

/// A group while threads are sorted into it.
struct Gathering {
    model: Finished,
    members: Vec<(u32, Parts)>,
}

impl Merged {
    /// Merges the chunks of threads.
    pub fn merge(chunks: &[(u32, Chunk)]) -> Self {
        let mut finished: Vec<(u32, &Chunk, Finished)> =
            chunks.iter().map(|(thread, chunk)| (*thread, chunk, chunk.finish())).collect();
        // The richest structure first: it is what others can be told in.
        finished.sort_by_key(|(thread, _, chunk)| {
            (std::cmp::Reverse((chunk.depth(), chunk.sequence.len())), *thread)
        });
        let mut groups: Vec<Gathering> = Vec::new();
        for (thread, chunk, finished) in finished {
            let found = groups.iter_mut().take(TRIES).find_map(|group| {
                let parts = group.parts_of(chunk, &finished)?;
                Some((group, parts))
            });
            match found {
                Some((group, parts)) => group.members.push((thread, parts)),
                None => {
                    let members = vec![(thread, finished.to_parts())];
                    groups.push(Gathering { model: finished, members });
                }
            }
        }
        let mut groups: Vec<Group> = groups.into_iter().map(Gathering::finish).collect();
        groups.sort_by_key(|group| group.threads.first());
        Self { groups }
    }

    /// The chunk of a thread.
    pub fn chunk(&self, thread: u32, blocks: &Blocks) -> Option<Result<Finished, MemoryError>> {
        let group = self.groups.iter().find(|group| group.threads.contains(thread))?;
        Some(group.chunk(thread, blocks))
    }

    /// The same with other numbers for blocks; `blocks` has them by their old numbers.
    pub fn renumbered(&self, numbers: &[u32], blocks: &Blocks) -> Result<Self, MemoryError> {
        let mut groups = self.groups.clone();
        for group in &mut groups {
            let bulk: Vec<Vec<i64>> =
                group.bulk.iter().map(|each| each.first().cloned().unwrap_or_default()).collect();
            let lines = group.lines.lines.len();
            let skeleton = &group.skeleton;
            group.skeleton = Finished::renumber_skeleton(skeleton, &bulk, lines, numbers, blocks)?;
        }
        Ok(Self { groups })
    }

    /// All threads, ascending.
    pub fn threads(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.groups.iter().flat_map(|group| group.threads.iter()).collect();
        all.sort_unstable();
        all
    }

    /// Appends the version and the groups.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(crate::VERSION);
        varint::put(out, self.groups.len() as u64);
        for group in &self.groups {
            group.threads.encode(out);
            bulk::put_packed(out, &group.skeleton);
            group.lines.encode(out);
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
        let groups = (0..count).map(|_| Group::decode(input)).collect::<Result<_, _>>()?;
        Ok(Self { groups })
    }
}

impl Gathering {
    /// The parts of a chunk, if it fits the group.
    fn parts_of(&self, chunk: &Chunk, finished: &Finished) -> Option<Parts> {
        let fits = |chunk: &Chunk| {
            let parts = chunk.finish_like(&self.model)?.to_parts();
            (parts.skeleton == self.members[0].1.skeleton).then_some(parts)
        };
        fits(chunk).or_else(|| {
            if chunk.finish_like(&self.model).is_some() {
                return None;
            }
            fits(&guide::retell(finished, &self.model)?)
        })
    }

    fn finish(mut self) -> Group {
        self.members.sort_by_key(|(thread, _)| *thread);
        let ids: Vec<u32> = self.members.iter().map(|(thread, _)| *thread).collect();
        let threads = RankList::from_sorted(&ids);
        let skeleton = std::mem::take(&mut self.members[0].1.skeleton);
        let streams = self.members[0].1.bulk.len();
        let (mut numbers, mut all_bulk) = (Vec::new(), Vec::new());
        for (_, parts) in self.members {
            numbers.push(parts.numbers);
            all_bulk.push(parts.bulk);
        }
        let bulk = (0..streams).map(|at| {
            let mut each: Vec<Vec<i64>> =
                all_bulk.iter_mut().map(|bulk| std::mem::take(&mut bulk[at])).collect();
            if each.windows(2).all(|pair| pair[0] == pair[1]) {
                each.truncate(1);
            }
            each
        });
        Group { lines: Lines::fit(&threads, &numbers), bulk: bulk.collect(), threads, skeleton }
    }
}

impl Group {
    /// The chunk of a thread of the group.
    pub fn chunk(&self, thread: u32, blocks: &Blocks) -> Result<Finished, MemoryError> {
        let at = self.threads.position(thread).unwrap_or(0);
        let stream = |each: &Vec<Vec<i64>>| each.get(at).or(each.first()).cloned();
        let bulk: Option<Vec<_>> = self.bulk.iter().map(stream).collect();
        let bulk = bulk.ok_or(MemoryError::Truncated)?;
        Finished::from_parts(&self.skeleton, &self.lines.numbers(thread), bulk, blocks)
    }

    fn decode(input: &mut &[u8]) -> Result<Self, MemoryError> {
        let threads = RankList::decode(input, MOST_THREADS).map_err(MemoryError::Elastic)?;
        let skeleton = bulk::take_packed(input)?;
        let lines = Lines::decode(input, &threads)?;
        let mut most = parts::MOST_BULK;
        let mut all = Vec::new();
        for _ in 0..varint::take_count(input, "number of streams")? {
            let count = if varint::take_byte(input)? == 0 { 1 } else { threads.len() };
            let mut streams = Vec::new();
            for _ in 0..count {
                let stream = bulk::take_numbers(input, most)?;
                most -= stream.len();
                streams.push(stream);
            }
            all.push(streams);
        }
        Ok(Self { threads, skeleton, lines, bulk: all })
    }
}
