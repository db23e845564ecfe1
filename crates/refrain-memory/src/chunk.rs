//! A stretch of a thread's stream, compressed.
//!
//! A chunk is a sequence of executed shapes and, for each shape, the values of its slots over all of its
//! executions: the steps of each loop level, and the distance of each execution's first value from the last
//! value of the same reference. Blocks outside of all loops are shapes too. So a stream without structure
//! becomes one sequence of block numbers and one sequence of differences for each reference.
//!
//! Chunks are independent: each can be decoded without the others.

use std::sync::Arc;

use crate::block::Blocks;
use crate::error::MemoryError;
use crate::item::Item;
use crate::runs::Runs;
use crate::series::{Level, Series};
use crate::shape::{Meaning, Node, Shape};
use crate::shapes::{ShapeId, Shapes};

/// The values of one slot over all executions of its shape in a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The difference of each execution's first value from the last value before it: of the same reference
    /// (in any shape), or of the same trip count.
    pub firsts: Runs,
    /// For each loop around the slot, whether its steps are measured from starts, and the steps.
    pub steps: Vec<(bool, Runs)>,
}

/// A shape of a chunk.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The shape.
    pub shape: Arc<Shape>,
    /// The values of its slots.
    pub streams: Vec<Stream>,
}

/// A shape to which values are still appended.
#[derive(Clone, Debug)]
struct Growing {
    shape: Arc<Shape>,
    slots: Vec<GrowingSlot>,
}

#[derive(Clone, Debug)]
struct GrowingSlot {
    firsts: Runs,
    series: Series,
    last_count: u64,
}

/// A chunk to which executions are still appended.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    entries: Vec<Growing>,
    /// The entries of each shape, usually one.
    by_shape: Vec<Vec<u32>>,
    sequence: Vec<u32>,
    /// The executions that ended inside an inner loop, and after how many steps.
    cuts: Vec<(usize, u64)>,
    lasts: Lasts,
    numbers: usize,
}

/// A finished chunk.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// The shapes.
    pub entries: Vec<Entry>,
    /// The executions: indices of entries.
    pub sequence: Vec<u32>,
    /// The executions that ended inside an inner loop: position in the sequence (ascending), and number of
    /// steps (blocks executed, loops begun).
    pub cuts: Vec<(usize, u64)>,
}

/// The last logical address of each reference, by block number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lasts {
    logical: Vec<Vec<u64>>,
}

impl Lasts {
    /// The last logical addresses of a block's references.
    #[inline]
    pub fn of(&mut self, block: u32, references: usize) -> &mut [u64] {
        let block = block as usize;
        if self.logical.get(block).is_none_or(|logical| logical.len() < references) {
            self.make_room(block, references);
        }
        &mut self.logical[block]
    }

    #[cold]
    fn make_room(&mut self, block: usize, references: usize) {
        self.logical.resize(self.logical.len().max(block + 1), Vec::new());
        self.logical[block].resize(references, 0);
    }
}

impl Chunk {
    /// Whether nothing was executed.
    pub fn is_empty(&self) -> bool {
        self.sequence.is_empty()
    }

    /// About how many numbers it holds.
    pub fn numbers(&self) -> usize {
        self.numbers
    }

    /// Drops all but the first `runs` runs of each stream, and all but the first `executions` executions.
    /// Returns how many executions it dropped. What is left cannot be decoded.
    pub(crate) fn trim(&mut self, runs: usize, executions: usize) -> u64 {
        let dropped = self.sequence.len().saturating_sub(executions);
        self.sequence.truncate(executions);
        self.cuts.retain(|(at, _)| *at < executions);
        for slot in self.entries.iter_mut().flat_map(|entry| &mut entry.slots) {
            slot.firsts.trim(runs);
            slot.series.trim(runs);
        }
        dropped as u64
    }

    /// From now on shapes have other numbers.
    pub(crate) fn forget_shapes(&mut self) {
        self.by_shape.clear();
    }

    /// Appends an execution. A small one is stored block by block.
    pub(crate) fn append(&mut self, item: &Item, shapes: &Shapes) {
        if item.is_block() || item.is_small() {
            return self.append_blocks(&item.journal, shapes);
        }
        self.append_nest(item);
    }

    /// Appends an execution as an execution of its shape, even if it is small.
    pub(crate) fn append_nest(&mut self, item: &Item) {
        let entry = self.entry(item);
        self.sequence.push(entry as u32);
        if item.cut {
            self.cuts.push((self.sequence.len() - 1, item.steps()));
        }
        let shape = &item.shape;
        let slots = &mut self.entries[entry].slots;
        for ((slot, series), about) in slots.iter_mut().zip(&item.series).zip(&shape.slots) {
            let Some(first) = series.first else { continue };
            let before = match about.meaning {
                Meaning::Count(_) => std::mem::replace(&mut slot.last_count, series.last),
                Meaning::Address { block, reference } => {
                    self.lasts.of(block, reference as usize + 1)[reference as usize]
                }
            };
            slot.firsts.push(first.wrapping_sub(before) as i64);
            slot.series.append_steps(series);
        }
        for (series, about) in item.series.iter().zip(&shape.slots) {
            if let (Meaning::Address { block, reference }, Some(_)) = (about.meaning, series.first)
            {
                let reference = reference as usize;
                self.lasts.of(block, reference + 1)[reference] = series.last;
            }
        }
        self.numbers += item.runs() + shape.slots.len();
    }

