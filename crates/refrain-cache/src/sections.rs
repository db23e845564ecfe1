//! The sections that a thread accesses: for each reference, where it begins and how it advances in each loop.
//!
//! Sections are read from the loop nests: a loop that repeats itself adds a stride and a count to the sections of
//! its body. So time and space follow the compressed trace. The order of accesses is not kept.

use std::collections::HashMap;

use refrain_memory::{Event, Mark, MemoryError, Player, Records, Segment, Stretch, Trace};

use crate::sites::{Place, Sites};

/// Accesses of a reference: to `address` plus any sum of multiples of the strides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The block of the reference.
    pub block: u32,
    /// Which of the block's references it is.
    pub reference: u32,
    /// The segment.
    pub segment: Option<Segment>,
    /// The first address.
    pub address: u64,
    /// Stride and count of each loop, the innermost first. A stride of 0 repeats the same accesses.
    pub loops: Vec<(i64, u64)>,
}

impl Section {
    /// How many accesses there are.
    pub fn accesses(&self) -> u64 {
        self.loops.iter().fold(1, |all: u64, (_, count)| all.saturating_mul(*count))
    }
}

/// The sections of a thread.
pub fn sections(trace: &Trace, thread: u32) -> Result<Vec<Section>, MemoryError> {
    let mut collector = Collector::new(trace);
    let mut logical = Vec::new();
    for chunk in trace.chunks(thread) {
        match chunk? {
            Records::Nests(player) => collector.nests(player)?,
            mut records => {
                while let Some(block) = records.next_block(&mut logical, &trace.blocks)? {
                    collector.block(block, &logical);
                }
                collector.gather(0);
            }
        }
    }
    Ok(collector.finish())
}

/// Points beyond this number are gathered.
const MANY: usize = 1 << 16;

/// A section under construction, by logical address.
#[derive(Clone, Debug)]
struct Draft {
    block: u32,
    reference: u32,
    /// The slot in the shape.
    slot: u32,
    stretch: Stretch,
    logical: u64,
    loops: Vec<(i64, u64)>,
}

impl Draft {
    /// The lowest and the highest logical address.
    fn ends(&self) -> (u64, u64) {
        let (mut low, mut high) = (self.logical, self.logical);
        for &(stride, count) in &self.loops {
            let by = stride.wrapping_mul(count as i64 - 1);
            match by < 0 {
                true => low = low.wrapping_add_signed(by),
                false => high = high.wrapping_add_signed(by),
            }
        }
        (low, high)
    }

    /// How many times it can advance within its segment.
    fn room(&self, stride: i64) -> u64 {
        let (low, high) = self.ends();
        let room = match stride {
            0 => return u64::MAX,
            1.. => self.stretch.size - 1 - (high - self.stretch.first),
            _ => low - self.stretch.first,
        };
        room / stride.unsigned_abs()
    }
}

/// A loop that is being executed.
#[derive(Default)]
struct LoopState {
    mark: Option<Mark>,
    /// How many drafts there were when the mark was made.
    drafts: usize,
}

struct Collector<'a> {
    trace: &'a Trace,
    sites: Sites,
    drafts: Vec<Draft>,
    /// Points: how often each reference accessed a logical address outside of loops.
    points: HashMap<(u32, u32, u64), u64>,
    places: HashMap<(u32, u32), Place>,
}

impl<'a> Collector<'a> {
    fn new(trace: &'a Trace) -> Self {
        Self {
            trace,
            sites: Sites::new(trace),
            drafts: Vec::new(),
            points: HashMap::new(),
            places: HashMap::new(),
        }
    }

    fn stretch(&mut self, block: u32, reference: u32, logical: u64) -> Stretch {
        let place = self
            .places
            .entry((block, reference))
            .or_insert_with(|| Sites::place(self.trace, block, reference, None));
        self.sites.address(place, logical);
        place.stretch
    }

    fn add(&mut self, (block, reference): (u32, u32), slot: u32, logical: u64) {
        let stretch = self.stretch(block, reference, logical);
        self.drafts.push(Draft { block, reference, slot, stretch, logical, loops: Vec::new() });
    }

    fn block(&mut self, block: u32, logical: &[u64]) {
        for (reference, &logical) in (0..).zip(logical) {
            *self.points.entry((block, reference, logical)).or_insert(0) += 1;
        }
    }

    /// Gathers the drafts from an index on that are single accesses.
    fn gather(&mut self, from: usize) {
        let points = &mut self.points;
        let mut at = 0;
        self.drafts.retain(|draft| {
            at += 1;
            let is_point = at > from && draft.loops.is_empty();
            if is_point {
                *points.entry((draft.block, draft.reference, draft.logical)).or_insert(0) += 1;
            }
            !is_point
        });
    }

