//! The caches of all threads, and what an access does to them.
//!
//! Every level is looked up only if the level before it missed, and then holds the line (write-allocate, neither
//! inclusive nor exclusive, no write-back traffic): the rules of cachegrind, and of Dinero IV for
//! reads. Private caches are kept coherent as in MESI: a store removes the line from the caches of all other
//! threads.

use std::collections::HashMap;

use crate::cache::Cache;
use crate::counts::{Counts, Miss};
use crate::geometry::{Geometry, MOST_LEVELS};
use crate::log::Log;
use crate::reuse::ReuseDistances;
use crate::seen::Seen;

/// Which levels an access missed, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How many levels missed.
    pub depth: usize,
    /// Why each of them did.
    pub kinds: [Miss; MOST_LEVELS],
}

const HIT: Outcome = Outcome { depth: 0, kinds: [Miss::Cold; MOST_LEVELS] };

impl Counts {
    /// Counts an access.
    #[inline]
    pub fn add(&mut self, outcome: Outcome) {
        self.accesses += 1;
        if outcome.depth > 0 {
            self.add_misses(outcome);
        }
    }

    fn add_misses(&mut self, outcome: Outcome) {
        for (misses, kind) in self.misses.iter_mut().zip(outcome.kinds).take(outcome.depth) {
            misses[kind as usize] += 1;
        }
    }
}

/// The caches of one or several threads.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    /// The private caches, thread by thread.
    private: Vec<Cache>,
    /// How many private levels there are.
    private_levels: usize,
    shared: Vec<Cache>,
    threads: usize,
    /// The lines that each thread has accessed.
    seen: Vec<Seen>,
    /// The lines that any thread has accessed.
    seen_by_any: Seen,
    /// For each line, the threads whose caches may hold it: bit `n` stands for thread `n` modulo 128.
    sharers: HashMap<u64, u128>,
    /// The lines that were accessed at each level but the first, while there is one thread.
    pub(crate) inputs: [Log; MOST_LEVELS],
    /// The lines that were new to the thread, while there is one.
    pub(crate) new_lines: Log,
    /// How many times a copy was removed because another thread wrote to the line.
    pub(crate) invalidations: u64,
    /// How many times a thread's first level has missed.
    first_misses: u64,
    /// How many accesses were simulated.
    pub(crate) simulated: u64,
    pub(crate) reuse: Option<ReuseDistances>,
}

impl Hierarchy {
    /// Empty caches.
    pub fn new(geometry: &Geometry, threads: usize) -> Self {
        let threads = threads.max(1);
        let cache = |level| Cache::new(level, geometry.sets(level), geometry.policy);
        let of = |shared: bool| geometry.levels.iter().filter(move |level| level.shared == shared);
        // With one thread it makes no difference, and the private caches are simpler.
        let is_one = threads == 1;
        let private: Vec<Cache> = match is_one {
            true => geometry.levels.iter().map(cache).collect(),
            false => (0..threads).flat_map(|_| of(false).map(cache)).collect(),
        };
        Self {
            private_levels: private.len() / threads,
            private,
            shared: if is_one { Vec::new() } else { of(true).map(cache).collect() },
            threads,
            seen: vec![Seen::default(); threads],
            seen_by_any: Seen::default(),
            sharers: HashMap::new(),
            inputs: Default::default(),
            new_lines: Log::default(),
            invalidations: 0,
            first_misses: 0,
            simulated: 0,
            reuse: None,
        }
    }

    /// How many levels there are.
    pub fn levels(&self) -> usize {
        self.private_levels + self.shared.len()
    }

    /// How many lines a thread has accessed.
    pub fn footprint(&self, thread: usize) -> u64 {
        self.seen.get(thread).map_or(0, Seen::count)
    }

    pub(crate) fn seen(&mut self) -> &mut Seen {
        &mut self.seen[0]
    }

    pub(crate) fn seen_by_one(&self) -> &Seen {
        &self.seen[0]
    }

    /// A number that changes with every miss of the first level, while there is one thread.
    pub(crate) fn misses_of_first(&self) -> u64 {
        self.first_misses
    }

