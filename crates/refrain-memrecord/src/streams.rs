//! The streams of a process's threads, each with a compressor of its own.

use crate::part::{RawWriter, SealedWriter, WriteError};
use crate::tables::Tables;
use refrain_memory::{Blocks, Chunk, Compressor, Trace};
use refrain_rings::consumer::Ring;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A thread's stream.
#[derive(Debug)]
pub struct Stream {
    /// The thread.
    pub thread: u32,
    /// Its compressor.
    pub work: Mutex<Work>,
}

/// The compressor of a stream.
#[derive(Debug)]
pub struct Work {
    /// The ring; `None` when the thread has ended and its ring is empty.
    pub ring: Option<Ring>,
    compressor: Compressor,
    words: Vec<u64>,
    /// How many words were compressed.
    taken: u64,
    /// How long compressing them took.
    pub compressing: Duration,
    /// Full chunks that are not written yet, the oldest first.
    pub sealed: VecDeque<Vec<u8>>,
}

/// Why a stream cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The ring is damaged.
    #[error("the memory that the program shares is damaged: {0}")]
    Ring(#[from] io::Error),
    /// Raw words cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The words of a ring are not records.
    #[error("the memory that the program shares is damaged: a thread's words are not records")]
    NoRecord,
    /// The compressor refused the words.
    #[error(transparent)]
    Memory(#[from] refrain_memory::MemoryError),
}

impl Stream {
    /// The stream of a new thread.
    pub fn new(thread: u32, ring: Ring, window: Option<usize>) -> Self {
        let compressor = window.map_or_else(Compressor::new, Compressor::with_chunks_of);
        let work = Work {
            ring: Some(ring),
            compressor,
            words: Vec::new(),
            taken: 0,
            compressing: Duration::ZERO,
            sealed: VecDeque::new(),
        };
        Self { thread, work: Mutex::new(work) }
    }
}

impl Work {
    /// How many of the ring's published parts need no more of the ledger than its first `ledger` bytes.
    pub fn ready(&self, ledger: u64) -> u64 {
        let Some(ring) = &self.ring else { return 0 };
        (0..ring.waiting()).take_while(|nth| ring.ledger_of(*nth) <= ledger).count() as u64
    }

    /// Compresses the next `parts` parts.
    pub fn take(
        &mut self,
        parts: u64,
        thread: u32,
        tables: &Tables,
        raw: Option<&Mutex<RawWriter>>,
    ) -> Result<(), StreamError> {
        for _ in 0..parts {
            let Some(ring) = &mut self.ring else { break };
            self.words.clear();
            ring.take(&mut self.words)?;
            self.push(thread, tables, raw)?;
        }
        Ok(())
    }

    /// Compresses what a thread that has ended wrote and did not publish.
    pub fn take_unpublished(
        &mut self,
        thread: u32,
        tables: &Tables,
        raw: Option<&Mutex<RawWriter>>,
    ) -> Result<(), StreamError> {
        if let Some(mut ring) = self.ring.take() {
            self.words.clear();
            if ring.take_rest(&mut self.words)? {
                self.words.truncate(complete(&self.words, &tables.lengths));
            }
            self.push(thread, tables, raw)?;
        }
        Ok(())
    }

    fn push(
        &mut self,
        thread: u32,
        tables: &Tables,
        raw: Option<&Mutex<RawWriter>>,
    ) -> Result<(), StreamError> {
        if let Some(raw) = raw
            && let Ok(mut raw) = raw.lock()
        {
            raw.write(thread, &self.words)?;
        }
        let began = Instant::now();
        let (blocks, segments) = (&tables.code.blocks, &tables.segments);
        let pushed = self.compressor.push_words(&self.words, blocks, segments)?;
        self.taken += pushed as u64;
        if pushed != self.words.len() {
            return Err(StreamError::NoRecord);
        }
        self.sealed.extend(self.compressor.take_sealed());
        self.compressing += began.elapsed();
        Ok(())
    }

    /// References so far: the words that are not block numbers.
    pub fn references(&self) -> u64 {
        self.taken - self.compressor.executed()
    }

    /// If a full chunk could not be written, forgets it and everything after it: a stream has no gaps.
    pub fn truncate(&mut self, tables: &Tables) {
        // Coded records can be kept only as a full chunk.
        self.seal_coded(0);
        if self.sealed.is_empty() {
            return;
        }
        let (references, blocks) = (self.references(), &tables.code.blocks);
        let mut unwritten: Vec<Vec<u8>> = std::mem::take(&mut self.sealed).into();
        let (rest, chunk) = std::mem::take(&mut self.compressor).finish(blocks);
        unwritten.extend(rest);
        unwritten.push(chunk.finish().to_bytes());
        self.taken = references.saturating_sub(references_in(unwritten, blocks));
    }

    /// Appends full chunks to the file. A chunk that cannot be written stays.
    pub fn write_sealed(&mut self, thread: u32, file: &mut SealedWriter) -> Result<(), WriteError> {
        while let Some(chunk) = self.sealed.front() {
            file.write(thread, chunk)?;
            self.sealed.pop_front();
        }
        Ok(())
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.taken = 0;
        self.sealed.clear();
        self.compressor = Compressor::new();
    }

    /// The chunk that is still open, as if the stream ended here.
    pub fn open_chunk(&self, tables: &Tables) -> Chunk {
        self.compressor.open_chunk(&tables.code.blocks)
    }

    /// The coded chunk that is still open, as if it ended here.
    pub fn open_coded(&self) -> Option<Vec<u8>> {
        self.compressor.open_coded()
    }

    /// Seals the coded records that are open, if they take at least so many bytes.
    pub fn seal_coded(&mut self, bytes: usize) {
        self.compressor.seal_coded_of(bytes);
        self.sealed.extend(self.compressor.take_sealed());
    }

    /// Ends the stream. An open irregular chunk is sealed.
    pub fn settle(&mut self, tables: &Tables) {
        self.compressor.settle(&tables.code.blocks);
        self.sealed.extend(self.compressor.take_sealed());
    }

    /// The last chunk of a stream that has ended.
    pub fn last_chunk(&mut self, tables: &Tables) -> Chunk {
        self.taken = self.references();
        std::mem::take(&mut self.compressor).finish(&tables.code.blocks).1
    }
}

/// How many references chunks hold.
fn references_in(chunks: Vec<Vec<u8>>, blocks: &Blocks) -> u64 {
    let sealed = BTreeMap::from([(0, chunks)]);
    let trace = Trace { blocks: blocks.clone(), sealed, ..Trace::default() };
    trace.references(0).take_while(Result::is_ok).count() as u64
}

/// How many words of a ring are complete records. A 0 ends the records. The last record before it is left out,
/// because the thread may have been writing it.
fn complete(words: &[u64], lengths: &[u32]) -> usize {
    let (mut last, mut at) = (0, 0);
    while let Some(&number @ 1..) = words.get(at) {
        let Some(length) = usize::try_from(number).ok().and_then(|number| lengths.get(number))
        else {
            break;
        };
        last = at;
        at += 1 + *length as usize;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_may_be_incomplete_is_left_out() {
        let lengths = [0, 1, 2, 0];
        assert_eq!(complete(&[1, 7, 2, 8, 9, 0, 5], &lengths), 2);
        assert_eq!(complete(&[1, 7, 3, 0], &lengths), 2);
        assert_eq!(complete(&[0, 1, 7], &lengths), 0);
        assert_eq!(complete(&[1, 7, 9, 1], &lengths), 0);
        assert_eq!(complete(&[], &lengths), 0);
    }
}
