//! A sequence of values in the order in which a loop nest generates them, with repetitions kept once.
//!
//! The values of a leaf that is visited a billion times are mostly a run, or a short pattern that an outer loop
//! repeats. A [`Seq`] is a list of runs and repeated groups, so that it takes memory for what changes.

use std::sync::Arc;

/// Values in generation order (ScalaTrace II §3.1: value vectors).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seq<T>(Items<T>);

/// Most sequences of irregular programs have a single value: these take no memory of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Items<T> {
    None,
    One(Item<T>),
    Many(Box<Many<T>>),
}

/// At least two items.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Many<T> {
    items: Vec<Item<T>>,
    /// How many values.
    len: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item<T> {
    /// A value, so many times.
    Run(T, u64),
    Group(Box<Group<T>>),
}

/// A sequence of at least two items, so many times.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group<T> {
    inner: Arc<Seq<T>>,
    count: u64,
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
        self.slice().iter().map(|item| match item {
            Item::Run(value, count) => Part::Run(*value, *count),
            Item::Group(group) => Part::Group(&group.inner, group.count),
        })
    }
}

impl<T> Item<T> {
    fn len(&self) -> u64 {
        match self {
            Item::Run(_, count) => *count,
            Item::Group(group) => group.inner.len().saturating_mul(group.count),
        }
    }

    fn count_mut(&mut self) -> &mut u64 {
        match self {
            Item::Run(_, count) => count,
            Item::Group(group) => &mut group.count,
        }
    }
}

impl<T> Default for Seq<T> {
    fn default() -> Seq<T> {
        Seq(Items::None)
    }
}

impl<T> Seq<T> {
    fn slice(&self) -> &[Item<T>] {
        match &self.0 {
            Items::None => &[],
            Items::One(item) => std::slice::from_ref(item),
            Items::Many(many) => &many.items,
        }
    }

    /// How many values.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Items::None => 0,
            Items::One(item) => item.len(),
            Items::Many(many) => many.len,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn last_mut(&mut self) -> Option<&mut Item<T>> {
        match &mut self.0 {
            Items::None => None,
            Items::One(item) => Some(item),
            Items::Many(many) => many.items.last_mut(),
        }
    }

    /// Adds to the count of the last item, which gets so many more values by that.
    fn extend_last(&mut self, count: u64, values: u64) {
        if let Some(last) = self.last_mut() {
            let times = last.count_mut();
            *times = times.saturating_add(count);
        }
        if let Items::Many(many) = &mut self.0 {
            many.len = many.len.saturating_add(values);
        }
    }

