//! Loop nests: one tree for sequences of MPI calls and of memory references.
//!
//! A grammar with repetition counts already is a set of nested loops (RSDs and PRSDs in the terms of
//! ScalaTrace): a repeated rule is a loop, its body is the loop's body. [`LoopNest::from_grammar`] makes the
//! tree in time proportional to the grammar, never to the sequence. A rule that is used in several places
//! stays shared: it becomes a numbered *block*, and each use is a [`Nest::Block`].
//!
//! ```
//! use refrain_grammar::Sequitur;
//! use refrain_nest::{LoopNest, Nest};
//!
//! let mut sequitur = Sequitur::new();
//! for _ in 0..1000 {
//!     [7, 8, 8, 8, 9].into_iter().for_each(|terminal| sequitur.push(terminal));
//! }
//! let nest = LoopNest::from_grammar(&sequitur.grammar(), |terminal| terminal);
//! let [Nest::Loop { count: 1000, body }] = nest.body.as_slice() else { panic!() };
//! assert_eq!(body[0], Nest::Leaf(7));
//! assert_eq!(body[1], Nest::Loop { count: 3, body: vec![Nest::Leaf(8)] });
//! assert_eq!(nest.len(), 5000);
//! assert_eq!(nest.leaves().skip(4998).collect::<Vec<_>>(), [&8, &9]);
//! ```
//!
//! # Folding
//!
//! [`fold()`] goes further (ScalaTrace II §3.1-3.2): it looks at *skeletons* only (function, call site, kinds of objects),
//! so that calls with other values are the same place of the program. Values and trip counts become vectors in
//! generation order ([`Seq`]). Iterations that match partially are merged; a call that only some of them make is a loop
//! with 0 or 1 iterations. [`Play`] yields the calls again, exactly.
//!
//! ```
//! use refrain_grammar::Sequitur;
//! use refrain_nest::{Nest, Options, Play, fold};
//!
//! // Terminals are a skeleton and a value: 100 steps with 1, 2 or 3 messages of varying sizes.
//! let mut sequence = Vec::new();
//! for step in 0..100 {
//!     (0..1 + step % 3).for_each(|message| sequence.push(7 << 8 | step % 10 + message));
//!     sequence.push(9 << 8);
//! }
//! let mut sequitur = Sequitur::new();
//! sequence.iter().for_each(|terminal| sequitur.push(*terminal));
//! let nest = fold(&[sequitur.grammar()], Options::default(), |terminal| Some(terminal >> 8));
//! let [Nest::Loop { count, body }] = nest.as_slice() else { panic!() };
//! assert_eq!(count.constant(), Some(100));
//! let [Nest::Loop { count: trips, .. }, Nest::Leaf(_)] = body.as_slice() else { panic!() };
//! assert_eq!(trips.iter().take(4).collect::<Vec<_>>(), [1, 2, 3, 1]);
//! assert!(Play::new(&nest).map(|(_, terminal)| terminal).eq(sequence));
//! ```
//!
//! Leaves are anything: a terminal, a call with symbolic arguments, a memory reference. Trip counts are
//! anything as well: `u64` where they are known numbers (the default), a formula of the rank or of an outer
//! loop elsewhere. [`LoopNest::map`] goes from one to another and keeps the tree.

mod common;
mod flatten;
mod folded;
mod folder;
pub mod formulas;
mod grammar;
mod groups;
mod heads;
mod leaves;
mod merge;
mod partial;
mod play;
pub mod seq;
mod stacks;
mod stretches;

pub use common::{MOST_PAIRS, common_subsequence};
pub use folded::{Folded, Place, Visits};
pub use folder::{Folder, Options};
pub use grammar::fold;
pub use groups::{Grouped, Places, of_one, over_groups, over_groups_with};
pub use leaves::Leaves;
pub use play::Play;
pub use seq::Seq;
pub use stacks::Stacks;

use refrain_grammar::{Grammar, Symbol, What};

/// A node of a loop nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nest<L, C = u64> {
    /// A single execution of something.
    Leaf(L),
    /// A loop.
    Loop {
        /// The trip count.
        count: C,
        /// What is repeated, in order.
        body: Vec<Nest<L, C>>,
    },
    /// A single execution of the block with this index in [`LoopNest::blocks`].
    Block(usize),
}

/// A loop nest with the blocks that it shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopNest<L, C = u64> {
    /// What is executed, in order.
    pub body: Vec<Nest<L, C>>,
    /// Bodies that are executed in several places. A block uses only blocks with smaller indices.
    pub blocks: Vec<Vec<Nest<L, C>>>,
}

impl<L, C> Default for LoopNest<L, C> {
    fn default() -> LoopNest<L, C> {
        LoopNest { body: Vec::new(), blocks: Vec::new() }
    }
}

impl<L> LoopNest<L> {
    /// The loop nest of a grammar, with `leaf` for each terminal. Loops nest at most 64 deep: each level
    /// at least doubles the sequence, whose length fits 64 bits.
    pub fn from_grammar(grammar: &Grammar, leaf: impl FnMut(u32) -> L) -> LoopNest<L> {
        LoopNest::from_grammars(std::slice::from_ref(grammar), leaf)
    }

