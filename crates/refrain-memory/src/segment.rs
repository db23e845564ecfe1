//! Addresses as segment and offset.
//!
//! The address of a module, a stack or an allocation differs from run to run and from process to
//! process. So every segment also has a *logical address*: where it would lie if segments were laid out
//! one after the other, in the order in which their owner allocated them (EPRSD §III.B keeps a table of
//! stack bases for the same reason). Traces hold logical addresses; the table of segments, stored beside
//! them, maps them back to addresses. The layout in order has a second use: list nodes or rows that were
//! allocated one by one are a fixed distance apart in it.
//!
//! Addresses outside all segments are kept unchanged, in a range of their own. Segments to which no
//! reference was made are not stored; the logical address of the next segment skips them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::MemoryError;
use crate::segment_rows::{Row, Rows, Steps, put_step, take_step};
use refrain_bytes::varint;

/// What a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentKind {
    /// A module's data (or anything else that is mapped once and stays).
    Module,
    /// One heap allocation.
    Heap,
    /// A thread's stack.
    Stack,
    /// Another mapping.
    Mapping,
}

pub(crate) const KINDS: [SegmentKind; 4] =
    [SegmentKind::Module, SegmentKind::Heap, SegmentKind::Stack, SegmentKind::Mapping];

/// A segment: its kind, its owner, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// What it is.
    pub kind: SegmentKind,
    /// The thread that allocated it or whose stack it is; 0 for modules.
    pub owner: u32,
    /// Its first address.
    pub base: u64,
    /// How many bytes.
    pub size: u64,
    /// Its logical address.
    pub logical: u64,
}

/// Bits of the logical addresses of an owner's segments of one kind.
const ARENA_BITS: u32 = 40;
/// Owners from this number on have no logical addresses; their addresses are kept unchanged.
const MOST_OWNERS: u32 = 1 << 18;
/// The usual size of the initial thread's stack.
pub(crate) const USUAL_STACK: u64 = 8 << 20;
/// This bit is flipped in an address outside all segments. Neither logical addresses nor valid addresses
/// of today's machines have it set.
const NO_SEGMENT: u64 = 1 << 62;

/// A range of addresses, and how they map to logical addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// The first address.
    pub base: u64,
    /// How many addresses.
    pub size: u64,
    /// What is added to an address to get its logical address.
    pub shift: u64,
    /// [`Segments::age`] when this window was looked up.
    pub age: u64,
}

impl Window {
    /// Whether it holds an address.
    #[inline]
    pub fn holds(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < self.size
    }
}

/// A segment that exists now.
#[derive(Clone, Copy, Debug)]
struct Live {
    size: u64,
    shift: u64,
    /// Its index in the table.
    index: usize,
}

/// Whether each segment was ever used. Atomic, because several threads look up addresses concurrently.
#[derive(Debug, Default)]
struct Marks(Vec<AtomicBool>);

impl Clone for Marks {
    fn clone(&self) -> Self {
        Self(self.0.iter().map(|mark| AtomicBool::new(mark.load(Ordering::Relaxed))).collect())
    }
}

/// The segments of a process: those that exist now, and a table of all that ever existed.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    table: Vec<Segment>,
    used: Marks,
    live: BTreeMap<u64, Live>,
    arenas: HashMap<(SegmentKind, u32), u64>,
    age: u64,
    identity: bool,
}

impl Segments {
    /// No segments yet.
    pub fn new() -> Self {
        Self { age: 1, ..Self::default() }
    }

    /// For streams of plain values: each address is its own logical address.
    pub fn identity() -> Self {
        Self { age: 1, identity: true, ..Self::default() }
    }

    /// A segment begins to exist. Segments that overlap it are removed: their end was missed.
    pub fn begin(&mut self, kind: SegmentKind, owner: u32, base: u64, size: u64) {
        if self.identity {
            return;
        }
        let size = size.max(1).min(u64::MAX - base);
        while let Some((&old, live)) = self.live.range(..base + size).next_back()
            && old + live.size > base
        {
            self.end(old);
        }
        if let Some(logical) = self.reserve(kind, owner, size) {
            // Windows that were handed out while there was no segment cover all addresses.
            self.age += u64::from(self.live.is_empty());
            let index = self.table.len();
            self.add(Segment { kind, owner, base, size, logical }, false);
            self.live.insert(base, Live { size, shift: logical.wrapping_sub(base), index });
        }
    }

