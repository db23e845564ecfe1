//! Matches a stream against a nest that is still being executed.
//!
//! The stream is compared, block by block, with the compiled shape of the nest on top of the stack. A
//! match costs one comparison of block numbers and, for each reference, one comparison of its step with
//! the run that it should prolong (`series`), in a nest of any depth. Bodies without inner loops are
//! matched many iterations at once (`fast_path`).

use crate::fast_path::FastPath;
use crate::item::{Item, SMALL};
use crate::segment::{Segments, Window};
use crate::shape::{Op, Shape};

/// Pending level of a slot that has occurred in the current iterations of all loops around it.
const DONE: u8 = u8::MAX;
/// A run of this many steps counts as regular: an address that breaks it may be due to an outer loop.
const STEADY: u64 = 4;
/// How many iterations a loop is followed step by step after the fast path matched none.
const REST: u32 = 15;

/// The word that follows the end of a stream: no block has this number.
pub const NOTHING: u64 = u64::MAX;

/// Why following ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The words are used up, or end in the middle of a record.
    Hungry,
    /// The next record does not belong to the nest.
    Stuck,
}

/// The position of the running nest (on top of the stack) in its shape.
#[derive(Clone, Debug)]
pub struct Running {
    /// The next step of the program. At a [`Op::Next`] the iteration is complete, but not counted.
    pub at: usize,
    /// For each loop, the complete iterations of its current execution.
    counts: Vec<u64>,
    /// For each slot, the level of the outermost loop that advanced since the slot last occurred.
    pending: Vec<u8>,
    windows: Vec<Window>,
    rests: Vec<u32>,
    fast_path: FastPath,
}

impl Running {
    /// A loop that has just been found: its second iteration is complete.
    pub fn new(shape: &Shape) -> Self {
        let last = shape.ops.len().saturating_sub(1);
        let mut counts = vec![0; shape.loops.len()];
        if let Some(outermost) = counts.first_mut() {
            *outermost = 1;
        }
        Self {
            at: last,
            counts,
            pending: vec![DONE; shape.slots.len()],
            windows: vec![Window::default(); shape.slots.len()],
            rests: vec![0; shape.loops.len()],
            fast_path: FastPath::default(),
        }
    }

    /// A shape whose execution is about to begin.
    pub fn about_to_begin(shape: &Shape) -> Self {
        Self { at: 0, counts: vec![0; shape.loops.len()], ..Self::new(shape) }
    }

    /// The same execution, now in the second iteration of a new outermost loop of `shape`. `item`
    /// is the nest as it was before.
    pub fn nested(mut self, shape: &Shape, item: &Item) -> Self {
        let pending = item.series.iter().zip(&self.pending).map(|(series, &level)| match level {
            _ if series.first.is_none() => 1,
            DONE => DONE,
            level => level + 1,
        });
        let pending = std::iter::once(DONE).chain(pending).collect();
        self.counts.insert(0, 1);
        Self { at: self.at + 1, counts: self.counts, pending, ..Self::new(shape) }
    }

    /// Matches `words` (records of a block's number and its addresses) against the nest as far as possible.
    /// Returns how many words matched, and why matching ended there.
    pub fn follow(&mut self, item: &mut Item, words: &[u64], segments: &Segments) -> (usize, Stop) {
        let shape = item.shape.clone();
        let mut pos = 0;
        loop {
            let Some(&id) = words.get(pos) else { return (pos, Stop::Hungry) };
            let Some(op) = shape.ops.get(self.at) else { return (pos, Stop::Stuck) };
            match *op {
                Op::Block { block, slot, references } => {
                    if id != u64::from(block) {
                        return (pos, Stop::Stuck);
                    }
                    let end = pos + 1 + references as usize;
                    let Some(record) = words.get(pos..end) else { return (pos, Stop::Hungry) };
                    self.execute(item, slot as usize, record, segments);
                    self.at += 1;
                    pos = end;
                }
                Op::Enter(this) => {
                    let inner = &shape.loops[this as usize];
                    if id == u64::from(inner.head) {
                        item.entered += 1;
                        self.counts[this as usize] = 0;
                        self.at = inner.body;
                    } else if inner.exit == 0 {
                        item.entered += 1;
                        self.leave(item, &shape, this as usize, 0);
                    } else {
                        return (pos, Stop::Stuck);
                    }
                }
                Op::Check(this) => {
                    // Before the first whole iteration, the part of the body after the check has no step to predict from.
                    if self.counts[this as usize] != 0 {
                        pos += self.fast_path(item, &shape, this as usize, &words[pos..], segments);
                    }
                    let Some(&id) = words.get(pos) else { return (pos, Stop::Hungry) };
                    if id == u64::from(shape.loops[this as usize].goes_on) {
                        self.at += 1;
                    } else {
                        self.leave(item, &shape, this as usize, self.counts[this as usize]);
                    }
                }
                Op::Next(this) => {
                    if shape.loops[this as usize].exit == 0 {
                        pos += self.fast_path(item, &shape, this as usize, &words[pos..], segments);
                    }
                    if pos == words.len() {
                        return (pos, Stop::Hungry);
                    }
                    match self.goes_on(item, &shape, this as usize, &words[pos..], segments) {
                        None => return (pos, Stop::Hungry),
                        Some(true) => self.step(&shape, this as usize),
                        Some(false) if this == 0 => return (pos, Stop::Stuck),
                        Some(false) => {
                            let count = self.counts[this as usize] + 1;
                            self.leave(item, &shape, this as usize, count);
                        }
                    }
                }
            }
        }
    }

