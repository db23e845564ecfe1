//! Simulates the caches of a trace's threads.

use std::collections::VecDeque;

use refrain_memory::{Chunks, Event, MemoryError, Records, Trace, Turns};

use crate::counts::Counts;
use crate::geometry::{Geometry, Policy};
use crate::hierarchy::Hierarchy;
use crate::nests::{NestRun, places_of};
use crate::reuse::{Histogram, ReuseDistances};
use crate::sites::{Place, Site, Sites};

/// How to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How threads take turns.
    pub turns: Turns,
    /// Whether loops that repeat themselves may be skipped. The result is the same.
    pub warp: bool,
    /// Whether reuse distances are counted.
    pub reuse: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { turns: Turns::RoundRobin(1), warp: true, reuse: false }
    }
}

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was counted, site by site.
    pub sites: Vec<(Site, Counts)>,
    /// The sum.
    pub total: Counts,
    /// How many accesses were simulated one by one; the others follow from them.
    pub simulated: u64,
    /// How many times a copy of a line was removed because another thread wrote to the line.
    pub invalidations: u64,
    /// How many lines each thread accessed.
    pub footprints: Vec<u64>,
    /// Reuse distances of lines, over all threads in the assumed order.
    pub reuse: Option<Histogram>,
}

/// A simulation under way.
pub(crate) struct Simulator<'a> {
    pub trace: &'a Trace,
    pub hierarchy: Hierarchy,
    pub sites: Sites,
    /// The logarithm of a line's bytes.
    pub line_bits: u32,
    pub geometry: &'a Geometry,
    pub warp: bool,
    /// How many accesses were simulated when the caches were last copied.
    pub copied: u64,
    /// How many lines were compared with those of copies.
    pub compared: u64,
}

/// Simulates the caches of some threads of a process.
pub fn simulate(
    trace: &Trace,
    threads: &[u32],
    geometry: &Geometry,
    options: Options,
) -> Result<Report, MemoryError> {
    let mut simulator = Simulator {
        trace,
        hierarchy: Hierarchy::new(geometry, threads.len()),
        sites: Sites::new(trace),
        line_bits: geometry.line.trailing_zeros(),
        geometry,
        warp: options.warp && threads.len() == 1,
        copied: 0,
        compared: 0,
    };
    simulator.hierarchy.reuse = options.reuse.then(ReuseDistances::default);
    match threads {
        [thread] => simulator.one(*thread)?,
        _ => simulator.several(threads, options.turns)?,
    }
    Ok(simulator.report(threads.len()))
}

impl Simulator<'_> {
    /// An access to memory.
    #[inline]
    pub fn touch(&mut self, thread: usize, place: &mut Place, logical: u64) {
        let address = self.sites.address(place, logical);
        let first = address >> self.line_bits;
        let last = address.wrapping_add(u64::from(place.size) - 1) >> self.line_bits;
        let outcome = self.hierarchy.access(thread, first, place.is_store);
        self.sites.counts[place.site as usize].add(outcome);
        let mut line = first;
        while line < last {
            line += 1;
            let outcome = self.hierarchy.access(thread, line, place.is_store);
            self.sites.counts[place.site as usize].add(outcome);
        }
    }

    /// Whether equal iterations leave the caches as they are.
    pub fn is_lru(&self) -> bool {
        self.geometry.policy == Policy::Lru
    }

    fn one(&mut self, thread: u32) -> Result<(), MemoryError> {
        let mut blocks = Blocks::new(self.trace);
        let mut logical = Vec::new();
        for chunk in self.trace.chunks(thread) {
            match chunk? {
                Records::Nests(player) => NestRun::new(self, player).run()?,
                mut records => {
                    while let Some(block) = records.next_block(&mut logical, &self.trace.blocks)? {
                        blocks.execute(self, 0, block, &logical);
                    }
                }
            }
        }
        Ok(())
    }

    fn several(&mut self, threads: &[u32], turns: Turns) -> Result<(), MemoryError> {
        let turn = match turns {
            Turns::RoundRobin(references) => references.max(1),
            Turns::OneAfterTheOther => u64::MAX,
        };
        let mut streams: VecDeque<Stream<'_>> = threads
            .iter()
            .enumerate()
            .map(|(core, &thread)| Stream::new(self.trace, core, thread))
            .collect();
        while let Some(mut stream) = streams.pop_front() {
            let mut made = 0;
            while made < turn {
                if stream.at == stream.logical.len() {
                    if !stream.next_block(self.trace)? {
                        break;
                    }
                    continue;
                }
                let (core, logical) = (stream.core, stream.logical[stream.at]);
                self.touch(core, stream.place(), logical);
                stream.at += 1;
                made += 1;
            }
            if made == turn {
                streams.push_back(stream);
            }
        }
        Ok(())
    }

    fn report(self, threads: usize) -> Report {
        let mut total = Counts::default();
        self.sites.counts.iter().for_each(|counts| total += *counts);
        Report {
            total,
            simulated: self.hierarchy.simulated,
            invalidations: self.hierarchy.invalidations,
            footprints: (0..threads).map(|thread| self.hierarchy.footprint(thread)).collect(),
            reuse: self.hierarchy.reuse.as_ref().map(|reuse| reuse.histogram().clone()),
            sites: self.sites.sites.into_iter().zip(self.sites.counts).collect(),
        }
    }
}

