//! Aligns threads that share a parallel region although one of them does more.
//!
//! The initial thread also reads the input and prints the result, so its structure differs from that of
//! the threads it starts. Yet all of them execute the parallel loop in between. This module aligns the
//! execution sequences of two groups of threads (a longest common subsequence). Each common stretch becomes
//! a group of its own with the threads of both ([`Piece`]), and leaves a [`HOLE`] in both sequences.
//!
//! Threads reach the same code on different call paths: the initial thread calls it, the runtime calls it
//! for the others. Blocks without references stand for call paths, so they may differ between the two
//! sequences; the piece lists the pairs ([`Substitutes`]).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use refrain_elastic::IdList;
use refrain_nest::common_subsequence;

use crate::block::Blocks;
use crate::chunk::{Entry, Finished, Stream};
use crate::error::MemoryError;
use crate::runs::{RunReader, Runs};
use crate::shape::{Node, Shape};

/// An element of a sequence of executions that stands for the thread's next piece.
pub const HOLE: u32 = u32::MAX;
/// A stretch with fewer slots is not worth a group.
const LEAST_SLOTS: usize = 4;
/// Stands for any block without references.
const ANY: u32 = u32::MAX - 1;

/// Blocks that some threads execute where the first thread of their group executes other blocks: pairs of
/// (block of the first thread, block of these threads). Where blocks are nodes of a call tree, pairs that
/// follow from the pair of their callers may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substitutes {
    /// The threads.
    pub threads: IdList,
    /// The blocks, ascending.
    pub blocks: Vec<(u32, u32)>,
}

impl Substitutes {
    /// The chunk of one of these threads: `chunk` with its blocks replaced.
    pub(crate) fn apply(
        &self,
        mut chunk: Finished,
        blocks: &Blocks,
    ) -> Result<Finished, MemoryError> {
        let other = |block| match self.blocks.binary_search_by_key(&block, |pair| pair.0) {
            Ok(at) => self.blocks[at].1,
            Err(_) => block,
        };
        for entry in &mut chunk.entries {
            let node = replaced(&entry.shape.node, &other);
            if node != entry.shape.node {
                let shape = Shape::compile(node, blocks)?;
                if shape.slots.len() != entry.shape.slots.len() {
                    return Err(MemoryError::OutOfRange("block"));
                }
                entry.shape = Arc::new(shape);
            }
        }
        Ok(chunk)
    }
}

fn replaced(node: &Node, other: &impl Fn(u32) -> u32) -> Node {
    match node {
        Node::Block(block) => Node::Block(other(*block)),
        Node::Loop { exit, body } => Node::Loop {
            exit: *exit,
            body: body.iter().map(|node| replaced(node, other)).collect(),
        },
    }
}

/// A stretch that two sequences have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its position in our sequence.
    pub ours: Range<usize>,
    /// Its position in their sequence.
    pub theirs: Range<usize>,
    /// Pairs of blocks without references that differ: ours, theirs.
    pub blocks: Vec<(u32, u32)>,
}

/// The stretches that two chunks have in common, in order.
pub fn common(ours: &Finished, theirs: &Finished) -> Vec<Piece> {
    let mut names = HashMap::new();
    let (a, b) = (tokens(ours, &mut names), tokens(theirs, &mut names));
    let mut partner = partners(&a, &b);
    // Dropping one pair may make another impossible.
    while drop_impossible(ours, theirs, &mut partner) {}
    let mut pieces = stretches(ours, theirs, &partner);
    pieces.retain(|piece| {
        let slots = |at: usize| ours.entries[ours.sequence[at] as usize].shape.slots.len();
        piece.ours.clone().map(slots).sum::<usize>() >= LEAST_SLOTS
    });
    let all = occurrences(&ours.sequence, ours.entries.len());
    pieces.retain(|piece| has_whole_loops(ours, &all, &piece.ours));
    pieces
}

/// A token for each execution: equal tokens can be aligned. Blocks without references have token 0.
fn tokens(chunk: &Finished, names: &mut HashMap<Node, u32>) -> Vec<u32> {
    let mut token = |entry: &Entry| {
        if entry.shape.slots.is_empty() {
            return 0;
        }
        let next = names.len() as u32 + 1;
        *names.entry(anonymous(&entry.shape)).or_insert(next)
    };
    let tokens: Vec<u32> = chunk.entries.iter().map(&mut token).collect();
    chunk.sequence.iter().map(|&entry| tokens[entry as usize]).collect()
}

/// The tree with all blocks without references (call paths) made equal.
fn anonymous(shape: &Shape) -> Node {
    let is_empty = |op: &crate::shape::Op| match *op {
        crate::shape::Op::Block { block, references: 0, .. } => Some(block),
        _ => None,
    };
    let empty: Vec<u32> = shape.ops.iter().filter_map(is_empty).collect();
    replaced(&shape.node, &|block| if empty.contains(&block) { ANY } else { block })
}

