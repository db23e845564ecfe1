//! Addresses as segment and offset.
//!
//! Where a module, a stack or an allocation lies differs from run to run and from process to
//! process. So every segment also has a *place*: where it would lie if segments were laid out one
//! after the other, in the order in which their owner got them (EPRSD §III.B keeps a table of
//! stack bases for the same reason). Traces hold places; the table of segments, written beside
//! them, turns them back into addresses. Layout in order has a further use: list nodes or rows
//! that were allocated one by one are a fixed distance apart.
//!
//! Addresses in no segment are kept as they are, in a range of their own. Segments that no address
//! was ever looked up in take no room: only where the next one lies is remembered.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::MemoryError;
use crate::varint;

/// What a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentKind {
    /// A module's data (or anything else that is mapped once for all).
    Module,
    /// One heap allocation.
    Heap,
    /// A thread's stack.
    Stack,
    /// Another mapping.
    Mapping,
}

const KINDS: [SegmentKind; 4] =
    [SegmentKind::Module, SegmentKind::Heap, SegmentKind::Stack, SegmentKind::Mapping];

/// A segment: what it is, whose, and where it was.
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
    /// Its place.
    pub place: u64,
}

/// The places of an owner's segments of one kind have so many bits.
const ARENA_BITS: u32 = 40;
/// Owners past this have no places left; their addresses are kept as they are.
const MOST_OWNERS: u32 = 1 << 18;
/// What mappings are multiples of.
const PAGE: i64 = 4096;
/// Flipped in what stands for an address in no segment. Places do not have it, and neither has any
/// address that today's machines allow.
const UNPLACED: u64 = 1 << 62;

/// A range of addresses, and the way from them to places.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// The first address.
    pub base: u64,
    /// How many addresses.
    pub size: u64,
    /// What is added to an address.
    pub shift: u64,
    /// [`Segments::age`] when this was true.
    pub age: u64,
}

impl Window {
    /// Whether it holds an address.
    #[inline]
    pub fn holds(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < self.size
    }
}

/// A segment that lives.
#[derive(Clone, Copy, Debug)]
struct Live {
    size: u64,
    shift: u64,
    /// Its index in the table.
    index: usize,
}

/// Whether each segment was ever used; those who look up addresses may note that side by side.
#[derive(Debug, Default)]
struct Marks(Vec<AtomicBool>);

impl Clone for Marks {
    fn clone(&self) -> Self {
        Self(self.0.iter().map(|mark| AtomicBool::new(mark.load(Ordering::Relaxed))).collect())
    }
}

