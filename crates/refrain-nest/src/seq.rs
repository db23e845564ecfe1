//! A sequence of values in the order in which a loop nest generates them, with repetitions kept once.
//!
//! The values of a leaf that is visited a billion times are mostly a run, or a short pattern that an outer loop
//! repeats. A [`Seq`] is a list of runs and repeated groups, so that it takes memory for what changes.

use std::sync::Arc;

/// Values in generation order (ScalaTrace II §3.1: value vectors).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seq<T> {
    items: Vec<Item<T>>,
    len: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item<T> {
    /// A value, so many times.
    Run(T, u64),
    /// A sequence of at least two items, so many times.
    Group(Arc<Seq<T>>, u64),
}

/// A part of a sequence.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a, T> {
    /// A value, so many times.
    Run(T, u64),
    /// A sequence, so many times.
    Group(&'a Seq<T>, u64),
}

impl<T: Copy> Seq<T> {
    /// The runs and repeated groups that it is kept as.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_, T>> {
        self.items.iter().map(|item| match item {
            Item::Run(value, count) => Part::Run(*value, *count),
            Item::Group(inner, count) => Part::Group(inner, *count),
        })
    }
}

impl<T> Item<T> {
    fn len(&self) -> u64 {
        match self {
            Item::Run(_, count) => *count,
            Item::Group(inner, count) => inner.len.saturating_mul(*count),
        }
    }
}

impl<T> Default for Seq<T> {
    fn default() -> Seq<T> {
        Seq { items: Vec::new(), len: 0 }
    }
}

impl<T: Copy + Eq> FromIterator<T> for Seq<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Seq<T> {
        let mut seq = Seq::default();
        values.into_iter().for_each(|value| seq.push(value, 1));
        seq
    }
}

impl<T: Copy + Eq> Seq<T> {
    /// A value, `count` times.
    pub fn run(value: T, count: u64) -> Seq<T> {
        match count {
            0 => Seq::default(),
            // No room for more: most sequences of irregular programs have a single value.
            _ => Seq { items: vec![Item::Run(value, count)], len: count },
        }
    }

    /// How many values.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many runs and groups it takes: a measure of its memory.
    pub fn items(&self) -> usize {
        let inner = |item: &Item<T>| match item {
            Item::Run(..) => 1,
            Item::Group(inner, _) => 1 + inner.items(),
        };
        self.items.iter().map(inner).sum()
    }

    /// Appends a value, `count` times.
    pub fn push(&mut self, value: T, count: u64) {
        if count == 0 {
            return;
        }
        self.len = self.len.saturating_add(count);
        match self.items.last_mut() {
            Some(Item::Run(last, times)) if *last == value => *times = times.saturating_add(count),
            _ => self.items.push(Item::Run(value, count)),
        }
    }

    /// Appends a sequence.
    pub fn append(&mut self, other: Seq<T>) {
        if self.items.is_empty() {
            *self = other;
            return;
        }
        if let Some(Item::Group(last, times)) = self.items.last_mut()
            && last.items == other.items
        {
            *times += 1;
            self.len = self.len.saturating_add(other.len);
            return;
        }
        for item in other.items {
            match item {
                Item::Run(value, count) => self.push(value, count),
                Item::Group(inner, count) => self.push_group(inner, count),
            }
        }
    }

    fn push_group(&mut self, inner: Arc<Seq<T>>, count: u64) {
        self.len = self.len.saturating_add(inner.len.saturating_mul(count));
        match self.items.last_mut() {
            Some(Item::Group(last, times)) if Arc::ptr_eq(last, &inner) || **last == *inner => {
                *times = times.saturating_add(count);
            }
            _ => self.items.push(Item::Group(inner, count)),
        }
    }

    /// The sequence, `count` times in a row.
    #[must_use]
    pub fn repeat(mut self, count: u64) -> Seq<T> {
        match (self.items.as_mut_slice(), count) {
            (_, 0) | ([], _) => return Seq::default(),
            (_, 1) => return self,
            ([Item::Run(_, times) | Item::Group(_, times)], _) => {
                *times = times.saturating_mul(count);
                self.len = self.len.saturating_mul(count);
                return self;
            }
            _ => {}
        }
        let mut seq = Seq::default();
        seq.push_group(Arc::new(self), count);
        seq
    }

    /// Removes the values from position `at` on and returns them.
    #[must_use]
    pub fn split_off(&mut self, at: u64) -> Seq<T> {
        let mut position = 0;
        let mut tail = Seq::default();
        let index = self.items.iter().position(|item| {
            let end = position + item.len();
            let is_in = end > at;
            if !is_in {
                position = end;
            }
            is_in
        });
        let Some(index) = index else { return tail };
        let rest = self.items.split_off(index);
        self.len = position;
        let mut rest = rest.into_iter();
        match rest.next() {
            Some(Item::Run(value, count)) => {
                self.push(value, at - position);
                tail.push(value, count - (at - position));
            }
            Some(Item::Group(inner, count)) => {
                let whole = (at - position) / inner.len;
                let part = (at - position) % inner.len;
                if whole > 0 {
                    self.append(Seq::clone(&inner).repeat(whole));
                }
                let mut after = count - whole;
                if part > 0 {
                    let mut head = Seq::clone(&inner);
                    tail.append(head.split_off(part));
                    self.append(head);
                    after -= 1;
                }
                tail.append(Seq::clone(&inner).repeat(after));
            }
            None => {}
        }
        for item in rest {
            match item {
                Item::Run(value, count) => tail.push(value, count),
                Item::Group(inner, count) => tail.push_group(inner, count),
            }
        }
        tail
    }

