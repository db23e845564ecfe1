//! The loops of threads whose streams were sealed in several chunks.
//!
//! A thread's compressor seals its chunk when the chunk is full, in the middle of whatever loop the thread
//! executes, and starts again. So no chunk has the whole loop. To show it, the chunks are decoded one after
//! the other and compressed once more without sealing, as an *outline*: it has all loops, strides and trip
//! counts, but of irregular streams only the first runs. Memory stays bounded.

use std::collections::{BTreeMap, BTreeSet};

use crate::chunk::Chunk;
use crate::compressor::Compressor;
use crate::error::MemoryError;
use crate::segment::Segments;
use crate::thread_groups::Merged;
use crate::trace::Trace;

/// Words that are compressed at once.
const BATCH: usize = 1 << 15;

/// The groups of all threads of a process, with everything that each thread executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// The groups. Where a thread has sealed chunks, irregular streams are not complete: show the structure
    /// of these groups, but do not decode them.
    pub merged: Merged,
    /// For each thread that executed too much code without loops: how many executions of blocks or loops at
    /// its end are left out.
    pub left_out: BTreeMap<u32, u64>,
}

impl Trace {
    /// The groups of all threads, with sealed chunks and last chunks joined.
    pub fn outline(&self) -> Result<Outline, MemoryError> {
        if self.sealed.is_empty() {
            return Ok(Outline { merged: self.merged.clone(), ..Outline::default() });
        }
        let sealed: BTreeSet<u32> = self.sealed.keys().copied().collect();
        let mut left_out = BTreeMap::new();
        let mut chunks = Vec::new();
        for &thread in &sealed {
            let (chunk, dropped) = self.outline_of(thread)?;
            chunks.push((thread, chunk));
            if dropped > 0 {
                left_out.insert(thread, dropped);
            }
        }
        let mut groups = Merged::merge(&chunks).groups;
        groups.extend(self.merged.groups.iter().filter_map(|group| group.without_threads(&sealed)));
        Ok(Outline { merged: Merged::in_order(groups), left_out })
    }

    /// All chunks of a thread as one, and how many executions at its end it lacks.
    fn outline_of(&self, thread: u32) -> Result<(Chunk, u64), MemoryError> {
        // Chunks hold logical addresses.
        let segments = Segments::identity();
        let mut compressor = Compressor::outline();
        let (mut words, mut logical) = (Vec::with_capacity(2 * BATCH), Vec::new());
        for at in 0.. {
            let Some(chunk) = self.chunk(thread, at) else { break };
            let mut records = chunk?;
            while let Some(block) = records.next_block(&mut logical, &self.blocks)? {
                words.push(u64::from(block));
                words.extend_from_slice(&logical);
                if words.len() >= BATCH {
                    compressor.push_words(&words, &self.blocks, &segments)?;
                    words.clear();
                }
            }
        }
        compressor.push_words(&words, &self.blocks, &segments)?;
        Ok(compressor.finish_outline(&self.blocks))
    }
}
