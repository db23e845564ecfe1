//! The next block, predicted from the blocks before it.
//!
//! Four guesses are made, in this order, until one is right:
//!
//! 1. the block that followed the last six blocks, the last time they occurred;
//! 2. the block that followed the last two;
//! 3. the last four successors of the last block, the most recent first;
//! 4. any block of the chunk, by its number.
//!
//! The first guess learns branches that alternate or depend on each other. There is a model for each history of
//! whether this guess is right, so a loop's exit costs little if the history determines it.

use super::{code_tree, index};
use refrain_bytes::range::{Bit, Coder};

/// Entries of the table of long histories, as a power of two.
const LONG: u32 = 17;
/// Entries of the table of pairs of blocks.
const PAIRS: u32 = 16;
/// How many successors of a block are remembered.
const SUCCESSORS: usize = 4;
/// The bits of a history: those of six blocks.
const HISTORY: u64 = (1 << 54) - 1;
/// Block numbers have at most this many bits in the tables of models.
const NUMBER_BITS: u32 = 18;
/// Bits of the bit-length of a distance between numbers of blocks.
const LENGTH_BITS: u32 = 6;
/// Blocks with larger numbers in the trace are written as new ones each time.
const MOST_NUMBERED: usize = 1 << 24;

/// The block that followed a long history, and a model of whether it follows again.
#[derive(Clone, Copy, Debug)]
struct Follower {
    block: u32,
    again: Bit,
}

/// The block that followed a pair of blocks, and models of whether each of the guesses after the first is right.
#[derive(Clone, Copy, Debug)]
struct PairFollower {
    block: u32,
    right: [Bit; 1 + SUCCESSORS],
}

/// A model of the sequence of blocks.
#[derive(Clone, Debug)]
pub struct BlockModel {
    /// The trace's number of each block of the chunk.
    numbers: Vec<u32>,
    /// One more than the chunk's number, by the trace's; 0 for none.
    locals: Vec<u32>,
    long: Vec<Follower>,
    pairs: Vec<PairFollower>,
    successors: Vec<[u32; SUCCESSORS]>,
    digits: Vec<Bit>,
    new_lengths: [Bit; 1 << LENGTH_BITS],
    history: u64,
    last: u32,
    before_last: u32,
}

impl BlockModel {
    pub fn new() -> Self {
        let pair = PairFollower { block: 0, right: [Bit::EVEN; 1 + SUCCESSORS] };
        Self {
            numbers: Vec::new(),
            locals: Vec::new(),
            long: vec![Follower { block: 0, again: Bit::EVEN }; 1 << LONG],
            pairs: vec![pair; 1 << PAIRS],
            successors: Vec::new(),
            digits: vec![Bit::EVEN; 1 << NUMBER_BITS],
            new_lengths: [Bit::EVEN; 1 << LENGTH_BITS],
            history: 0,
            last: 0,
            before_last: 0,
        }
    }

    /// A hash of the last blocks.
    #[inline]
    pub fn history(&self) -> u64 {
        self.history
    }

    /// A block's number in the chunk. A new block gets the next number.
    #[inline]
    fn local(&self, block: u32) -> u32 {
        match self.locals.get(block as usize) {
            Some(&local @ 1..) => local - 1,
            _ => self.numbers.len() as u32,
        }
    }

    /// Codes a block, given by its number in the trace. Returns its number in the chunk and in the trace.
    #[inline]
    pub fn code(&mut self, coder: &mut impl Coder, block: u32) -> (u32, u32) {
        let given = self.local(block);
        let at = index(self.history, 1, LONG);
        let follower = &mut self.long[at];
        let local = match coder.bit(&mut follower.again, given == follower.block) {
            // A damaged chunk may ask for a block that is not there yet.
            true if (follower.block as usize) < self.numbers.len() => follower.block,
            true => self.add(coder, block),
            false => {
                let tried = follower.block;
                let local = self.code_by_pair(coder, block, given, tried);
                self.long[at].block = local;
                local
            }
        };
        self.before_last = self.last;
        self.last = local;
        let mark = u64::from(local).wrapping_mul(0x9e37_79b9);
        self.history = (self.history << 9 ^ mark) & HISTORY;
        (local, self.numbers[local as usize])
    }

    #[inline(never)]
    fn code_by_pair(&mut self, coder: &mut impl Coder, block: u32, given: u32, tried: u32) -> u32 {
        let at = index(u64::from(self.last) | u64::from(self.before_last) << 32, 2, PAIRS);
        let successors =
            self.successors.get(self.last as usize).copied().unwrap_or([0; SUCCESSORS]);
        let pair = &mut self.pairs[at];
        let [a, b, c, d] = successors;
        let guesses = [pair.block, a, b, c, d];
        let mut found = None;
        for (nth, (guess, right)) in guesses.iter().zip(&mut pair.right).enumerate() {
            if *guess == tried || guesses[..nth].contains(guess) {
                continue;
            }
            if coder.bit(right, given == *guess) {
                found = Some(*guess);
                break;
            }
        }
        let local = match found {
            Some(local) if (local as usize) < self.numbers.len() => local,
            Some(_) => self.add(coder, block),
            None => self.code_number(coder, block, given),
        };
        self.pairs[at].block = local;
        if let Some(successors) = self.successors.get_mut(self.last as usize) {
            let known = successors.iter().position(|known| *known == local);
            successors.copy_within(0..known.unwrap_or(SUCCESSORS - 1), 1);
            successors[0] = local;
        }
        local
    }

    /// Codes a block by its number in the chunk. A new block has the next number.
    fn code_number(&mut self, coder: &mut impl Coder, block: u32, given: u32) -> u32 {
        let count = self.numbers.len() as u32;
        let local = if count < 1 << NUMBER_BITS {
            // Leading zeros are well predicted and cost next to nothing.
            code_tree(coder, &mut self.digits, NUMBER_BITS, given.into()) as u32
        } else {
            coder.raw(16, given >> 16) << 16 | coder.raw(16, given & 0xffff)
        };
        if local < count { local } else { self.add(coder, block) }
    }

    /// Codes a block that is new in the chunk, by the distance of its number from that of the previous new block:
    /// front ends number blocks in the order of their first execution.
    fn add(&mut self, coder: &mut impl Coder, block: u32) -> u32 {
        let before = self.numbers.last().copied().unwrap_or(0);
        let given = zigzag(block.wrapping_sub(before));
        let length = u32::BITS - given.leading_zeros();
        let length = code_tree(coder, &mut self.new_lengths, LENGTH_BITS, length.into()) as u32;
        let mut left = length.min(u32::BITS).saturating_sub(1);
        let mut coded = u32::from(length != 0);
        while left > 0 {
            let count = left.min(16);
            left -= count;
            coded = coded << count | coder.raw(count, given >> left & ((1 << count) - 1));
        }
        let block = before.wrapping_add(unzigzag(coded));
        let local = self.numbers.len() as u32;
        self.numbers.push(block);
        // Only an encoder looks up numbers, and those of its blocks are small. A damaged number could be large.
        let at = block as usize;
        if at < MOST_NUMBERED {
            if at >= self.locals.len() {
                self.locals.resize(at + 1, 0);
            }
            self.locals[at] = local + 1;
        }
        self.successors.push([0; SUCCESSORS]);
        local
    }
}

/// The sign becomes the last bit.
fn zigzag(distance: u32) -> u32 {
    distance << 1 ^ (distance as i32 >> 31) as u32
}

fn unzigzag(number: u32) -> u32 {
    number >> 1 ^ (number & 1).wrapping_neg()
}
