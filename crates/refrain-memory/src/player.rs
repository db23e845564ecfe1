//! Decodes the stream of a chunk, block by block, without expanding it.
//!
//! Playing mirrors compressing. The player walks the program of a shape. It reads each loop's trip count from
//! its stream when the loop begins. Each address is the last one plus the next step of the level that
//! advanced. Memory does not grow with the length of the stream.
//!
//! [`Player::next_block`] yields block by block. [`Player::next_event`] also tells where loops begin and where
//! their iterations end. There, [`Player::steady`] tells for how many iterations nothing changes but addresses,
//! each by a constant, and [`Player::skip`] skips them in time that does not depend on their number.

mod skip;
mod steady;

pub use steady::{Mark, Steady};

use crate::chunk::{Entry, Finished, Lasts};
use crate::error::MemoryError;
use crate::runs::RunReader;
use crate::shape::{Meaning, Op, Shape};

/// Pending level of a slot that has not occurred in the current execution.
const FIRST: u8 = 0;
const DONE: u8 = u8::MAX;

/// What the player meets on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An execution of a shape begins: the index of the shape ([`Player::shape`]).
    Begin(usize),
    /// A block is executed.
    Block {
        /// Its number.
        block: u32,
        /// The slot of its first reference in the shape; those of the others follow.
        slot: u32,
    },
    /// A loop begins (its index in the shape).
    Enter(u32),
    /// An iteration of a loop has ended, and another one, or the exit, follows.
    Next(u32),
    /// A loop has ended.
    Leave(u32),
    /// The execution has ended.
    End,
}

/// Plays a chunk.
#[derive(Clone, Debug)]
pub struct Player {
    entries: Vec<Entry>,
    states: Vec<Vec<SlotState>>,
    sequence: std::vec::IntoIter<u32>,
    cuts: std::iter::Peekable<std::vec::IntoIter<(usize, u64)>>,
    begun: usize,
    lasts: Lasts,
    walk: Option<Walk>,
}

/// The state of a slot between two occurrences.
#[derive(Clone, Debug)]
struct SlotState {
    firsts: RunReader,
    levels: Vec<LevelState>,
    last: u64,
    last_count: u64,
    pending: u8,
}

#[derive(Clone, Debug)]
struct LevelState {
    from_starts: bool,
    steps: RunReader,
    start: u64,
}

/// An execution of a shape under way.
#[derive(Clone, Debug)]
struct Walk {
    entry: usize,
    at: usize,
    /// How many iterations each loop has left.
    left: Vec<u64>,
    /// How many steps (blocks, beginnings of loops) are left of an execution that ends inside a loop.
    steps_left: u64,
    /// How many steps were taken since the last block. A damaged stream could loop for ever.
    idle: usize,
}

impl SlotState {
    /// The next value, given the last one before this execution of the shape.
    #[inline]
    fn next(&mut self, before: u64) -> Option<u64> {
        if self.pending == FIRST {
            let value = before.wrapping_add(self.firsts.next()? as u64);
            self.levels.iter_mut().for_each(|level| level.start = value);
            (self.last, self.pending) = (value, DONE);
            return Some(value);
        }
        let levels = self.levels.get_mut(usize::from(self.pending) - 1..)?;
        let level = levels.first_mut()?;
        let from = if level.from_starts { level.start } else { self.last };
        let value = from.wrapping_add(level.steps.next()? as u64);
        levels.iter_mut().for_each(|level| level.start = value);
        (self.last, self.pending) = (value, DONE);
        Some(value)
    }
}

impl Player {
    /// A player at the beginning of a chunk.
    pub fn new(chunk: Finished) -> Self {
        let states = chunk.entries.iter().map(|entry| {
            let state = |stream: &crate::chunk::Stream| SlotState {
                firsts: RunReader::new(&stream.firsts),
                levels: stream.steps.iter().map(level_state).collect(),
                last: 0,
                last_count: 0,
                pending: FIRST,
            };
            entry.streams.iter().map(state).collect()
        });
        Self {
            states: states.collect(),
            entries: chunk.entries,
            sequence: chunk.sequence.into_iter(),
            cuts: chunk.cuts.into_iter().peekable(),
            begun: 0,
            lasts: Lasts::default(),
            walk: None,
        }
    }