    /// Appends an item that differs from the last one.
    fn add(&mut self, item: Item<T>) {
        match std::mem::replace(&mut self.0, Items::None) {
            Items::None => self.0 = Items::One(item),
            Items::One(first) => {
                let len = first.len().saturating_add(item.len());
                self.0 = Items::Many(Box::new(Many { items: vec![first, item], len }));
            }
            Items::Many(mut many) => {
                many.len = many.len.saturating_add(item.len());
                many.items.push(item);
                self.0 = Items::Many(many);
            }
        }
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
            _ => Seq(Items::One(Item::Run(value, count))),
        }
    }

    /// How many runs and groups it takes: a measure of its memory.
    pub fn items(&self) -> usize {
        let inner = |item: &Item<T>| match item {
            Item::Run(..) => 1,
            Item::Group(group) => 1 + group.inner.items(),
        };
        self.slice().iter().map(inner).sum()
    }

    /// Appends a value, `count` times.
    pub fn push(&mut self, value: T, count: u64) {
        match self.last_mut() {
            _ if count == 0 => {}
            Some(Item::Run(last, _)) if *last == value => self.extend_last(count, count),
            _ => self.add(Item::Run(value, count)),
        }
    }

    /// Appends a sequence.
    pub fn append(&mut self, other: Seq<T>) {
        if let Items::None = self.0 {
            *self = other;
            return;
        }
        if let Some(Item::Group(last)) = self.last_mut()
            && *last.inner == other
        {
            return self.extend_last(1, other.len());
        }
        match other.0 {
            Items::None => {}
            Items::One(item) => self.push_item(item),
            Items::Many(many) => many.items.into_iter().for_each(|item| self.push_item(item)),
        }
    }

    fn push_item(&mut self, item: Item<T>) {
        match item {
            Item::Run(value, count) => self.push(value, count),
            Item::Group(group) => self.push_group(group),
        }
    }

    fn push_group(&mut self, group: Box<Group<T>>) {
        match self.last_mut() {
            Some(Item::Group(last))
                if Arc::ptr_eq(&last.inner, &group.inner) || last.inner == group.inner =>
            {
                let values = group.inner.len().saturating_mul(group.count);
                self.extend_last(group.count, values);
            }
            _ => self.add(Item::Group(group)),
        }
    }

    /// The sequence, `count` times in a row.
    #[must_use]
    pub fn repeat(mut self, count: u64) -> Seq<T> {
        match (&mut self.0, count) {
            (_, 0) | (Items::None, _) => Seq::default(),
            (_, 1) => self,
            (Items::One(item), _) => {
                let times = item.count_mut();
                *times = times.saturating_mul(count);
                self
            }
            _ => Seq(Items::One(Item::Group(Box::new(Group { inner: Arc::new(self), count })))),
        }
    }

    /// Removes the values from position `at` on and returns them.
    #[must_use]
    pub fn split_off(&mut self, at: u64) -> Seq<T> {
        if at == 0 {
            return std::mem::take(self);
        }
        if at >= self.len() {
            return Seq::default();
        }
        let mut tail = Seq::default();
        let mut position = 0;
        let items = match std::mem::take(self).0 {
            Items::None => return tail,
            Items::One(item) => vec![item],
            Items::Many(many) => many.items,
        };
        // Items are appended to one of the two as they are: neighbours differ already.
        for item in items {
            let end = position + item.len();
            match item {
                item if end <= at => self.add(item),
                item if position == at => tail.add(item),
                item if position > at => tail.push_item(item),
                Item::Run(value, count) => {
                    self.push(value, at - position);
                    tail.push(value, count - (at - position));
                }
                Item::Group(group) => self.split_group(&group, at - position, &mut tail),
            }
            position = end;
        }
        tail
    }

    /// Appends the first `at` values of a group here, and the others to `tail`.
    fn split_group(&mut self, group: &Group<T>, at: u64, tail: &mut Seq<T>) {
        let Group { inner, count } = group;
        let (whole, part) = (at / inner.len(), at % inner.len());
        if whole > 0 {
            self.append(Seq::clone(inner).repeat(whole));
        }
        let mut after = count - whole;
        if part > 0 {
            let mut head = Seq::clone(inner);
            tail.append(head.split_off(part));
            self.append(head);
            after -= 1;
        }
        tail.append(Seq::clone(inner).repeat(after));
    }

    /// How many runs and groups there are at the top: what it takes to look at all of it once.
    pub(crate) fn width(&self) -> usize {
        self.slice().len()
    }

    /// How often the sequence repeats its beginning, so far as that is known without looking at values.
    pub(crate) fn repeats(&self) -> u64 {
        match &self.0 {
            Items::One(Item::Run(_, count)) => *count,
            Items::One(Item::Group(group)) => group.count,
            _ => 1,
        }
    }

    /// The value that all of them have; none if they differ, or there is none.
    pub fn constant(&self) -> Option<T> {
        match &self.0 {
            Items::One(Item::Run(value, _)) => Some(*value),
            _ => None,
        }
    }

    /// The values of another type. Values that become equal are merged.
    pub fn map<U: Copy + Eq>(&self, mut name: impl FnMut(T) -> U) -> Seq<U> {
        self.map_with(&mut name)
    }

    fn map_with<U: Copy + Eq>(&self, name: &mut impl FnMut(T) -> U) -> Seq<U> {
        let mut seq = Seq::default();
        for part in self.parts() {
            match part {
                Part::Run(value, count) => seq.push(name(value), count),
                Part::Group(inner, count) => seq.append(inner.map_with(name).repeat(count)),
            }
        }
        seq
    }

    /// Visits each run of equal values, and how often it occurs in total; in no particular order.
    pub fn tally(&self, visit: &mut impl FnMut(T, u64)) {
        self.tally_times(1, visit);
    }

    fn tally_times(&self, times: u64, visit: &mut impl FnMut(T, u64)) {
        for part in self.parts() {
            match part {
                Part::Run(value, count) => visit(value, count.saturating_mul(times)),
                Part::Group(inner, count) => inner.tally_times(count.saturating_mul(times), visit),
            }
        }
    }

    /// The shortest sequence that this one repeats, and how often; at most `most` values are looked at. None if it
    /// is longer.
    pub fn pattern(&self, most: usize) -> Option<(Vec<T>, u64)> {
        let (inner, times) = match &self.0 {
            Items::One(Item::Run(value, count)) => return Some((vec![*value], *count)),
            Items::One(Item::Group(group)) => (&*group.inner, group.count),
            _ => (self, 1),
        };
        if inner.len() > most as u64 {
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
        Values { levels: vec![Level { items: self.slice(), next: 0, left: 0 }], run: None }
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
                Some(Item::Group(group)) => {
                    level.next += 1;
                    let left = group.count - 1;
                    self.levels.push(Level { items: group.inner.slice(), next: 0, left });
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