    pub(crate) fn caches(&self) -> &[Cache] {
        &self.private
    }

    pub(crate) fn caches_mut(&mut self) -> &mut [Cache] {
        &mut self.private
    }

    /// A thread accesses a line.
    #[inline]
    pub fn access(&mut self, thread: usize, line: u64, is_store: bool) -> Outcome {
        self.simulated += 1;
        if let Some(reuse) = &mut self.reuse {
            reuse.access(line);
        }
        let own = thread * self.private_levels;
        if self.threads > 1 {
            if is_store {
                self.invalidate_others(thread, line);
            }
        } else if self.private[own].is_most_recent(line) {
            self.private[own].shadow.access(line);
            return HIT;
        }
        if self.private_levels == 0 {
            self.seen[thread].insert(line);
            return self.access_shared(0, line);
        }
        let cache = &mut self.private[own];
        let is_shadowed = cache.shadow.access(line);
        if cache.access(line) {
            return HIT;
        }
        self.miss(thread, line, is_shadowed)
    }

    /// The first level has missed.
    fn miss(&mut self, thread: usize, line: u64, is_shadowed: bool) -> Outcome {
        self.first_misses += 1;
        let is_new = self.seen[thread].insert(line);
        match self.threads {
            1 if is_new => self.new_lines.push(line),
            1 => {}
            _ => *self.sharers.entry(line).or_default() |= 1 << (thread % 128),
        }
        let own = thread * self.private_levels;
        let mut outcome = HIT;
        let caches = &mut self.private[own..own + self.private_levels];
        for (level, cache) in caches.iter_mut().enumerate() {
            let is_shadowed = match level {
                0 => is_shadowed,
                _ => {
                    if self.threads == 1 {
                        self.inputs[level].push(line);
                    }
                    let is_shadowed = cache.shadow.access(line);
                    if cache.access(line) {
                        return outcome;
                    }
                    is_shadowed
                }
            };
            outcome.kinds[level] = match () {
                () if is_new => Miss::Cold,
                () if !cache.invalidated.is_empty() && cache.invalidated.remove(&line) => {
                    Miss::Coherence
                }
                () if is_shadowed => Miss::Conflict,
                () => Miss::Capacity,
            };
            outcome.depth = level + 1;
        }
        if self.shared.is_empty() {
            return outcome;
        }
        let rest = self.access_shared(outcome.depth, line);
        outcome.kinds[outcome.depth..].copy_from_slice(&rest.kinds[outcome.depth..]);
        Outcome { depth: rest.depth, ..outcome }
    }

    /// Accesses the shared levels, of which the first is `level`.
    fn access_shared(&mut self, level: usize, line: u64) -> Outcome {
        let is_new = self.seen_by_any.insert(line);
        let mut outcome = Outcome { depth: level, ..HIT };
        for cache in &mut self.shared {
            let is_shadowed = cache.shadow.access(line);
            if cache.access(line) {
                break;
            }
            outcome.kinds[outcome.depth] = match () {
                () if is_new => Miss::Cold,
                () if is_shadowed => Miss::Conflict,
                () => Miss::Capacity,
            };
            outcome.depth += 1;
        }
        outcome
    }

    /// A thread writes to a line: no other thread keeps it.
    fn invalidate_others(&mut self, thread: usize, line: u64) {
        let own = 1u128 << (thread % 128);
        let sharers = self.sharers.entry(line).or_default();
        // Threads that differ by 128 have the same bit.
        if *sharers & !own == 0 && self.threads <= 128 {
            *sharers |= own;
            return;
        }
        let others = std::mem::replace(sharers, own);
        for other in (0..self.threads).filter(|other| *other != thread) {
            if others >> (other % 128) & 1 == 0 {
                continue;
            }
            let at = other * self.private_levels;
            let mut was_held = false;
            for cache in &mut self.private[at..at + self.private_levels] {
                cache.shadow.remove(line);
                if cache.remove(line) {
                    cache.invalidated.insert(line);
                    was_held = true;
                }
            }
            self.invalidations += u64::from(was_held);
        }
    }
}
