//! Merges the traces of a process's threads (EPRSD §III.B, ScalaMemTrace §2.2).
//!
//! Threads whose chunks have the same skeleton form a [`Group`]: one structure for all of its threads, and
//! every number is a function of the thread ([`crate::thread_numbers`]).
//!
//! * A thread that has too few iterations for a loop is first re-encoded with the loop nest of a thread
//!   that has enough (`reshape`).
//! * A stretch of executions that several groups have in common becomes a group of its own (`align`). So a
//!   thread can be in several groups. One of them, with [`Group::hole`] 0, can have holes in its sequence of
//!   executions; the others fill these holes, in the order of their numbers.

use std::collections::BTreeSet;

use refrain_elastic::IdList;

use crate::align::{self, Substitutes};
use crate::block::Blocks;
use crate::bulk;
use crate::chunk::{Chunk, Finished};
use crate::error::MemoryError;
use crate::parts::{self, Parts};
use crate::reshape::reshape;
use crate::thread_numbers::ThreadNumbers;
use refrain_bytes::varint;

/// The most threads of a process.
pub const MOST_THREADS: u32 = 1 << 20;
/// How many groups are tried for a thread's chunk.
const TRIES: usize = 8;

/// Threads of the same structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The threads.
    pub threads: IdList,
    /// The structure.
    pub skeleton: Vec<u8>,
    /// The numbers over the threads.
    pub numbers: ThreadNumbers,
    /// Irregular streams: for each, one for all threads, or one for each.
    pub bulk: Vec<Vec<Vec<i64>>>,
    /// Which hole in its threads' sequences it fills, from 1; 0 for the group that has the holes.
    pub hole: u32,
    /// Blocks without references that differ between its threads.
    pub substitutes: Vec<Substitutes>,
}

/// A chunk of each of several threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The groups. A thread's chunk is spread over all groups that contain the thread.
    pub groups: Vec<Group>,
}

/// A group to which threads are still added.
#[derive(Clone)]
struct GroupBuilder {
    skeleton: Vec<u8>,
    /// The first member is the template of all others.
    members: Vec<(u32, Finished)>,
    hole: u32,
    substitutes: Vec<Substitutes>,
}

impl Merged {
    /// Merges the chunks of threads.
    pub fn merge(chunks: &[(u32, Chunk)]) -> Self {
        let mut finished: Vec<(u32, &Chunk, Finished)> =
            chunks.iter().map(|(thread, chunk)| (*thread, chunk, chunk.finish())).collect();
        // The richest structure first: it can serve as a template for the others.
        finished.sort_by_key(|(thread, _, chunk)| {
            (std::cmp::Reverse((chunk.depth(), chunk.sequence.len())), *thread)
        });
        let mut groups: Vec<GroupBuilder> = Vec::new();
        for (thread, chunk, finished) in finished {
            let found = groups.iter_mut().take(TRIES).find_map(|group| {
                let like = group.like_others(chunk, &finished)?;
                Some((group, like))
            });
            match found {
                Some((group, like)) => group.members.push((thread, like)),
                None => groups.push(GroupBuilder::new(vec![(thread, finished)])),
            }
        }
        groups.iter_mut().for_each(|group| group.members.sort_by_key(|(thread, _)| *thread));
        let groups = share_stretches(groups).into_iter().map(GroupBuilder::finish).collect();
        Self::in_order(groups)
    }

    /// The groups in the order in which they are stored and shown.
    pub(crate) fn in_order(mut groups: Vec<Group>) -> Self {
        groups.sort_by_key(|group| (group.threads.first(), group.hole));
        Self { groups }
    }

    /// The chunk of a thread.
    pub fn chunk(&self, thread: u32, blocks: &Blocks) -> Option<Result<Finished, MemoryError>> {
        let mine = self.groups.iter().filter(|group| group.threads.contains(thread));
        let mut mine: Vec<&Group> = mine.collect();
        mine.sort_by_key(|group| group.hole);
        let main = mine.iter().take_while(|group| group.hole == 0).count().min(1);
        let (main, pieces) = mine.split_at(main);
        if main.is_empty() && pieces.is_empty() {
            return None;
        }
        let chunk = |group: &&Group| group.chunk(thread, blocks);
        let main = main.first().map_or_else(|| Ok(Finished::default()), chunk);
        let pieces = pieces.iter().map(chunk).collect::<Result<Vec<_>, _>>();
        Some(main.and_then(|main| Ok(main.filled(pieces?))))
    }

