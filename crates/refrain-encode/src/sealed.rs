//! What will not change any more: held in memory, or put away in a file.
//!
//! An encoder in a running program must not grow with the run. Whoever owns it gives it, from time
//! to time, a place to put such bytes ([`crate::encoder::Encoder::put_away`]), and brings them back
//! when the trace is made. The encoder knows only where they are.

use refrain_signature::cells::{Cells, put_bytes, put_unsigned};

/// Bytes that are complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// Here they are.
    Held(Vec<u8>),
    /// They are in the file of such bytes.
    Away {
        /// From there on.
        at: u64,
        /// So many.
        length: u64,
    },
}

impl Sealed {
    /// How much memory they take.
    pub fn memory(&self) -> usize {
        match self {
            Sealed::Held(bytes) => bytes.len(),
            Sealed::Away { .. } => 0,
        }
    }

    /// The bytes, if they are here.
    pub fn held(&self) -> Option<&[u8]> {
        match self {
            Sealed::Held(bytes) => Some(bytes),
            Sealed::Away { .. } => None,
        }
    }

    /// Puts them away; `store` says where they begin now. Whether they are away.
    pub fn put_away(&mut self, store: &mut dyn FnMut(&[u8]) -> Option<u64>) -> bool {
        if let Sealed::Held(bytes) = self {
            let Some(at) = store(bytes) else { return false };
            *self = Sealed::Away { at, length: bytes.len() as u64 };
        }
        true
    }

    /// Brings them back; whether they are here.
    pub fn bring_back(&mut self, fetch: &mut dyn FnMut(u64, u64) -> Option<Vec<u8>>) -> bool {
        if let Sealed::Away { at, length } = *self {
            let Some(bytes) = fetch(at, length) else { return false };
            *self = Sealed::Held(bytes);
        }
        true
    }

    /// Writes them, or where they are.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Sealed::Held(bytes) => {
                out.push(0);
                put_bytes(out, bytes);
            }
            Sealed::Away { at, length } => {
                out.push(1);
                put_unsigned(out, *at);
                put_unsigned(out, *length);
            }
        }
    }

    /// Reads what was written.
    pub fn get(cells: &mut Cells<'_>) -> Option<Sealed> {
        match cells.take(1)? {
            [0] => Some(Sealed::Held(cells.get_bytes()?.to_vec())),
            [1] => Some(Sealed::Away { at: cells.get_unsigned()?, length: cells.get_unsigned()? }),
            _ => None,
        }
    }
}