/// The segments of a process: those that live, and a table of all that ever were.
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

    /// For streams of plain values: each is its own place.
    pub fn identity() -> Self {
        Self { age: 1, identity: true, ..Self::default() }
    }

    /// A segment begins to live. What lived in its range is forgotten: its end was missed.
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
        if let Some(place) = self.place_for(kind, owner, size) {
            // While there was no segment, windows were given out for all addresses.
            self.age += u64::from(self.live.is_empty());
            let index = self.table.len();
            self.add(Segment { kind, owner, base, size, place }, false);
            self.live.insert(base, Live { size, shift: place.wrapping_sub(base), index });
        }
    }

    fn add(&mut self, segment: Segment, is_used: bool) {
        self.table.push(segment);
        self.used.0.push(AtomicBool::new(is_used));
    }

    /// The segment that begins at `base` lives no more.
    pub fn end(&mut self, base: u64) {
        if self.live.remove(&base).is_some() {
            self.age += 1;
        }
    }

    fn place_for(&mut self, kind: SegmentKind, owner: u32, size: u64) -> Option<u64> {
        let used = self.arenas.entry((kind, owner)).or_insert(0);
        let room = room_for(size)?;
        if owner >= MOST_OWNERS || room > (1 << ARENA_BITS) - *used {
            return None;
        }
        let place = arena(kind, owner) + *used;
        *used += room;
        Some(place)
    }

    /// Changes whenever windows given out may have become wrong.
    #[inline]
    pub fn age(&self) -> u64 {
        self.age
    }

    /// The place of an address; `window` remembers the segment from one time to the next.
    #[inline]
    pub fn place(&self, address: u64, window: &mut Window) -> u64 {
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
            None if self.live.is_empty() && address < UNPLACED => {
                Window { base: 0, size: UNPLACED, shift: UNPLACED, age }
            }
            // For this address only, and this time: a segment may begin right beside it.
            _ => {
                let shift = (address ^ UNPLACED).wrapping_sub(address);
                Window { base: address, size: 1, shift, age: 0 }
            }
        };
    }

    /// All segments that ever were, in order.
    pub fn table(&self) -> &[Segment] {
        &self.table
    }

    /// The segments that were used, in order.
    fn used(&self) -> impl Iterator<Item = &Segment> {
        let marks = self.table.iter().zip(&self.used.0);
        marks.filter(|(_, used)| used.load(Ordering::Relaxed)).map(|(segment, _)| segment)
    }

    /// Appends the segments that were used, as columns: kind and owner, size, base, and how much of
    /// the owner's places is skipped before it. Bases are second differences, since what is
    /// allocated one after the other mostly lies at equal distances. Nothing is packed: whoever packs
    /// the whole does it better.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut columns = [const { Vec::new() }; 4];
        let (mut owner, mut size, mut base, mut step) = (0i64, 0u64, 0u64, 0u64);
        let mut nexts = HashMap::new();
        for segment in self.used() {
            let whose = i64::from(segment.owner);
            varint::put_signed(&mut columns[0], (whose - owner) * 4 + segment.kind as i64);
            varint::put_signed(&mut columns[1], segment.size.wrapping_sub(size) as i64);
            let next_step = segment.base.wrapping_sub(base);
            put_step(&mut columns[2], next_step.wrapping_sub(step) as i64);
            let next = nexts.entry((segment.kind, segment.owner)).or_insert(0);
            let offset = segment.place - arena(segment.kind, segment.owner);
            varint::put(&mut columns[3], offset.saturating_sub(*next) / 16);
            *next = offset + room_for(segment.size).unwrap_or(0);
            (owner, size, base, step) = (whose, segment.size, segment.base, next_step);
        }
        out.push(u8::from(self.identity));
        varint::put(out, self.used().count() as u64);
        columns.iter().for_each(|column| varint::put_bytes(out, column));
    }

    /// Takes a table. None of its segments lives.
    pub fn decode(input: &mut &[u8]) -> Result<Self, MemoryError> {
        const WHAT: MemoryError = MemoryError::OutOfRange("segment");
        let identity = varint::take_byte(input)? != 0;
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
            let skipped = varint::take(&mut columns[3])?.checked_mul(16).ok_or(WHAT)?;
            let used = segments.arenas.entry((kind, owner)).or_insert(0);
            *used = used.checked_add(skipped).filter(|at| *at < 1 << ARENA_BITS).ok_or(WHAT)?;
            let place = segments.place_for(kind, owner, size).ok_or(WHAT)?;
            segments.add(Segment { kind, owner, base, size, place }, true);
        }
        Ok(segments)
    }

    /// The way back from places to addresses.
    pub fn addresses(&self) -> Addresses {
        let mut by_place = self.table.clone();
        by_place.sort_by_key(|segment| segment.place);
        Addresses { by_place, identity: self.identity, latest: None }
    }
}

/// Where the places of an owner's segments of one kind begin.
fn arena(kind: SegmentKind, owner: u32) -> u64 {
    (u64::from(owner) * KINDS.len() as u64 + kind as u64) << ARENA_BITS
}

/// The places that a segment takes: one more than it has, so that its end is not another's
/// beginning.
fn room_for(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(16)?.checked_add(16)
}

/// Appends a difference of bases: in pages, if it is of whole pages.
fn put_step(out: &mut Vec<u8>, step: i64) {
    match step % PAGE {
        0 => varint::put_signed(out, step / PAGE * 2),
        _ => varint::put_signed(out, step.wrapping_mul(2) | 1),
    }
}

fn take_step(input: &mut &[u8]) -> Result<i64, MemoryError> {
    let step = varint::take_signed(input)?;
    Ok(if step & 1 == 0 { (step / 2).wrapping_mul(PAGE) } else { step >> 1 })
}

/// Turns places back into addresses.
#[derive(Clone, Debug)]
pub struct Addresses {
    by_place: Vec<Segment>,
    identity: bool,
    latest: Option<Segment>,
}

impl Addresses {
    /// The segment of a place, and the offset in it.
    pub fn segment(&self, place: u64) -> Option<(&Segment, u64)> {
        let after = self.by_place.partition_point(|segment| segment.place <= place);
        let segment = self.by_place.get(after.checked_sub(1)?)?;
        let offset = place - segment.place;
        (offset < segment.size).then_some((segment, offset))
    }

    /// The address of a place.
    #[inline]
    pub fn address(&mut self, place: u64) -> u64 {
        if self.identity {
            return place;
        }
        if let Some(latest) = &self.latest
            && place.wrapping_sub(latest.place) < latest.size
        {
            return place.wrapping_sub(latest.place).wrapping_add(latest.base);
        }
        self.look_up(place)
    }

    fn look_up(&mut self, place: u64) -> u64 {
        match self.segment(place) {
            Some((segment, offset)) => {
                let address = segment.base.wrapping_add(offset);
                self.latest = Some(*segment);
                address
            }
            None => place ^ UNPLACED,
        }
    }
}