/// The references of all blocks, for records outside of nests.
struct Blocks {
    /// Of each block, where its references begin.
    starts: Vec<usize>,
    places: Vec<Place>,
}

impl Blocks {
    fn new(trace: &Trace) -> Self {
        let (mut starts, mut places) = (Vec::new(), Vec::new());
        for block in 0..trace.blocks.len() as u32 {
            starts.push(places.len());
            let references = trace.blocks.get(block).map_or(0, <[_]>::len) as u32;
            places.extend((0..references).map(|at| Sites::place(trace, block, at, None)));
        }
        Self { starts, places }
    }

    /// A reference of a block that exists.
    #[inline]
    fn place(&mut self, block: u32, reference: usize) -> &mut Place {
        let start = self.starts[block as usize];
        &mut self.places[start + reference]
    }

    #[inline]
    fn execute(&mut self, simulator: &mut Simulator<'_>, core: usize, block: u32, logical: &[u64]) {
        let start = self.starts[block as usize];
        for (place, &logical) in self.places[start..].iter_mut().zip(logical) {
            simulator.touch(core, place, logical);
        }
    }
}

/// A thread's records while threads take turns.
struct Stream<'a> {
    core: usize,
    chunks: Chunks<'a>,
    records: Option<Records<'a>>,
    /// The references of the chunk's shapes, by slot.
    shapes: Vec<Vec<Place>>,
    /// The references of all blocks, for records outside of nests.
    blocks: Blocks,
    /// Where the block's references are: in a shape, from a slot, or in `blocks`.
    at_shape: Option<(usize, usize)>,
    block: u32,
    logical: Vec<u64>,
    /// The next reference of the block.
    at: usize,
}

impl<'a> Stream<'a> {
    fn new(trace: &'a Trace, core: usize, thread: u32) -> Self {
        Self {
            core,
            chunks: trace.chunks(thread),
            records: None,
            shapes: Vec::new(),
            blocks: Blocks::new(trace),
            at_shape: None,
            block: 0,
            logical: Vec::new(),
            at: 0,
        }
    }

    /// The next reference.
    #[inline]
    fn place(&mut self) -> &mut Place {
        match self.at_shape {
            Some((shape, slot)) => &mut self.shapes[shape][slot + self.at],
            None => self.blocks.place(self.block, self.at),
        }
    }

    /// Goes to the next block; false at the end.
    fn next_block(&mut self, trace: &Trace) -> Result<bool, MemoryError> {
        self.at = 0;
        loop {
            let Some(records) = &mut self.records else {
                let Some(chunk) = self.chunks.next() else {
                    self.logical.clear();
                    return Ok(false);
                };
                let chunk = chunk?;
                self.at_shape = None;
                if let Records::Nests(player) = &chunk {
                    self.shapes = vec![Vec::new(); player.shapes()];
                }
                self.records = Some(chunk);
                continue;
            };
            let Records::Nests(player) = records else {
                match records.next_block(&mut self.logical, &trace.blocks)? {
                    None => self.records = None,
                    Some(block) => {
                        self.block = block;
                        return Ok(true);
                    }
                }
                continue;
            };
            match player.next_event(&mut self.logical)? {
                None => self.records = None,
                Some(Event::Begin(shape)) => {
                    self.at_shape = Some((shape, 0));
                    if let (true, Some(about)) =
                        (self.shapes[shape].is_empty(), player.shape(shape))
                    {
                        self.shapes[shape] = places_of(trace, about);
                    }
                }
                Some(Event::Block { slot, .. }) => {
                    let shape = self.at_shape.map_or(0, |(shape, _)| shape);
                    self.at_shape = Some((shape, slot as usize));
                    return Ok(true);
                }
                Some(_) => {}
            }
        }
    }
}