    /// Appends executions of single blocks: each with its number and its logical addresses.
    fn append_blocks(&mut self, mut journal: &[u64], shapes: &Shapes) {
        while let [block, rest @ ..] = journal {
            // The blocks of a journal already have shapes.
            let Some(id) = shapes.known_block(*block as u32) else { return };
            let shape = shapes.get(id);
            let (logical, rest) = rest.split_at(shape.slots.len().min(rest.len()));
            let at = match self.by_shape.get(id as usize).and_then(|entries| entries.first()) {
                Some(at) => *at as usize,
                None => self.add_entry(id, shape),
            };
            self.sequence.push(at as u32);
            let lasts = self.lasts.of(*block as u32, logical.len());
            let slots = &mut self.entries[at].slots;
            for ((slot, last), &logical) in slots.iter_mut().zip(lasts).zip(logical) {
                slot.firsts.push(logical.wrapping_sub(std::mem::replace(last, logical)) as i64);
            }
            self.numbers += 1 + logical.len();
            journal = rest;
        }
    }

    /// The entry to which the item's values can be appended.
    fn entry(&mut self, item: &Item) -> usize {
        let fits = |at: &&u32| {
            let slots = self.entries[**at as usize].slots.iter().zip(&item.series);
            slots.into_iter().all(|(slot, series)| slot.series.can_append(series))
        };
        match self.by_shape.get(item.id as usize).and_then(|entries| entries.iter().find(fits)) {
            Some(at) => *at as usize,
            None => self.add_entry(item.id, &item.shape),
        }
    }

    fn add_entry(&mut self, id: ShapeId, shape: &Arc<Shape>) -> usize {
        let slot = |depth| GrowingSlot {
            firsts: Runs::default(),
            series: Series::new(depth),
            last_count: 0,
        };
        let slots = shape.slots.iter().map(|about| slot(about.depth)).collect();
        let at = self.entries.len();
        self.entries.push(Growing { shape: shape.clone(), slots });
        if id as usize >= self.by_shape.len() {
            self.by_shape.resize(id as usize + 1, Vec::new());
        }
        self.by_shape[id as usize].push(at as u32);
        at
    }

    /// The chunk with other block numbers, to be merged with other chunks: `blocks` is indexed by the new
    /// numbers. Nothing can be appended afterwards.
    pub fn renumbered(mut self, numbers: &[u32], blocks: &Blocks) -> Result<Self, MemoryError> {
        for entry in &mut self.entries {
            entry.shape = Arc::new(entry.shape.renumbered(numbers, blocks)?);
        }
        self.by_shape.clear();
        self.lasts = Lasts::default();
        Ok(self)
    }

    /// Chooses the shorter of both measurements for each level.
    pub fn finish(&self) -> Finished {
        let shorter = |level: &Level| {
            let (from_starts, runs) = level.shorter();
            (from_starts, runs.clone())
        };
        let stream = |slot: &GrowingSlot| Stream {
            firsts: slot.firsts.clone(),
            steps: slot.series.levels.iter().map(shorter).collect(),
        };
        let entries = self.entries.iter().map(|entry| Entry {
            shape: entry.shape.clone(),
            streams: entry.slots.iter().map(stream).collect(),
        });
        Finished {
            entries: entries.collect(),
            sequence: self.sequence.clone(),
            cuts: self.cuts.clone(),
        }
    }

    /// Chooses the measurements that `model` has. `None` if this is not an execution of the same shapes in
    /// the same order, or does not have these measurements.
    pub(crate) fn finish_like(&self, model: &Finished) -> Option<Finished> {
        if self.sequence != model.sequence || self.entries.len() != model.entries.len() {
            return None;
        }
        let mut entries = Vec::with_capacity(self.entries.len());
        for (entry, like) in self.entries.iter().zip(&model.entries) {
            if entry.shape.node != like.shape.node {
                return None;
            }
            let mut streams = Vec::with_capacity(entry.slots.len());
            for (slot, like) in entry.slots.iter().zip(&like.streams) {
                let levels = slot.series.levels.iter().zip(&like.steps);
                let steps = levels.map(|(level, (from_starts, _))| {
                    Some((*from_starts, level.measured(*from_starts)?.clone()))
                });
                let steps = steps.collect::<Option<_>>()?;
                streams.push(Stream { firsts: slot.firsts.clone(), steps });
            }
            entries.push(Entry { shape: entry.shape.clone(), streams });
        }
        Some(Finished { entries, sequence: self.sequence.clone(), cuts: self.cuts.clone() })
    }

    /// The bytes of the chunk, without those of other chunks.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.finish().to_bytes()
    }
}

impl Finished {
    /// The chunk with other block numbers: `blocks` is indexed by the new numbers.
    pub fn renumbered(mut self, numbers: &[u32], blocks: &Blocks) -> Result<Self, MemoryError> {
        for entry in &mut self.entries {
            entry.shape = Arc::new(entry.shape.renumbered(numbers, blocks)?);
        }
        Ok(self)
    }

    /// How deep the deepest nest is.
    pub fn depth(&self) -> usize {
        fn depth(node: &Node) -> usize {
            match node {
                Node::Block(_) => 0,
                Node::Loop { body, .. } => 1 + body.iter().map(depth).max().unwrap_or(0),
            }
        }
        self.entries.iter().map(|entry| depth(&entry.shape.node)).max().unwrap_or(0)
    }
}
