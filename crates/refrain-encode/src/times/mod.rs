//! Records the times of every call, with `--timing`; [`refrain_signature::times`] describes their format.

mod pending;
mod recorder;

pub use recorder::Recorder;
pub use refrain_signature::setting::Setting;

use crate::sealed::Sealed;
use refrain_signature::cells::{Cells, put_unsigned};

/// The times of consecutive calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// How many calls.
    pub calls: u32,
    /// A list of start times: the first call's, and that of every
    /// [`EXACT_EVERY`](refrain_signature::times::EXACT_EVERY)th call after it, each as the difference from the
    /// previous one, in ticks. The output of [`refrain_timing::encode`] follows.
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
