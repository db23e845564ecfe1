//! Records the times of every call, where they are asked for; [`refrain_signature::times`] describes them.

mod pending;
mod recorder;

pub use recorder::Recorder;
pub use refrain_signature::setting::Setting;

use crate::sealed::Sealed;
use refrain_signature::cells::{Cells, put_unsigned};

/// Times of some calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// How many.
    pub calls: u32,
    /// A list of ticks, from the first call's start to that of every [`EXACT_EVERY`](refrain_signature::times::EXACT_EVERY)th after it, each
    /// counted from the one before; then what [`refrain_timing::encode`] writes.
    pub bytes: Sealed,
}

impl Block {
    fn put(&self, out: &mut Vec<u8>) {
        put_unsigned(out, self.calls.into());
        self.bytes.put(out);
    }

    fn get(cells: &mut Cells<'_>) -> Option<Block> {
        Some(Block { calls: cells.get_u32()?, bytes: Sealed::get(cells)? })
    }
}