    /// The groups with other block numbers; `blocks` is indexed by the old numbers.
    pub fn renumbered(&self, numbers: &[u32], blocks: &Blocks) -> Result<Self, MemoryError> {
        let mut groups = self.groups.clone();
        for group in &mut groups {
            let bulk: Vec<Vec<i64>> =
                group.bulk.iter().map(|each| each.first().cloned().unwrap_or_default()).collect();
            let columns = group.numbers.set.columns.len();
            let skeleton = &group.skeleton;
            group.skeleton =
                Finished::renumber_skeleton(skeleton, &bulk, columns, numbers, blocks)?;
            let number = |block: u32| {
                let number = numbers.get(block as usize).copied();
                number.ok_or(MemoryError::OutOfRange("block"))
            };
            for substitutes in &mut group.substitutes {
                let pairs = substitutes.blocks.iter();
                let pairs = pairs.map(|(ours, theirs)| Ok((number(*ours)?, number(*theirs)?)));
                substitutes.blocks = pairs.collect::<Result<_, MemoryError>>()?;
                substitutes.blocks.sort_unstable();
            }
        }
        Ok(Self { groups })
    }

    /// The blocks that are executed.
    pub fn executed(&self, blocks: &Blocks) -> Result<BTreeSet<u32>, MemoryError> {
        let mut all = BTreeSet::new();
        for group in &self.groups {
            let thread = group.threads.first().unwrap_or(0);
            let chunk = group.chunk(thread, blocks)?;
            chunk.entries.iter().for_each(|entry| entry.shape.node.blocks(&mut all));
            let substitutes = group.substitutes.iter().flat_map(|others| &others.blocks);
            all.extend(substitutes.flat_map(|(ours, theirs)| [*ours, *theirs]));
        }
        Ok(all)
    }

    /// All threads, ascending.
    pub fn threads(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.groups.iter().flat_map(|group| group.threads.iter()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Appends the version and the groups.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(crate::VERSION);
        varint::put(out, self.groups.len() as u64);
        for group in &self.groups {
            group.threads.encode(out);
            bulk::put_packed(out, &group.skeleton);
            group.numbers.encode(out);
            varint::put(out, group.bulk.len() as u64);
            for streams in &group.bulk {
                out.push(u8::from(streams.len() > 1));
                streams.iter().for_each(|stream| bulk::put_numbers(out, stream));
            }
            group.put_hole(out);
        }
    }

    /// Decodes groups.
    pub fn decode(input: &mut &[u8]) -> Result<Self, MemoryError> {
        let version = parts::take_version(input)?;
        let count = varint::take_count(input, "number of groups")?;
        let groups = (0..count).map(|_| {
            let mut group = Group::decode(input, version)?;
            if version > 1 {
                group.take_hole(input)?;
            }
            Ok(group)
        });
        Ok(Self { groups: groups.collect::<Result<_, MemoryError>>()? })
    }
}

/// Moves the stretches that several groups have in common to groups of their own.
fn share_stretches(mut groups: Vec<GroupBuilder>) -> Vec<GroupBuilder> {
    // The group with the longest sequence is compared with each of the others.
    let length = |at: &usize| groups[*at].members[0].1.sequence.len();
    let Some(most) = (0..groups.len()).max_by_key(|at| (length(at), usize::MAX - at)) else {
        return groups;
    };
    let main = groups.swap_remove(most);
    // Longest sequences first.
    groups.sort_by_key(|group| std::cmp::Reverse(group.members[0].1.sequence.len()));
    let mut pieces: Vec<(std::ops::Range<usize>, GroupBuilder)> = Vec::new();
    let mut rest = Vec::new();
    for (at, group) in groups.into_iter().enumerate() {
        let theirs = &group.members[0].1;
        let found = if at < TRIES { align::common(&main.members[0].1, theirs) } else { Vec::new() };
        let is_first = pieces.is_empty();
        let known = |piece: &align::Piece| pieces.iter().any(|(range, _)| *range == piece.ours);
        let all_known = found.iter().all(known);
        let joined: Option<Vec<_>> = match found.is_empty() || !(is_first || all_known) {
            true => None,
            false => found.iter().map(|piece| join(&main, &pieces, &group, piece)).collect(),
        };
        let Some(joined) = joined else {
            rest.push(group);
            continue;
        };
        for (piece, joined) in found.iter().zip(joined) {
            match pieces.iter_mut().find(|(range, _)| *range == piece.ours) {
                Some((_, known)) => *known = joined,
                None => pieces.push((piece.ours.clone(), joined)),
            }
        }
        let holes: Vec<_> = found.into_iter().map(|piece| piece.theirs).collect();
        rest.extend(group.without(&holes));
    }
    let holes: Vec<_> = pieces.iter().map(|(range, _)| range.clone()).collect();
    rest.extend(main.without(&holes));
    for (hole, (_, mut piece)) in (1..).zip(pieces) {
        piece.hole = hole;
        rest.push(piece);
    }
    rest
}

/// The group of a piece: the threads of `main`, those that joined the piece before, and those of `group`.
/// `None` if their stretches do not have the same skeleton.
fn join(
    main: &GroupBuilder,
    pieces: &[(std::ops::Range<usize>, GroupBuilder)],
    group: &GroupBuilder,
    piece: &align::Piece,
) -> Option<GroupBuilder> {
    let stretch = |(thread, chunk): &(u32, Finished), range| (*thread, chunk.stretch(range));
    let known = pieces.iter().find(|(range, _)| *range == piece.ours);
    let mut joined = match known {
        Some((_, known)) => known.clone(),
        None => {
            GroupBuilder::alike(main.members.iter().map(|m| stretch(m, &piece.ours)).collect())?
        }
    };
    let model = joined.members[0].1.clone();
    for member in &group.members {
        let (thread, mut chunk) = stretch(member, &piece.theirs);
        for (entry, like) in chunk.entries.iter_mut().zip(&model.entries) {
            entry.shape = like.shape.clone();
        }
        if chunk.to_parts().skeleton != joined.skeleton {
            return None;
        }
        joined.members.push((thread, chunk));
    }
    if !piece.blocks.is_empty() {
        let threads: Vec<u32> = group.members.iter().map(|(thread, _)| *thread).collect();
        let threads = IdList::from_sorted(&threads);
        joined.substitutes.push(Substitutes { threads, blocks: piece.blocks.clone() });
    }
    Some(joined)
}

impl GroupBuilder {
    fn new(members: Vec<(u32, Finished)>) -> Self {
        let skeleton = members.first().map(|(_, chunk)| chunk.to_parts().skeleton);
        let skeleton = skeleton.unwrap_or_default();
        Self { skeleton, members, hole: 0, substitutes: Vec::new() }
    }

