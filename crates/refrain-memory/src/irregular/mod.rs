//! Irregular stretches of a stream: a model predicts every record, and mispredictions are coded.
//!
//! A program that chases pointers, sorts or interprets bytecode has few loops whose addresses are
//! affine, and a nest of runs of length one is a poor description of it. Such a stretch becomes a
//! *coded chunk*: a model predicts each record (which block is executed, and the address of each of
//! its references), and an adaptive range coder ([`refrain_bytes::range`]) writes how the prediction
//! turned out. This is value-prediction compression (Burtscher et al., VPC3/VPC4) with the tables of
//! TCgen, an adaptive coder in place of a general-purpose compressor, and recency ranks for addresses
//! that no table predicts.
//!
//! | module | predicts |
//! |---|---|
//! | `blocks` | the next block, from the blocks before it |
//! | `addresses` | a reference's address, from its own earlier addresses and from the references before it |
//!
//! A well-predicted record costs one decision for its block and one for all of its addresses.
//!
//! # Bytes
//!
//! [`TAG`], the number of records (varint), then the range coder's output. The model starts anew with
//! each chunk, so a chunk can be read without the others. Blocks are numbered in the order of their
//! first execution in the chunk; a new one is written with its number in the trace. The hash
//! functions and table sizes of the model are part of the format.

mod addresses;
mod blocks;

use crate::block::Blocks;
use crate::chunk::Finished;
use crate::error::MemoryError;
use crate::player::Player;
use addresses::AddressModel;
use blocks::BlockModel;
use refrain_bytes::range::{Coder, Decoder, Encoder};
use refrain_bytes::varint;

/// The first byte of a coded chunk. Chunks of nests begin with their version, which is smaller.
pub const TAG: u8 = 0x49;
/// The most records of a chunk.
const MOST_RECORDS: u64 = 1 << 32;

