//! Any file, opened as a trace and read to the end. Checksums are corrected first: otherwise the code after
//! the check would never be reached.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

thread_local! {
    static FILE: OnceCell<PathBuf> = const { OnceCell::new() };
}

/// A file of this process, in memory where that is possible.
fn file() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("refrain-fuzz-{}.refrain", std::process::id()))
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    mend(&mut bytes);
    FILE.with(|path| {
        let path = path.get_or_init(file);
        std::fs::write(path, &bytes).expect("a file to write");
        for error in
            refrain_testing::walk::walk(path, 300).into_iter().flat_map(|(_, errors)| errors)
        {
            assert!(error.contains("section `"), "{error}");
        }
        let _ = std::fs::remove_file(path);
    });
});

/// Corrects the checksums of the sections and of the directory, if there are any.
fn mend(bytes: &mut [u8]) {
    for at in 0..bytes.len() {
        mend_section(bytes, at);
    }
    mend_directory(bytes);
}

fn mend_section(bytes: &mut [u8], at: usize) -> Option<()> {
    let head = bytes.get(at..at + 8).filter(|head| head[..2] == [0xa7, b'S'])?;
    let (codec, name) = (head[2], usize::from(head[3]));
    let (stored, next) = match codec & 0x80 {
        0 => {
            let (stored, next) = varint(bytes, at + 8)?;
            (stored, varint(bytes, next)?.1)
        }
        _ => (u64::from_le_bytes(*bytes.get(at + 8..)?.first_chunk()?), at + 24),
    };
    let end = (next + name).checked_add(usize::try_from(stored).ok()?)?;
    let mut hashed = vec![codec & 0x7f];
    hashed.extend(bytes.get(next..end)?);
    let checksum = XxHash3_64::oneshot(&hashed) as u32;
    bytes[at + 4..at + 8].copy_from_slice(&checksum.to_le_bytes());
    Some(())
}

fn mend_directory(bytes: &mut [u8]) -> Option<()> {
    let trailer = bytes.len().checked_sub(12)?;
    let length = u32::from_le_bytes(*bytes[trailer + 4..].first_chunk()?) as usize;
    let checksum = XxHash3_64::oneshot(&bytes[trailer.checked_sub(length)?..trailer]) as u32;
    bytes[trailer..trailer + 4].copy_from_slice(&checksum.to_le_bytes());
    Some(())
}

fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for (i, byte) in bytes.get(at..)?.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if *byte < 0x80 {
            return Some((value, at + i + 1));
        }
    }
    None
}
