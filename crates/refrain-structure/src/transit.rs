//! A merged trace as a message between ranks: the structure of [`crate::write`] and exact statistics, without per-rank
//! residues.

use crate::merged::Merged;
use crate::times::Times;
use crate::{read, write};
use refrain_signature::cells::{Cells, put_bytes};

/// To bytes.
pub fn to_bytes(merged: &Merged) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, &write::structure(merged));
    merged.times.put(&mut out);
    out
}

/// From bytes; `None` if they are malformed.
pub fn from_bytes(bytes: &[u8]) -> Option<Merged> {
    let mut cells = Cells::new(bytes);
    let mut merged = read::structure(cells.get_bytes()?).ok()?;
    merged.times = Times::get(&mut cells)?;
    cells.is_empty().then_some(merged)
}
