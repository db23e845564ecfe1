//! Loops that a decoder is in, and iterations that it can leave out.

use super::Decoder;
use refrain_bytes::table::{Set, TableHasher};
use refrain_grammar::{Grammar, What};

pub use refrain_grammar::Place;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};

/// Where a task is in its loops, and what the decoder knows there; see [`crate::processes::Items::loops`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loops {
    /// The grammar, counted from the last one.
    pub grammar: usize,
    /// The loops around the next item, outermost first.
    pub levels: Vec<Place>,
    /// A hash of the requests that are live.
    pub live: u64,
}

/// The requests that are live, with a hash that does not depend on their order.
#[derive(Debug, Default)]
pub(super) struct Live {
    all: Set<(u32, u32)>,
    hash: u64,
}

impl Live {
    pub fn contains(&self, request: &(u32, u32)) -> bool {
        self.all.contains(request)
    }

    pub fn insert(&mut self, request: (u32, u32)) {
        if self.all.insert(request) {
            self.hash = self.hash.wrapping_add(hash_of(&request));
        }
    }

    pub fn remove(&mut self, request: &(u32, u32)) {
        if self.all.remove(request) {
            self.hash = self.hash.wrapping_sub(hash_of(request));
        }
    }

    pub fn clear(&mut self) {
        *self = Live::default();
    }
}

fn hash_of(request: &(u32, u32)) -> u64 {
    let mut hasher = TableHasher::default();
    request.hash(&mut hasher);
    hasher.finish()
}

impl Decoder<'_> {
    /// Where it is; none inside of a call that made others, between failed polls, and if the times of calls are read.
    pub fn loops(&self) -> Option<Loops> {
        if !self.ready.is_empty() || !self.inner.is_empty() || self.times.is_some() {
            return None;
        }
        let (grammar, levels) = self.terminals.levels()?;
        Some(Loops { grammar, levels, live: self.live.hash })
    }

    /// Leaves out `n` iterations of a level, with that many calls, if the outcomes of all calls in it are constant.
    /// Only if the decoder's state at that place is the same in each iteration, the calls after them are right.
    pub fn skip_iterations(&mut self, level: usize, n: u64, calls: u64) -> bool {
        let Some(loops) = self.loops() else { return false };
        let grammars = self.view.grammars();
        let grammar = grammars.len().checked_sub(loops.grammar + 1).and_then(|at| grammars.get(at));
        let is_constant = match (grammar, loops.levels.get(level)) {
            (Some(grammar), Some(Place { rule: Some(rule), .. })) => {
                terminals_of(grammar, *rule).into_iter().all(|terminal| self.is_constant(terminal))
            }
            (Some(_), Some(Place { rule: None, symbol, .. })) => {
                u32::try_from(*symbol).is_ok_and(|terminal| self.is_constant(terminal))
            }
            _ => false,
        };
        let has_skipped = is_constant && self.terminals.skip_iterations(level, n);
        if has_skipped {
            self.number += calls;
        }
        has_skipped
    }

    fn is_constant(&self, signature: u32) -> bool {
        self.view.varying(signature).is_none() && !self.terminals.has_failed_polls(signature)
    }
}

/// The terminals that a rule yields.
fn terminals_of(grammar: &Grammar, rule: u32) -> HashSet<u32> {
    let (mut terminals, mut seen, mut rules) = (HashSet::new(), HashSet::from([rule]), vec![rule]);
    while let Some(rule) = rules.pop() {
        for symbol in grammar.rules().get(rule as usize).into_iter().flatten() {
            match symbol.what {
                What::Terminal(terminal) => drop(terminals.insert(terminal)),
                What::Rule(rule) => {
                    if seen.insert(rule) {
                        rules.push(rule);
                    }
                }
            }
        }
    }
    terminals
}
