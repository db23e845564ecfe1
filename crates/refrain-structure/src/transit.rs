//! A merged trace as a message between ranks: the streams of [`crate::write`] without per-rank
//! residues.

use crate::merged::Merged;
use crate::{read, write};
use refrain_signature::cells::{Cells, put_bytes};

/// To bytes.
pub fn to_bytes(merged: &Merged) -> Vec<u8> {
    let streams = write::write(merged);
    let mut out = Vec::new();
    put_bytes(&mut out, &streams.structure);
    put_bytes(&mut out, &streams.timing);
    out
}

/// From bytes; `None` if they are malformed.
pub fn from_bytes(bytes: &[u8]) -> Option<Merged> {
    let mut cells = Cells::new(bytes);
    let (structure, timing) = (cells.get_bytes()?, cells.get_bytes()?);
    let rows = timing.len() / read::ROW_TIMING;
    let mut merged = read::structure_of_rows(structure, rows).ok()?;
    read::timing(&mut merged, timing).ok()?;
    cells.is_empty().then_some(merged)
}