    fn add(&mut self, segment: Segment, is_used: bool) {
        self.table.push(segment);
        self.used.0.push(AtomicBool::new(is_used));
    }

    /// The segment that begins at `base` ceases to exist.
    pub fn end(&mut self, base: u64) {
        if self.live.remove(&base).is_some() {
            self.age += 1;
        }
    }

    fn reserve(&mut self, kind: SegmentKind, owner: u32, size: u64) -> Option<u64> {
        let used = self.arenas.entry((kind, owner)).or_insert(0);
        let room = room_for(size)?;
        if owner >= MOST_OWNERS || room > (1 << ARENA_BITS) - *used {
            return None;
        }
        let logical = arena(kind, owner) + *used;
        *used += room;
        Some(logical)
    }

    /// Changes whenever windows that were handed out may have become invalid.
    #[inline]
    pub fn age(&self) -> u64 {
        self.age
    }

    /// The logical address of an address; `window` caches the segment between calls.
    #[inline]
    pub fn logical(&self, address: u64, window: &mut Window) -> u64 {
        if window.age != self.age || !window.holds(address) {
            self.find(address, window);
        }
        address.wrapping_add(window.shift)
    }

    #[cold]
    fn find(&self, address: u64, window: &mut Window) {
        let age = self.age;
        let found = self.live.range(..=address).next_back();
        let window_of = |(&base, live): (&u64, &Live)| {
            (Window { base, size: live.size, shift: live.shift, age }, live.index)
        };
        *window = match found.map(window_of) {
            _ if self.identity => Window { base: 0, size: u64::MAX, shift: 0, age },
            Some((window, index)) if window.holds(address) => {
                self.used.0[index].store(true, Ordering::Relaxed);
                window
            }
            None if self.live.is_empty() && address < NO_SEGMENT => {
                Window { base: 0, size: NO_SEGMENT, shift: NO_SEGMENT, age }
            }
            // The window has this address only, and is never reused: a segment may begin right beside it.
            _ => {
                let shift = (address ^ NO_SEGMENT).wrapping_sub(address);
                Window { base: address, size: 1, shift, age: 0 }
            }
        };
    }

    /// All segments that ever existed, in order.
    pub fn table(&self) -> &[Segment] {
        &self.table
    }

    /// The segments that were used, by kind, by owner, then in the order in which they began. Sorting them makes
    /// the table independent of the order in which threads happened to register their stacks.
    fn used(&self) -> Vec<&Segment> {
        let marks = self.table.iter().zip(&self.used.0);
        let used = marks.filter(|(_, used)| used.load(Ordering::Relaxed));
        let mut used: Vec<&Segment> = used.map(|(segment, _)| segment).collect();
        used.sort_by_key(|segment| (segment.kind, segment.owner));
        used
    }

