//! The table of blocks: the references of each block, stored once.
//!
//! A front end sends a block's number and its addresses only; kind, size and program counter of each
//! reference are in this table. A *block* is a unit that the front end executes as a whole: a basic block, a
//! superblock, or a single instruction.

use std::collections::HashMap;

use crate::error::MemoryError;
use refrain_bytes::varint;

/// How a reference uses its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads and writes as one.
    Atomic,
}

/// One reference of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// How it uses memory.
    pub kind: Kind,
    /// How many bytes.
    pub size: u32,
    /// The program counter, as the front end defines it.
    pub pc: u64,
}

/// The most references that a block may have.
pub const MOST_REFERENCES: usize = 1 << 14;

/// All blocks of a process, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    blocks: Vec<Vec<Reference>>,
}

impl Blocks {
    /// A table without blocks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a block and returns its number; `None` if it has more than [`MOST_REFERENCES`].
    pub fn add(&mut self, references: Vec<Reference>) -> Option<u32> {
        if references.len() > MOST_REFERENCES {
            return None;
        }
        let number = u32::try_from(self.blocks.len()).ok()?;
        self.blocks.push(references);
        Some(number)
    }

    /// The references of a block, in order.
    pub fn get(&self, block: u32) -> Option<&[Reference]> {
        self.blocks.get(block as usize).map(Vec::as_slice)
    }

    /// A table in which block `i` is block `numbers[i]` of this table.
    pub fn as_numbered(&self, numbers: &[u32]) -> Result<Self, MemoryError> {
        let block = |number: &u32| {
            let found = self.blocks.get(*number as usize).cloned();
            found.ok_or(MemoryError::UnknownBlock(u64::from(*number)))
        };
        Ok(Self { blocks: numbers.iter().map(block).collect::<Result<_, _>>()? })
    }

    /// The most references that a block of the table has.
    pub fn largest(&self) -> usize {
        self.blocks.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there is no block.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Appends the table. Program counters are written as differences, which are small.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::put(out, self.blocks.len() as u64);
        let mut pc = 0u64;
        for block in &self.blocks {
            varint::put(out, block.len() as u64);
            for reference in block {
                varint::put(out, u64::from(reference.size) << 2 | reference.kind as u64);
                varint::put_signed(out, reference.pc.wrapping_sub(pc) as i64);
                pc = reference.pc;
            }
        }
    }

    /// Decodes a table from the front of `input`.
    pub fn decode(input: &mut &[u8]) -> Result<Self, MemoryError> {
        let mut table = Self::new();
        let mut pc = 0u64;
        for _ in 0..varint::take_count(input, "number of blocks")? {
            let mut block = Vec::new();
            for _ in 0..varint::take_count(input, "number of references")? {
                let head = varint::take(input)?;
                let kind = match head & 3 {
                    0 => Kind::Load,
                    1 => Kind::Store,
                    2 => Kind::Atomic,
                    _ => return Err(MemoryError::OutOfRange("kind of reference")),
                };
                let size = u32::try_from(head >> 2);
                let size = size.map_err(|_| MemoryError::OutOfRange("size of a reference"))?;
                pc = pc.wrapping_add(varint::take_signed(input)? as u64);
                block.push(Reference { kind, size, pc });
            }
            table.add(block).ok_or(MemoryError::OutOfRange("number of references"))?;
        }
        Ok(table)
    }
}

/// Compresses any stream of (signature, value) pairs, as in ScalaMemTrace §4: each signature becomes a block
/// with one reference, when it first appears.
///
/// The program counter of that reference is the signature.
#[derive(Clone, Debug, Default)]
pub struct Signatures {
    numbers: HashMap<u64, u32>,
}

impl Signatures {
    /// The block of a signature. A new signature is added to the table as a load of `size` bytes.
    pub fn block(&mut self, blocks: &mut Blocks, signature: u64, size: u32) -> Option<u32> {
        if let Some(&block) = self.numbers.get(&signature) {
            return Some(block);
        }
        let block = blocks.add(vec![Reference { kind: Kind::Load, size, pc: signature }])?;
        self.numbers.insert(signature, block);
        Some(block)
    }
}
