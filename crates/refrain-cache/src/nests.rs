//! Simulates a chunk of loop nests, without visiting what repeats itself.
//!
//! Three rules, each exact:
//!
//! 1. **Within lines** (`sweep`). While no reference of an innermost loop changes its line, the second iteration
//!    and all after it are the same.
//! 2. **Equal iterations** (LRU). If iterations of a loop access the same lines in the same order, each set
//!    of the first level holds the same lines in the same order after each of them: the lines that were used
//!    last come first. So from the second one on, the first level has the same misses. Its
//!    misses are the accesses of the second level, which has the same misses one iteration later, and so on.
//!    A level needs no iteration more if its accesses were the same as in the iteration before, or none.
//! 3. **Warping** (`warp`): see there.

use refrain_memory::shape::{Meaning, Shape, Slot};
use refrain_memory::{Event, Mark, MemoryError, Player, Steady, Trace};

use crate::cache::EMPTY;
use crate::counts::Counts;
use crate::extent::Extent;
use crate::geometry::MOST_LEVELS;
use crate::reuse::Histogram;
use crate::simulate::Simulator;
use crate::sites::{Place, Sites};
use crate::warp::{Course, Reach, Warp};

/// The longest period, in iterations: programs alternate between two buffers.
const MOST_PERIOD: usize = 2;

/// Simulates a chunk.
pub(crate) struct NestRun<'s, 'a> {
    pub simulator: &'s mut Simulator<'a>,
    player: Player,
    shapes: Vec<ShapeState>,
    /// The shape that is being executed.
    shape: usize,
    strides: Vec<i64>,
}

/// What is known of a shape.
#[derive(Default)]
struct ShapeState {
    /// Its references, by slot.
    places: Vec<Place>,
    /// How many loops are around each slot.
    depths: Vec<usize>,
    loops: Vec<LoopState>,
    /// By depth, then by slot: the logical addresses since the iteration of that depth began.
    extents: Vec<Vec<Extent>>,
}

/// What is known of a loop's last iterations.
#[derive(Debug, Default)]
struct LoopState {
    /// The ends of the last iterations, the latest first.
    ends: Vec<IterationEnd>,
    /// Iterations since the loop began.
    iteration: u64,
    period: usize,
    /// How many iterations up to now accessed the same lines as the ones a period before.
    equal: u64,
    /// How many of the coming iterations will.
    will_equal: u64,
    warp: Warp,
}

/// The state at the end of an iteration.
#[derive(Debug, Default)]
struct IterationEnd {
    mark: Mark,
    inputs: [u64; MOST_LEVELS],
    /// The iteration's logical addresses, by slot of the body; empty if they are not known.
    extents: Vec<Extent>,
    /// The counts of the loop's sites, if the next iterations may be skipped.
    counts: Vec<(u32, Counts)>,
    reuse: Option<Histogram>,
}

impl<'s, 'a> NestRun<'s, 'a> {
    pub fn new(simulator: &'s mut Simulator<'a>, player: Player) -> Self {
        let shapes = (0..player.shapes()).map(|_| ShapeState::default()).collect();
        Self { simulator, player, shapes, shape: 0, strides: Vec::new() }
    }

    /// Simulates the chunk.
    pub fn run(&mut self) -> Result<(), MemoryError> {
        let mut logical = Vec::new();
        while let Some(event) = self.player.next_event(&mut logical)? {
            match event {
                Event::Begin(shape) => self.begin(shape),
                Event::Block { slot, .. } => self.block(slot as usize, &logical),
                Event::Enter(this) if self.simulator.warp => self.enter(this as usize),
                Event::Next(this) if self.simulator.warp => self.next(this),
                Event::Leave(this) if self.simulator.warp => self.leave(this as usize),
                _ => {}
            }
        }
        Ok(())
    }

