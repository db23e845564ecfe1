//! Sequences of numbers as runs of equal ones.
//!
//! A correctly predicted reference costs one comparison: the next number of a sequence equals the number of
//! the current run, and the run grows by one. A sequence of one run is a regular section descriptor (RSD):
//! a stride and a length.

/// A sequence of numbers, run by run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// The runs before the current one.
    closed: Vec<(i64, u64)>,
    /// The number of the current run.
    value: i64,
    /// How long the current run is; 0 only if the sequence is empty.
    length: u64,
    /// How many of the last runs repeat for ever. If not 0, nothing may be appended.
    cycle: usize,
}

/// The longest cycle of runs that is searched for.
const MOST_CYCLE: usize = 16;
/// How many runs may come before a cycle.
const MOST_HEAD: usize = 2;

impl Runs {
    /// No numbers.
    pub const EMPTY: Self = Self { closed: Vec::new(), value: 0, length: 0, cycle: 0 };

    /// Appends a number.
    #[inline]
    pub fn push(&mut self, value: i64) {
        self.push_times(value, 1);
    }

    /// Appends a number `times` times.
    #[inline]
    pub fn push_times(&mut self, value: i64, times: u64) {
        if value == self.value && self.length != 0 {
            self.length += times;
        } else {
            self.turn(value, times);
        }
    }

    #[cold]
    #[inline(never)]
    fn turn(&mut self, value: i64, times: u64) {
        if times == 0 {
            return;
        }
        if self.length != 0 {
            self.closed.push((self.value, self.length));
        }
        (self.value, self.length) = (value, times);
    }

    /// Appends a sequence.
    pub fn append(&mut self, other: &Self) {
        let mut runs = other.iter();
        if let Some((value, times)) = runs.next() {
            self.push_times(value, times);
        }
        // Neighbouring runs of `other` differ, so they are separate runs here too.
        for (value, times) in runs {
            self.turn(value, times);
        }
    }

    /// Drops all but the first `most` closed runs.
    pub fn trim(&mut self, most: usize) {
        self.closed.truncate(most);
    }

    /// The number of the current run, and how long it is so far.
    #[inline]
    pub fn current(&self) -> (i64, u64) {
        (self.value, self.length)
    }

    /// How many runs there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.closed.len() + usize::from(self.length != 0)
    }

    /// How many of the last runs repeat for ever.
    pub fn cycle(&self) -> usize {
        self.cycle
    }

    /// The sequence of these runs, of which the last `cycle` repeat for ever.
    pub fn cyclic(runs: Vec<(i64, u64)>, cycle: usize) -> Self {
        Self { cycle: cycle.min(runs.len()), ..Self::of(runs) }
    }

    fn of(mut runs: Vec<(i64, u64)>) -> Self {
        let (value, length) = runs.pop().unwrap_or((0, 0));
        Self { closed: runs, value, length, cycle: 0 }
    }

    /// The same sequence as a few runs that repeat, if it has that form. Example: the last tile of each row is
    /// smaller, so trip counts are 13, 13, 7, 13, 13, 7.
    pub fn as_cycle(&self) -> Option<Self> {
        let runs: Vec<(i64, u64)> = self.iter().collect();
        for head in 0..=MOST_HEAD {
            for cycle in 1..=MOST_CYCLE.min(runs.len() / 2) {
                let Some(turns) = runs.get(head..).filter(|turns| turns.len() > 2 * cycle) else {
                    break;
                };
                let (before, after) = (&turns[..turns.len() - cycle], &turns[cycle..]);
                let ((last, rest), (again, others)) = (before.split_last()?, after.split_last()?);
                // The sequence may end within a run.
                if rest == others && last.0 == again.0 && last.1 >= again.1 {
                    return Some(Self::cyclic(runs[..head + cycle].to_vec(), cycle));
                }
            }
        }
        None
    }

    /// The runs: number and length.
    pub fn iter(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let current = (self.length != 0).then_some((self.value, self.length));
        self.closed.iter().copied().chain(current)
    }
}

impl FromIterator<(i64, u64)> for Runs {
    fn from_iter<T: IntoIterator<Item = (i64, u64)>>(runs: T) -> Self {
        let mut all = Self::default();
        for (value, times) in runs {
            if times != 0 {
                all.push_times(value, times);
            }
        }
        all
    }
}

/// Reads a sequence, number by number.
///
/// The last run never ends: the loops around a sequence determine how many numbers are read, so the length
/// of the last run is not stored.
#[derive(Clone, Debug, Default)]
pub struct RunReader {
    /// The runs not yet begun, last first.
    waiting: Vec<(i64, u64)>,
    /// The runs of the cycle, last first.
    again: Vec<(i64, u64)>,
    value: i64,
    left: u64,
    /// How many runs were begun.
    turns: u64,
}

/// The position of a reader in its sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    turns: u64,
    left: u64,
    waiting: usize,
}

/// How a reader went from one position to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// It read this many numbers, all of one run.
    Within(u64),
    /// It went once or several times around its cycle.
    Around,
    /// Neither.
    Other,
}

impl RunReader {
    /// A reader of the runs.
    pub fn new(runs: &Runs) -> Self {
        let mut waiting: Vec<_> = runs.iter().collect();
        if let (0, Some(last)) = (runs.cycle, waiting.last_mut()) {
            last.1 = u64::MAX;
        }
        waiting.reverse();
        let again = waiting.get(..runs.cycle).unwrap_or_default().to_vec();
        Self { waiting, again, value: 0, left: 0, turns: 0 }
    }

    #[cold]
    fn turn(&mut self) -> Option<()> {
        if self.waiting.is_empty() {
            self.waiting.extend_from_slice(&self.again);
        }
        (self.value, self.left) = self.waiting.pop()?;
        self.turns += 1;
        Some(())
    }

    /// Where the reader is.
    pub(crate) fn position(&self) -> Position {
        Position { turns: self.turns, left: self.left, waiting: self.waiting.len() }
    }

    /// How the reader came from an earlier position to where it is.
    pub(crate) fn course(&self, from: Position) -> Course {
        let (Position { turns, left, waiting }, cycle) = (self.position(), self.again.len());
        if turns == from.turns {
            return Course::Within(from.left - left);
        }
        let is_around = cycle > 0
            && (left, waiting) == (from.left, from.waiting)
            && waiting < cycle
            && (turns - from.turns).is_multiple_of(cycle as u64);
        if is_around { Course::Around } else { Course::Other }
    }

    /// The number of the current run.
    pub(crate) fn current(&self) -> i64 {
        self.value
    }

    /// How many more numbers the current run has.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Skips numbers of the current run.
    pub(crate) fn skip(&mut self, count: u64) {
        self.left = self.left.saturating_sub(count);
    }

    /// The next number; none past the end.
    #[inline]
    pub fn next(&mut self) -> Option<i64> {
        if self.left == 0 {
            self.turn()?;
        }
        self.left = self.left.saturating_sub(1);
        Some(self.value)
    }
}
