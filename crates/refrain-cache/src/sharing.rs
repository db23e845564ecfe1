//! False and true sharing, decided on sections.
//!
//! Two threads share a line if both access it and at least one writes to it. For a reference, the sharing is
//! *true* if it accesses bytes that another thread writes, and *false* if another thread writes only other bytes:
//! the line moves between their caches although no data does. Lines that may be shared are found by intersecting ranges of sections;
//! only for these are bytes and accesses counted.

use std::collections::{BTreeMap, BTreeSet, HashMap, btree_map, hash_map};

use refrain_memory::{Kind, MemoryError, Segment, Trace};

use crate::sections::{Section, sections};

/// A line may have this many bytes.
pub const MOST_BYTES: u64 = 128;
/// Shared lines beyond this number are not looked at.
const MOST_LINES: usize = 1 << 20;
/// A section of more ranges is taken as one range, to begin with.
const MOST_RANGES: u64 = 1 << 16;

/// Lines that threads share in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Whether the references access bytes that the other thread does not write.
    pub is_false: bool,
    /// A reference that writes, of the thread that writes most.
    pub writer: Side,
    /// A reference of another thread.
    pub other: Side,
    /// The address of the line with the most accesses.
    pub line: u64,
    /// How many lines are shared by these references.
    pub lines: u64,
    /// The threads.
    pub threads: BTreeSet<u32>,
    /// Accesses of all these threads to these lines.
    pub accesses: u64,
    /// The lines can move from one cache to another at most this often, if accesses alternate.
    pub transfers: u64,
    /// What removes it, if it is false.
    pub remedy: Remedy,
}

/// One side of a shared line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// The thread.
    pub thread: u32,
    /// The block of the reference.
    pub block: u32,
    /// Which of the block's references it is.
    pub reference: u32,
    /// The segment.
    pub segment: Option<Segment>,
    /// The first and the last byte of the line that the thread accesses.
    pub bytes: (u8, u8),
    /// The thread's accesses to the line.
    pub accesses: u64,
    /// The bytes of one access.
    pub size: u32,
}

/// What removes false sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Each thread has its own small item: make an item as large as a line.
    Pad {
        /// The bytes of the line that a thread has.
        from: u64,
        /// What it should have.
        to: u64,
    },
    /// Threads have parts of an array: let each part begin at a line.
    Align {
        /// Parts of a multiple of this many bytes.
        bytes: u64,
    },
    /// The threads' data are different allocations or variables: let each begin at a line.
    Separate {
        /// The bytes of a line.
        bytes: u64,
    },
}

/// What a reference of a thread does to a line.
#[derive(Clone, Copy, Debug)]
struct Use {
    thread: usize,
    section: (u32, u32),
    segment: Option<Segment>,
    size: u32,
    is_store: bool,
    bytes: u128,
    accesses: u64,
}

/// The sharing between some threads of a process. Lines that can move fewer than `least` times are left out.
pub fn sharing(
    trace: &Trace,
    threads: &[u32],
    line: u64,
    least: u64,
) -> Result<Vec<Sharing>, MemoryError> {
    let all = threads.iter().map(|&thread| sections(trace, thread));
    let all: Vec<Vec<Section>> = all.collect::<Result<_, _>>()?;
    let bits = line.clamp(8, MOST_BYTES).trailing_zeros();
    let about = |section: &Section| {
        let references = trace.blocks.get(section.block).unwrap_or_default();
        let reference = references.get(section.reference as usize);
        reference.map_or((1, false), |r| (r.size.max(1), r.kind != Kind::Load))
    };
    let mut ranges = Vec::new();
    let mut spans = Spans::new();
    for (thread, sections) in all.iter().enumerate() {
        let mut own: Vec<Range> = Vec::new();
        for section in sections {
            let (size, is_store) = about(section);
            let key = (thread, (section.block, section.reference));
            let span = spans.entry(key).or_default();
            cover(section, size, bits, |first, last| {
                if span.len() < SEVERAL {
                    span.extend((first..=last).take(SEVERAL));
                }
                own.push(Range { first, last, is_store });
            });
        }
        ranges.push((thread, own));
    }
    let shared = shared_lines(ranges);
    let mut uses: BTreeMap<u64, Vec<Use>> = BTreeMap::new();
    for (thread, sections) in all.iter().enumerate() {
        for section in sections {
            let (size, is_store) = about(section);
            let mut note = |line: u64, bytes: u128, accesses: u64| {
                let is_full = uses.len() >= MOST_LINES;
                let uses = match uses.entry(line) {
                    btree_map::Entry::Vacant(_) if is_full => return,
                    entry => entry.or_insert_with(Vec::new),
                };
                let key = (section.block, section.reference);
                match uses.iter_mut().find(|r#use| r#use.thread == thread && r#use.section == key) {
                    Some(known) => {
                        known.bytes |= bytes;
                        known.accesses = known.accesses.saturating_add(accesses);
                    }
                    None => uses.push(Use {
                        thread,
                        section: key,
                        segment: section.segment,
                        size,
                        is_store,
                        bytes,
                        accesses,
                    }),
                }
            };
            Meeting { shared: &shared, size, bits, note: &mut note }.section(section);
        }
    }
    Ok(gather(threads, &uses, &spans, 1 << bits, least))
}

