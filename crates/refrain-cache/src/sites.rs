//! For whom accesses are counted: a reference of the program, in a loop, to a segment.

use std::collections::HashMap;

use refrain_memory::{Addresses, Kind, Segment, Stretch, Trace};

use crate::counts::Counts;

/// Whose accesses are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The block of the reference.
    pub block: u32,
    /// Which of the block's references it is.
    pub reference: u32,
    /// The segment that it refers to. Segments of less than [`SMALL_SEGMENT`] bytes are counted together, as
    /// `None`, and so are addresses outside all segments.
    pub segment: Option<Segment>,
    /// Where in the segment it was first (in static data, this tells the variable); the address outside of
    /// segments.
    pub first: u64,
    /// The innermost loop around it, by the first block of the loop; `None` outside of loops.
    pub in_loop: Option<u32>,
}

/// Segments below this size have no counts of their own: a list may have a million nodes.
pub const SMALL_SEGMENT: u64 = 4096;

/// A reference, and where it was last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub block: u32,
    pub reference: u32,
    pub in_loop: Option<u32>,
    pub size: u32,
    pub is_store: bool,
    pub stretch: Stretch,
    pub site: u32,
}

/// All sites, and what was counted for each.
#[derive(Debug)]
pub(crate) struct Sites {
    pub sites: Vec<Site>,
    pub counts: Vec<Counts>,
    index: HashMap<(u32, u32, Option<u64>, Option<u32>), u32>,
    addresses: Addresses,
}

impl Sites {
    pub fn new(trace: &Trace) -> Self {
        Self {
            sites: Vec::new(),
            counts: Vec::new(),
            index: HashMap::new(),
            addresses: trace.segments.addresses(),
        }
    }

    /// A reference that has not been anywhere.
    pub fn place(trace: &Trace, block: u32, reference: u32, in_loop: Option<u32>) -> Place {
        let found = trace.blocks.get(block).and_then(|all| all.get(reference as usize));
        Place {
            block,
            reference,
            in_loop,
            size: found.map_or(1, |found| found.size.max(1)),
            is_store: found.is_some_and(|found| found.kind != Kind::Load),
            stretch: Stretch::default(),
            site: u32::MAX,
        }
    }

    /// The address of a logical address; the place moves to its segment.
    #[inline]
    pub fn address(&mut self, place: &mut Place, logical: u64) -> u64 {
        if !place.stretch.holds(logical) {
            self.move_to(place, logical);
        }
        logical.wrapping_add(place.stretch.shift)
    }

    #[cold]
    fn move_to(&mut self, place: &mut Place, logical: u64) {
        place.stretch = self.addresses.stretch(logical);
        let segment = place.stretch.segment.filter(|segment| segment.size >= SMALL_SEGMENT);
        let key =
            (place.block, place.reference, segment.map(|segment| segment.logical), place.in_loop);
        let next = self.sites.len() as u32;
        place.site = *self.index.entry(key).or_insert(next);
        if place.site == next {
            let Place { block, reference, in_loop, .. } = *place;
            let first = match segment {
                Some(segment) => logical - segment.logical,
                None => logical.wrapping_add(place.stretch.shift),
            };
            self.sites.push(Site { block, reference, segment, first, in_loop });
            self.counts.push(Counts::default());
        }
    }
}
