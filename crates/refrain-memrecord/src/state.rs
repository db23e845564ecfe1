//! The state of a process's compressor, as bytes.

use refrain_bytes::varint::{put, put_bytes, take, take_bytes};
use refrain_memory::{Merged, Segments};
use refrain_memtrace::TraceError;
use refrain_memtrace::code::Code;
use refrain_memtrace::error::within;
use refrain_memtrace::process::{ProcessFacts, VERSION, decode_numbers, encode_numbers};

/// Everything that a compressor knows of its process.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Facts.
    pub facts: ProcessFacts,
    /// Its code.
    pub code: Code,
    /// Its segments.
    pub segments: Segments,
    /// The open chunks of its threads.
    pub merged: Merged,
    /// Bytes of sealed chunks.
    pub sealed: u64,
    /// The number that each block has here, by the number that it had in sealed chunks and raw
    /// words.
    pub numbers: Vec<u32>,
}

impl State {
    /// The bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, VERSION);
        self.facts.encode(&mut out);
        put(&mut out, self.sealed);
        let mut piece = |encode: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            encode(&mut bytes);
            put_bytes(&mut out, &bytes);
        };
        piece(&|bytes| self.code.encode(bytes));
        piece(&|bytes| self.segments.encode(bytes));
        piece(&|bytes| self.merged.encode(bytes));
        piece(&|bytes| encode_numbers(&self.numbers, bytes));
        out
    }

    /// Reads bytes.
    pub fn from_bytes(mut input: &[u8]) -> Result<Self, TraceError> {
        let input = &mut input;
        let version = match take(input)? {
            version @ 1..=VERSION => version,
            version => return Err(TraceError::Newer(version)),
        };
        let facts = ProcessFacts::decode(input, version)?;
        let sealed = take(input)?;
        let code = Code::decode(&mut take_bytes(input)?)?;
        let segments = within("segments", Segments::decode(&mut take_bytes(input)?))?;
        let merged = within("threads", Merged::decode(&mut take_bytes(input)?))?;
        let numbers = decode_numbers(take_bytes(input)?)?;
        Ok(Self { facts, code, segments, merged, sealed, numbers })
    }
}