/// Consecutive lines that a thread accesses.
#[derive(Clone, Copy, Debug)]
struct Range {
    first: u64,
    last: u64,
    is_store: bool,
}

/// The loops of a section with positive strides, the largest first, and its lowest address. Loops that
/// repeat the same accesses are a factor.
fn ordered(section: &Section) -> (u64, Vec<(u64, u64)>, u64) {
    let (mut address, mut times) = (section.address, 1);
    let mut loops = Vec::with_capacity(section.loops.len());
    for &(stride, count) in &section.loops {
        match stride {
            0 => times = u64::saturating_mul(times, count),
            1.. => loops.push((stride as u64, count)),
            _ => {
                address = address.wrapping_add_signed(stride.wrapping_mul(count as i64 - 1));
                loops.push((stride.unsigned_abs(), count));
            }
        }
    }
    loops.sort_unstable_by(|a, b| b.cmp(a));
    (address, loops, times)
}

/// Calls `each` with ranges that hold all lines of a section.
fn cover(section: &Section, size: u32, bits: u32, mut each: impl FnMut(u64, u64)) {
    let (address, mut loops, _) = ordered(section);
    let line = 1u64 << bits;
    // Of a stretch without a gap of a whole line, every line is accessed.
    let mut last = u64::from(size) - 1;
    let mut ranges = loops.iter().fold(1, |all: u64, (_, count)| all.saturating_mul(*count));
    while let Some(&(stride, count)) = loops.last() {
        if stride > last + line && ranges <= MOST_RANGES {
            break;
        }
        last += stride * (count - 1);
        ranges /= count;
        loops.pop();
    }
    let mut at = vec![0; loops.len()];
    loop {
        let offset: u64 = loops.iter().zip(&at).map(|((stride, _), at)| stride * at).sum();
        let first = address.wrapping_add(offset);
        each(first >> bits, first.wrapping_add(last) >> bits);
        let mut turned = loops.len();
        loop {
            let Some(next) = turned.checked_sub(1) else { return };
            turned = next;
            at[turned] += 1;
            if at[turned] < loops[turned].1 {
                break;
            }
            at[turned] = 0;
        }
    }
}

/// The ranges of lines that several threads access and some thread writes.
fn shared_lines(threads: Vec<(usize, Vec<Range>)>) -> Vec<(u64, u64)> {
    // At each line: the threads that begin (or cease) to access and to write.
    let mut changes: Vec<(u64, i32, i32)> = Vec::new();
    for (_, mut ranges) in threads {
        ranges.sort_unstable_by_key(|range| range.first);
        for only_stores in [false, true] {
            let wanted = ranges.iter().filter(|range| range.is_store || !only_stores);
            let mut joined: Option<(u64, u64)> = None;
            let mut close = |range: Option<(u64, u64)>| {
                if let Some((first, last)) = range {
                    let by = |sign: i32| if only_stores { (0, sign) } else { (sign, 0) };
                    changes.push((first, by(1).0, by(1).1));
                    changes.push((last + 1, by(-1).0, by(-1).1));
                }
            };
            for range in wanted {
                match &mut joined {
                    Some((_, last)) if range.first <= *last + 1 => *last = range.last.max(*last),
                    _ => close(joined.replace((range.first, range.last))),
                }
            }
            close(joined);
        }
    }
    changes.sort_unstable_by_key(|change| change.0);
    let (mut shared, mut accessing, mut writing) = (Vec::new(), 0, 0);
    let mut began = None;
    for at in changes.chunk_by(|a, b| a.0 == b.0) {
        for (_, access, write) in at {
            accessing += access;
            writing += write;
        }
        match (accessing > 1 && writing > 0, began) {
            (true, None) => began = Some(at[0].0),
            (false, Some(first)) => {
                shared.push((first, at[0].0 - 1));
                began = None;
            }
            _ => {}
        }
    }
    shared
}

