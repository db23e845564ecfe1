//! Which piece of memory contains an address?
//!
//! Addresses differ from run to run and from rank to rank. That a buffer is at some offset in the
//! fifth allocation of some size does not. So the log announces each segment, a piece of memory,
//! before a call first uses an address in it: an allocation, a mapping, a module's static data, a
//! thread's stack, memory of a device. Only memory that MPI is given is announced, and only the
//! release of announced memory is recorded ([`releases`]).
//!
//! Nearly every address was seen before: a small table, indexed by bits of the address, confirms
//! that in a few instructions. After it come the list of all segments that this log has announced,
//! and the search for new ones.

use crate::inside::process::{self, Errno, Uncancelled};
use crate::inside::{clock, modules, redaction};
use crate::trace::regions::{Region, Regions};
use crate::trace::releases::{self, Release};
use crate::trace::thread_log::{self, ThreadLog};
use crate::trace::{device, driver, heap, kernel, mappings};
use refrain_format::record::{Tag, segment};
use std::ops::Range;

/// Addresses below this one are special values, or null.
const LOWEST: usize = 65536;

/// Addresses from here on belong to the kernel; MPICH uses some of them as special values.
const HIGHEST: usize = 1 << 47;

/// Cells of the small table.
const NEAR: usize = 64;

/// Number of segments that a log remembers. When there are more, it forgets all of them, and
/// announces them again.
const MAX_ANNOUNCED: usize = 4096;

/// The segments that a log has announced.
pub struct Segments {
    /// The number of [`releases`] that were processed.
    seen: u64,
    /// By bits of an address: first address and length of a segment that needs no announcement.
    near: [(usize, usize); NEAR],
    /// All segments, by first address.
    announced: Vec<Range<usize>>,
    /// The stack of this thread.
    stack: Range<usize>,
}

/// The segment of special addresses, which needs no announcement.
const SPECIAL: (usize, usize) = (0, LOWEST);

#[inline(always)]
fn cell(address: usize) -> usize {
    (address >> 4 ^ address >> 12) % NEAR
}

impl Segments {
    /// The segments of a new log; `anchor` is the stack pointer at the thread's first call.
    pub fn new(anchor: usize) -> Segments {
        let stack = stack_bounds().unwrap_or(0..0);
        if stack.contains(&anchor) {
            let detail = ((stack.end - anchor) / size_of::<usize>()) as u32;
            let range = stack.clone();
            STACKS.add(&Region { range, kind: segment::STACK, detail, used: false });
        }
        Segments { seen: releases::count(), near: [SPECIAL; NEAR], announced: Vec::new(), stack }
    }

    /// Whether an address needs no announcement.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "`cell` is less than the length")]
    pub fn knows(&self, address: usize) -> bool {
        let (start, length) = self.near[cell(address)];
        self.seen == releases::count() && address.wrapping_sub(start) < length
    }

    /// The addresses of this thread's stack.
    pub fn stack(&self) -> &Range<usize> {
        &self.stack
    }

    #[expect(clippy::indexing_slicing, reason = "`cell` is less than the length")]
    fn remember(&mut self, address: usize, start: usize, length: usize) {
        self.near[cell(address)] = (start, length);
    }

    /// The announced segment that contains an address.
    fn announced_around(&self, address: usize) -> Option<Range<usize>> {
        let after = self.announced.partition_point(|r| r.start <= address);
        self.announced.get(after.checked_sub(1)?).filter(|r| r.contains(&address)).cloned()
    }

    fn add(&mut self, range: &Range<usize>) {
        self.forget(range);
        if self.announced.len() >= MAX_ANNOUNCED || self.announced.try_reserve(1).is_err() {
            self.forget_all();
        }
        let index = self.announced.partition_point(|r| r.start < range.start);
        if self.announced.len() < self.announced.capacity() {
            self.announced.insert(index, range.clone());
        }
    }

    /// Forgets segments that overlap a range.
    fn forget(&mut self, range: &Range<usize>) {
        let overlaps = |start, end| start < range.end && range.start < end;
        self.announced.retain(|r| !overlaps(r.start, r.end));
        for near in &mut self.near {
            if overlaps(near.0, near.0.saturating_add(near.1)) {
                *near = SPECIAL;
            }
        }
    }

    fn forget_all(&mut self) {
        self.announced.clear();
        self.near = [SPECIAL; NEAR];
    }

    /// The thread ends, and its stack is released.
    pub fn close(&mut self) {
        if STACKS.take(self.stack.start).is_some_and(|stack| stack.used) {
            released(self.stack.start);
        }
    }
}

