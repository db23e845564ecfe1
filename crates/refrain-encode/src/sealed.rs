//! Complete data that never changes again, either in memory or spilled to a file.
//!
//! The memory of an encoder inside a running program must stay bounded. Its owner therefore writes
//! sealed bytes to a file from time to time ([`crate::encoder::Encoder::spill`]) and loads them
//! when the trace is made. The encoder only stores their position in that file.

use refrain_signature::cells::{Cells, put_bytes, put_unsigned};

/// Sealed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// The bytes.
    InMemory(Vec<u8>),
    /// The bytes are in the file of spilled data.
    Spilled {
        /// Their offset in the file.
        at: u64,
        /// Their number.
        length: u64,
    },
}

impl Sealed {
    /// Bytes of memory used.
    pub fn memory(&self) -> usize {
        match self {
            Sealed::InMemory(bytes) => bytes.len(),
            Sealed::Spilled { .. } => 0,
        }
    }

    /// The bytes, if they are in memory.
    pub fn in_memory(&self) -> Option<&[u8]> {
        match self {
            Sealed::InMemory(bytes) => Some(bytes),
            Sealed::Spilled { .. } => None,
        }
    }

    /// Spills the bytes with `store`, which returns their offset. Returns whether they are spilled.
    pub fn spill(&mut self, store: &mut dyn FnMut(&[u8]) -> Option<u64>) -> bool {
        if let Sealed::InMemory(bytes) = self {
            let Some(at) = store(bytes) else { return false };
            *self = Sealed::Spilled { at, length: bytes.len() as u64 };
        }
        true
    }

    /// Loads spilled bytes with `fetch`. Returns whether they are in memory.
    pub fn load(&mut self, fetch: &mut dyn FnMut(u64, u64) -> Option<Vec<u8>>) -> bool {
        if let Sealed::Spilled { at, length } = *self {
            let Some(bytes) = fetch(at, length) else { return false };
            *self = Sealed::InMemory(bytes);
        }
        true
    }

    /// Writes the bytes or their position.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Sealed::InMemory(bytes) => {
                out.push(0);
                put_bytes(out, bytes);
            }
            Sealed::Spilled { at, length } => {
                out.push(1);
                put_unsigned(out, *at);
                put_unsigned(out, *length);
            }
        }
    }

    /// Reads what [`Sealed::put`] wrote.
    pub fn get(cells: &mut Cells<'_>) -> Option<Sealed> {
        match cells.take(1)? {
            [0] => Some(Sealed::InMemory(cells.get_bytes()?.to_vec())),
            [1] => {
                Some(Sealed::Spilled { at: cells.get_unsigned()?, length: cells.get_unsigned()? })
            }
            _ => None,
        }
    }
}