/// Counts the accesses of sections to shared lines.
struct Meeting<'a, F: FnMut(u64, u128, u64)> {
    /// Ranges of lines, ascending.
    shared: &'a [(u64, u64)],
    size: u32,
    bits: u32,
    note: &'a mut F,
}

impl<F: FnMut(u64, u128, u64)> Meeting<'_, F> {
    fn section(&mut self, section: &Section) {
        let (address, loops, times) = ordered(section);
        self.within(address, &loops, times);
    }

    /// The first shared range that ends at this byte or after it, in bytes.
    fn next_shared(&self, byte: u64) -> Option<(u64, u64)> {
        let line = byte >> self.bits;
        let at = self.shared.partition_point(|(_, last)| *last < line);
        let (first, last) = *self.shared.get(at)?;
        Some((first << self.bits, (last << self.bits) | ((1 << self.bits) - 1)))
    }

    fn within(&mut self, address: u64, loops: &[(u64, u64)], times: u64) {
        let Some(&(stride, count)) = loops.first() else {
            return self.access(address, times);
        };
        let rest: u64 = loops[1..].iter().map(|(stride, count)| stride * (count - 1)).sum();
        let last = rest + u64::from(self.size) - 1;
        let mut i = 0;
        while i < count {
            let low = address.wrapping_add(stride * i);
            let Some((first, _)) = self.next_shared(low) else { return };
            if first > low.wrapping_add(last) {
                // The next iteration that reaches the range.
                i += (first - low - last).div_ceil(stride).max(1);
                continue;
            }
            self.within(low, &loops[1..], times);
            i += 1;
        }
    }

    fn access(&mut self, address: u64, times: u64) {
        let (mut byte, end) = (address, address + u64::from(self.size));
        while byte < end {
            let next = ((byte >> self.bits) + 1) << self.bits;
            let upto = end.min(next);
            if self.next_shared(byte).is_some_and(|(first, _)| first <= byte) {
                let within = byte & ((1 << self.bits) - 1);
                let ones = u128::MAX >> (128 - (upto - byte).min(128));
                (self.note)(byte >> self.bits, ones << within, times);
            }
            byte = upto;
        }
    }
}

type Key = (bool, (u32, u32), (u32, u32));

/// The first lines that each reference of each thread accesses, several of them.
type Spans = HashMap<(usize, (u32, u32)), BTreeSet<u64>>;

/// A reference to fewer lines is not to an array.
const SEVERAL: usize = 3;

/// Decides each line, and gathers lines that are shared by the same references.
fn gather(
    threads: &[u32],
    lines: &BTreeMap<u64, Vec<Use>>,
    spans: &Spans,
    line: u64,
    least: u64,
) -> Vec<Sharing> {
    let is_small = |each: &Use| {
        spans.get(&(each.thread, each.section)).is_none_or(|lines| lines.len() < SEVERAL)
    };
    let mut found: HashMap<Key, Sharing> = HashMap::new();
    for (&number, uses) in lines {
        for is_false in [true, false] {
            let Some(one) = OfLine::new(uses, is_false) else { continue };
            let Some((writer, other)) = one.sides() else { continue };
            let sum: u64 = one.accesses.values().sum();
            let most = one.accesses.values().copied().max().unwrap_or(0);
            let sharing = Sharing {
                is_false,
                writer: one.side(writer, threads),
                other: one.side(other, threads),
                line: number * line,
                lines: 1,
                threads: one.accesses.keys().map(|thread| threads[*thread]).collect(),
                accesses: sum,
                transfers: 2 * (sum - most),
                remedy: remedy(writer, other, line, is_small(writer) && is_small(other)),
            };
            match found.entry((is_false, writer.section, other.section)) {
                hash_map::Entry::Vacant(entry) => {
                    entry.insert(sharing);
                }
                hash_map::Entry::Occupied(mut entry) => entry.get_mut().join(sharing),
            }
        }
    }
    let all = found.into_values();
    let mut all: Vec<Sharing> = all.filter(|sharing| sharing.transfers >= least.max(1)).collect();
    all.sort_by_key(|s| (!s.is_false, std::cmp::Reverse(s.transfers), s.line));
    all
}