/// For each of our executions, one more than the index of its partner; 0 for none. Executions with
/// references are paired by a longest common subsequence, those without by [`attach`].
fn partners(a: &[u32], b: &[u32]) -> Vec<usize> {
    let mut partner = vec![0; a.len()];
    let anchors = |tokens: &[u32]| -> Vec<usize> {
        (0..tokens.len()).filter(|&at| tokens[at] != 0).collect()
    };
    let (ours, theirs) = (anchors(a), anchors(b));
    let names =
        |all: &[usize], tokens: &[u32]| -> Vec<u32> { all.iter().map(|&at| tokens[at]).collect() };
    for (x, y) in common_subsequence(&names(&ours, a), &names(&theirs, b)) {
        partner[ours[x]] = theirs[y] + 1;
    }
    attach(a, b, &mut partner);
    partner
}

/// Pairs executions without references next to a pair: first those before it, then those after it.
fn attach(a: &[u32], b: &[u32], partner: &mut [usize]) {
    let mut taken = vec![false; b.len()];
    partner.iter().filter(|at| **at != 0).for_each(|at| taken[*at - 1] = true);
    for at in (1..a.len()).rev() {
        if partner[at] >= 2 && partner[at - 1] == 0 && a[at - 1] == 0 {
            let before = partner[at] - 2;
            if b[before] == 0 && !taken[before] {
                partner[at - 1] = before + 1;
                taken[before] = true;
            }
        }
    }
    for at in 1..a.len() {
        let after = partner[at - 1];
        if after != 0
            && after < b.len()
            && partner[at] == 0
            && a[at] == 0
            && b[after] == 0
            && !taken[after]
        {
            partner[at] = after + 1;
            taken[after] = true;
        }
    }
}

/// Drops pairs of entries that cannot become one entry: an execution of the entry has another partner, or
/// the entry is a loop and one of its executions has no partner. Says whether any pair was dropped.
fn drop_impossible(ours: &Finished, theirs: &Finished, partner: &mut [usize]) -> bool {
    let mut of_ours: Vec<Option<u32>> = vec![None; ours.entries.len()];
    let mut of_theirs: Vec<Option<u32>> = vec![None; theirs.entries.len()];
    let mut bad = vec![false; ours.entries.len()];
    let mut pairs = vec![0usize; ours.entries.len()];
    for (at, &other) in partner.iter().enumerate().filter(|(_, other)| **other != 0) {
        let (x, y) = (ours.sequence[at], theirs.sequence[other - 1]);
        if ours.entries[x as usize].shape.slots.is_empty() {
            continue;
        }
        pairs[x as usize] += 1;
        let known = *of_ours[x as usize].get_or_insert(y);
        let back = *of_theirs[y as usize].get_or_insert(x);
        if known != y || back != x {
            bad[x as usize] = true;
            bad[back as usize] = true;
        }
    }
    let mine = occurrences(&ours.sequence, ours.entries.len());
    let others = occurrences(&theirs.sequence, theirs.entries.len());
    for (x, y) in of_ours.iter().enumerate().filter_map(|(x, y)| Some((x, (*y)? as usize))) {
        let is_block = matches!(ours.entries[x].shape.node, Node::Block(_));
        bad[x] |= !is_block && (pairs[x] != mine[x] || pairs[x] != others[y]);
    }
    let mut dropped = false;
    for (at, other) in partner.iter_mut().enumerate() {
        if *other != 0 && bad[ours.sequence[at] as usize] {
            (*other, dropped) = (0, true);
        }
    }
    dropped
}

/// How often each entry occurs in a sequence.
fn occurrences(sequence: &[u32], entries: usize) -> Vec<usize> {
    let mut count = vec![0; entries];
    sequence.iter().for_each(|&entry| count[entry as usize] += 1);
    count
}

/// The longest stretches of pairs in which each of our blocks has one partner block.
fn stretches(ours: &Finished, theirs: &Finished, partner: &[usize]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for (at, &other) in partner.iter().enumerate().filter(|(_, other)| **other != 0) {
        let other = other - 1;
        let node = |chunk: &Finished, at: usize| {
            chunk.entries[chunk.sequence[at] as usize].shape.node.clone()
        };
        let mut pairs = Vec::new();
        block_pairs(&node(ours, at), &node(theirs, other), &mut pairs);
        if let Some(piece) = pieces.last_mut()
            && (piece.ours.end, piece.theirs.end) == (at, other)
            && piece.takes(&pairs)
        {
            (piece.ours.end, piece.theirs.end) = (at + 1, other + 1);
            continue;
        }
        let (ours, theirs) = (at..at + 1, other..other + 1);
        let mut piece = Piece { ours, theirs, blocks: Vec::new() };
        if piece.takes(&pairs) {
            pieces.push(piece);
        }
    }
    for piece in &mut pieces {
        piece.blocks.retain(|(x, y)| x != y);
        piece.blocks.sort_unstable();
    }
    pieces
}