    /// Executes a block: appends its addresses to their series.
    #[inline]
    fn execute(&mut self, item: &mut Item, slot: usize, record: &[u64], segments: &Segments) {
        if item.executed < SMALL {
            item.journal.push(record[0]);
        }
        let slots = slot..slot + record.len() - 1;
        let series = item.series[slots.clone()].iter_mut();
        let pending = self.pending[slots.clone()].iter_mut();
        let windows = self.windows[slots].iter_mut();
        for (((&address, series), pending), window) in
            record[1..].iter().zip(series).zip(pending).zip(windows)
        {
            let logical = segments.logical(address, window);
            series.push(logical, std::mem::replace(pending, DONE));
            if item.executed < SMALL {
                item.journal.push(logical);
            }
        }
        item.executed += 1;
    }

    /// The loop advances to its next iteration.
    fn step(&mut self, shape: &Shape, this: usize) {
        let inner = &shape.loops[this];
        self.counts[this] += 1;
        for pending in &mut self.pending[inner.slots.clone()] {
            *pending = inner.level.min(*pending);
        }
        self.at = inner.body;
    }

    /// The loop ends.
    fn leave(&mut self, item: &mut Item, shape: &Shape, this: usize, count: u64) {
        let slot = shape.loops[this].count;
        item.series[slot].push(count, std::mem::replace(&mut self.pending[slot], DONE));
        self.at = shape.loops[this].after;
    }

    /// Whether the loop, at the end of an iteration, has another one; `None` if there are too few words to decide.
    ///
    /// The next block decides, unless the code after the loop begins with the same block as the body. Then the
    /// addresses decide: if they break a regular run, an outer loop has advanced.
    fn goes_on(
        &mut self,
        item: &Item,
        shape: &Shape,
        this: usize,
        words: &[u64],
        segments: &Segments,
    ) -> Option<bool> {
        let inner = &shape.loops[this];
        if inner.exit != 0 {
            return Some(true);
        }
        if words.first() != Some(&u64::from(inner.goes_on)) {
            return Some(false);
        }
        if !inner.ambiguous {
            return Some(true);
        }
        let first = shape.ops[inner.body..].iter().find_map(|op| match op {
            Op::Block { slot, references, .. } => Some((*slot as usize, *references as usize)),
            _ => None,
        });
        let Some((slot, references)) = first else { return Some(true) };
        let addresses = words.get(1..1 + references)?;
        let at = usize::from(inner.level) - 1;
        let broken = addresses.iter().zip(slot..).any(|(&address, slot)| {
            let series = &item.series[slot];
            let logical = segments.logical(address, &mut self.windows[slot]);
            series.levels[at].is_broken_by(logical, series.last, STEADY)
        });
        Some(!broken)
    }

    /// Matches as many whole iterations of a loop without inner loops as possible at once. An iteration is counted
    /// from exit to exit. Returns the number of words matched.
    #[inline]
    fn fast_path(
        &mut self,
        item: &mut Item,
        shape: &Shape,
        this: usize,
        words: &[u64],
        segments: &Segments,
    ) -> usize {
        let inner = &shape.loops[this];
        let Some(blocks) = inner.straight else { return 0 };
        // The journal of a small item must stay whole.
        if self.rests[this] != 0 || item.executed < SMALL {
            self.rests[this] = self.rests[this].saturating_sub(1);
            return 0;
        }
        let last = inner.after - 1;
        // From the end of the body: the whole body. From a check: the steps after it, then those before it.
        let (rest, begin) = match self.at {
            at if at == last => (last..last, inner.body..last),
            at => (at + 1..last, inner.body..at),
        };
        let ops = shape.ops[rest].iter().chain(&shape.ops[begin]);
        let (iterations, width) = self.fast_path.run(ops, item, &self.windows, words, segments);
        if iterations == 0 {
            self.rests[this] = REST;
            return 0;
        }
        self.counts[this] += iterations;
        item.executed += iterations * u64::from(blocks);
        iterations as usize * width
    }

    /// Ends the nest at its current position. Returns at which exit of its outermost loop that is, or that it
    /// is inside an inner loop.
    pub fn end(&mut self, item: &mut Item) -> End {
        let shape = item.shape.clone();
        let count = |this: usize| self.counts[this];
        if self.at == shape.ops.len() {
            return End::Exit(0);
        }
        if self.at + 1 == shape.ops.len() {
            item.series[0].push(count(0) + 1, DONE);
            return End::Exit(0);
        }
        if let Some(complete) = shape.complete_nodes(self.at) {
            item.series[0].push(count(0), DONE);
            return End::Exit(complete);
        }
        // Count the incomplete iterations, so that the player begins them. The number of steps stops it.
        for this in shape.loops_around(self.at).collect::<Vec<_>>() {
            let slot = shape.loops[this].count;
            item.series[slot].push(self.counts[this] + 1, self.pending[slot]);
        }
        End::Cut
    }
}

/// How a nest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After this many nodes of the outermost loop's body (0: after a whole iteration).
    Exit(u32),
    /// Inside an inner loop.
    Cut,
}