    fn begin(&mut self, at: usize) {
        self.shape = at;
        let Some(shape) = self.player.shape(at) else { return };
        let state = &mut self.shapes[at];
        if state.places.is_empty() {
            state.places = places_of(self.simulator.trace, shape);
            state.depths = shape.slots.iter().map(|about| about.depth).collect();
            if self.simulator.warp && !shape.loops.is_empty() {
                let depth = shape.loops.iter().map(|l| usize::from(l.level)).max().unwrap_or(0);
                state.extents.resize_with(depth + 1, || vec![Extent::EMPTY; shape.slots.len()]);
                state.loops.resize_with(shape.loops.len(), LoopState::default);
            }
        } else {
            state.extents.iter_mut().for_each(|extents| extents.fill(Extent::EMPTY));
        }
    }

    #[inline]
    fn block(&mut self, slot: usize, logical: &[u64]) {
        let state = &mut self.shapes[self.shape];
        let places = &mut state.places[slot..slot + logical.len()];
        for (place, &logical) in places.iter_mut().zip(logical) {
            self.simulator.touch(0, place, logical);
        }
        if !state.loops.is_empty() && !logical.is_empty() {
            let extents = &mut state.extents[state.depths[slot]][slot..slot + logical.len()];
            extents.iter_mut().zip(logical).for_each(|(extent, logical)| extent.add(*logical));
        }
    }

    fn enter(&mut self, this: usize) {
        let state = &mut self.shapes[self.shape].loops[this];
        state.ends.clear();
        (state.iteration, state.equal, state.will_equal) = (0, 0, 0);
        state.warp.end();
    }

    fn leave(&mut self, this: usize) {
        self.shapes[self.shape].loops[this].warp.end();
        self.close_extents(this);
    }

    /// The addresses of the iteration that has ended belong to the iteration of the loop around, too.
    fn close_extents(&mut self, this: usize) {
        let Some(shape) = self.player.shape(self.shape) else { return };
        let about = &shape.loops[this];
        let [outer, inner] = &mut self.shapes[self.shape].extents
            [usize::from(about.level) - 1..=usize::from(about.level)]
        else {
            return;
        };
        for slot in about.slots.clone() {
            outer[slot].merge(&inner[slot]);
            inner[slot] = Extent::EMPTY;
        }
    }

    fn next(&mut self, this: u32) {
        let Some(shape) = self.player.shape(self.shape) else { return };
        let about = &shape.loops[this as usize];
        if about.straight.is_some() {
            return self.sweep(this);
        }
        let (level, slots) = (usize::from(about.level), about.slots.clone());
        let extents = self.shapes[self.shape].extents[level][slots].to_vec();
        self.shapes[self.shape].loops[this as usize].iteration += 1;
        let skipped = self.skip_iterations(this, &extents);
        self.note_end(this, if skipped { Vec::new() } else { extents });
        self.close_extents(this as usize);
    }

    /// Notes the end of an iteration.
    fn note_end(&mut self, this: u32, extents: Vec<Extent>) {
        let state = &self.shapes[self.shape].loops[this as usize];
        let may_skip = state.will_equal > 0;
        let sites = if may_skip { self.sites_of(this) } else { Vec::new() };
        let state = &mut self.shapes[self.shape].loops[this as usize];
        let mut end = match state.ends.len() {
            MOST_ENDS => state.ends.pop().unwrap_or_default(),
            _ => IterationEnd::default(),
        };
        self.player.mark(this, &mut end.mark);
        let hierarchy = &self.simulator.hierarchy;
        for (position, log) in end.inputs.iter_mut().zip(&hierarchy.inputs) {
            *position = log.position();
        }
        end.extents = extents;
        end.counts = self.simulator.counts_of(&sites);
        end.reuse = None;
        if may_skip {
            end.reuse = hierarchy.reuse.as_ref().map(|reuse| reuse.histogram().clone());
        }
        state.ends.insert(0, end);
    }

    /// The sites of a loop's references, where they are now.
    fn sites_of(&self, this: u32) -> Vec<u32> {
        let Some(shape) = self.player.shape(self.shape) else { return Vec::new() };
        let places = &self.shapes[self.shape].places[shape.loops[this as usize].slots.clone()];
        let sites = places.iter().map(|place| place.site).filter(|site| *site != u32::MAX);
        let mut sites: Vec<u32> = sites.collect();
        sites.sort_unstable();
        sites.dedup();
        sites
    }