    /// Appends the segments that were used, as columns:
    ///
    /// - kind, owner and flags;
    /// - unless 0: the difference of its size from the last of its kind, and how much of the owner's range is
    ///   skipped before it;
    /// - the distance of its base from the last of its kind;
    /// - how often equal rows follow each other, if more than once.
    ///
    /// Stacks of threads, and consecutive allocations, are usually at equal distances. Nothing is packed here:
    /// the container packs the section as a whole, which is better.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let used = self.used();
        let mut rows = Rows::default();
        let rows: Vec<Row> = used.iter().map(|segment| rows.row(segment)).collect();
        let [mut heads, mut sizes, mut bases, mut repeats] = [const { Vec::new() }; 4];
        let mut steps = Steps::default();
        for run in rows.chunk_by(|a, b| a == b) {
            let Row { owner, kind, size, skipped, step } = run[0];
            let (known, is_repeated) = (steps.find(step), run.len() > 1);
            let flags = [size != 0, skipped != 0, known.is_some(), is_repeated];
            let flags = flags.iter().fold(0, |flags, flag| flags << 1 | u64::from(*flag));
            varint::put(&mut heads, (owner * 4 + kind as u64) * 16 + flags);
            if size != 0 {
                varint::put_signed(&mut sizes, size);
            }
            if skipped != 0 {
                varint::put(&mut sizes, skipped);
            }
            match known {
                Some(at) => varint::put(&mut bases, at as u64),
                None => put_step(&mut bases, step),
            }
            if is_repeated {
                varint::put(&mut repeats, run.len() as u64);
            }
            steps.note(step, run.len());
        }
        out.push(2 | u8::from(self.identity));
        [heads, sizes, bases].iter().for_each(|column| varint::put_bytes(out, column));
        out.extend(repeats);
    }

    /// Decodes a table. None of its segments exists any more.
    pub fn decode(input: &mut &[u8]) -> Result<Self, MemoryError> {
        match varint::take_byte(input)? {
            head @ 2..4 => Self::decode_rows(input, head & 1 != 0),
            head => Self::decode_columns(input, head != 0),
        }
    }

    fn decode_rows(input: &mut &[u8], identity: bool) -> Result<Self, MemoryError> {
        let mut columns = [&[][..]; 3];
        for column in &mut columns {
            *column = varint::take_bytes(input)?;
        }
        let [heads, sizes, bases] = &mut columns;
        let mut segments = Self { identity, ..Self::new() };
        let (mut rows, mut steps) = (Rows::default(), Steps::default());
        while !heads.is_empty() {
            let head = varint::take(heads)?;
            let [has_size, has_skipped, is_known, is_repeated] =
                [8, 4, 2, 1].map(|flag| head & flag != 0);
            let (owner, kind) = (head >> 6, KINDS[(head >> 4) as usize % 4]);
            let size = if has_size { varint::take_signed(sizes)? } else { 0 };
            let skipped = if has_skipped { varint::take(sizes)? } else { 0 };
            let step = match is_known {
                true => steps.get(varint::take(bases)?)?,
                false => take_step(bases)?,
            };
            let repeats = if is_repeated { varint::take(input)? } else { 1 };
            if repeats > u64::from(MOST_OWNERS) * 4 {
                return Err(MemoryError::OutOfRange("segment"));
            }
            let row = Row { owner, kind, size, skipped, step };
            for _ in 0..repeats {
                let segment = rows.segment(&row);
                let segment = segment.and_then(|segment| segments.skip_to(segment, skipped));
                segments.add(segment.ok_or(MemoryError::OutOfRange("segment"))?, true);
            }
            steps.note(step, repeats as usize);
        }
        Ok(segments)
    }

    /// Gives a segment its logical address, `skipped` times 16 bytes after the last.
    fn skip_to(&mut self, mut segment: Segment, skipped: u64) -> Option<Segment> {
        let used = self.arenas.entry((segment.kind, segment.owner)).or_insert(0);
        let at = used.checked_add(skipped.checked_mul(16)?)?;
        *used = Some(at).filter(|at| *at < 1 << ARENA_BITS)?;
        segment.logical = self.reserve(segment.kind, segment.owner, segment.size)?;
        Some(segment)
    }

    /// Decodes a table in the older encoding: segment by segment, with second differences.
    fn decode_columns(input: &mut &[u8], identity: bool) -> Result<Self, MemoryError> {
        const WHAT: MemoryError = MemoryError::OutOfRange("segment");
        let count = varint::take(input)?;
        let mut columns = [&[][..]; 4];
        for column in &mut columns {
            *column = varint::take_bytes(input)?;
        }
        let mut segments = Self { identity, ..Self::new() };
        let (mut owner, mut size, mut base, mut step) = (0i64, 0u64, 0u64, 0u64);
        for _ in 0..count {
            let head = varint::take_signed(&mut columns[0])?;
            owner = owner.wrapping_add(head.div_euclid(4));
            let kind = KINDS[head.rem_euclid(4) as usize];
            size = size.wrapping_add(varint::take_signed(&mut columns[1])? as u64);
            step = step.wrapping_add(take_step(&mut columns[2])? as u64);
            base = base.wrapping_add(step);
            let owner = u32::try_from(owner).map_err(|_| WHAT)?;
            let skipped = varint::take(&mut columns[3])?;
            let segment = Segment { kind, owner, base, size, logical: 0 };
            let segment = segments.skip_to(segment, skipped).ok_or(WHAT)?;
            segments.add(segment, true);
        }
        Ok(segments)
    }

    /// The map from logical addresses back to addresses.
    pub fn addresses(&self) -> Addresses {
        let mut by_logical = self.table.clone();
        by_logical.sort_by_key(|segment| segment.logical);
        Addresses { by_logical, identity: self.identity, latest: None }
    }
}

/// The first logical address of an owner's segments of one kind.
pub(crate) fn arena(kind: SegmentKind, owner: u32) -> u64 {
    (u64::from(owner) * KINDS.len() as u64 + kind as u64) << ARENA_BITS
}

