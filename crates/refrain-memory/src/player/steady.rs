//! Iterations of a loop that differ in their addresses only, each by a constant.
//!
//! Every number of a nest is read from runs. If all readers stay within their runs (or come round to the same
//! place of their cycles) during an iteration, the next iteration is the same with other addresses, and so
//! on until the first run ends. The effect of many such iterations on the readers is a multiplication.

use super::{Player, SlotState};
use crate::runs::{Course, Position};
use crate::shape::{Loop, Meaning};

/// The state of a player where an iteration of a loop has ended.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    /// For each slot in the loop's body: the beginning of the loop's last iteration, and the pending level.
    slots: Vec<(u64, u8)>,
    /// The positions of the readers of the loop's level and the inner levels, slot by slot.
    readers: Vec<Position>,
    steps_left: u64,
    left: u64,
}

/// How the coming iterations of a loop differ from the last ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steady {
    /// How many times the period can be skipped. At least one iteration follows these.
    pub periods: u64,
    /// By how much the addresses of each slot advance in a period: slot and bytes. Slots that are not executed
    /// in the period are not listed.
    pub shifts: Vec<(usize, i64)>,
}

fn level_of(about: &Loop) -> usize {
    usize::from(about.level) - 1
}

impl Player {
    /// Makes `mark` the state of loop `this`, after [`Event::Next`](super::Event::Next) of this loop.
    pub fn mark(&self, this: u32, mark: &mut Mark) {
        mark.slots.clear();
        mark.readers.clear();
        let Some(walk) = &self.walk else { return };
        let about = &self.entries[walk.entry].shape.loops[this as usize];
        for state in &self.states[walk.entry][about.slots.clone()] {
            let levels = state.levels.get(level_of(about)..).unwrap_or_default();
            mark.slots.push((levels.first().map_or(0, |level| level.start), state.pending));
            mark.readers.extend(levels.iter().map(|level| level.steps.position()));
        }
        (mark.steps_left, mark.left) = (walk.steps_left, walk.left[this as usize]);
    }

    /// How many iterations of loop `this` were executed since the mark was made.
    pub fn iterations_since(&self, this: u32, mark: &Mark) -> u64 {
        let left = self.walk.as_ref().map_or(0, |walk| walk.left[this as usize]);
        mark.left.saturating_sub(left)
    }

    /// Whether the iterations of loop `this` since `mark` are repeated, with addresses that advance by constants.
    /// To be called after [`Event::Next`](super::Event::Next) of this loop. `None` if the next period is not
    /// known to be like the last.
    pub fn steady(&self, this: u32, mark: &Mark) -> Option<Steady> {
        let walk = self.walk.as_ref()?;
        let shape = &self.entries[walk.entry].shape;
        let about = &shape.loops[this as usize];
        let period = self.iterations_since(this, mark);
        if period == 0 || mark.slots.len() != about.slots.len() {
            return None;
        }
        // The last iteration is not skipped: the loop ends after it.
        let mut periods = walk.left[this as usize].saturating_sub(1) / period;
        if walk.steps_left != u64::MAX {
            let steps = mark.steps_left - walk.steps_left;
            periods = periods.min(walk.steps_left.saturating_sub(1).checked_div(steps)?);
        }
        let mut readers = mark.readers.iter();
        let mut shifts = Vec::new();
        let states = &self.states[walk.entry][about.slots.clone()];
        for ((at, state), &(start, pending)) in about.slots.clone().zip(states).zip(&mark.slots) {
            let levels = state.levels.get(level_of(about)..)?;
            if state.pending != pending {
                return None;
            }
            let mut is_executed = false;
            for (depth, each) in levels.iter().enumerate() {
                match each.steps.course(*readers.next()?) {
                    Course::Within(0) => {}
                    Course::Within(read) => {
                        is_executed |= depth == 0;
                        periods = periods.min(each.steps.left() / read);
                    }
                    Course::Around => is_executed |= depth == 0,
                    Course::Other => return None,
                }
            }
            let shift = levels.first()?.start.wrapping_sub(start) as i64;
            match shape.slots[at].meaning {
                _ if !is_executed => {}
                Meaning::Address { .. } => shifts.push((at, shift)),
                Meaning::Count(_) if shift == 0 => {}
                Meaning::Count(_) => return None,
            }
        }
        (periods > 0).then_some(Steady { periods, shifts })
    }

