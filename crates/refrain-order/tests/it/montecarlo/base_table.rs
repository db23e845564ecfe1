//! The uncompressed base table of the paper (Sato et al., §3.1, figure 4): rows of count, flag, with_next, rank and
//! clock.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Action, Script};

/// A rank's rows: 64 bits of count, flags in a byte, 32 bits of rank, 64 bits of clock.
pub fn base_table(script: &Script) -> Vec<u8> {
    let mut rows = Vec::new();
    let mut row = |count: u64, flags: u8, rank: u32, clock: u64| {
        rows.extend_from_slice(&count.to_le_bytes());
        rows.push(flags);
        rows.extend_from_slice(&rank.to_le_bytes());
        rows.extend_from_slice(&clock.to_le_bytes());
    };
    let mut failed = 0;
    for action in &script.actions {
        let Action::Found(_, found) = action else {
            failed += 1;
            continue;
        };
        if failed > 0 {
            row(std::mem::take(&mut failed), 0, 0, 0);
        }
        for (n, (_, stamp)) in found.iter().enumerate() {
            row(1, 1 | u8::from(n + 1 < found.len()) << 1, stamp.sender, stamp.clock);
        }
    }
    rows
}

/// The size of these bytes after gzip -6.
pub fn zipped(bytes: &[u8]) -> u64 {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
    gzip.write_all(bytes).and_then(|()| gzip.finish()).map_or(0, |bytes| bytes.len() as u64)
}
