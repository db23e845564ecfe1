//! Histogram traces: loop nests whose long value vectors are replaced by histograms (ScalaTrace II §3.1).
//!
//! The section `histograms` takes the place of signatures and sequences. It has the loop nest of all ranks; trip counts
//! and arguments are [`Values`]: a function of the rank, a vector for each set of ranks, or, where these would take more
//! than a given number of numbers, a [`Histogram`]. So the size of the section follows from the program, not from its
//! steps and ranks. What MPI decided (matches, completed indices) is left out.
//!
//! [`Program::calls`] draws calls from it. Every value is a function of the seed, the place, the rank and the visit
//! ([`draw`]), so whoever knows the rank of another task knows what that task draws: a replay needs no messages to agree on
//! who sends to whom (ScalaTrace II §3.5). Each histogram is used up evenly: if all ranks visit a place as often as they did in
//! the run, each value is drawn as often as it occurred. Inside of a loop whose trip counts are drawn, a rank visits it a
//! few times more or less, and then values are drawn about as often.
//!
//! # Bytes
//!
//! Version; numbers that a vector may have; seed; functions as in [`refrain_structure::write`]; then the programs
//! (`bytes.rs`).

mod bytes;
mod draw;
mod histogram;
#[cfg(test)]
mod tests;
mod values;

pub use bytes::{read, write};
pub use draw::{Calls, Drawn};
pub use histogram::{Bin, Histogram, Tally};
pub use values::{Over, Values};

use refrain_elastic::IdList;
use std::collections::BTreeMap;

/// The tasks of a trace, with histograms for long vectors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramTrace {
    /// Vectors of more numbers were replaced.
    pub above: u64,
    /// What calls are drawn with.
    pub seed: u64,
    /// Definitions of functions by number.
    pub functions: BTreeMap<u16, String>,
    /// The tasks, by thread number.
    pub programs: Vec<Program>,
}

/// The tasks with one thread number.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The number of their threads.
    pub thread: u32,
    /// Their ranks.
    pub ranks: IdList,
    /// What they do.
    pub body: Vec<Node>,
}

/// A node of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The ranks that execute it, among those that execute what it is in.
    pub ranks: Ranks,
    /// What it is.
    pub what: What,
}

/// Ranks that execute a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Ranks {
    /// These.
    Listed(IdList),
    /// So many: a list would have been too long.
    Some(u32),
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A call.
    Call(Call),
    /// A loop.
    Loop {
        /// Its trip count at each visit.
        trips: Values,
        /// What is repeated.
        body: Vec<Node>,
    },
    /// Executed at some visits only. It has no loop index.
    If {
        /// 1 where it is executed, otherwise 0.
        holds: Values,
        /// What is executed.
        body: Vec<Node>,
    },
}

/// A call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// The function's number.
    pub function: u16,
    /// Whether it returned.
    pub returned: bool,
    /// Its call sites, that of the first call first.
    pub sites: Vec<Vec<u8>>,
    /// The inputs, without requests.
    pub arguments: Vec<Argument>,
    /// The places whose requests it completes, starts or frees, by their numbers ([`Drawn::place`]).
    pub requests: Vec<u32>,
    /// How many calls there are, of all ranks.
    pub calls: u64,
    /// Nanoseconds in these calls.
    pub nanoseconds: u64,
    /// Nanoseconds between these calls and the calls before them.
    pub gaps: u64,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// The index of the parameter.
    pub param: u16,
    /// Its parts: an address is a piece of memory and an offset, anything else is one part.
    pub parts: Vec<Part>,
}

/// A part of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A number.
    Number(Values),
    /// The name of an object or of a piece of memory, or a list.
    Word {
        /// The words.
        words: Vec<String>,
        /// Rarer words that were left out.
        left_out: u64,
        /// Which word it is.
        which: Values,
    },
}

impl HistogramTrace {
    /// How many vectors were replaced by histograms.
    pub fn replaced(&self) -> u64 {
        self.programs.iter().map(|program| replaced(&program.body)).sum()
    }

    /// All calls of all ranks.
    pub fn calls(&self) -> u64 {
        let mut calls = 0u64;
        self.each_call(&mut |call| calls = calls.saturating_add(call.calls));
        calls
    }

    /// Visits the calls.
    pub fn each_call<'t>(&'t self, visit: &mut impl FnMut(&'t Call)) {
        self.programs.iter().for_each(|program| each_call(&program.body, visit));
    }
}

impl Program {
    /// Its calls.
    pub fn places(&self) -> Vec<&Call> {
        let mut places = Vec::new();
        each_call(&self.body, &mut |call| places.push(call));
        places
    }
}

fn each_call<'t>(body: &'t [Node], visit: &mut impl FnMut(&'t Call)) {
    for node in body {
        match &node.what {
            What::Call(call) => visit(call),
            What::Loop { body, .. } | What::If { body, .. } => each_call(body, visit),
        }
    }
}

fn replaced(body: &[Node]) -> u64 {
    let is_one = |values: &Values| u64::from(matches!(values, Values::Histogram(_)));
    let part = |part: &Part| match part {
        Part::Number(values) | Part::Word { which: values, .. } => is_one(values),
    };
    let node = |node: &Node| {
        let guard = u64::from(matches!(node.ranks, Ranks::Some(_)));
        guard
            + match &node.what {
                What::Call(call) => {
                    call.arguments.iter().flat_map(|argument| &argument.parts).map(part).sum()
                }
                What::Loop { trips: values, body } | What::If { holds: values, body } => {
                    is_one(values) + replaced(body)
                }
            }
    };
    body.iter().map(node).sum()
}