impl Piece {
    /// Adds pairs of blocks, unless they contradict pairs that were added before. Returns whether it did.
    fn takes(&mut self, pairs: &[(u32, u32)]) -> bool {
        let before = self.blocks.len();
        for &(x, y) in pairs {
            match self.blocks.iter().find(|pair| pair.0 == x) {
                Some(&(_, known)) if known == y => {}
                Some(_) => {
                    self.blocks.truncate(before);
                    return false;
                }
                None => self.blocks.push((x, y)),
            }
        }
        true
    }
}

/// The blocks of two trees of the same form, in order.
fn block_pairs(a: &Node, b: &Node, pairs: &mut Vec<(u32, u32)>) {
    match (a, b) {
        (Node::Block(x), Node::Block(y)) => pairs.push((*x, *y)),
        (Node::Loop { body: a, .. }, Node::Loop { body: b, .. }) => {
            a.iter().zip(b).for_each(|(a, b)| block_pairs(a, b, pairs));
        }
        _ => {}
    }
}

/// Whether loops that are executed in a stretch are executed nowhere else.
fn has_whole_loops(ours: &Finished, all: &[usize], stretch: &Range<usize>) -> bool {
    let here = occurrences(&ours.sequence[stretch.clone()], all.len());
    let mut entries = ours.entries.iter().zip(here.iter().zip(all));
    entries.all(|(entry, (here, all))| {
        *here == 0 || here == all || matches!(entry.shape.node, Node::Block(_))
    })
}

impl Finished {
    /// The executions of a stretch. Loops must be in it with all of their executions.
    pub(crate) fn stretch(&self, range: &Range<usize>) -> Self {
        self.part(|at| range.contains(&at), &[])
    }

    /// The executions outside the stretches `ranges`, with a hole for each stretch.
    pub(crate) fn without(&self, ranges: &[Range<usize>]) -> Self {
        self.part(|at| !ranges.iter().any(|range| range.contains(&at)), ranges)
    }

    fn part(&self, is_in: impl Fn(usize) -> bool, holes: &[Range<usize>]) -> Self {
        let mut numbers = vec![HOLE; self.entries.len()];
        let mut firsts: Vec<Vec<RunReader>> = Vec::new();
        for entry in &self.entries {
            let is_block = matches!(entry.shape.node, Node::Block(_));
            let streams = if is_block { &entry.streams[..] } else { &[] };
            firsts.push(streams.iter().map(|stream| RunReader::new(&stream.firsts)).collect());
        }
        let mut part = Self::default();
        for (at, &entry) in self.sequence.iter().enumerate() {
            if holes.iter().any(|hole| hole.start == at) {
                part.sequence.push(HOLE);
            }
            let old = entry as usize;
            if is_in(at) && numbers[old] == HOLE {
                numbers[old] = part.entries.len() as u32;
                part.entries.push(self.entries[old].without_firsts());
            }
            let new = part.entries.get_mut(numbers[old] as usize);
            let streams = new.map_or(&mut [][..], |entry| &mut entry.streams[..]);
            for (slot, reader) in firsts[old].iter_mut().enumerate() {
                let step = reader.next().unwrap_or(0);
                if is_in(at)
                    && let Some(stream) = streams.get_mut(slot)
                {
                    stream.firsts.push(step);
                }
            }
            if is_in(at) {
                if let Ok(cut) = self.cuts.binary_search_by_key(&at, |cut| cut.0) {
                    part.cuts.push((part.sequence.len(), self.cuts[cut].1));
                }
                part.sequence.push(numbers[old]);
            }
        }
        part
    }

    /// Fills the holes with the pieces of a thread, in order; further pieces are appended.
    pub(crate) fn filled(mut self, pieces: Vec<Self>) -> Self {
        let mut pieces = pieces.into_iter();
        let mut whole = Self { entries: std::mem::take(&mut self.entries), ..Self::default() };
        let mut cuts = self.cuts.into_iter().peekable();
        for (at, entry) in self.sequence.into_iter().enumerate() {
            if let Some((_, steps)) = cuts.next_if(|cut| cut.0 == at) {
                whole.cuts.push((whole.sequence.len(), steps));
            }
            match entry {
                HOLE => whole.extend(pieces.next().unwrap_or_default()),
                entry => whole.sequence.push(entry),
            }
        }
        pieces.for_each(|piece| whole.extend(piece));
        whole
    }

    /// Appends the executions of a piece, which has no holes.
    fn extend(&mut self, piece: Self) {
        let (entries, executed) = (self.entries.len() as u32, self.sequence.len());
        self.entries.extend(piece.entries);
        let sequence = piece.sequence.iter().filter(|entry| **entry != HOLE);
        self.sequence.extend(sequence.map(|entry| entry + entries));
        self.cuts
            .extend(piece.cuts.iter().map(|(at, steps)| (at.saturating_add(executed), *steps)));
    }
}

impl Entry {
    /// A copy of the entry. If it is a single block, the first values of its executions are left out.
    fn without_firsts(&self) -> Self {
        let mut entry = self.clone();
        if matches!(self.shape.node, Node::Block(_)) {
            let empty = |_: &Stream| Stream { firsts: Runs::default(), steps: Vec::new() };
            entry.streams = self.streams.iter().map(empty).collect();
        }
        entry
    }
}
