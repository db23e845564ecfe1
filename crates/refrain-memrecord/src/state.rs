//! The state of a process's compressor, as bytes.

use refrain_bytes::varint::{put, put_bytes, take, take_bytes};
use refrain_memory::{Merged, Segments};
use refrain_memtrace::TraceError;
use refrain_memtrace::code::Code;
use refrain_memtrace::error::within;
use refrain_memtrace::process::{ProcessFacts, VERSION, decode_numbers, encode_numbers};
use std::path::Path;

/// Everything that a compressor knows about its process.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Facts.
    pub facts: ProcessFacts,
    /// Its code.
    pub code: Code,
    /// Its segments.
    pub segments: Segments,
    /// The open chunks of nests of its threads.
    pub merged: Merged,
    /// How many bytes of the file of sealed chunks belong to this state.
    pub sealed: u64,
    /// The open coded chunks of its threads, in the form of sealed chunks. They follow the sealed ones.
    pub open_coded: Vec<u8>,
    /// For each block number used in coded and sealed chunks and raw words, the block's number in `code`.
    pub numbers: Vec<u32>,
}

/// Stands for a host name that is left out.
const REDACTED: &str = "redacted";

impl State {
    /// Leaves out what `--redact` keeps private: the name of the host, and the folders of files. `parts` is the
    /// folder of parts, which the reason for a truncation may name.
    pub fn redact(&mut self, parts: &Path) {
        let file_name =
            |path: &mut String| *path = path.rsplit('/').next().unwrap_or(path).to_owned();
        self.facts.host = REDACTED.to_owned();
        self.facts.lost = without_folder(&self.facts.lost, parts);
        file_name(&mut self.facts.program);
        self.code.modules.values_mut().for_each(|module| file_name(&mut module.path));
    }

    /// Whether there are chunks apart from the open chunks of nests.
    pub fn has_chunks(&self) -> bool {
        self.sealed > 0 || !self.open_coded.is_empty()
    }

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
        piece(&|bytes| bytes.extend(&self.open_coded));
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
        // Until version 3, coded chunks were sealed before a state was written.
        let open_coded = if version < 4 { &[] } else { take_bytes(input)? }.to_vec();
        Ok(Self { facts, code, segments, merged, sealed, open_coded, numbers })
    }
}

/// A message without the folder of the files that it names.
pub fn without_folder(message: &str, folder: &Path) -> String {
    message.replace(&format!("{}/", folder.display()), "")
}