    /// Skips the coming iterations of a loop as far as they are known. Returns whether it skipped some.
    fn skip_iterations(&mut self, this: u32, last: &[Extent]) -> bool {
        let state = &mut self.shapes[self.shape].loops[this as usize];
        if state.will_equal > 0 {
            state.will_equal -= 1;
            state.equal += 1;
        } else {
            state.equal = 0;
        }
        for period in 1..=MOST_PERIOD {
            let Some(before) = state.ends.get(period - 1) else { return false };
            let Some(steady) = self.player.steady(this, &before.mark) else { continue };
            if self.player.iterations_since(this, &before.mark) != period as u64 {
                return false;
            }
            let mut extents = last.to_vec();
            for end in &state.ends[..period - 1] {
                if end.extents.len() != extents.len() {
                    return false;
                }
                extents.iter_mut().zip(&end.extents).for_each(|(all, more)| all.merge(more));
            }
            if state.period != period {
                (state.period, state.equal, state.will_equal) = (period, 0, 0);
            }
            return self.skip_periods(this, &steady, &extents, period);
        }
        false
    }

    fn skip_periods(
        &mut self,
        this: u32,
        steady: &Steady,
        extents: &[Extent],
        period: usize,
    ) -> bool {
        let Some(shape) = self.player.shape(self.shape) else { return false };
        let first = shape.loops[this as usize].slots.start;
        let places = &self.shapes[self.shape].places;
        let line = self.simulator.geometry.line;
        let mut reaches = Vec::with_capacity(steady.shifts.len());
        let (mut equal, mut periods) = (u64::MAX, steady.periods);
        for &(slot, shift) in &steady.shifts {
            let (place, extent) = (&places[slot], extents[slot - first]);
            let Some(reach) = Reach::of(place, &extent, shift) else { return false };
            periods = periods.min(reach.periods);
            let offset = place.stretch.shift;
            equal = equal.min(extent.within_lines(shift, offset, place.size, line));
            reaches.push(reach);
        }
        let state = &mut self.shapes[self.shape].loops[this as usize];
        if self.simulator.is_lru() && equal > 0 {
            let equal = equal.min(periods);
            state.will_equal = equal * period as u64;
            return self.skip_equal(this, steady, extents, equal);
        }
        state.will_equal = 0;
        let sites = self.sites_of(this);
        let state = &mut self.shapes[self.shape].loops[this as usize];
        // Iterations count in periods.
        if !state.iteration.is_multiple_of(period as u64) {
            return false;
        }
        let course = Course {
            index: state.iteration / period as u64,
            periods,
            reaches: &reaches,
            sites: &sites,
        };
        let Some(skipped) = self.simulator.warp(&mut state.warp, &course) else { return false };
        self.jump(this, steady, period, skipped, extents);
        true
    }

    /// Skips iterations that access the same lines as the last ones, if all levels have settled.
    fn skip_equal(&mut self, this: u32, steady: &Steady, extents: &[Extent], periods: u64) -> bool {
        let state = &self.shapes[self.shape].loops[this as usize];
        let repeated = state.equal / state.period as u64;
        if repeated == 0 || periods == 0 || !self.has_settled(this, repeated) {
            return false;
        }
        let end = &state.ends[state.period - 1];
        if !end.counts.iter().map(|(site, _)| *site).eq(self.sites_of(this)) {
            return false;
        }
        let simulator = &mut *self.simulator;
        for (site, before) in &end.counts {
            let counts = &mut simulator.sites.counts[*site as usize];
            let once = *counts - *before;
            *counts += once.times(periods);
        }
        if let (Some(reuse), Some(before)) = (&mut simulator.hierarchy.reuse, &end.reuse) {
            reuse.histogram_mut().add_times(before, periods);
        }
        for (log, from) in simulator.hierarchy.inputs.iter_mut().zip(end.inputs) {
            // Whoever compares the log later sees what was skipped.
            if log.position() != from {
                log.push(EMPTY);
                log.push(periods);
            }
        }
        self.jump(
            this,
            steady,
            self.shapes[self.shape].loops[this as usize].period,
            periods,
            extents,
        );
        true
    }

