//! Loops are looked at once, not in every iteration.
//!
//! When all processes are at the same places of their loops as before, and everything that is pending between them is the
//! same, the calls since then will repeat exactly, as long as the loops go on. These iterations are left out: counts that
//! grow with every iteration (messages sent, collectives entered) grow on all processes alike, and only their differences
//! matter.

use refrain_reader::decoder::loops::Loops;
use refrain_reader::processes::Items;
use refrain_reader::{Item, TraceError};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The items of a process, each with its thread.
pub trait Source: Iterator<Item = Result<(u32, Item), TraceError>> {
    /// Where the process is in its loops, if that is known.
    fn loops(&self) -> Option<Loops> {
        None
    }

    /// Leaves out iterations; see [`Items::skip_iterations`].
    fn skip_iterations(&mut self, _level: usize, _n: u64, _calls: u64) -> bool {
        false
    }
}

/// The items of a process with one thread.
pub struct TaskItems<'t> {
    items: Items<'t>,
    thread: u32,
}

impl<'t> TaskItems<'t> {
    /// These items of that thread.
    pub fn new(items: Items<'t>, thread: u32) -> TaskItems<'t> {
        TaskItems { items, thread }
    }
}

impl Iterator for TaskItems<'_> {
    type Item = Result<(u32, Item), TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.items.next()?;
        Some(next.map(|item| (self.thread, item)))
    }
}

impl Source for TaskItems<'_> {
    fn loops(&self) -> Option<Loops> {
        self.items.loops()
    }

    fn skip_iterations(&mut self, level: usize, n: u64, calls: u64) -> bool {
        self.items.skip_iterations(level, n, calls)
    }
}

/// The state of a job.
#[derive(Debug)]
pub struct Snapshot {
    /// Where each process is in its loops.
    pub loops: Vec<Option<Loops>>,
    /// How many calls each has made.
    pub calls: Vec<u64>,
    /// A hash of what is pending.
    pub pending: u64,
}

/// Iterations of one process that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The process.
    pub rank: usize,
    /// The level of its loops.
    pub level: usize,
    /// How many iterations.
    pub iterations: u64,
    /// How many calls.
    pub calls: u64,
}

/// The level at which two places differ, and by how many iterations.
fn step(before: &Loops, now: &Loops) -> Option<Option<(usize, u64, u64)>> {
    if (before.grammar, before.live, before.levels.len())
        != (now.grammar, now.live, now.levels.len())
    {
        return None;
    }
    let mut found = None;
    for (level, (old, new)) in before.levels.iter().zip(&now.levels).enumerate() {
        if (old.rule, old.symbol) != (new.rule, new.symbol) || new.left > old.left {
            return None;
        }
        if new.left < old.left {
            match found {
                None => found = Some((level, old.left - new.left, new.left)),
                Some(_) => return None,
            }
        }
    }
    Some(found)
}

/// What can be left out if a job has come from one state to another.
fn between(before: &Snapshot, now: &Snapshot) -> Option<Vec<Skip>> {
    if before.pending != now.pending {
        return None;
    }
    let (mut steps, mut times) = (Vec::new(), u64::MAX);
    for (rank, (old, new)) in before.loops.iter().zip(&now.loops).enumerate() {
        let calls = now.calls.get(rank)?.checked_sub(*before.calls.get(rank)?)?;
        let step = match (old, new) {
            (Some(old), Some(new)) => step(old, new)?,
            (None, None) => None,
            _ => return None,
        };
        match step {
            Some((level, by, left)) => {
                // One iteration more remains: the last one may leave the loop differently.
                times = times.min((left / by).saturating_sub(1));
                steps.push(Skip { rank, level, iterations: by, calls });
            }
            None if calls == 0 => {}
            None => return None,
        }
    }
    if times == 0 || times == u64::MAX {
        return None;
    }
    for step in &mut steps {
        step.iterations = step.iterations.checked_mul(times)?;
        step.calls = step.calls.checked_mul(times)?;
    }
    Some(steps)
}

/// Looks for repetition, and less and less often if there is none.
#[derive(Debug)]
pub struct Repetition {
    /// The place of the first process at which states are compared.
    target: Option<u64>,
    snapshots: VecDeque<Snapshot>,
    /// States after iterations were left out, for the loops around.
    outer: VecDeque<Snapshot>,
    /// The step of the job at which the next search begins, and at which the current one ends.
    begin: u64,
    end: u64,
    pause: u64,
}

