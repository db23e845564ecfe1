//! Calls drawn from a program.

use super::histogram::{mixed, scattered};
use super::{Call, Node, Over, Part, Program, Ranks, Values, What};
use refrain_nest::seq;
use std::collections::HashMap;

/// A call of a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn<'t> {
    /// What is called.
    pub call: &'t Call,
    /// The number of its place: nodes are numbered in the order of their beginnings.
    pub place: u32,
    /// For each part of each argument a number, or the index of a word; none if the section has no value for it.
    pub values: Vec<Vec<Option<i64>>>,
}

/// The calls of a rank.
#[derive(Debug)]
pub struct Calls<'t> {
    nodes: Vec<Placed<'t>>,
    /// Bodies being executed.
    frames: Vec<Frame>,
    /// The indices of loops, outermost first.
    indices: Vec<u64>,
    /// By node: how often it has been visited.
    visits: Vec<u64>,
    /// By node and part: the rest of a vector.
    vectors: HashMap<(usize, usize), seq::Values<'t, i64>>,
    seed: u64,
    rank: u32,
}

/// A node, for one rank.
#[derive(Debug)]
struct Placed<'t> {
    node: &'t Node,
    /// The number after its last inner node.
    end: usize,
    /// Where the rank is among the ranks that execute the node, and how many these are; none if it does not.
    among: Option<(u64, u64)>,
    /// Whether the rank makes calls in it.
    has_calls: bool,
}

#[derive(Debug)]
struct Frame {
    begin: usize,
    at: usize,
    end: usize,
    /// Iterations after this one.
    left: u64,
    is_loop: bool,
}

impl Program {
    /// The calls of a rank, drawn with a seed. Any other process gets the same calls for that rank.
    pub fn calls(&self, seed: u64, rank: u32) -> Calls<'_> {
        let mut calls = Calls {
            nodes: Vec::new(),
            frames: Vec::new(),
            indices: Vec::new(),
            visits: Vec::new(),
            vectors: HashMap::new(),
            seed: mixed(seed ^ u64::from(self.thread)),
            rank,
        };
        let all = self.ranks.len() as u64;
        let among = self.ranks.position(rank).map(|at| (at as u64, all));
        calls.place(&self.body, among);
        calls.visits = vec![0; calls.nodes.len()];
        let end = calls.nodes.len();
        calls.frames.push(Frame { begin: 0, at: 0, end, left: 0, is_loop: false });
        calls
    }
}

impl<'t> Calls<'t> {
    /// Numbers nodes; returns whether the rank makes calls in them.
    fn place(&mut self, body: &'t [Node], around: Option<(u64, u64)>) -> bool {
        let mut has_calls = false;
        for node in body {
            let this = self.nodes.len();
            let among = around.and_then(|(at, all)| match &node.ranks {
                Ranks::Listed(ranks) => {
                    ranks.position(self.rank).map(|at| (at as u64, ranks.len() as u64))
                }
                Ranks::Some(count) => {
                    let at = scattered(self.key(this, usize::MAX), at, all)?;
                    Some((at, u64::from(*count))).filter(|(at, count)| at < count)
                }
            });
            self.nodes.push(Placed { node, end: 0, among, has_calls: among.is_some() });
            if let What::Loop { body, .. } | What::If { body, .. } = &node.what {
                let is_inside = self.place(body, among);
                self.nodes[this].has_calls &= is_inside;
            }
            self.nodes[this].end = self.nodes.len();
            has_calls |= self.nodes[this].has_calls;
        }
        has_calls
    }

    fn key(&self, node: usize, part: usize) -> u64 {
        mixed(self.seed ^ mixed(node as u64) ^ mixed((part as u64) << 32 | 1))
    }

    /// A value at the current visit of a node.
    fn value(&mut self, node: usize, part: usize, values: &'t Values) -> Option<i64> {
        let visit = *self.visits.get(node)?;
        match values {
            Values::Ranks(column) => column.eval(self.rank),
            Values::Visits(sets) => {
                let (_, over) = sets.iter().find(|(ranks, _)| ranks.contains(self.rank))?;
                match over {
                    Over::Formula(pattern) => pattern.value(&self.indices),
                    Over::Rule(rule) => Some(rule.holds_at(&self.indices).into()),
                    Over::Sequence(all) => {
                        self.vectors.entry((node, part)).or_insert_with(|| all.iter()).next()
                    }
                }
            }
            Values::Histogram(histogram) => {
                let (at, all) = self.nodes.get(node)?.among?;
                let number = visit.wrapping_mul(all).wrapping_add(at);
                histogram.draw(self.key(node, part), number, self.rank)
            }
        }
    }

    /// Ends an iteration.
    fn turn(&mut self) -> Option<()> {
        let frame = self.frames.last_mut()?;
        if frame.left > 0 {
            (frame.at, frame.left) = (frame.begin, frame.left - 1);
            if frame.is_loop
                && let Some(index) = self.indices.last_mut()
            {
                *index += 1;
            }
            return Some(());
        }
        if frame.is_loop {
            self.indices.pop();
        }
        self.frames.pop();
        Some(())
    }

    fn call(&mut self, node: usize, call: &'t Call) -> Drawn<'t> {
        let mut part = 0;
        let mut values = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            let mut numbers = Vec::with_capacity(argument.parts.len());
            for one in &argument.parts {
                let (Part::Number(all) | Part::Word { which: all, .. }) = one;
                numbers.push(self.value(node, part, all));
                part += 1;
            }
            values.push(numbers);
        }
        Drawn { call, place: node as u32, values }
    }
}

impl<'t> Iterator for Calls<'t> {
    type Item = Drawn<'t>;

    fn next(&mut self) -> Option<Drawn<'t>> {
        loop {
            let frame = self.frames.last_mut()?;
            if frame.at >= frame.end {
                self.turn()?;
                continue;
            }
            let this = frame.at;
            let placed = self.nodes.get(this)?;
            let (node, end) = (placed.node, placed.end);
            frame.at = end;
            if !placed.has_calls {
                continue;
            }
            let (trips, is_loop) = match &node.what {
                What::Call(call) => {
                    let drawn = self.call(this, call);
                    self.visits[this] += 1;
                    return Some(drawn);
                }
                What::Loop { trips, .. } => (trips, true),
                What::If { holds, .. } => (holds, false),
            };
            let trips = self.value(this, 0, trips).and_then(|trips| u64::try_from(trips).ok());
            self.visits[this] += 1;
            let Some(left) = trips.and_then(|trips| trips.checked_sub(1)) else { continue };
            if is_loop {
                self.indices.push(0);
            }
            self.frames.push(Frame { begin: this + 1, at: this + 1, end, left, is_loop });
        }
    }
}
