//! How far the recording is, on a terminal.

use crate::progress::Progress;
use crate::summary::{grouped, size};
use refrain_memrecord::part::progress;
use std::path::Path;
use std::time::Instant;

/// Bytes of an uncompressed reference: a block's number and an address.
const RAW: u64 = 16;

/// Begins to watch a folder of parts.
pub fn start(parts: &Path) -> Progress {
    let (start, parts) = (Instant::now(), parts.to_owned());
    Progress::start(move || {
        let (references, bytes) = progress(&parts);
        (references > 0).then(|| line(start, references, bytes))
    })
}

fn line(start: Instant, references: u64, bytes: u64) -> String {
    let seconds = start.elapsed().as_secs_f64();
    let rate = references as f64 / seconds / 1e6;
    let mut line = format!("{} references, {rate:.1} M/s", grouped(references));
    if let Some(ratio) = (references * RAW).checked_div(bytes) {
        line += &format!(", {} put away, {} times smaller", size(bytes), grouped(ratio));
    }
    line
}