/// Searches last for so many steps of the job, and compare with so many earlier states.
const SEARCH: u64 = 1 << 16;
const KEPT: usize = 12;

impl Default for Repetition {
    fn default() -> Repetition {
        let (snapshots, outer) = (VecDeque::new(), VecDeque::new());
        Repetition { target: None, snapshots, outer, begin: 64, end: 0, pause: 1 << 10 }
    }
}

impl Repetition {
    /// Whether a search goes on at that step of the job.
    pub fn is_due(&self, step: u64) -> bool {
        step >= self.begin
    }

    /// Whether the state of the job is to be compared now, by the place of its first process.
    pub fn wants(&mut self, step: u64, first: Option<&Loops>) -> bool {
        let place = first.map(|loops| {
            let mut hasher = DefaultHasher::new();
            loops.grammar.hash(&mut hasher);
            loops.levels.iter().for_each(|level| (level.rule, level.symbol).hash(&mut hasher));
            hasher.finish()
        });
        if self.target.is_none() {
            self.target = place;
            self.end = step + SEARCH.max(self.pause / 4);
            return false;
        }
        if step > self.end {
            self.give_up(step);
            return false;
        }
        place.is_some() && place == self.target
    }

    /// Searches again later.
    pub fn give_up(&mut self, step: u64) {
        self.pause = self.pause.saturating_mul(4);
        self.begin = step + self.pause;
        self.target = None;
        self.snapshots.clear();
    }

    /// Compares a state with earlier ones. Returns what can be left out.
    pub fn compare(&mut self, step: u64, now: Snapshot) -> Option<Vec<Skip>> {
        let found = self.snapshots.iter().rev().find_map(|before| between(before, &now));
        if found.is_some() {
            // The end of the loop, and what follows, may be another loop.
            self.target = None;
            self.snapshots.clear();
            self.pause = 1 << 10;
            self.begin = step + 16;
            return found;
        }
        if self.snapshots.len() >= 8 * KEPT {
            self.give_up(step);
            return None;
        }
        self.snapshots.push_back(now);
        None
    }
}

impl Repetition {
    /// Compares a state after iterations were left out with earlier ones of this kind.
    pub fn compare_outer(&mut self, now: Snapshot) -> Option<Vec<Skip>> {
        let found = self.outer.iter().find_map(|before| between(before, &now));
        if found.is_some() {
            self.outer.clear();
            return found;
        }
        self.outer.truncate(KEPT - 1);
        self.outer.push_front(now);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_reader::decoder::loops::Place;

    fn place(rule: Option<u32>, symbol: usize, left: u64) -> Place {
        Place { rule, symbol, left }
    }

    fn loops(symbol: usize, left: u64) -> Option<Loops> {
        Some(Loops {
            grammar: 0,
            levels: vec![place(Some(0), 1, 0), place(Some(1), symbol, left)],
            live: 7,
        })
    }

    fn snapshot(loops: Vec<Option<Loops>>, calls: Vec<u64>) -> Snapshot {
        Snapshot { loops, calls, pending: 5 }
    }

    #[test]
    fn iterations_repeat_until_the_first_process_leaves_its_loop() {
        let before = snapshot(vec![loops(2, 100), loops(1, 60)], vec![10, 20]);
        let now = snapshot(vec![loops(2, 98), loops(1, 57)], vec![16, 29]);
        let skip = |rank, iterations, calls| Skip { rank, level: 1, iterations, calls };
        // 57 are left, in steps of three; one step remains.
        assert_eq!(between(&before, &now), Some(vec![skip(0, 36, 108), skip(1, 54, 162)]));
    }

    #[test]
    fn nothing_repeats_if_a_process_is_elsewhere() {
        let before = snapshot(vec![loops(2, 100), loops(1, 60)], vec![10, 20]);
        let now = snapshot(vec![loops(2, 98), loops(2, 57)], vec![16, 29]);
        assert_eq!(between(&before, &now), None);
        let other =
            Snapshot { pending: 6, ..snapshot(vec![loops(2, 98), loops(1, 57)], vec![16, 29]) };
        assert_eq!(between(&before, &other), None);
    }
}
