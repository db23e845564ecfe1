//! Input: the memory that a malicious program shares with its compressor: the length of the published ledger (`u16`),
//! the head of a ring preceded by its length (`u16`), and the ledger. The target reads the ledger and drains the
//! ring as the compressor does.

#![no_main]

use libfuzzer_sys::fuzz_target;
use refrain_rings::consumer::{Program, SharedMemory};
use refrain_rings::layout::{CONTROL_BYTES, LEDGER_RANGE, MAGIC, RING_HEAD_BYTES, VERSION};
use refrain_rings::record::{Record, references};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The words of the ring.
const WORDS: usize = 1024;

fuzz_target!(|bytes: &[u8]| {
    let Some((written, rest)) = bytes.split_first_chunk() else { return };
    let Some((length, rest)) = rest.split_first_chunk() else { return };
    let Some((head, ledger)) = rest.split_at_checked(u16::from_le_bytes(*length).into()) else {
        return;
    };
    let path = path();
    let file = shared(&path, u16::from_le_bytes(*written), head, ledger);
    let _ = std::fs::remove_file(&path);
    drain(file);
});

/// The same file in every run of this process, in memory where that is possible.
fn path() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("refrain-fuzz-rings-{}", std::process::id()))
}

/// Writes a valid control page, a ledger, and a ring.
fn shared(path: &Path, written: u16, head: &[u8], ledger: &[u8]) -> File {
    let ledger_bytes = *LEDGER_RANGE.start();
    let ring_at = CONTROL_BYTES + ledger_bytes;
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path);
    let file = file.expect("a file to write");
    file.set_len((ring_at + RING_HEAD_BYTES + 8 * WORDS) as u64).expect("room");
    let put = |bytes: &[u8], at: usize| file.write_all_at(bytes, at as u64).expect("room");
    put(&MAGIC.to_le_bytes(), 0);
    put(&VERSION.to_le_bytes(), 8);
    put(&(ledger_bytes as u32).to_le_bytes(), 20);
    put(&u64::from(written).to_le_bytes(), 64);
    put(&ledger[..ledger.len().min(ledger_bytes)], CONTROL_BYTES);
    put(&head[..head.len().min(RING_HEAD_BYTES)], ring_at);
    file
}

fn drain(file: File) {
    let mut program =
        Program::open(SharedMemory::File(Arc::new(file))).expect("the control page is valid");
    let until = program.written();
    for _ in 0..1000 {
        let Ok(Some((record, bytes))) = program.peek(until) else { break };
        let ring = match record {
            Record::Thread { ring, ring_bytes, .. } => Some((ring, ring_bytes)),
            Record::Block { references: all, .. } => {
                references(all).for_each(drop);
                None
            }
            _ => None,
        };
        program.advance(bytes);
        if let Some((at, bytes)) = ring {
            let _ = program.ring(at, bytes);
        }
    }
    let at = CONTROL_BYTES + LEDGER_RANGE.start();
    let ring = program.ring(at as u64, (RING_HEAD_BYTES + 8 * WORDS) as u64);
    let mut ring = ring.expect("the ring is in the file");
    let mut words = Vec::new();
    for _ in 0..ring.waiting() {
        if ring.take(&mut words).is_err() {
            return;
        }
    }
    let _ = ring.take_rest(&mut words);
    assert!(words.len() <= WORDS * 65, "{} words", words.len());
}
