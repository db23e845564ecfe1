//! A table of memory regions that are few and large: large allocations, mappings, device memory.
//!
//! The table has a fixed size and no locks: the functions that fill it may be called in a forked child,
//! where a lock could have been left locked. A region is found by its first address in constant time. It is
//! found by an address inside it with a scan of the table, which happens only when MPI is first given
//! such an address. A region that does not fit is not recorded.

use refrain_bytes::table;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many cells may hold a region.
const WINDOW: usize = 16;

/// The first address in a cell that is being written.
const RESERVED: usize = 1;

/// A memory region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its addresses.
    pub range: Range<usize>,
    /// Its kind, of [`refrain_format::record::segment`].
    pub kind: u8,
    /// Its device. Of a stack: how many words its anchor lies below its end.
    pub detail: u32,
    /// Whether some log has announced it.
    pub used: bool,
}

struct Cell {
    start: AtomicUsize,
    end: AtomicUsize,
    /// Kind, used, detail: 8, 8 and 32 bits from the lowest on.
    what: AtomicU64,
}

/// A table of regions.
pub struct Regions<const CELLS: usize> {
    cells: [Cell; CELLS],
    /// How many there are; none is the usual case.
    live: AtomicUsize,
}

impl<const CELLS: usize> Regions<CELLS> {
    /// An empty table.
    pub const fn new() -> Self {
        Regions { cells: [const { Cell::empty() }; CELLS], live: AtomicUsize::new(0) }
    }

    /// The cells that may hold a region with that first address.
    #[expect(clippy::indexing_slicing, reason = "the index is reduced modulo the length")]
    fn window(&self, start: usize) -> impl Iterator<Item = &Cell> {
        let first = table::slot::<32>(start as u64 >> 12);
        (first..first + WINDOW).map(|cell| &self.cells[cell % CELLS])
    }

    /// Adds a region.
    pub fn add(&self, region: &Region) {
        let (taken, not) = (Ordering::Acquire, Ordering::Relaxed);
        let reserve = |c: &&Cell| c.start.compare_exchange(0, RESERVED, taken, not).is_ok();
        if let Some(cell) = self.window(region.range.start).find(reserve) {
            cell.end.store(region.range.end, Ordering::Relaxed);
            let what = u64::from(region.kind)
                | u64::from(region.used) << 8
                | u64::from(region.detail) << 32;
            cell.what.store(what, Ordering::Relaxed);
            cell.start.store(region.range.start, Ordering::Release);
            self.live.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes and returns the region with that first address.
    pub fn take(&self, start: usize) -> Option<Region> {
        let mut window = self.window(start);
        window.find(|c| c.start.load(Ordering::Acquire) == start).and_then(|cell| self.clear(cell))
    }

    fn clear(&self, cell: &Cell) -> Option<Region> {
        let region = cell.read()?;
        let (start, order) = (region.range.start, Ordering::AcqRel);
        cell.start.compare_exchange(start, 0, order, Ordering::Relaxed).ok()?;
        self.live.fetch_sub(1, Ordering::Relaxed);
        Some(region)
    }

    fn all(&self) -> &[Cell] {
        if self.live.load(Ordering::Relaxed) == 0 { &[] } else { &self.cells }
    }

    /// The region that contains an address; with `announce`, marks it as announced.
    pub fn find(&self, address: usize, announce: bool) -> Option<Region> {
        let is_in = |c: &&Cell| {
            c.start.load(Ordering::Acquire) <= address && address < c.end.load(Ordering::Relaxed)
        };
        let mut cells = self.all().iter().filter(is_in);
        cells.find_map(|cell| {
            let region = cell.read().filter(|r| r.range.contains(&address))?;
            if announce {
                cell.what.fetch_or(1 << 8, Ordering::Relaxed);
            }
            Some(region)
        })
    }

    /// Removes a range of addresses, and calls `each` for every region that overlaps it. The parts of
    /// a region outside the range remain as regions.
    pub fn cut(&self, hole: &Range<usize>, mut each: impl FnMut(&Region)) {
        for cell in self.all() {
            let overlaps = cell.start.load(Ordering::Acquire) < hole.end
                && cell.end.load(Ordering::Relaxed) > hole.start;
            if !overlaps {
                continue;
            }
            let is = |r: &Region| r.range.start < hole.end && r.range.end > hole.start;
            if let Some(region) = cell.read().filter(is).and_then(|_| self.clear(cell)) {
                each(&region);
                for rest in [region.range.start..hole.start, hole.end..region.range.end] {
                    if !rest.is_empty() {
                        self.add(&Region { range: rest, used: false, ..region.clone() });
                    }
                }
            }
        }
    }
}

impl Cell {
    const fn empty() -> Cell {
        Cell { start: AtomicUsize::new(0), end: AtomicUsize::new(0), what: AtomicU64::new(0) }
    }

    /// The region in it; none if it is empty or changes meanwhile.
    fn read(&self) -> Option<Region> {
        let start = self.start.load(Ordering::Acquire);
        let (end, what) = (self.end.load(Ordering::Relaxed), self.what.load(Ordering::Acquire));
        let is_whole = start > RESERVED && self.start.load(Ordering::Relaxed) == start;
        is_whole.then_some(Region {
            range: start..end,
            kind: what as u8,
            detail: (what >> 32) as u32,
            used: what >> 8 & 1 == 1,
        })
    }
}