    /// A group of these members; `None` if their skeletons differ. Equal wholes can have different parts:
    /// where numbers in between are removed, equal neighbours become one run.
    fn alike(members: Vec<(u32, Finished)>) -> Option<Self> {
        let group = Self::new(members);
        let same = |(_, chunk): &(u32, Finished)| chunk.to_parts().skeleton == group.skeleton;
        group.members.iter().skip(1).all(same).then_some(group)
    }

    /// The chunk with the structure of the group, if it has that structure or can be reshaped to it.
    fn like_others(&self, chunk: &Chunk, finished: &Finished) -> Option<Finished> {
        let model = &self.members[0].1;
        let fits = |chunk: &Chunk| {
            let like = chunk.finish_like(model)?;
            (like.to_parts().skeleton == self.skeleton).then_some(like)
        };
        fits(chunk).or_else(|| {
            if chunk.finish_like(model).is_some() {
                return None;
            }
            fits(&reshape(finished, model)?)
        })
    }

    /// The members without the stretches `holes`, grouped by their new skeletons.
    fn without(self, holes: &[std::ops::Range<usize>]) -> Vec<Self> {
        if holes.is_empty() {
            return vec![self];
        }
        let mut groups: Vec<Self> = Vec::new();
        let members = self.members.iter().map(|(thread, chunk)| (*thread, chunk.without(holes)));
        for member in members.filter(|(_, chunk)| !chunk.entries.is_empty()) {
            let skeleton = member.1.to_parts().skeleton;
            match groups.iter_mut().find(|group| group.skeleton == skeleton) {
                Some(group) => group.members.push(member),
                None => groups.push(Self::new(vec![member])),
            }
        }
        groups
    }

    fn finish(mut self) -> Group {
        self.members.sort_by_key(|(thread, _)| *thread);
        let ids: Vec<u32> = self.members.iter().map(|(thread, _)| *thread).collect();
        let threads = IdList::from_sorted(&ids);
        let members: Vec<Parts> = self.members.iter().map(|(_, chunk)| chunk.to_parts()).collect();
        let streams = members[0].bulk.len();
        let (mut numbers, mut all_bulk) = (Vec::new(), Vec::new());
        for parts in members {
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
        Group {
            numbers: ThreadNumbers::fit(&threads, &numbers),
            bulk: bulk.collect(),
            threads,
            skeleton: self.skeleton,
            hole: self.hole,
            substitutes: self.substitutes,
        }
    }
}

impl Group {
    /// The chunk of a thread of the group, with a hole for each piece that is in another group.
    fn chunk(&self, thread: u32, blocks: &Blocks) -> Result<Finished, MemoryError> {
        let at = self.threads.position(thread).unwrap_or(0);
        let stream = |each: &Vec<Vec<i64>>| each.get(at).or(each.first()).cloned();
        let bulk: Option<Vec<_>> = self.bulk.iter().map(stream).collect();
        let bulk = bulk.ok_or(MemoryError::Truncated)?;
        let numbers = self.numbers.values(&self.threads, thread);
        let chunk = Finished::from_parts(&self.skeleton, &numbers, bulk, blocks)?;
        match self.substitutes.iter().find(|others| others.threads.contains(thread)) {
            Some(others) => others.apply(chunk, blocks),
            None => Ok(chunk),
        }
    }