/// Hashes two numbers to an index of a table with `1 << bits` entries.
#[inline]
fn index(a: u64, b: u64, bits: u32) -> usize {
    let mixed = (a ^ b.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    let mixed = mixed ^ b.wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}

/// Codes `bits` bits of a number, the highest first, each in the context of those before it.
/// `models` has `1 << bits` of them.
#[inline]
fn code_tree(
    coder: &mut impl Coder,
    models: &mut [refrain_bytes::range::Bit],
    bits: u32,
    given: u64,
) -> u64 {
    let mut node = 1usize;
    for bit in (0..bits).rev() {
        // A node has fewer than `bits` bits below its leading one.
        let answer = match models.get_mut(node) {
            Some(model) => coder.bit(model, given >> bit & 1 == 1),
            None => false,
        };
        node = node << 1 | usize::from(answer);
    }
    node as u64 - (1 << bits)
}

/// A chunk in the smaller of both forms.
#[derive(Clone, Debug)]
pub enum CodedOrNests {
    /// Coded records.
    Coded(Vec<u8>),
    /// Nests.
    Nests(Vec<u8>),
}

/// Nests are kept unless coded records are smaller than this share of their size: nests can be read as
/// loops, and can be merged with those of other threads.
const WORTH_CODING: (usize, usize) = (4, 5);

/// A trial ends early if this many words (first number) take more than this percentage (second number) of
/// their share of the nests. The percentages fall, because the model learns.
const PROBES: [(u64, u128); 6] = [
    (1 << 15, 300),
    (1 << 16, 200),
    (1 << 17, 130),
    (1 << 18, 115),
    (1 << 19, 105),
    (1 << 20, 100),
];

/// Encodes a chunk of about `words` words in both forms and returns the smaller, in the sense of
/// `WORTH_CODING`.
pub fn choose(chunk: Finished, words: u64, blocks: &Blocks) -> CodedOrNests {
    let nests = chunk.to_bytes();
    let limit = nests.len() * WORTH_CODING.0 / WORTH_CODING.1;
    match coded(chunk, words, blocks, limit) {
        Some(bytes) => CodedOrNests::Coded(bytes),
        None => CodedOrNests::Nests(nests),
    }
}

/// The records of a chunk of about `words` words, coded; `None` if that takes more than `limit` bytes, or is
/// expected to.
fn coded(chunk: Finished, words: u64, blocks: &Blocks, limit: usize) -> Option<Vec<u8>> {
    let mut writer = Writer::new();
    let mut player = Player::new(chunk);
    let mut addresses = Vec::new();
    let mut probes = PROBES.iter().filter(|(at, _)| words > 2 * at).peekable();
    while let Some(block) = player.next_block(&mut addresses).ok()? {
        writer.push(block, addresses.iter().copied(), blocks).ok()?;
        if writer.size() > limit {
            return None;
        }
        if let Some((_, percent)) = probes.next_if(|(at, _)| writer.words() >= *at) {
            let share = limit as u128 * u128::from(writer.words()) / u128::from(words);
            if writer.size() as u128 * 100 > share * percent {
                return None;
            }
        }
    }
    Some(writer.finish()).filter(|bytes| bytes.len() <= limit)
}

/// A model of records, the same for both directions.
#[derive(Clone, Debug)]
struct Model {
    blocks: BlockModel,
    addresses: AddressModel,
}

impl Model {
    fn new() -> Self {
        Self { blocks: BlockModel::new(), addresses: AddressModel::new() }
    }

    /// Codes a record. An encoder reads the addresses from `addresses`, a decoder replaces them. `length` is how
    /// many references a block has.
    #[inline]
    fn record(
        &mut self,
        coder: &mut impl Coder,
        block: u32,
        addresses: &mut Vec<u64>,
        length: impl Fn(u32) -> Option<usize>,
    ) -> Result<u32, MemoryError> {
        let (local, block) = self.blocks.code(coder, block);
        let length = match self.addresses.length_of(local) {
            Some(length) => length,
            None => {
                let length = length(block).ok_or(MemoryError::UnknownBlock(block.into()))?;
                self.addresses.add_block(length);
                length
            }
        };
        addresses.resize(length, 0);
        self.addresses.code(coder, local, self.blocks.history(), addresses);
        Ok(block)
    }
}

/// Writes a coded chunk.
#[derive(Clone, Debug)]
pub struct Writer {
    model: Box<Model>,
    coder: Encoder,
    records: u64,
    references: u64,
    addresses: Vec<u64>,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// An empty chunk.
    pub fn new() -> Self {
        Self {
            model: Box::new(Model::new()),
            coder: Encoder::default(),
            records: 0,
            references: 0,
            addresses: Vec::new(),
        }
    }

    /// Appends an execution of a block.
    #[inline]
    pub fn push(
        &mut self,
        block: u32,
        addresses: impl Iterator<Item = u64>,
        blocks: &Blocks,
    ) -> Result<(), MemoryError> {
        self.addresses.clear();
        self.addresses.extend(addresses);
        self.records += 1;
        self.references += self.addresses.len() as u64;
        let length = |block| blocks.get(block).map(<[_]>::len);
        self.model.record(&mut self.coder, block, &mut self.addresses, length)?;
        Ok(())
    }

    /// How many executions of blocks it holds.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// How many numbers it stands for: a block and its addresses for each record.
    pub fn words(&self) -> u64 {
        self.records + self.references
    }

    /// About how many bytes it takes so far.
    pub fn size(&self) -> usize {
        self.coder.len()
    }

    /// The bytes of the chunk.
    pub fn finish(self) -> Vec<u8> {
        whole(self.records, self.coder)
    }

    /// The bytes of the chunk as if it ended here.
    pub fn so_far(&self) -> Vec<u8> {
        whole(self.records, self.coder.clone())
    }
}

fn whole(records: u64, coder: Encoder) -> Vec<u8> {
    let mut out = vec![TAG];
    varint::put(&mut out, records);
    out.extend(coder.finish());
    out
}

/// Reads a coded chunk, record by record.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    model: Box<Model>,
    coder: Decoder<'a>,
    left: u64,
    records: u64,
}

impl<'a> Reader<'a> {
    /// Whether these are the bytes of a coded chunk.
    pub fn is_coded(bytes: &[u8]) -> bool {
        bytes.first() == Some(&TAG)
    }

    /// A reader at the beginning of a chunk.
    pub fn new(mut bytes: &'a [u8]) -> Result<Self, MemoryError> {
        let input = &mut bytes;
        if varint::take_byte(input)? != TAG {
            return Err(MemoryError::OutOfRange("tag of a coded chunk"));
        }
        let records = varint::take(input)?;
        if records > MOST_RECORDS {
            return Err(MemoryError::OutOfRange("number of records"));
        }
        let coder = Decoder::new(input);
        Ok(Self { model: Box::new(Model::new()), coder, left: records, records })
    }