    /// The next block; `logical` becomes the logical addresses of its references. `None` at the end.
    pub fn next_block(&mut self, logical: &mut Vec<u64>) -> Result<Option<u32>, MemoryError> {
        loop {
            match self.next_event(logical)? {
                Some(Event::Block { block, .. }) => return Ok(Some(block)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }

    /// The next event; if it is a block, `logical` becomes the logical addresses of its references. `None` at the
    /// end.
    #[inline]
    pub fn next_event(&mut self, logical: &mut Vec<u64>) -> Result<Option<Event>, MemoryError> {
        match self.walk {
            Some(_) => self.advance(logical).map(Some),
            None => Ok(self.begin()),
        }
    }

    /// A shape of the chunk.
    pub fn shape(&self, index: usize) -> Option<&Shape> {
        self.entries.get(index).map(|entry| &*entry.shape)
    }

    /// How many shapes the chunk has.
    pub fn shapes(&self) -> usize {
        self.entries.len()
    }

    /// Begins the next execution.
    fn begin(&mut self) -> Option<Event> {
        let entry = self.sequence.next()? as usize;
        let cut = self.cuts.next_if(|&(at, _)| at == self.begun);
        self.begun += 1;
        self.states[entry].iter_mut().for_each(|state| state.pending = FIRST);
        let left = vec![0; self.entries[entry].shape.loops.len()];
        let steps_left = cut.map_or(u64::MAX, |(_, steps)| steps);
        self.walk = Some(Walk { entry, at: 0, left, steps_left, idle: 0 });
        Some(Event::Begin(entry))
    }

    /// Walks to the next event of the execution.
    fn advance(&mut self, logical: &mut Vec<u64>) -> Result<Event, MemoryError> {
        const WHAT: MemoryError = MemoryError::OutOfRange("stream");
        let Some(walk) = &mut self.walk else { return Ok(Event::End) };
        let shape = &self.entries[walk.entry].shape;
        let states = &mut self.states[walk.entry];
        loop {
            let op = match shape.ops.get(walk.at) {
                Some(op) if walk.steps_left != 0 => *op,
                _ => {
                    self.end();
                    return Ok(Event::End);
                }
            };
            walk.idle += 1;
            // An iteration of a valid stream executes a block.
            if walk.idle > 2 * shape.ops.len() + 2 {
                return Err(WHAT);
            }
            match op {
                Op::Block { block, slot, references } => {
                    let (first, references) = (slot as usize, references as usize);
                    let lasts = self.lasts.of(block, references);
                    logical.clear();
                    for (state, &last) in states[first..first + references].iter_mut().zip(&*lasts)
                    {
                        logical.push(state.next(last).ok_or(WHAT)?);
                    }
                    walk.at += 1;
                    walk.steps_left -= 1;
                    walk.idle = 0;
                    return Ok(Event::Block { block, slot });
                }
                Op::Enter(this) => {
                    let inner = &shape.loops[this as usize];
                    walk.steps_left -= 1;
                    let state = &mut states[inner.count];
                    let count = state.next(state.last_count).ok_or(WHAT)?;
                    walk.left[this as usize] = count;
                    walk.at = match (inner.exit, count) {
                        (0, 0) => inner.after,
                        _ => inner.body,
                    };
                    return Ok(match (inner.exit, count) {
                        (0, 0) => Event::Leave(this),
                        _ => Event::Enter(this),
                    });
                }
                Op::Check(this) => match walk.left[this as usize] {
                    0 => {
                        walk.at = shape.loops[this as usize].after;
                        return Ok(Event::Leave(this));
                    }
                    _ => walk.at += 1,
                },
                Op::Next(this) => {
                    let inner = &shape.loops[this as usize];
                    let left = &mut walk.left[this as usize];
                    *left = left.saturating_sub(1);
                    if inner.exit == 0 && *left == 0 {
                        walk.at = inner.after;
                        return Ok(Event::Leave(this));
                    }
                    walk.at = inner.body;
                    for state in &mut states[inner.slots.clone()] {
                        state.pending = state.pending.min(inner.level);
                    }
                    return Ok(Event::Next(this));
                }
            }
        }
    }

    /// Ends the execution: the next addresses are measured from its last ones.
    fn end(&mut self) {
        let Some(walk) = self.walk.take() else { return };
        let slots = &self.entries[walk.entry].shape.slots;
        for (state, about) in self.states[walk.entry].iter_mut().zip(slots) {
            match about.meaning {
                _ if state.pending == FIRST => {}
                Meaning::Count(_) => state.last_count = state.last,
                Meaning::Address { block, reference } => {
                    let reference = reference as usize;
                    self.lasts.of(block, reference + 1)[reference] = state.last;
                }
            }
        }
    }
}

fn level_state((from_starts, runs): &(bool, crate::runs::Runs)) -> LevelState {
    LevelState { from_starts: *from_starts, steps: RunReader::new(runs), start: 0 }
}
