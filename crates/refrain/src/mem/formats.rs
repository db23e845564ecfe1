//! References in the formats of other programs.

use refrain_memory::{Access, Kind};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Dinero IV, extended (`-informat D`): r or w, address, size.
    Din,
    /// As the `view` tool of DynamoRIO's drmemtrace prints records.
    Drmemtrace,
}

impl Format {
    /// A reference; `record` counts from 1.
    pub fn line(self, record: u64, thread: u32, access: &Access) -> String {
        let Access { kind, size, pc, address } = access;
        // An atomic operation is one access, which writes.
        let is_load = *kind == Kind::Load;
        match self {
            Self::Din => format!("{} {address:x} {size:x}", if is_load { 'r' } else { 'w' }),
            Self::Drmemtrace => {
                let word = if is_load { "read " } else { "write" };
                format!(
                    "{record:>12} {:>12}: {thread:>11} {word} {size:>3} byte(s) @ 0x{address:016x} by \
                     PC 0x{pc:016x}",
                    0
                )
            }
        }
    }
}
