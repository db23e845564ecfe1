//! The values of one slot of a loop nest, level by level.
//!
//! A slot is a reference in a block of the nest, or the trip count of an inner loop. Its values are stored as
//! *steps*. Between two occurrences of the slot, some loops around it advance to their next iteration; the
//! outermost of them is the *level* of the step. The steps of each level are a sequence of their own, as
//! runs. In a nest of affine sections each level is one run, whose number is the stride of that loop (a power
//! regular section descriptor), and the cost of a value does not depend on the number of loops.
//!
//! A step is measured in two ways, because either may be the regular one:
//!
//! - from the value before (*ends*): `val[k]` of a sparse row continues where the last row ended;
//! - from the beginning of the loop's last iteration (*starts*): `a[i][k]` of a triangle begins one row
//!   further, wherever the last row ended.
//!
//! At the innermost level both are the same. The one with fewer runs is written.

use crate::runs::Runs;

/// Returned for a level without measurements, which does not occur.
static NO_RUNS: Runs = Runs::EMPTY;
/// With more runs than this, a measurement that has twice the runs of the other is dropped.
const WORTH_CHOOSING: usize = 32;
/// With more runs than this in both measurements, the steps are irregular, and one measurement is dropped.
const HOPELESS: usize = 512;

/// The steps of one loop around a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    ends: Option<Runs>,
    starts: Option<Runs>,
    /// The value at the beginning of the loop's current iteration.
    start: u64,
}

impl Level {
    fn new(innermost: bool, start: u64) -> Self {
        let starts = (!innermost).then(Runs::default);
        Self { ends: Some(Runs::default()), starts, start }
    }

    #[inline]
    fn push(&mut self, value: u64, last: u64) {
        let (from_last, from_start) = (value.wrapping_sub(last), value.wrapping_sub(self.start));
        match (&mut self.ends, &mut self.starts) {
            (Some(ends), None) => ends.push(from_last as i64),
            (None, Some(starts)) => starts.push(from_start as i64),
            (Some(ends), Some(starts)) => {
                ends.push(from_last as i64);
                starts.push(from_start as i64);
                if ends.count().max(starts.count()) > WORTH_CHOOSING {
                    self.choose();
                }
            }
            (None, None) => {}
        }
    }

    /// Drops the measurement that is clearly worse.
    fn choose(&mut self) {
        let (Some(ends), Some(starts)) = (&self.ends, &self.starts) else { return };
        let (e, s) = (ends.count(), starts.count());
        if s.max(e) <= WORTH_CHOOSING {
            return;
        }
        if s >= 2 * e || s.min(e) > HOPELESS {
            self.starts = None;
        } else if e >= 2 * s {
            self.ends = None;
        }
    }

    /// Appends the steps of another level; false if the two have no measurement in common.
    fn append(&mut self, other: &Self) -> bool {
        match (&mut self.ends, &other.ends) {
            (Some(ends), Some(more)) => ends.append(more),
            _ => self.ends = None,
        }
        match (&mut self.starts, &other.starts) {
            (Some(starts), Some(more)) => starts.append(more),
            _ => self.starts = None,
        }
        self.start = other.start;
        self.choose();
        self.ends.is_some() || self.starts.is_some()
    }

    /// Whether [`Level::append`] would succeed.
    fn can_append(&self, other: &Self) -> bool {
        self.ends.is_some() && other.ends.is_some()
            || self.starts.is_some() && other.starts.is_some()
    }

    /// The shorter measurement: whether it is from starts, and its runs. If both are equally short, it is starts,
    /// whose steps are the strides of the source code.
    pub fn shorter(&self) -> (bool, &Runs) {
        match (&self.ends, &self.starts) {
            (Some(ends), Some(starts)) if starts.count() <= ends.count() => (true, starts),
            (Some(ends), _) => (false, ends),
            (None, Some(starts)) => (true, starts),
            (None, None) => (false, &NO_RUNS),
        }
    }

    /// The steps in one of the measurements, if it was kept.
    pub fn measured(&self, from_starts: bool) -> Option<&Runs> {
        match from_starts {
            true => self.starts.as_ref(),
            false => self.ends.as_ref(),
        }
    }