    /// The loop nest of several grammars whose sequences follow each other.
    pub fn from_grammars(grammars: &[Grammar], mut leaf: impl FnMut(u32) -> L) -> LoopNest<L> {
        let mut nest = LoopNest::default();
        for grammar in grammars {
            nest.append(grammar, &mut leaf);
        }
        nest
    }

    fn append(&mut self, grammar: &Grammar, leaf: &mut impl FnMut(u32) -> L) {
        let uses = uses(grammar);
        // By rule: its body, to be moved to its only use, or the block that it has become.
        let mut inline: Vec<Option<Vec<Nest<L>>>> = grammar.rules().iter().map(|_| None).collect();
        let mut shared: Vec<Option<usize>> = vec![None; grammar.rules().len()];
        for rule in children_first(grammar) {
            let mut body = Vec::new();
            for Symbol { what, count } in &grammar.rules()[rule] {
                let repeated = match *what {
                    What::Terminal(terminal) => vec![Nest::Leaf(leaf(terminal))],
                    What::Rule(inner) => {
                        match (shared[inner as usize], inline[inner as usize].take()) {
                            (Some(block), _) => vec![Nest::Block(block)],
                            (None, Some(body)) => body,
                            (None, None) => Vec::new(),
                        }
                    }
                };
                match (*count, repeated.is_empty()) {
                    (_, true) => {}
                    (1, _) => body.extend(repeated),
                    (count, _) => body.push(Nest::Loop { count, body: repeated }),
                }
            }
            if rule == 0 {
                self.body.extend(body);
            } else if uses[rule] > 1 && !body.is_empty() {
                shared[rule] = Some(self.blocks.len());
                self.blocks.push(body);
            } else {
                inline[rule] = Some(body);
            }
        }
    }

    /// How many leaves are executed; `u64::MAX` stands for that many or more.
    pub fn len(&self) -> u64 {
        let mut lengths: Vec<u64> = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            let length = length(block, &lengths);
            lengths.push(length);
        }
        length(&self.body, &lengths)
    }

    /// Whether nothing is executed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The leaves in the order of their execution, in memory proportional to the depth of the nest.
    pub fn leaves(&self) -> Leaves<'_, L> {
        Leaves::new(self)
    }
}

impl<L, C> LoopNest<L, C> {
    /// The same tree with other leaves and trip counts.
    pub fn map<M, D>(
        &self,
        mut leaf: impl FnMut(&L) -> M,
        mut count: impl FnMut(&C) -> D,
    ) -> LoopNest<M, D> {
        let blocks = self.blocks.iter().map(|block| map(block, &mut leaf, &mut count)).collect();
        LoopNest { body: map(&self.body, &mut leaf, &mut count), blocks }
    }

    /// How many nodes the tree and its blocks have.
    pub fn nodes(&self) -> usize {
        fn nodes<L, C>(body: &[Nest<L, C>]) -> usize {
            let node = |node: &Nest<L, C>| match node {
                Nest::Loop { body, .. } => 1 + nodes(body),
                Nest::Leaf(_) | Nest::Block(_) => 1,
            };
            body.iter().map(node).sum()
        }
        nodes(&self.body) + self.blocks.iter().map(|block| nodes(block)).sum::<usize>()
    }
}

fn map<L, C, M, D>(
    body: &[Nest<L, C>],
    leaf: &mut impl FnMut(&L) -> M,
    count: &mut impl FnMut(&C) -> D,
) -> Vec<Nest<M, D>> {
    let mut one = |node: &Nest<L, C>| match node {
        Nest::Leaf(value) => Nest::Leaf(leaf(value)),
        Nest::Block(block) => Nest::Block(*block),
        Nest::Loop { count: trips, body } => {
            let trips = count(trips);
            Nest::Loop { count: trips, body: map(body, leaf, count) }
        }
    };
    body.iter().map(&mut one).collect()
}

fn length<L>(body: &[Nest<L>], blocks: &[u64]) -> u64 {
    let node = |node: &Nest<L>| match node {
        Nest::Leaf(_) => 1,
        Nest::Loop { count, body } => count.saturating_mul(length(body, blocks)),
        Nest::Block(block) => blocks.get(*block).copied().unwrap_or(0),
    };
    body.iter().map(node).fold(0, u64::saturating_add)
}

/// How many symbols name each rule.
fn uses(grammar: &Grammar) -> Vec<usize> {
    let mut uses = vec![0; grammar.rules().len()];
    for symbol in grammar.rules().iter().flatten() {
        if let What::Rule(rule) = symbol.what {
            uses[rule as usize] += 1;
        }
    }
    uses
}

/// The rules, each after all rules that its body names.
fn children_first(grammar: &Grammar) -> Vec<usize> {
    let rules = grammar.rules();
    let mut order = Vec::with_capacity(rules.len());
    let mut seen = vec![false; rules.len()];
    let mut stack = vec![(0, rules[0].iter())];
    while let Some((rule, symbols)) = stack.last_mut() {
        match symbols.next().map(|symbol| symbol.what) {
            Some(What::Rule(inner)) => {
                if !std::mem::replace(&mut seen[inner as usize], true) {
                    stack.push((inner as usize, rules[inner as usize].iter()));
                }
            }
            Some(What::Terminal(_)) => {}
            None => {
                order.push(*rule);
                stack.pop();
            }
        }
    }
    order
}
