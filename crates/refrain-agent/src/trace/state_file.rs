//! The state of this process on disk. A new one is written in pieces beside the previous one, and both are
//! exchanged when the new one is whole ([`refrain_format::state`]). The encoder must not change meanwhile.

use crate::trace::part;
use refrain_encode::encoder::{Encoder, Saving};
use refrain_format::state::{CHUNK, HEAD, Sum};
use refrain_signature::cells::{put_list, put_unsigned};
use std::ffi::{CString, c_int};

/// So many bytes are encoded between two looks at the clock.
const STEP: usize = 512;

/// A state that is being written.
pub struct StateFile {
    /// By thread: the position up to which it covers the log.
    pub covered: Vec<u64>,
    saving: Saving,
    /// What is not in the file yet.
    bytes: Vec<u8>,
    /// The length of the file.
    length: u64,
    sum: Sum,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Content,
    Head,
    Exchange,
}

/// The files of a process's state.
pub struct Paths {
    state: CString,
    new: CString,
}

impl Paths {
    /// The paths of a state and of its successor.
    pub fn new(state: CString) -> Option<Paths> {
        let new = CString::new([state.as_bytes(), b".new"].concat()).ok()?;
        Some(Paths { state, new })
    }

    /// Removes the successor, or what was the state before.
    pub fn remove_new(&self) {
        part::remove_file(&self.new);
    }
}

impl StateFile {
    /// The state of an encoder that has encoded each thread's log up to these positions.
    pub fn begin(covered: &[u64]) -> StateFile {
        let mut bytes = Vec::with_capacity(2 * CHUNK);
        put_list(&mut bytes, covered.iter().enumerate(), |out, (thread, position)| {
            put_unsigned(out, thread as u64);
            put_unsigned(out, *position);
        });
        let (saving, covered) = (Saving::default(), covered.to_vec());
        let (length, sum, stage) = (HEAD as u64, Sum::default(), Stage::Content);
        StateFile { covered, saving, bytes, length, sum, stage }
    }

    /// The bytes that are written.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes a piece: a few system calls, or content until `is_over`. Returns whether the state is in its place.
    pub fn write_some(
        &mut self,
        paths: &Paths,
        encoder: &Encoder,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<bool, c_int> {
        match self.stage {
            Stage::Content if self.bytes.len() < CHUNK => {
                let mut is_whole = false;
                while !is_whole && self.bytes.len() < CHUNK {
                    let enough = self.bytes.len() + STEP;
                    is_whole = encoder.save_some(&mut self.saving, &mut self.bytes, enough);
                    if !is_whole && is_over() {
                        return Ok(false);
                    }
                }
                if is_whole {
                    self.stage = Stage::Head;
                }
            }
            Stage::Content => self.write_chunk(paths)?,
            Stage::Head if !self.bytes.is_empty() => self.write_chunk(paths)?,
            Stage::Head => {
                part::write_at(&paths.new, &self.sum.head(), 0)?;
                self.stage = Stage::Exchange;
            }
            Stage::Exchange => {
                part::exchange_files(&paths.new, &paths.state, self.length)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn write_chunk(&mut self, paths: &Paths) -> Result<(), c_int> {
        let chunk = self.bytes.get(..CHUNK).unwrap_or(&self.bytes);
        part::write_at(&paths.new, chunk, self.length)?;
        self.sum.add(chunk);
        self.length += chunk.len() as u64;
        let written = chunk.len();
        self.bytes.drain(..written);
        Ok(())
    }
}