    /// The runs measured from the value before, at the innermost level.
    #[inline]
    pub fn innermost(&mut self) -> Option<&mut Runs> {
        self.ends.as_mut()
    }

    /// Whether the steps were regular up to now, and `value` breaks them.
    pub fn is_broken_by(&self, value: u64, last: u64, steady: u64) -> bool {
        let way = |runs: &Option<Runs>, from: u64| {
            let (step, length) = runs.as_ref()?.current();
            (length >= steady).then_some(from.wrapping_add(step as u64) == value)
        };
        match (way(&self.ends, last), way(&self.starts, self.start)) {
            (None, None) => false,
            (ends, starts) => ends != Some(true) && starts != Some(true),
        }
    }

    fn trim(&mut self, most: usize) {
        [&mut self.ends, &mut self.starts].into_iter().flatten().for_each(|runs| runs.trim(most));
    }

    fn runs(&self) -> usize {
        let count = |runs: &Option<Runs>| runs.as_ref().map_or(0, Runs::count);
        count(&self.ends) + count(&self.starts)
    }
}

/// The values of one slot during one execution of its nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The first value; none if the slot has not occurred.
    pub first: Option<u64>,
    /// The last value.
    pub last: u64,
    /// The loops around the slot, the outermost first.
    pub levels: Vec<Level>,
}

impl Series {
    /// A slot inside `depth` loops that has not occurred.
    pub fn new(depth: usize) -> Self {
        let level = |at| Level::new(at + 1 == depth, 0);
        Self { first: None, last: 0, levels: (0..depth).map(level).collect() }
    }

    /// A slot outside all loops.
    pub fn of(value: u64) -> Self {
        Self { first: Some(value), last: value, levels: Vec::new() }
    }

    /// Appends a value; `level` is that of the step (from 1), of no meaning for the first value.
    #[inline]
    pub fn push(&mut self, value: u64, level: u8) {
        if self.first.is_none() {
            return self.begin(value);
        }
        let at = usize::from(level).wrapping_sub(1);
        let last = std::mem::replace(&mut self.last, value);
        let Some(levels) = self.levels.get_mut(at..) else { return };
        let Some((level, inner)) = levels.split_first_mut() else { return };
        level.push(value, last);
        level.start = value;
        for level in inner {
            level.start = value;
        }
    }

    #[cold]
    fn begin(&mut self, value: u64) {
        (self.first, self.last) = (Some(value), value);
        self.levels.iter_mut().for_each(|level| level.start = value);
    }

    /// Makes this and `next` two iterations of a new outermost loop. If that is impossible, returns false and
    /// leaves unspecified values.
    pub fn fold(&mut self, next: &Self) -> bool {
        let mut outer = Level::new(self.levels.is_empty(), self.first.unwrap_or(0));
        if let (Some(first), Some(begin)) = (self.first, next.first) {
            if let Some(ends) = &mut outer.ends {
                ends.push(begin.wrapping_sub(self.last) as i64);
            }
            if let Some(starts) = &mut outer.starts {
                starts.push(begin.wrapping_sub(first) as i64);
            }
        }
        if next.first.is_some() {
            outer.start = next.first.unwrap_or(0);
            self.last = next.last;
            self.first = self.first.or(next.first);
            let both = self.levels.iter_mut().zip(&next.levels);
            if !both.fold(true, |all, (level, more)| level.append(more) && all) {
                return false;
            }
        }
        self.levels.insert(0, outer);
        true
    }

    /// Whether the steps of `next` can be appended to these.
    pub fn can_append(&self, next: &Self) -> bool {
        self.levels.iter().zip(&next.levels).all(|(level, more)| level.can_append(more))
    }

    /// Appends the steps of another execution of the same nest. The caller keeps the first values.
    pub fn append_steps(&mut self, next: &Self) -> bool {
        let both = self.levels.iter_mut().zip(&next.levels);
        both.fold(true, |all, (level, more)| level.append(more) && all)
    }

    /// Drops all but the first `most` runs of each level.
    pub fn trim(&mut self, most: usize) {
        self.levels.iter_mut().for_each(|level| level.trim(most));
    }

    /// How many runs it holds.
    pub fn runs(&self) -> usize {
        self.levels.iter().map(Level::runs).sum()
    }
}