    /// The group without some of its threads; `None` if none is left.
    pub(crate) fn without_threads(&self, left_out: &BTreeSet<u32>) -> Option<Self> {
        let all = self.threads.iter().enumerate();
        let (at, rest): (Vec<usize>, Vec<u32>) =
            all.filter(|(_, thread)| !left_out.contains(thread)).unzip();
        if rest.is_empty() || rest.len() == self.threads.len() {
            return (!rest.is_empty()).then(|| self.clone());
        }
        let threads = IdList::from_sorted(&rest);
        let numbers = rest.iter().map(|thread| self.numbers.values(&self.threads, *thread));
        let numbers: Vec<Vec<Option<i64>>> =
            numbers.map(|numbers| numbers.into_iter().map(Some).collect()).collect();
        let stream = |each: &Vec<Vec<i64>>| match each.len() {
            0 | 1 => each.clone(),
            _ => at.iter().filter_map(|at| each.get(*at).cloned()).collect(),
        };
        let substitutes = self.substitutes.iter().filter_map(|others| {
            let is_in = |thread: &u32| others.threads.contains(*thread);
            let threads: Vec<u32> = rest.iter().copied().filter(is_in).collect();
            let blocks = others.blocks.clone();
            let threads = (!threads.is_empty()).then(|| IdList::from_sorted(&threads))?;
            Some(Substitutes { threads, blocks })
        });
        Some(Self {
            numbers: ThreadNumbers::fit(&threads, &numbers),
            bulk: self.bulk.iter().map(stream).collect(),
            substitutes: substitutes.collect(),
            skeleton: self.skeleton.clone(),
            hole: self.hole,
            threads,
        })
    }

    fn all_but_first(&self) -> IdList {
        IdList::from_sorted(&self.threads.iter().skip(1).collect::<Vec<_>>())
    }

    /// Appends the number of the hole and the substitutes.
    pub(crate) fn put_hole(&self, out: &mut Vec<u8>) {
        varint::put(out, u64::from(self.hole));
        if self.hole != 0 {
            varint::put(out, self.substitutes.len() as u64);
        }
        for substitutes in self.substitutes.iter().filter(|_| self.hole != 0) {
            // The usual case, all threads but the first, is written as an empty list.
            match substitutes.threads == self.all_but_first() {
                true => IdList::from_sorted(&[]).encode(out),
                false => substitutes.threads.encode(out),
            }
            varint::put(out, substitutes.blocks.len() as u64);
            let mut last = 0;
            for &(ours, theirs) in &substitutes.blocks {
                varint::put(out, u64::from(ours - last));
                varint::put(out, u64::from(theirs));
                last = ours;
            }
        }
    }

    /// Decodes the number of the hole and the substitutes.
    pub(crate) fn take_hole(&mut self, input: &mut &[u8]) -> Result<(), MemoryError> {
        self.hole = varint::take_u32(input, "hole")?;
        if self.hole == 0 {
            return Ok(());
        }
        for _ in 0..varint::take_count(input, "number of substitutes")? {
            let threads = IdList::decode(input, MOST_THREADS).map_err(MemoryError::Elastic)?;
            let threads = if threads.is_empty() { self.all_but_first() } else { threads };
            let (mut blocks, mut last) = (Vec::new(), 0u32);
            for _ in 0..varint::take_count(input, "number of substitutes")? {
                let step = varint::take_u32(input, "block")?;
                last = last.checked_add(step).ok_or(MemoryError::OutOfRange("block"))?;
                blocks.push((last, varint::take_u32(input, "block")?));
            }
            self.substitutes.push(Substitutes { threads, blocks });
        }
        Ok(())
    }

    fn decode(input: &mut &[u8], version: u8) -> Result<Self, MemoryError> {
        let threads = IdList::decode(input, MOST_THREADS).map_err(MemoryError::Elastic)?;
        let skeleton = bulk::take_packed(input)?;
        let numbers = ThreadNumbers::decode(input, &threads, version)?;
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
        Ok(Self { threads, skeleton, numbers, bulk: all, hole: 0, substitutes: Vec::new() })
    }
}