    /// How many executions of blocks the chunk holds.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The next block, by the number that it had when the chunk was written; `addresses` becomes the
    /// logical addresses of its references. `None` at the end. `length` is how many references a block of
    /// that number has.
    pub fn next_block(
        &mut self,
        addresses: &mut Vec<u64>,
        length: impl Fn(u32) -> Option<usize>,
    ) -> Result<Option<u32>, MemoryError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        self.model.record(&mut self.coder, 0, addresses, length).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Kind, Reference};
    use proptest::prelude::*;

    /// Blocks with 0, 1, 2, … references.
    fn blocks(count: u32) -> Blocks {
        let mut blocks = Blocks::new();
        for block in 0..count {
            let reference =
                |at| Reference { kind: Kind::Load, size: 8, pc: u64::from(block * 64 + at) };
            blocks.add((0..block % 5).map(reference).collect()).expect("a new block");
        }
        blocks
    }

    /// Records of blocks, with addresses of a few kinds.
    fn records() -> impl Strategy<Value = Vec<(u32, Vec<u64>)>> {
        let address = prop_oneof![
            (0u64..64).prop_map(|at| 0x1000 + 8 * at),
            (0u64..1 << 20).prop_map(|at| 0x7fff_0000_0000 - at),
            any::<u64>(),
        ];
        let record = (0u32..40, prop::collection::vec(address, 4));
        let take = |(block, mut addresses): (u32, Vec<u64>)| {
            addresses.truncate(block as usize % 5);
            (block, addresses)
        };
        prop::collection::vec(record.prop_map(take), 0..400)
    }

    fn written(records: &[(u32, Vec<u64>)], blocks: &Blocks) -> Vec<u8> {
        let mut writer = Writer::new();
        for (block, addresses) in records {
            writer.push(*block, addresses.iter().copied(), blocks).expect("a block that is known");
        }
        writer.finish()
    }

    fn read(bytes: &[u8], blocks: &Blocks) -> Result<Vec<(u32, Vec<u64>)>, MemoryError> {
        let mut reader = Reader::new(bytes)?;
        let (mut records, mut addresses) = (Vec::new(), Vec::new());
        let length = |block| blocks.get(block).map(<[_]>::len);
        while let Some(block) = reader.next_block(&mut addresses, length)? {
            records.push((block, addresses.clone()));
        }
        Ok(records)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn records_come_back(records in records()) {
            let blocks = blocks(40);
            let bytes = written(&records, &blocks);
            prop_assert_eq!(read(&bytes, &blocks), Ok(records));
        }

        #[test]
        fn an_open_chunk_has_the_records_so_far(
            records in records(),
            at in any::<prop::sample::Index>(),
        ) {
            let blocks = blocks(40);
            let (before, after) = records.split_at(at.index(records.len() + 1));
            let mut writer = Writer::new();
            let push = |writer: &mut Writer, records: &[(u32, Vec<u64>)]| {
                for (block, addresses) in records {
                    writer.push(*block, addresses.iter().copied(), &blocks).expect("a known block");
                }
            };
            push(&mut writer, before);
            prop_assert_eq!(read(&writer.so_far(), &blocks), Ok(before.to_vec()));
            push(&mut writer, after);
            prop_assert_eq!(writer.finish(), written(&records, &blocks));
        }

        #[test]
        fn damaged_chunks_do_not_panic(
            records in records(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let blocks = blocks(40);
            let mut bytes = written(&records, &blocks);
            for (at, byte) in damage {
                // The number of records stays: it bounds the work.
                let at = 3 + at.index(bytes.len());
                bytes.get_mut(at).into_iter().for_each(|old| *old ^= byte);
            }
            bytes.truncate(3 + cut.index(bytes.len()));
            let _ = read(&bytes, &blocks);
        }
    }

    #[test]
    fn a_list_that_is_walked_again_costs_next_to_nothing() {
        let blocks = blocks(40);
        let mut state = 1u64;
        let mut nodes = Vec::new();
        for _ in 0..1000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            nodes.push(0x10_0000 + (state >> 40 << 5));
        }
        let walk = nodes.iter().map(|node| (2, vec![*node, node + 8]));
        let once: Vec<_> = walk.clone().collect();
        let hundred: Vec<_> = (0..100).flat_map(|_| once.clone()).collect();
        let (once, hundred) = (written(&once, &blocks).len(), written(&hundred, &blocks).len());
        assert!(once < 5_000, "{once} bytes for 1,000 random nodes");
        // Two addresses each for 99,000 nodes that were seen before.
        assert!(hundred < once + 3_000, "{hundred} bytes after {once}");
    }

    #[test]
    fn a_chunk_of_another_kind_is_refused() {
        assert!(Reader::new(&[2, 0, 0]).is_err());
        assert!(Reader::new(&[]).is_err());
        assert!(!Reader::is_coded(&[2]));
    }
}
