//! The tables that a compressor builds from its process's ledger: code and segments.

use refrain_memory::{Kind, Reference, SegmentKind, Segments};
use refrain_memtrace::code::{Code, Context, Module};
use refrain_rings::record::{NO_CONTEXT, Record, references};
use std::collections::BTreeMap;

/// The code and the segments of a process.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The code.
    pub code: Code,
    /// The segments.
    pub segments: Segments,
    /// How many references each block has.
    pub lengths: Vec<u32>,
    live: BTreeMap<u64, (u64, u32, u32)>,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            code: Code::default(),
            segments: Segments::new(),
            lengths: Vec::new(),
            live: BTreeMap::new(),
        }
    }
}

/// The ledger has a block number that is not the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfOrder;

impl Tables {
    /// Whether a record adds a segment that overlaps an existing, different one. Such a record changes which segment
    /// the addresses of earlier references belong to.
    pub fn replaces_segment(&self, record: &Record<'_>) -> bool {
        let Record::Segment { kind, owner, base, size } = *record else { return false };
        let end = base.saturating_add(size.max(1));
        let mut overlapping = self.overlapping(base, end);
        overlapping.any(|(at, what)| (at, what) != (base, (size, kind, owner)))
    }

    fn overlapping(&self, base: u64, end: u64) -> impl Iterator<Item = (u64, (u64, u32, u32))> {
        let before = self.live.range(..base).next_back();
        let before = before.filter(move |(at, (size, ..))| at.saturating_add(*size) > base);
        before.into_iter().chain(self.live.range(base..end)).map(|(at, what)| (*at, *what))
    }

    /// Adds a record of the ledger.
    pub fn apply(&mut self, record: &Record<'_>) -> Result<(), OutOfOrder> {
        match *record {
            Record::Module { module, is_main, path, build_id, .. } => {
                let path = String::from_utf8_lossy(path).into_owned();
                let module_is = Module { path, build_id: build_id.to_vec(), is_main };
                self.code.modules.insert(module, module_is);
            }
            Record::Block { block, references: bytes } => {
                let all = references(bytes).map(|reference| Reference {
                    kind: [Kind::Load, Kind::Store, Kind::Atomic][reference.kind.min(2) as usize],
                    size: reference.size,
                    pc: reference.pc,
                });
                self.add_block(block, all.collect())?;
            }
            Record::Context { block, parent, call, function } => {
                self.add_block(block, Vec::new())?;
                let parent = (parent != NO_CONTEXT).then_some(parent);
                self.code.contexts.insert(block, Context { parent, call, function });
            }
            Record::Segment { kind, owner, base, size } => self.begin(kind, owner, base, size),
            Record::Thread { .. } | Record::ThreadEnd { .. } => {}
        }
        Ok(())
    }

    fn add_block(&mut self, number: u32, references: Vec<Reference>) -> Result<(), OutOfOrder> {
        let length = references.len() as u32;
        if number as usize != self.code.blocks.len() || self.code.blocks.add(references).is_none() {
            return Err(OutOfOrder);
        }
        self.lengths.push(length);
        Ok(())
    }

    /// Adds a segment and removes those that it overlaps. An existing equal segment stays.
    fn begin(&mut self, kind: u32, owner: u32, base: u64, size: u64) {
        let what = (size, kind, owner);
        if self.live.get(&base) == Some(&what) {
            return;
        }
        let end = base.saturating_add(size.max(1));
        let gone: Vec<u64> = self.overlapping(base, end).map(|(at, _)| at).collect();
        gone.iter().for_each(|at| {
            self.live.remove(at);
        });
        self.live.insert(base, what);
        let kind = match kind {
            0 => SegmentKind::Module,
            1 => SegmentKind::Heap,
            2 => SegmentKind::Stack,
            _ => SegmentKind::Mapping,
        };
        self.segments.begin(kind, owner, base, size);
    }
}
