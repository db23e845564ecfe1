//! Reading a record, a chunk at a time.

use std::collections::VecDeque;
use std::io::{self, Read};

use crate::OrderError;
use refrain_bytes::stable::fnv1a_32;
use refrain_bytes::varint;

use crate::clock::chunk::{Chunk, Head, take_chunks};

/// Bytes of a frame. Recorders stay far below.
const MOST: u64 = 1 << 26;

/// Reads frames from anywhere, and keeps one of them at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    body: Vec<u8>,
    /// Chunks of the last frame that are still to be read, with the number of the first.
    chunks: VecDeque<Chunk>,
    number: u64,
    /// What was read of the record by now, without these chunks.
    known: Head,
    /// Why it ended before the end.
    cut: Option<OrderError>,
}

impl<R: Read> Reader<R> {
    /// Reads from there.
    pub fn new(input: R) -> Self {
        Self {
            input,
            body: Vec::new(),
            chunks: VecDeque::new(),
            number: 0,
            known: Head::default(),
            cut: None,
        }
    }

    /// Why reading stopped before the end of the input, if it did: a killed process leaves half a
    /// frame, and all before it can be read.
    pub fn cut(&self) -> Option<OrderError> {
        self.cut
    }

    /// The next frame's body; nothing at the end, or where the record is cut short.
    pub fn next_body(&mut self) -> Option<&[u8]> {
        if self.cut.is_some() {
            return None;
        }
        match self.read_body() {
            Ok(true) => Some(&self.body),
            Ok(false) => None,
            Err(error) => {
                self.cut = Some(error);
                None
            }
        }
    }

    fn read_body(&mut self) -> Result<bool, OrderError> {
        let Some(length) = self.length()? else { return Ok(false) };
        if length > MOST {
            return Err(OrderError::OutOfRange("size"));
        }
        self.body.clear();
        let got = (&mut self.input).take(length).read_to_end(&mut self.body);
        if got.map_err(|_| OrderError::Truncated)? as u64 != length {
            return Err(OrderError::Truncated);
        }
        let mut sum = [0; 4];
        self.input.read_exact(&mut sum).map_err(|_| OrderError::Truncated)?;
        if sum == fnv1a_32(&self.body).to_le_bytes() { Ok(true) } else { Err(OrderError::Damaged) }
    }

    /// A frame's length; nothing at the end.
    fn length(&mut self) -> Result<Option<u64>, OrderError> {
        varint::read(&mut self.input).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => OrderError::OutOfRange("size"),
            _ => OrderError::Truncated,
        })
    }

    /// The next chunk; nothing at the end, or where the record is cut short.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>, OrderError> {
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                self.number += 1;
                return Ok(Some(chunk));
            }
            let Some(body) = self.next_body() else { return Ok(None) };
            let Some((head, chunks)) = take_chunks(body)? else { continue };
            if head.number != self.number {
                return Err(OrderError::Missing);
            }
            self.known.add(&head);
            self.chunks = chunks.into();
        }
    }

    /// What the frames say of which chunks were read: sums, and whether that was all.
    pub fn known(&self) -> &Head {
        &self.known
    }
}