    /// How many runs and groups there are at the top: what it takes to look at all of it once.
    pub(crate) fn width(&self) -> usize {
        self.items.len()
    }

    /// How often the sequence repeats its beginning, so far as that is known without looking at values.
    pub(crate) fn repeats(&self) -> u64 {
        match self.items.as_slice() {
            [Item::Run(_, count) | Item::Group(_, count)] => *count,
            _ => 1,
        }
    }

    /// The value that all of them have; none if they differ, or there is none.
    pub fn constant(&self) -> Option<T> {
        match self.items.as_slice() {
            [Item::Run(value, _)] => Some(*value),
            _ => None,
        }
    }

    /// The values of another type. Values that become equal are merged.
    pub fn map<U: Copy + Eq>(&self, mut name: impl FnMut(T) -> U) -> Seq<U> {
        self.map_with(&mut name)
    }

    fn map_with<U: Copy + Eq>(&self, name: &mut impl FnMut(T) -> U) -> Seq<U> {
        let mut seq = Seq::default();
        for item in &self.items {
            match item {
                Item::Run(value, count) => seq.push(name(*value), *count),
                Item::Group(inner, count) => seq.append(inner.map_with(name).repeat(*count)),
            }
        }
        seq
    }

    /// Visits each run of equal values, and how often it occurs in total; in no particular order.
    pub fn tally(&self, visit: &mut impl FnMut(T, u64)) {
        self.tally_times(1, visit);
    }

    fn tally_times(&self, times: u64, visit: &mut impl FnMut(T, u64)) {
        for item in &self.items {
            match item {
                Item::Run(value, count) => visit(*value, count.saturating_mul(times)),
                Item::Group(inner, count) => inner.tally_times(count.saturating_mul(times), visit),
            }
        }
    }

    /// The shortest sequence that this one repeats, and how often; at most `most` values are looked at. None if it
    /// is longer.
    pub fn pattern(&self, most: usize) -> Option<(Vec<T>, u64)> {
        let (inner, times) = match self.items.as_slice() {
            [Item::Run(value, count)] => return Some((vec![*value], *count)),
            [Item::Group(inner, count)] => (&**inner, *count),
            _ => (self, 1),
        };
        if inner.len > most as u64 {
            return None;
        }
        let mut values: Vec<T> = inner.iter().collect();
        let period = period(&values);
        let mut repeats = 1;
        if values.len().is_multiple_of(period) {
            repeats = (values.len() / period) as u64;
            values.truncate(period);
        }
        Some((values, times * repeats))
    }

    /// The values in order.
    pub fn iter(&self) -> Values<'_, T> {
        Values { levels: vec![Level { items: &self.items, next: 0, left: 0 }], run: None }
    }
}

impl Seq<u64> {
    /// The sum of the values.
    pub fn sum(&self) -> u64 {
        let mut sum = 0u64;
        self.tally(&mut |value, count| sum = sum.saturating_add(value.saturating_mul(count)));
        sum
    }
}

/// The smallest period of a list: each value is the one that many positions before.
pub fn period<T: Eq>(values: &[T]) -> usize {
    let mut border = vec![0; values.len() + 1];
    let mut length = 0;
    for at in 1..values.len() {
        while length > 0 && values[at] != values[length] {
            length = border[length];
        }
        length += usize::from(values[at] == values[length]);
        border[at + 1] = length;
    }
    (values.len() - border[values.len()]).max(1)
}

/// The values of a [`Seq`] in order.
#[derive(Clone, Debug)]
pub struct Values<'a, T> {
    levels: Vec<Level<'a, T>>,
    run: Option<(T, u64)>,
}

#[derive(Clone, Debug)]
struct Level<'a, T> {
    items: &'a [Item<T>],
    next: usize,
    left: u64,
}

impl<T: Copy> Values<'_, T> {
    /// The next value, and how often it certainly comes in a row.
    pub fn run(&mut self) -> Option<(T, u64)> {
        loop {
            if let Some(run) = self.run {
                return Some(run);
            }
            let level = self.levels.last_mut()?;
            match level.items.get(level.next) {
                Some(Item::Run(value, count)) => {
                    level.next += 1;
                    self.run = Some((*value, *count));
                }
                Some(Item::Group(inner, count)) => {
                    level.next += 1;
                    let left = count - 1;
                    self.levels.push(Level { items: &inner.items, next: 0, left });
                }
                None if level.left > 0 => (level.next, level.left) = (0, level.left - 1),
                None => {
                    self.levels.pop();
                }
            }
        }
    }

    /// Skips so many values of the run that [`Values::run`] has returned.
    pub fn skip_in_run(&mut self, count: u64) {
        if let Some((_, left)) = &mut self.run {
            *left = left.saturating_sub(count);
            if *left == 0 {
                self.run = None;
            }
        }
    }
}

impl<T: Copy> Iterator for Values<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let (value, _) = self.run()?;
        self.skip_in_run(1);
        Some(value)
    }
}
