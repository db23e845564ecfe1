//! Skips references in the time of the structure.

use super::{Event, Mark, Player};
use crate::block::Blocks;
use crate::error::MemoryError;

/// A loop of the execution under way.
#[derive(Clone, Debug, Default)]
struct Seen {
    mark: Mark,
    /// References that were met when the mark was made; `None` before the first mark.
    met: Option<u64>,
}

impl Player {
    /// Skips whole blocks while they have at most `most` references together. Returns how many references were
    /// skipped. Where a loop repeats itself with constant strides, its iterations are not visited.
    pub fn skip_references(&mut self, most: u64, blocks: &Blocks) -> Result<u64, MemoryError> {
        let mut loops: Vec<Seen> = Vec::new();
        let mut strides = Vec::new();
        let mut logical = Vec::new();
        let mut met = 0;
        // A block may have this many references, so that it is not begun too late.
        let largest = blocks.largest() as u64;
        while met + largest <= most {
            let Some(event) = self.next_event(&mut logical)? else { break };
            match event {
                Event::Block { .. } => met += logical.len() as u64,
                Event::Begin(_) | Event::End => loops.clear(),
                Event::Enter(this) | Event::Leave(this) => {
                    if let Some(seen) = loops.get_mut(this as usize) {
                        seen.met = None;
                    }
                }
                Event::Next(this) => {
                    let left = most - met - largest;
                    if let Some(each) = self.straight_references(this) {
                        let iterations = self.steady_straight(this, &mut strides);
                        let iterations = iterations.min(left.checked_div(each).unwrap_or(0));
                        self.skip_straight(this, &strides, iterations);
                        met += iterations * each;
                        continue;
                    }
                    let this_loop = this as usize;
                    loops.resize(loops.len().max(this_loop + 1), Seen::default());
                    let seen = &mut loops[this_loop];
                    if let Some(before) = seen.met
                        && let Some(steady) = self.steady(this, &seen.mark)
                    {
                        let each = met - before;
                        let periods = steady.periods.min(left.checked_div(each).unwrap_or(0));
                        self.skip(this, &seen.mark, &steady, periods);
                        met += periods * each;
                    }
                    self.mark(this, &mut seen.mark);
                    seen.met = Some(met);
                }
            }
        }
        Ok(met)
    }

    /// How many references an iteration of a loop has, if it consists of blocks only.
    fn straight_references(&self, this: u32) -> Option<u64> {
        let walk = self.walk.as_ref()?;
        let about = &self.entries[walk.entry].shape.loops[this as usize];
        about.straight.map(|_| about.slots.len() as u64)
    }
}