    /// Skips periods of loop `this`, at most as many as [`Player::steady`] returned for this mark.
    pub fn skip(&mut self, this: u32, mark: &Mark, steady: &Steady, periods: u64) {
        let period = self.iterations_since(this, mark);
        let Some(walk) = &mut self.walk else { return };
        let about = &self.entries[walk.entry].shape.loops[this as usize];
        let mut readers = mark.readers.iter();
        let states = &mut self.states[walk.entry];
        for state in &mut states[about.slots.clone()] {
            let levels = state.levels.get_mut(level_of(about)..).unwrap_or_default();
            for (each, position) in levels.iter_mut().zip(&mut readers) {
                if let Course::Within(read) = each.steps.course(*position) {
                    each.steps.skip(read.saturating_mul(periods));
                }
            }
        }
        for &(at, shift) in &steady.shifts {
            states[at].shift(level_of(about), shift.wrapping_mul(periods as i64) as u64);
        }
        walk.left[this as usize] -= period * periods;
        if walk.steps_left != u64::MAX {
            walk.steps_left -= (mark.steps_left - walk.steps_left) * periods;
        }
    }

    /// Loop `this` consists of blocks only: how many of its iterations have the strides that the next one has.
    /// `strides` becomes the stride of each slot of the body. To be called after
    /// [`Event::Next`](super::Event::Next) of this loop.
    pub fn steady_straight(&self, this: u32, strides: &mut Vec<i64>) -> u64 {
        strides.clear();
        let Some(walk) = &self.walk else { return 0 };
        let about = &self.entries[walk.entry].shape.loops[this as usize];
        let blocks = u64::from(about.straight.unwrap_or(0));
        // The last iteration is not skipped: the loop ends after it.
        let mut iterations = walk.left[this as usize].saturating_sub(1);
        if walk.steps_left != u64::MAX {
            let steps_left = walk.steps_left.saturating_sub(1);
            iterations = iterations.min(steps_left.checked_div(blocks).unwrap_or(0));
        }
        for state in &self.states[walk.entry][about.slots.clone()] {
            let Some(inner) = state.levels.get(level_of(about)) else { return 0 };
            iterations = iterations.min(inner.steps.left());
            strides.push(inner.steps.current());
        }
        iterations
    }

    /// The last addresses of the slots in the body of loop `this`.
    pub fn last_addresses(&self, this: u32) -> impl Iterator<Item = u64> + '_ {
        let states = self.walk.as_ref().map_or(&[][..], |walk| {
            let slots = &self.entries[walk.entry].shape.loops[this as usize].slots;
            &self.states[walk.entry][slots.clone()]
        });
        states.iter().map(|state| state.last)
    }

    /// Skips iterations of a loop that consists of blocks only, at most as many as
    /// [`Player::steady_straight`] returned, which also gave `strides`.
    pub fn skip_straight(&mut self, this: u32, strides: &[i64], iterations: u64) {
        let Some(walk) = &mut self.walk else { return };
        let about = &self.entries[walk.entry].shape.loops[this as usize];
        let states = &mut self.states[walk.entry][about.slots.clone()];
        for (state, stride) in states.iter_mut().zip(strides) {
            if let Some(inner) = state.levels.get_mut(level_of(about)) {
                inner.steps.skip(iterations);
            }
            state.shift(level_of(about), stride.wrapping_mul(iterations as i64) as u64);
        }
        walk.left[this as usize] -= iterations;
        if walk.steps_left != u64::MAX {
            walk.steps_left -= iterations * u64::from(about.straight.unwrap_or(0));
        }
    }
}

impl SlotState {
    /// Advances the last value and the beginnings of the levels from `level` on.
    fn shift(&mut self, level: usize, by: u64) {
        self.last = self.last.wrapping_add(by);
        for level in self.levels.iter_mut().skip(level) {
            level.start = level.start.wrapping_add(by);
        }
    }
}