/// Bits of an offset in a thread's own stack: few stacks are larger.
const OWN_BITS: u32 = 27;
/// The first logical address of a thread's own stack when threads are compared: beside the initial
/// thread's stack.
const OWN_STACK: u64 = (SegmentKind::Stack as u64) << ARENA_BITS | 1 << OWN_BITS;

/// Swaps a logical address on the stack of `thread` with the address that stands for "own stack" and is
/// the same for all threads but the initial one. Other numbers stay unchanged.
pub(crate) fn swap_own(thread: u32, number: i64) -> i64 {
    const MASK: u64 = (1 << OWN_BITS) - 1;
    let (number, stack) = (number as u64, arena(SegmentKind::Stack, thread));
    let swapped = match number & !MASK {
        OWN_STACK if thread != 0 => number & MASK | stack,
        its if its == stack && thread != 0 => number & MASK | OWN_STACK,
        _ => number,
    };
    swapped as i64
}

/// The offset in a thread's own stack of a number that [`swap_own`] returned.
pub(crate) fn own_offset(number: i64) -> Option<u64> {
    (number as u64).checked_sub(OWN_STACK).filter(|offset| *offset < 1 << OWN_BITS)
}

/// Where the first references of most programs are: at the top of the initial thread's stack, and in its first
/// allocation.
pub(crate) fn usual_addresses() -> [i64; 2] {
    let (stack, heap) = (arena(SegmentKind::Stack, 0), arena(SegmentKind::Heap, 0));
    [(stack + USUAL_STACK) as i64, heap as i64]
}

/// The logical addresses that a segment of this size takes: more than its size, so that its end is not
/// the beginning of another.
pub(crate) fn room_for(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(16)?.checked_add(16)
}

/// A range of logical addresses that lie in one segment, or outside all segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// The first.
    pub first: u64,
    /// How many.
    pub size: u64,
    /// What is added to a logical address to get the address.
    pub shift: u64,
    /// The segment.
    pub segment: Option<Segment>,
}

impl Stretch {
    /// Whether it holds a logical address.
    #[inline]
    pub fn holds(&self, logical: u64) -> bool {
        logical.wrapping_sub(self.first) < self.size
    }
}

/// Maps logical addresses back to addresses.
#[derive(Clone, Debug)]
pub struct Addresses {
    by_logical: Vec<Segment>,
    identity: bool,
    latest: Option<Segment>,
}

impl Addresses {
    /// The segment of a logical address, and the offset in it.
    pub fn segment(&self, logical: u64) -> Option<(&Segment, u64)> {
        let after = self.by_logical.partition_point(|segment| segment.logical <= logical);
        let segment = self.by_logical.get(after.checked_sub(1)?)?;
        let offset = logical - segment.logical;
        (offset < segment.size).then_some((segment, offset))
    }

    /// The stretch of logical addresses around one that lies in the same segment.
    pub fn stretch(&self, logical: u64) -> Stretch {
        let found = match self.identity {
            true => None,
            false => self.segment(logical).map(|(segment, _)| *segment),
        };
        let (first, size, base) = match found {
            Some(segment) => (segment.logical, segment.size, segment.base),
            None if self.identity => (0, u64::MAX, 0),
            // Addresses outside all segments are one after the other, too.
            None if logical & NO_SEGMENT != 0 => {
                let first = logical & !(NO_SEGMENT - 1);
                (first, NO_SEGMENT, first ^ NO_SEGMENT)
            }
            None => (logical, 1, logical ^ NO_SEGMENT),
        };
        Stretch { first, size, shift: base.wrapping_sub(first), segment: found }
    }

    /// The address of a logical address.
    #[inline]
    pub fn address(&mut self, logical: u64) -> u64 {
        if self.identity {
            return logical;
        }
        if let Some(latest) = &self.latest
            && logical.wrapping_sub(latest.logical) < latest.size
        {
            return logical.wrapping_sub(latest.logical).wrapping_add(latest.base);
        }
        self.look_up(logical)
    }

    fn look_up(&mut self, logical: u64) -> u64 {
        match self.segment(logical) {
            Some((segment, offset)) => {
                let address = segment.base.wrapping_add(offset);
                self.latest = Some(*segment);
                address
            }
            None => logical ^ NO_SEGMENT,
        }
    }
}