    fn nests(&mut self, mut player: Player) -> Result<(), MemoryError> {
        let (mut logical, mut strides) = (Vec::new(), Vec::new());
        let mut loops: Vec<LoopState> = Vec::new();
        let mut begun = self.drafts.len();
        let mut shape = 0;
        while let Some(event) = player.next_event(&mut logical)? {
            match event {
                Event::Begin(at) => {
                    loops.clear();
                    (shape, begun) = (at, self.drafts.len());
                }
                Event::Block { block, slot } => {
                    for (reference, &logical) in (0..).zip(&logical) {
                        self.add((block, reference), slot + reference, logical);
                    }
                }
                Event::Next(this) => {
                    let straight = player.shape(shape).and_then(|shape| {
                        let about = &shape.loops[this as usize];
                        about.straight.map(|_| about.slots.start)
                    });
                    match straight {
                        Some(first) => self.sweep(&mut player, this, first, &mut strides),
                        None => self.repeat(&mut player, this, &mut loops),
                    }
                }
                Event::Enter(this) | Event::Leave(this) => {
                    if let Some(state) = loops.get_mut(this as usize) {
                        state.mark = None;
                    }
                }
                Event::End => {
                    if self.drafts.len() - begun > MANY || begun > MANY {
                        self.gather(0);
                    }
                }
            }
        }
        self.gather(0);
        Ok(())
    }

    /// The coming iterations of an innermost loop.
    fn sweep(&mut self, player: &mut Player, this: u32, first: usize, strides: &mut Vec<i64>) {
        let mut iterations = player.steady_straight(this, strides);
        let slots = strides.len();
        // The last iteration was executed: its drafts are the last ones.
        let Some(from) = self.drafts.len().checked_sub(slots) else { return };
        let drafts = &mut self.drafts[from..];
        let are_its = (first..).zip(&*drafts).all(|(slot, draft)| draft.slot == slot as u32);
        if !are_its || !drafts.iter().all(|draft| draft.loops.is_empty()) {
            return;
        }
        for (draft, &stride) in drafts.iter().zip(&*strides) {
            iterations = iterations.min(draft.room(stride));
        }
        if iterations > 0 {
            for (draft, &stride) in drafts.iter_mut().zip(&*strides) {
                draft.loops.push((stride, iterations + 1));
            }
            player.skip_straight(this, strides, iterations);
        }
    }

    /// The coming iterations of a loop around others.
    fn repeat(&mut self, player: &mut Player, this: u32, loops: &mut Vec<LoopState>) {
        loops.resize_with(loops.len().max(this as usize + 1), LoopState::default);
        let state = &mut loops[this as usize];
        if let Some(mark) = &state.mark
            && let Some(steady) = player.steady(this, mark)
        {
            let drafts = self.drafts.get_mut(state.drafts..).unwrap_or_default();
            let shift = |slot: u32| {
                let at = steady.shifts.binary_search_by_key(&(slot as usize), |(slot, _)| *slot);
                at.ok().map(|at| steady.shifts[at].1)
            };
            let room = |draft: &Draft| shift(draft.slot).map(|shift| draft.room(shift));
            let periods = drafts
                .iter()
                .map(room)
                .try_fold(steady.periods, |least, room| Some(least.min(room?)));
            if let Some(periods) = periods.filter(|periods| *periods > 0) {
                for draft in drafts {
                    draft.loops.push((shift(draft.slot).unwrap_or(0), periods + 1));
                }
                player.skip(this, mark, &steady, periods);
            }
        }
        let mut mark = state.mark.take().unwrap_or_default();
        player.mark(this, &mut mark);
        (state.mark, state.drafts) = (Some(mark), self.drafts.len());
    }

    fn finish(mut self) -> Vec<Section> {
        let points: Vec<_> = self.points.drain().collect();
        for ((block, reference, logical), count) in points {
            self.add((block, reference), 0, logical);
            if let Some(draft) = self.drafts.last_mut().filter(|_| count > 1) {
                draft.loops.push((0, count));
            }
        }
        let section = |draft: Draft| Section {
            block: draft.block,
            reference: draft.reference,
            segment: draft.stretch.segment,
            address: draft.logical.wrapping_add(draft.stretch.shift),
            loops: draft.loops,
        };
        let mut all: Vec<Section> = self.drafts.into_iter().map(section).collect();
        all.sort_by_key(|section| (section.block, section.reference, section.address));
        all
    }
}
