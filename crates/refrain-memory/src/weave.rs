//! What threads do together although one of them does more.
//!
//! The thread that began the program also reads its input and prints its result, so its structure
//! is another than that of the threads it started; but what all of them do in between, a parallel
//! loop, is the same code. Here the executions of two groups of threads are aligned, and each
//! stretch that both have becomes a group of its own, of all these threads ([`Piece`]). Where it was,
//! a [`HOLE`] is left.
//!
//! The same code is reached on different ways: the first thread calls it itself, the others are
//! called by the runtime. So blocks without references, which say what function a thread is in,
//! need not be equal: the piece tells which stands for which ([`Substitutes`]).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use refrain_elastic::RankList;

use crate::block::Blocks;
use crate::chunk::{Entry, Finished, Stream};
use crate::error::MemoryError;
use crate::runs::{RunReader, Runs};
use crate::shape::{Node, Shape};

/// In a sequence of executions: what the next piece of the thread says.
pub const HOLE: u32 = u32::MAX;
/// Sequences of which more pairs would have to be looked at are not aligned.
const MOST_PAIRS: usize = 1 << 22;
/// A stretch with fewer numbers is not worth a group.
const LEAST_SLOTS: usize = 4;
/// Stands for any block without references.
const ANY: u32 = u32::MAX - 1;

/// Blocks of some threads that stand where the first thread of their group has others: its block,
/// theirs. Where blocks are nodes of a tree of calls, whoever knows that tree may leave out those
/// pairs that follow from others, because the same was called in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substitutes {
    /// The threads.
    pub threads: RankList,
    /// The blocks, ascending.
    pub blocks: Vec<(u32, u32)>,
}

impl Substitutes {
    /// The chunk of one of the threads.
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

/// Where two sequences have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// In the one.
    pub ours: Range<usize>,
    /// In the other.
    pub theirs: Range<usize>,
    /// Our blocks that are others there.
    pub blocks: Vec<(u32, u32)>,
}

/// The stretches that two chunks have in common, in order.
pub fn common(ours: &Finished, theirs: &Finished) -> Vec<Piece> {
    let mut names = HashMap::new();
    let (a, b) = (tokens(ours, &mut names), tokens(theirs, &mut names));
    let mut partner = align(&a, &b);
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

/// Each execution as a number that is equal for those that may be the same; 0 for blocks without
/// references.
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

/// The tree without what functions it is in.
fn anonymous(shape: &Shape) -> Node {
    let is_empty = |op: &crate::shape::Op| match *op {
        crate::shape::Op::Block { block, references: 0, .. } => Some(block),
        _ => None,
    };
    let empty: Vec<u32> = shape.ops.iter().filter_map(is_empty).collect();
    replaced(&shape.node, &|block| if empty.contains(&block) { ANY } else { block })
}

/// The partner of each of ours, one more than its index: a longest common subsequence of what has
/// references, and what stands between.
fn align(a: &[u32], b: &[u32]) -> Vec<usize> {
    let mut partner = vec![0; a.len()];
    let anchors = |tokens: &[u32]| -> Vec<usize> {
        (0..tokens.len()).filter(|&at| tokens[at] != 0).collect()
    };
    let (ours, theirs) = (anchors(a), anchors(b));
    let width = theirs.len() + 1;
    if ours.is_empty() || theirs.is_empty() || (ours.len() + 1) * width > MOST_PAIRS {
        return partner;
    }
    let mut longest = vec![0u16; (ours.len() + 1) * width];
    for (i, &x) in ours.iter().enumerate().rev() {
        for (j, &y) in theirs.iter().enumerate().rev() {
            longest[i * width + j] = match a[x] == b[y] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < ours.len() && j < theirs.len() {
        if a[ours[i]] == b[theirs[j]] {
            partner[ours[i]] = theirs[j] + 1;
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    attach(a, b, &mut partner);
    partner
}

/// What has no references goes with what follows it, or, at the end, with what is before.
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

/// Drops pairs of entries that cannot become one: those of which an execution has another partner,
/// and loops of which one has none. Whether there were any.
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

/// How often each entry stands in a sequence.
fn occurrences(sequence: &[u32], entries: usize) -> Vec<usize> {
    let mut count = vec![0; entries];
    sequence.iter().for_each(|&entry| count[entry as usize] += 1);
    count
}

/// The longest stretches of pairs in which blocks without references can be told from each other.
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
    /// Takes further pairs of blocks, unless they contradict those it has.
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

    /// The executions outside of some stretches, with holes in their places.
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

    /// Puts the pieces of a thread into the holes; without holes one after the other.
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
    /// The same; for a block, without the executions.
    fn without_firsts(&self) -> Self {
        let mut entry = self.clone();
        if matches!(self.shape.node, Node::Block(_)) {
            let empty = |_: &Stream| Stream { firsts: Runs::default(), steps: Vec::new() };
            entry.streams = self.streams.iter().map(empty).collect();
        }
        entry
    }
}
