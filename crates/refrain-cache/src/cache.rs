//! A set-associative cache.

use std::collections::HashSet;

use crate::geometry::{Level, Policy};
use crate::shadow::Shadow;

/// No line.
pub(crate) const EMPTY: u64 = u64::MAX;

/// A cache of one level, of one thread or of all.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    /// The lines, set by set. With LRU the most recently used of a set is the first.
    lines: Vec<u64>,
    /// For each set, the bits of its tree (PLRU): bit `n` is node `n`, the root is node 1. A bit that is set
    /// points to the right.
    trees: Vec<u64>,
    ways: usize,
    /// The number of sets, less one.
    mask: u64,
    /// What a fully associative cache of the same size would hold.
    pub shadow: Shadow,
    /// Lines that left this cache because another thread wrote to them.
    pub invalidated: HashSet<u64>,
}

impl Cache {
    pub fn new(level: &Level, sets: u64, policy: Policy) -> Self {
        let ways = level.ways as usize;
        let trees = match policy {
            Policy::Lru => Vec::new(),
            Policy::Plru => vec![0; sets as usize],
        };
        Self {
            lines: vec![EMPTY; sets as usize * ways],
            trees,
            ways,
            mask: sets - 1,
            shadow: Shadow::new(sets as usize * ways),
            invalidated: HashSet::new(),
        }
    }

    /// Whether a line is the most recently used of its set (LRU).
    #[inline]
    pub fn is_most_recent(&self, line: u64) -> bool {
        self.trees.is_empty() && self.lines[(line & self.mask) as usize * self.ways] == line
    }

    /// Accesses a line; whether it is a hit.
    #[inline]
    pub fn access(&mut self, line: u64) -> bool {
        let set = (line & self.mask) as usize;
        let lines = &mut self.lines[set * self.ways..][..self.ways];
        if self.trees.is_empty() {
            // The line that is looked for moves to the front, and those before it one back.
            let mut moved = line;
            for held in lines {
                std::mem::swap(held, &mut moved);
                if moved == line {
                    return true;
                }
            }
            return false;
        }
        let found = lines.iter().position(|held| *held == line);
        let empty = || lines.iter().position(|held| *held == EMPTY);
        let way = found.or_else(empty).unwrap_or_else(|| victim(self.trees[set], self.ways));
        lines[way] = line;
        point_away(&mut self.trees[set], way, self.ways);
        found.is_some()
    }

    /// Removes a line; whether it was there.
    pub fn remove(&mut self, line: u64) -> bool {
        let set = (line & self.mask) as usize;
        let lines = &mut self.lines[set * self.ways..][..self.ways];
        let Some(way) = lines.iter().position(|held| *held == line) else { return false };
        lines[way] = EMPTY;
        if self.trees.is_empty() {
            lines[way..].rotate_left(1);
        }
        true
    }

    /// What a copy of the state costs, in accesses.
    pub fn cost_of_copy(&self) -> usize {
        self.lines.len() / 8 + self.shadow.len()
    }

    /// Whether as many lines are held as in an earlier state.
    pub fn holds_as_many(&self, earlier: &State) -> bool {
        self.shadow.len() == earlier.shadow.len()
    }

    /// The state, to be compared with a later one.
    pub fn state(&self) -> State {
        State {
            lines: self.lines.clone(),
            trees: self.trees.clone(),
            shadow: self.shadow.lines().collect(),
        }
    }

    /// Whether this is an earlier state with all lines (and so the sets) shifted. Adds to `compared` how many lines
    /// were looked at.
    pub fn is_shifted(&self, from: &State, by: i64, compared: &mut u64) -> bool {
        let sets = self.mask as usize + 1;
        let turn = (by as u64 & self.mask) as usize;
        let shifted = |line: u64| if line == EMPTY { EMPTY } else { line.wrapping_add_signed(by) };
        if !self.holds_as_many(from) {
            return false;
        }
        for (set, before) in from.lines.chunks_exact(self.ways).enumerate() {
            *compared += self.ways as u64;
            let now = &self.lines[(set + turn) % sets * self.ways..][..self.ways];
            if !before.iter().map(|line| shifted(*line)).eq(now.iter().copied()) {
                return false;
            }
        }
        let mut shadow = from.shadow.iter().zip(self.shadow.lines());
        let mut is_equal = |(before, now): (&u64, u64)| {
            *compared += 1;
            shifted(*before) == now
        };
        let mut trees = from.trees.iter().enumerate();
        trees.all(|(set, tree)| self.trees[(set + turn) % sets] == *tree)
            && shadow.all(&mut is_equal)
    }

    /// Shifts all lines.
    pub fn shift(&mut self, by: i64) {
        let turn = (by as u64 & self.mask) as usize;
        for line in self.lines.iter_mut().filter(|line| **line != EMPTY) {
            *line = line.wrapping_add_signed(by);
        }
        self.lines.rotate_right(turn * self.ways);
        if !self.trees.is_empty() {
            self.trees.rotate_right(turn);
        }
        self.shadow.shift(by);
    }
}

/// A copy of what a cache held.
#[derive(Clone, Debug)]
pub(crate) struct State {
    lines: Vec<u64>,
    trees: Vec<u64>,
    shadow: Vec<u64>,
}

/// The way that the bits of a tree point to.
fn victim(tree: u64, ways: usize) -> usize {
    let mut node = 1;
    while node < ways {
        node = 2 * node + (tree >> node & 1) as usize;
    }
    node - ways
}

/// Makes the bits on the path to a way point away from it.
fn point_away(tree: &mut u64, way: usize, ways: usize) {
    let mut node = way + ways;
    while node > 1 {
        let (parent, is_right) = (node / 2, node % 2 == 1);
        match is_right {
            true => *tree &= !(1 << parent),
            false => *tree |= 1 << parent,
        }
        node = parent;
    }
}
