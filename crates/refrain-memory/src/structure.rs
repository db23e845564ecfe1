//! The structure of a group of threads: a loop nest over references.
//!
//! [`Group::structure`] makes a [`LoopNest`] whose leaves are extended section descriptors (EPRSDs): the
//! first logical address of a reference, and its stride for each loop around it. Addresses, strides and
//! trip counts are functions of the thread ([`Affine`]). The tree is as large as the compressed trace,
//! however long the stream.
//!
//! [`Structure::each_line`] prints it.

mod text;

pub use text::{Name, triples};

use std::collections::HashSet;

use refrain_elastic::{Affine, Base, IdList};
use refrain_nest::{LoopNest, Nest};

use crate::align::{HOLE, Substitutes};

use crate::block::{Blocks, Reference};
use crate::chunk::{Entry, Finished, Stream};
use crate::error::MemoryError;
use crate::runs::Runs;
use crate::shape::Node;
use crate::thread_groups::Group;
use crate::thread_numbers::ThreadNumbers;

/// The structure of a group of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Structure {
    /// The threads.
    pub threads: IdList,
    /// Which hole of its threads' main structures it fills, from 1; 0 for a main structure.
    pub part: u32,
    /// Blocks without references that differ between its threads.
    pub substitutes: Vec<Substitutes>,
    /// The bases that numbers are affine in.
    pub bases: Vec<Base>,
    /// The loops and references.
    pub nest: LoopNest<Leaf, Trips>,
    /// Whether addresses on a thread's own stack are relative to it.
    own_stacks: bool,
}

/// A leaf of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// A reference.
    Reference(Box<Descriptor>),
    /// A block without references: a calling context.
    Context(u32),
    /// A part that these threads share with others: it is the structure with this [`Structure::part`].
    Part(u32),
}

/// An extended section descriptor: where a reference begins, and how it advances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The reference.
    pub reference: Reference,
    /// Where it begins.
    pub first: First,
    /// Its strides, one for each loop around it, the outermost first.
    pub steps: Vec<Step>,
}

/// Where a reference begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// At a logical address.
    At(Affine),
    /// At this distance from the last address of the same reference.
    FromLast(Affine),
    /// Its executions begin at addresses without a rule.
    Irregular,
}

/// How far a number advances from one iteration of a loop to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The stride; `None` if it has no rule.
    pub stride: Option<Affine>,
    /// Whether it is the distance from the value before, not from the beginning of the last iteration.
    pub from_previous: bool,
}

/// How often a body is executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trips {
    /// A loop.
    Loop {
        /// The first trip count; `None` if it has no rule.
        count: Option<Affine>,
        /// How the trip count changes with each loop around, the outermost first.
        steps: Vec<Step>,
        /// How many nodes of the body are executed once more after the last whole iteration.
        exit: usize,
    },
    /// This many consecutive executions of the same code, which were not recognised as a loop.
    Repeated(u64),
}

impl Group {
    /// The structure of the group.
    pub fn structure(&self, blocks: &Blocks) -> Result<Structure, MemoryError> {
        // Each number of the chunk is the index of its column.
        let indices: Vec<i64> = (0..self.numbers.set.columns.len() as i64).collect();
        let bulk = self.bulk.iter().map(|each| each.first().cloned().unwrap_or_default());
        let chunk = Finished::from_parts(&self.skeleton, &indices, bulk.collect(), blocks)?;
        let mut builder = Builder { numbers: &self.numbers, blocks, met: HashSet::new() };
        Ok(Structure {
            threads: self.threads.clone(),
            part: self.hole,
            substitutes: self.substitutes.clone(),
            bases: self.numbers.set.bases.clone(),
            nest: builder.nest(&chunk),
            own_stacks: self.numbers.own_stacks,
        })
    }
}

type Tree = Nest<Leaf, Trips>;

struct Builder<'a> {
    numbers: &'a ThreadNumbers,
    blocks: &'a Blocks,
    /// References that have been executed before: their first addresses are distances from their last.
    met: HashSet<(u32, u32)>,
}

impl Builder<'_> {
    fn nest(&mut self, chunk: &Finished) -> LoopNest<Leaf, Trips> {
        let mut nest = LoopNest::default();
        // The block of each entry. An entry's first execution differs from all later ones, which are equal.
        let mut shared: Vec<Option<usize>> = vec![None; chunk.entries.len()];
        let mut is_met = vec![false; chunk.entries.len()];
        let mut holes = 0;
        for run in chunk.sequence.chunk_by(|a, b| a == b && *a != HOLE) {
            if run[0] == HOLE {
                holes += 1;
                nest.body.push(Nest::Leaf(Leaf::Part(holes)));
                continue;
            }
            let at = run[0] as usize;
            let Some(entry) = chunk.entries.get(at) else { continue };
            let mut executed = match std::mem::replace(&mut is_met[at], true) {
                false => self.entry(entry),
                true => {
                    let block = *shared[at].get_or_insert_with(|| {
                        nest.blocks.push(self.entry(entry));
                        nest.blocks.len() - 1
                    });
                    vec![Nest::Block(block)]
                }
            };
            if run.len() > 1 {
                let count = Trips::Repeated(run.len() as u64);
                executed = vec![Nest::Loop { count, body: executed }];
            }
            nest.body.append(&mut executed);
        }
        nest
    }

    fn entry(&mut self, entry: &Entry) -> Vec<Tree> {
        let mut body = Vec::new();
        self.node(&entry.shape.node, &mut entry.streams.iter(), &mut body);
        body
    }

    fn node(
        &mut self,
        node: &Node,
        streams: &mut std::slice::Iter<'_, Stream>,
        out: &mut Vec<Tree>,
    ) {
        match node {
            Node::Block(block) => {
                let references = self.blocks.get(*block).unwrap_or_default();
                for (at, reference) in (0u32..).zip(references) {
                    let Some(stream) = streams.next() else { return };
                    let first = match self.only(&stream.firsts) {
                        first if !self.met.insert((*block, at)) => first.map(First::FromLast),
                        first => first.map(First::At),
                    };
                    out.push(Nest::Leaf(Leaf::Reference(Box::new(Descriptor {
                        reference: *reference,
                        first: first.unwrap_or(First::Irregular),
                        steps: self.steps(stream),
                    }))));
                }
                if references.is_empty() {
                    out.push(Nest::Leaf(Leaf::Context(*block)));
                }
            }
            Node::Loop { exit, body } => {
                let Some(stream) = streams.next() else { return };
                let (count, steps) = (self.only(&stream.firsts), self.steps(stream));
                let (mut nodes, mut exit_nodes) = (Vec::new(), 0);
                for (at, node) in body.iter().enumerate() {
                    if at == *exit as usize {
                        exit_nodes = nodes.len();
                    }
                    self.node(node, streams, &mut nodes);
                }
                let count = Trips::Loop { count, steps, exit: exit_nodes };
                out.push(Nest::Loop { count, body: nodes });
            }
        }
    }

    fn steps(&self, stream: &Stream) -> Vec<Step> {
        let innermost = stream.steps.len().saturating_sub(1);
        let step = |(level, (from_starts, runs)): (usize, &(bool, Runs))| Step {
            stride: self.only(runs),
            // At the innermost level both are the same.
            from_previous: !from_starts && level != innermost,
        };
        stream.steps.iter().enumerate().map(step).collect()
    }

    /// The number of a stream of one run.
    fn only(&self, runs: &Runs) -> Option<Affine> {
        match (runs.count(), runs.cycle()) {
            (1, 0) => self.numbers.set.columns.get(runs.current().0 as usize).copied(),
            _ => None,
        }
    }
}
