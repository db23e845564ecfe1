//! The memory trace of one process: tables, sealed chunks, and the merged last chunks of its threads.
//!
//! Each part is encoded by itself, so a container can store them as sections:
//!
//! | section | written by | holds |
//! |---|---|---|
//! | blocks | [`Blocks::encode`] | kind, size and program counter of every reference of every block |
//! | segments | [`Segments::encode`] | the addresses of segments; address randomisation changes only these |
//! | sealed | [`Compressor::take_sealed`](crate::Compressor::take_sealed) | a thread's full chunks, in order |
//! | threads | [`Merged::encode`] | the last chunks of all threads, merged |
//!
//! A chunk is nests ([`Finished::to_bytes`](crate::Finished::to_bytes): the version, the skeleton, the numbers, the bulk streams)
//! or, where a sealed one is irregular, coded records ([`crate::irregular`]).

use std::collections::BTreeMap;

use crate::block::{Blocks, Kind, Reference};
use crate::error::MemoryError;
use crate::interleave::{Interleaved, Turns};
use crate::player::Player;
use crate::records::Records;
use crate::segment::{Addresses, Segments};
use crate::thread_groups::Merged;

/// The trace of a process.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The blocks.
    pub blocks: Blocks,
    /// The segments.
    pub segments: Segments,
    /// The sealed chunks of each thread.
    pub sealed: BTreeMap<u32, Vec<Vec<u8>>>,
    /// The last chunks.
    pub merged: Merged,
    /// For each block number used in sealed chunks, the present number of the block; `None` if they are equal.
    pub numbers: Option<Vec<u32>>,
}

/// One load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Load, store or atomic.
    pub kind: Kind,
    /// How many bytes.
    pub size: u32,
    /// The program counter.
    pub pc: u64,
    /// The address.
    pub address: u64,
}

impl Trace {
    /// The threads, ascending.
    pub fn threads(&self) -> Vec<u32> {
        let mut all = self.merged.threads();
        all.extend(self.sealed.keys());
        all.sort_unstable();
        all.dedup();
        all
    }

    /// A thread's references, one after the other.
    pub fn references(&self, thread: u32) -> References<'_> {
        References {
            trace: self,
            thread,
            next_chunk: 0,
            records: None,
            addresses: self.segments.addresses(),
            block: [].iter(),
            logical: Vec::new(),
            at: 0,
        }
    }

    /// A thread's chunks, each to be decoded record by record or, where it is made of nests, loop by loop.
    pub fn chunks(&self, thread: u32) -> Chunks<'_> {
        Chunks { trace: self, thread, next: 0 }
    }

    /// The references of several threads, in turns. The order between threads is not recorded: `turns` is an
    /// assumption.
    pub fn interleaved(&self, threads: &[u32], turns: Turns) -> Interleaved<'_> {
        let streams = threads.iter().map(|&thread| (thread, self.references(thread)));
        Interleaved::new(streams.collect(), turns)
    }

    /// The records of a thread's chunk; none past the last.
    pub(crate) fn chunk(&self, thread: u32, at: usize) -> Option<Result<Records<'_>, MemoryError>> {
        let sealed = self.sealed.get(&thread).map_or(&[][..], Vec::as_slice);
        match sealed.get(at) {
            Some(bytes) => Some(Records::of(bytes, &self.blocks, self.numbers.as_deref())),
            None if at == sealed.len() => {
                let chunk = self.merged.chunk(thread, &self.blocks)?;
                Some(chunk.map(|chunk| Records::Nests(Player::new(chunk))))
            }
            None => None,
        }
    }
}

/// Iterates over a thread's chunks.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    trace: &'a Trace,
    thread: u32,
    next: usize,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Records<'a>, MemoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.trace.chunk(self.thread, self.next);
        self.next += 1;
        chunk
    }
}

/// Iterates over a thread's references. One compressed chunk is in memory at a time.
#[derive(Clone, Debug)]
pub struct References<'a> {
    trace: &'a Trace,
    thread: u32,
    next_chunk: usize,
    records: Option<Records<'a>>,
    addresses: Addresses,
    block: std::slice::Iter<'a, Reference>,
    logical: Vec<u64>,
    at: usize,
}

impl References<'_> {
    /// Skips references, without visiting those of loops that repeat themselves with constant strides. Returns how
    /// many were skipped: fewer than `count` only at the end.
    ///
    /// ```
    /// # use refrain_memory::{Blocks, Compressor, Kind, Merged, Reference, Segments, Trace};
    /// # let mut blocks = Blocks::new();
    /// # let body = blocks.add(vec![Reference { kind: Kind::Load, size: 8, pc: 0 }]).unwrap();
    /// # let segments = Segments::identity();
    /// # let mut compressor = Compressor::new();
    /// # for i in 0..100_000 {
    /// #     compressor.push(body, &[8 * i], &blocks, &segments).unwrap();
    /// # }
    /// # let (_, chunk) = compressor.finish(&blocks);
    /// # let merged = Merged::merge(&[(0, chunk)]);
    /// # let trace = Trace { blocks, segments, merged, ..Trace::default() };
    /// // `for (i = 0; i < 100_000; i++) sum += a[i];`
    /// let mut references = trace.references(0);
    /// assert_eq!(references.skip_ahead(90_000)?, 90_000);
    /// assert_eq!(references.next().unwrap()?.address, 8 * 90_000);
    /// # Ok::<(), refrain_memory::MemoryError>(())
    /// ```
    pub fn skip_ahead(&mut self, count: u64) -> Result<u64, MemoryError> {
        let mut skipped = 0;
        while skipped < count {
            if self.at < self.logical.len() {
                let step = (self.logical.len() - self.at).min((count - skipped) as usize);
                self.at += step;
                self.block.by_ref().take(step).for_each(drop);
                skipped += step as u64;
                continue;
            }
            if let Some(Records::Nests(player)) = &mut self.records {
                skipped += player.skip_references(count - skipped, &self.trace.blocks)?;
                if skipped == count {
                    break;
                }
            }
            if !self.next_block()? {
                break;
            }
        }
        Ok(skipped)
    }

    /// Advances to the next block that has references; false at the end.
    fn next_block(&mut self) -> Result<bool, MemoryError> {
        loop {
            let Some(records) = &mut self.records else {
                let Some(chunk) = self.trace.chunk(self.thread, self.next_chunk) else {
                    return Ok(false);
                };
                self.next_chunk += 1;
                self.records = Some(chunk?);
                continue;
            };
            match records.next_block(&mut self.logical, &self.trace.blocks)? {
                None => self.records = None,
                Some(block) => {
                    self.block = self.trace.blocks.get(block).unwrap_or_default().iter();
                    self.at = 0;
                    if !self.logical.is_empty() {
                        return Ok(true);
                    }
                }
            }
        }
    }
}

impl Iterator for References<'_> {
    type Item = Result<Access, MemoryError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let (Some(reference), Some(&logical)) =
                (self.block.next(), self.logical.get(self.at))
            {
                self.at += 1;
                let Reference { kind, size, pc } = *reference;
                let address = self.addresses.address(logical);
                return Some(Ok(Access { kind, size, pc, address }));
            }
            match self.next_block() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    // Nothing after a damaged record can be trusted.
                    (self.records, self.next_chunk) = (None, usize::MAX);
                    return Some(Err(error));
                }
            }
        }
    }
}
