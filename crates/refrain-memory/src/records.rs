//! The records of a chunk, for both kinds of chunks.

use crate::block::Blocks;
use crate::chunk::Finished;
use crate::error::MemoryError;
use crate::irregular::Reader;
use crate::player::Player;

/// The records of a chunk, one after the other.
#[derive(Clone, Debug)]
pub enum Records<'a> {
    /// Of a chunk of nests.
    Nests(Player),
    /// Of a chunk of coded records, with the present number of each block if blocks had other numbers then.
    Coded(Reader<'a>, Option<&'a [u32]>),
}

impl<'a> Records<'a> {
    /// The records of a sealed chunk. `numbers` has the present number of each block, where blocks had
    /// other numbers when the chunk was sealed.
    pub fn of(
        mut bytes: &'a [u8],
        blocks: &Blocks,
        numbers: Option<&'a [u32]>,
    ) -> Result<Self, MemoryError> {
        if Reader::is_coded(bytes) {
            return Ok(Self::Coded(Reader::new(bytes)?, numbers));
        }
        let chunk = match numbers {
            None => Finished::decode(&mut bytes, blocks)?,
            Some(numbers) => {
                let old = blocks.as_numbered(numbers)?;
                Finished::decode(&mut bytes, &old)?.renumbered(numbers, blocks)?
            }
        };
        Ok(Self::Nests(Player::new(chunk)))
    }

    /// The next block; `logical` becomes the logical addresses of its references. `None` at the end.
    #[inline]
    pub fn next_block(
        &mut self,
        logical: &mut Vec<u64>,
        blocks: &Blocks,
    ) -> Result<Option<u32>, MemoryError> {
        match self {
            Self::Nests(player) => player.next_block(logical),
            Self::Coded(reader, numbers) => {
                let numbers = *numbers;
                let present = |block: u32| match numbers {
                    Some(numbers) => numbers.get(block as usize).copied(),
                    None => Some(block),
                };
                let length = |block| Some(blocks.get(present(block)?)?.len());
                Ok(reader.next_block(logical, length)?.and_then(present))
            }
        }
    }
}