impl Sharing {
    /// Adds another line that is shared by the same references.
    fn join(&mut self, more: Self) {
        let weight = |sharing: &Self| sharing.writer.accesses.min(sharing.other.accesses);
        if weight(&more) > weight(self) {
            (self.writer, self.other) = (more.writer, more.other);
            (self.line, self.remedy) = (more.line, more.remedy);
        }
        self.lines += 1;
        self.threads.extend(more.threads);
        self.accesses += more.accesses;
        self.transfers += more.transfers;
    }
}

/// The uses of a line that are falsely (or truly) shared.
struct OfLine<'a> {
    is_false: bool,
    uses: Vec<&'a Use>,
    /// The bytes that each thread writes.
    written: BTreeMap<usize, u128>,
    /// How often each thread accesses the line by these uses.
    accesses: BTreeMap<usize, u64>,
}

impl<'a> OfLine<'a> {
    /// `None` if there are none.
    fn new(all: &'a [Use], is_false: bool) -> Option<Self> {
        let mut written: BTreeMap<usize, u128> = BTreeMap::new();
        for each in all.iter().filter(|each| each.is_store) {
            *written.entry(each.thread).or_default() |= each.bytes;
        }
        let mut of_it = Self { is_false, uses: Vec::new(), written, accesses: BTreeMap::new() };
        let is_used = |each: &&Use| {
            let is_hurt = of_it.written.keys().any(|writer| of_it.is_hurt(each, *writer));
            let hurts = || each.is_store && all.iter().any(|u| of_it.is_hurt(u, each.thread));
            is_hurt || hurts()
        };
        let uses: Vec<&Use> = all.iter().filter(is_used).collect();
        for each in &uses {
            *of_it.accesses.entry(each.thread).or_default() += each.accesses;
        }
        of_it.uses = uses;
        (of_it.accesses.len() > 1).then_some(of_it)
    }

    /// Whether a use loses the line to what another thread writes: to the bytes that it accesses, or to others.
    fn is_hurt(&self, each: &Use, writer: usize) -> bool {
        let written = self.written.get(&writer).copied().unwrap_or(0);
        let is_true = written & each.bytes != 0;
        writer != each.thread && written != 0 && is_true != self.is_false
    }

    /// The store that is made most often, and what loses most by it.
    fn sides(&self) -> Option<(&'a Use, &'a Use)> {
        let hurt = |writer: &Use| {
            let others = self.uses.iter().filter(|each| self.is_hurt(each, writer.thread));
            others.max_by_key(|each| (each.accesses, each.is_store)).copied()
        };
        let stores = self.uses.iter().filter(|each| each.is_store);
        let pairs = stores.filter_map(|writer| Some((*writer, hurt(writer)?)));
        pairs.max_by_key(|(writer, other)| writer.accesses.min(other.accesses))
    }

    fn side(&self, each: &Use, threads: &[u32]) -> Side {
        Side {
            thread: threads[each.thread],
            block: each.section.0,
            reference: each.section.1,
            segment: each.segment,
            bytes: (each.bytes.trailing_zeros() as u8, 127 - each.bytes.leading_zeros() as u8),
            accesses: each.accesses,
            size: each.size,
        }
    }
}

/// What removes the sharing of a line by two references; `is_small` if they access few lines.
fn remedy(writer: &Use, other: &Use, line: u64, is_small: bool) -> Remedy {
    if writer.segment != other.segment || writer.section != other.section {
        return Remedy::Separate { bytes: line };
    }
    if !is_small {
        return Remedy::Align { bytes: line };
    }
    let from = u64::from(128 - writer.bytes.leading_zeros() - writer.bytes.trailing_zeros());
    Remedy::Pad { from, to: from.next_multiple_of(line) }
}
