//! The encoding of the table of segments: each segment as its difference from earlier ones.

use std::collections::HashMap;

use crate::error::MemoryError;
use crate::segment::{KINDS, Segment, SegmentKind, USUAL_STACK, arena, room_for};
use refrain_bytes::varint;

/// How many distances can have a number.
const MOST_KNOWN: usize = 16;
/// Mappings are multiples of this.
const PAGE: i64 = 4096;

/// How a segment differs from those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The owner, less that of the last segment of the kind.
    pub owner: u64,
    /// What it is.
    pub kind: SegmentKind,
    /// The size, less that of the last segment of the kind.
    pub size: i64,
    /// Logical addresses skipped before it, in units of 16.
    pub skipped: u64,
    /// The base, less that of the last segment of the kind.
    pub step: i64,
}

/// The segments that the next one is compared with: the last of its kind, or, if there is none, the first of all.
/// The initial thread's stack is a kind of its own, because it is far from the other stacks.
pub struct Rows {
    owner: (SegmentKind, u32),
    first: Option<u64>,
    bases: [Option<u64>; 5],
    sizes: [u64; 4],
    nexts: HashMap<(SegmentKind, u32), u64>,
}

impl Default for Rows {
    fn default() -> Self {
        let sizes = KINDS.map(|kind| if kind == SegmentKind::Stack { USUAL_STACK } else { 0 });
        let owner = (SegmentKind::Module, 0);
        Self { owner, first: None, bases: [None; 5], sizes, nexts: HashMap::new() }
    }
}

impl Rows {
    pub fn row(&mut self, segment: &Segment) -> Row {
        let Segment { kind, owner, base, size, logical } = *segment;
        let next = self.nexts.entry((kind, owner)).or_insert(0);
        let offset = logical - arena(kind, owner);
        let skipped = offset.saturating_sub(*next) / 16;
        *next = offset + room_for(size).unwrap_or(0);
        let last = std::mem::replace(&mut self.sizes[kind as usize], size);
        let row = Row {
            owner: u64::from(owner - self.last_owner(kind)),
            kind,
            size: size.wrapping_sub(last) as i64,
            skipped,
            step: base.wrapping_sub(self.base(kind, owner)) as i64,
        };
        self.note(kind, owner, base);
        row
    }

    /// The owner of the last segment, if that was of the same kind: owners ascend.
    fn last_owner(&self, kind: SegmentKind) -> u32 {
        if self.owner.0 == kind { self.owner.1 } else { 0 }
    }

    /// What the base of a segment is compared with.
    fn base(&self, kind: SegmentKind, owner: u32) -> u64 {
        self.bases[class(kind, owner)].or(self.first).unwrap_or(0)
    }

    fn note(&mut self, kind: SegmentKind, owner: u32, base: u64) {
        self.owner = (kind, owner);
        self.bases[class(kind, owner)] = Some(base);
        self.first.get_or_insert(base);
    }

    /// The segment of a row, without its logical address.
    pub fn segment(&mut self, row: &Row) -> Option<Segment> {
        let owner = u64::from(self.last_owner(row.kind)).checked_add(row.owner)?;
        let owner = u32::try_from(owner).ok()?;
        let base = self.base(row.kind, owner).wrapping_add(row.step as u64);
        self.note(row.kind, owner, base);
        let size = &mut self.sizes[row.kind as usize];
        *size = size.wrapping_add(row.size as u64);
        Some(Segment { kind: row.kind, owner, base, size: *size, logical: 0 })
    }
}

fn class(kind: SegmentKind, owner: u32) -> usize {
    match (kind, owner) {
        (SegmentKind::Stack, 0) => KINDS.len(),
        (kind, _) => kind as usize,
    }
}

/// Distances between segments. A distance that occurs twice in a row gets a number.
#[derive(Default)]
pub struct Steps {
    last: i64,
    known: Vec<i64>,
}

impl Steps {
    pub fn find(&self, step: i64) -> Option<usize> {
        self.known.iter().position(|known| *known == step)
    }

    pub fn get(&self, at: u64) -> Result<i64, MemoryError> {
        let known = usize::try_from(at).ok().and_then(|at| self.known.get(at));
        known.copied().ok_or(MemoryError::OutOfRange("segment"))
    }

    /// Notes a distance that occurred `times` times in a row.
    pub fn note(&mut self, step: i64, times: usize) {
        let is_again = times > 1 || step == self.last;
        if is_again && self.known.len() < MOST_KNOWN && self.find(step).is_none() {
            self.known.push(step);
        }
        self.last = step;
    }
}

/// Appends a difference of bases: in pages, if it is a multiple of the page size.
pub fn put_step(out: &mut Vec<u8>, step: i64) {
    match step % PAGE {
        0 => varint::put_signed(out, step / PAGE * 2),
        _ => varint::put_signed(out, step.wrapping_mul(2) | 1),
    }
}

pub fn take_step(input: &mut &[u8]) -> Result<i64, MemoryError> {
    let step = varint::take_signed(input)?;
    Ok(if step & 1 == 0 { (step / 2).wrapping_mul(PAGE) } else { step >> 1 })
}
