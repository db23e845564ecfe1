//! Reading a record, a chunk at a time.

use std::collections::VecDeque;
use std::io::{self, Read};

use crate::OrderError;
use refrain_bytes::stable::fnv1a_32;
use refrain_bytes::varint;

use crate::clock::chunk::{Chunk, Head, take_chunks};

/// The most bytes of a frame. Recorders stay far below.
const MOST: u64 = 1 << 26;

/// Reads frames from an input, and holds one of them at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    body: Vec<u8>,
    /// Chunks of the last frame that were not returned yet, and the number of the first.
    chunks: VecDeque<Chunk>,
    number: u64,
    /// The sum of the heads that were read.
    known: Head,
    /// Why the record is truncated.
    truncated: Option<OrderError>,
}

impl<R: Read> Reader<R> {
    /// Reads from an input.
    pub fn new(input: R) -> Self {
        Self {
            input,
            body: Vec::new(),
            chunks: VecDeque::new(),
            number: 0,
            known: Head::default(),
            truncated: None,
        }
    }

    /// Why reading stopped before the end of the input, if it did. A killed process may leave an incomplete frame; all
    /// frames before it can be read.
    pub fn truncated(&self) -> Option<OrderError> {
        self.truncated
    }

    /// The next frame's body; `None` at the end, and where the record is truncated.
    pub fn next_body(&mut self) -> Option<&[u8]> {
        if self.truncated.is_some() {
            return None;
        }
        match self.read_body() {
            Ok(true) => Some(&self.body),
            Ok(false) => None,
            Err(error) => {
                self.truncated = Some(error);
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

    /// A frame's length; `None` at the end.
    fn length(&mut self) -> Result<Option<u64>, OrderError> {
        varint::read(&mut self.input).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => OrderError::OutOfRange("size"),
            _ => OrderError::Truncated,
        })
    }

    /// The next chunk; `None` at the end, and where the record is truncated.
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

    /// The sum of the heads of all frames that were read.
    pub fn known(&self) -> &Head {
        &self.known
    }
}