    /// Whether all levels have the same misses from now on: rule 2.
    fn has_settled(&self, this: u32, repeated: u64) -> bool {
        let state = &self.shapes[self.shape].loops[this as usize];
        let Some(from) = state.ends.get(state.period - 1) else { return false };
        let earlier = state.ends.get(2 * state.period - 1);
        let hierarchy = &self.simulator.hierarchy;
        for level in 1..hierarchy.levels() {
            let log = &hierarchy.inputs[level];
            let (begin, now) = (from.inputs[level], log.position());
            if begin == now {
                // The levels behind it have no accesses either.
                return true;
            }
            let equals = || {
                let before = log.between(earlier?.inputs[level], begin)?;
                Some(before == log.between(begin, now)?)
            };
            if repeated <= level as u64 && equals() != Some(true) {
                return false;
            }
        }
        true
    }

    /// Moves the player over periods that need not be simulated.
    fn jump(
        &mut self,
        this: u32,
        steady: &Steady,
        period: usize,
        periods: u64,
        extents: &[Extent],
    ) {
        let state = &mut self.shapes[self.shape].loops[this as usize];
        let before = &state.ends[period - 1];
        self.player.skip(this, &before.mark, steady, periods);
        state.iteration += periods * period as u64;
        state.ends.clear();
        (state.equal, state.will_equal) = (0, 0);
        let Some(shape) = self.player.shape(self.shape) else { return };
        let about = &shape.loops[this as usize];
        for &(slot, shift) in &steady.shifts {
            let mut extent = extents[slot - about.slots.start];
            extent.advance(shift, periods);
            self.shapes[self.shape].extents[usize::from(about.level)][slot].merge(&extent);
        }
    }

    /// Simulates the coming iterations of an innermost loop.
    fn sweep(&mut self, this: u32) {
        let mut strides = std::mem::take(&mut self.strides);
        let mut iterations = self.player.steady_straight(this, &mut strides);
        if iterations > 1
            && let Some(shape) = self.player.shape(self.shape)
        {
            let about = &shape.loops[this as usize];
            let places = &self.shapes[self.shape].places[about.slots.clone()];
            let mut rows = Vec::with_capacity(places.len());
            for ((place, &stride), last) in
                places.iter().zip(&strides).zip(self.player.last_addresses(this))
            {
                let mut extent = Extent::EMPTY;
                extent.add(last);
                let Some(reach) = Reach::of(place, &extent, stride) else {
                    self.strides = strides;
                    return;
                };
                iterations = iterations.min(reach.periods);
                rows.push((*place, reach));
            }
            let inner =
                &mut self.shapes[self.shape].extents[usize::from(about.level)][about.slots.clone()];
            for (extent, (stride, last)) in
                inner.iter_mut().zip(strides.iter().zip(self.player.last_addresses(this)))
            {
                let mut swept = Extent::EMPTY;
                swept.add(last);
                swept.advance(*stride, iterations);
                extent.merge(&swept);
            }
            self.simulator.sweep(&rows, iterations);
            self.player.skip_straight(this, &strides, iterations);
        }
        self.strides = strides;
    }
}

/// The references of a shape, by slot.
pub(crate) fn places_of(trace: &Trace, shape: &Shape) -> Vec<Place> {
    let place = |(slot, about): (usize, &Slot)| match about.meaning {
        Meaning::Address { block, reference } => {
            let around = shape.loops.iter().filter(|l| l.slots.contains(&slot));
            let innermost = around.max_by_key(|l| l.level).map(|l| l.head);
            Sites::place(trace, block, reference, innermost)
        }
        Meaning::Count(_) => Sites::place(trace, u32::MAX, 0, None),
    };
    shape.slots.iter().enumerate().map(place).collect()
}

/// How many ends of iterations are kept: those of two periods.
const MOST_ENDS: usize = 2 * MOST_PERIOD;