/// A segment to announce.
struct Segment {
    range: Range<usize>,
    anchor: usize,
    kind: u8,
    device: u32,
    text: &'static [u8],
}

impl Segment {
    fn new(range: Range<usize>, kind: u8) -> Segment {
        Segment { anchor: range.start, range, kind, device: 0, text: &[] }
    }
}

/// Stacks of threads that have a log.
static STACKS: Regions<512> = Regions::new();

/// Finds the segment that contains an address. The kernel is asked only if `may_ask`, because that
/// is slow.
fn find(address: usize, may_ask: bool) -> Option<Segment> {
    if let Some(region) = device::find(address) {
        return Some(Segment { device: region.detail, ..Segment::new(region.range, region.kind) });
    }
    if let Some(range) = heap::find(address) {
        return Some(Segment::new(range, segment::HEAP));
    }
    if let Some(stack) = STACKS.find(address, true) {
        let anchor = stack.range.end - stack.detail as usize * size_of::<usize>();
        return Some(Segment { anchor, ..Segment::new(stack.range, segment::STACK) });
    }
    if let Some(region) = driver::find(address) {
        return Some(Segment { device: region.detail, ..Segment::new(region.range, region.kind) });
    }
    if let Some(range) = mappings::find(address) {
        return Some(Segment::new(range, segment::MAPPED));
    }
    if let Some(module) = modules::find_image(address) {
        let image = Segment::new(module.image.clone(), segment::STATIC);
        return Some(Segment { text: module.file(), ..image });
    }
    let range = if may_ask { kernel::mapping_around(address)? } else { return None };
    mappings::note_used(range.clone());
    Some(Segment::new(range, segment::MAPPED))
}

impl ThreadLog {
    /// Announces the segment that contains an address, between two records.
    #[cold]
    pub fn announce(&mut self, address: usize, may_ask: bool) {
        self.catch_up();
        if address < LOWEST {
            return;
        }
        if address >= HIGHEST {
            return self.segments.remember(address, HIGHEST, usize::MAX - HIGHEST);
        }
        if let Some(range) = self.segments.announced_around(address) {
            return self.segments.remember(address, range.start, range.len());
        }
        let _uncancelled = Uncancelled::keep();
        let found = std::panic::catch_unwind(|| find(address, may_ask)).ok().flatten();
        let Some(found) = found else {
            // Nothing is mapped there, or nothing that is worth a second search.
            return self.segments.remember(address, address & !0xfff, 0x1000);
        };
        self.segments.add(&found.range);
        self.segments.remember(address, found.range.start, found.range.len());
        let mut facts = [0; 37];
        let numbers = [
            clock::ticks(),
            found.range.start as u64,
            found.range.len() as u64,
            found.anchor as u64,
        ];
        for (bytes, number) in facts.chunks_exact_mut(8).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        facts[32] = found.kind;
        facts[33..].copy_from_slice(&found.device.to_le_bytes());
        self.write_record(Tag::Segment, &[&facts, found.text]);
    }

    /// Processes the releases since the last call.
    fn catch_up(&mut self) {
        let count = releases::count();
        while self.segments.seen != count {
            let Some((release, is_ours_to_write)) = releases::read(self.segments.seen) else {
                self.segments.forget_all();
                self.segments.seen = count;
                return;
            };
            self.segments.seen += 1;
            if let Some(range) = self.segments.announced_around(release.start) {
                self.segments.forget(&range);
            }
            if is_ours_to_write {
                self.write_release(release);
            }
        }
    }

    fn write_release(&mut self, release: Release) {
        let (ticks, start) = (release.ticks.to_le_bytes(), (release.start as u64).to_le_bytes());
        self.write_record(Tag::Release, &[&ticks, &start]);
    }
}

/// Records that memory which some log has announced was freed.
#[cold]
pub fn released(start: usize) {
    let _errno = Errno::keep();
    releases::publish(start, |release| {
        thread_log::write_between_calls(|log| log.write_release(release))
    });
}

/// The addresses of this thread's stack.
fn stack_bounds() -> Option<Range<usize>> {
    // SAFETY: fills in the attributes, reads them, and destroys them.
    unsafe {
        let mut attributes = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let (mut low, mut bytes) = (std::ptr::null_mut(), 0);
        let error = libc::pthread_attr_getstack(&attributes, &mut low, &mut bytes);
        libc::pthread_attr_destroy(&mut attributes);
        (error == 0).then_some(low as usize..low as usize + bytes)
    }
}

impl modules::Module {
    /// Its path as it is recorded; also for the program itself.
    pub fn file(&self) -> &[u8] {
        redaction::path(if self.path.is_empty() { process::program() } else { &self.path })
    }
}
