//! Writing and reading containers, whole and damaged.

use super::*;
use std::fs::File;
use std::io::Read;
use twox_hash::XxHash3_64;

fn sample(dir: &Path) -> PathBuf {
    let path = dir.join("t.refrain");
    let mut writer = Writer::create(&path).unwrap();
    writer.add_bytes("hi", b"abc").unwrap();
    writer.add("packed", Codec::Zstd, &mut &[7; 5000][..]).unwrap();
    let size = writer.finish().unwrap();
    assert_eq!(size, std::fs::metadata(&path).unwrap().len());
    path
}

#[test]
fn sections_read_back_as_written() {
    let dir = tempfile::tempdir().unwrap();
    let container = Container::open(&sample(dir.path())).unwrap();
    assert_eq!(container.read_checked("hi").unwrap(), b"abc");
    assert_eq!(container.read_checked("packed").unwrap(), [7; 5000]);
    assert!(container.section("packed").unwrap().stored < 100);
    assert!(!container.is_recovered());
}

#[test]
fn the_worked_example_is_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(sample(dir.path())).unwrap();
    assert_eq!(&bytes[..8], b"\x89REFRAIN");
    assert_eq!(&bytes[0x0c..0x10], b"\xa7S\0\x02");
    let checksum = XxHash3_64::oneshot(b"\0hiabc") as u32;
    assert_eq!(&bytes[0x10..0x14], &checksum.to_le_bytes());
    assert_eq!(&bytes[0x14..0x1b], b"\x03\x03hiabc");
}

#[test]
fn a_file_truncated_at_any_byte_gives_a_clear_error_or_its_complete_sections() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(sample(dir.path())).unwrap();
    let truncated = dir.path().join("truncated.refrain");
    for n in 0..whole.len() {
        std::fs::write(&truncated, &whole[..n]).unwrap();
        match Container::open(&truncated) {
            Err(ContainerError::NotRefrain { .. }) => assert!(n < 12),
            Err(other) => panic!("{n}: {other}"),
            Ok(container) => {
                assert!(container.is_recovered());
                for section in container.sections() {
                    container.read_checked(&section.name).unwrap();
                }
            }
        }
    }
}

#[test]
fn reasons_are_words_for_users() {
    const ENOSPC: i32 = 28;
    let full = reason(&io::Error::from_raw_os_error(ENOSPC));
    assert_eq!(full, "the disk is full (No space left on device)");
    let short = Read::read_exact(&mut io::empty(), &mut [0]).unwrap_err();
    assert_eq!(reason(&short), "the file ends in the middle");
    let missing = reason(&File::open("/no/such/file").unwrap_err());
    assert_eq!(missing, "No such file or directory");
}

/// Whether a file of these bytes passes [`Container::verify`].
fn is_intact(folder: &Path, bytes: &[u8]) -> bool {
    let path = folder.join("changed.refrain");
    std::fs::write(&path, bytes).unwrap();
    Container::open(&path).is_ok_and(|container| container.verify().problems.is_empty())
}

#[test]
fn inserted_removed_and_changed_bytes_are_found_at_every_offset() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(sample(dir.path())).unwrap();
    assert!(is_intact(dir.path(), &whole));
    for at in 0..=whole.len() {
        for count in [1, 2, 100] {
            for byte in [0, 0xa7, 0xff] {
                let inserted = [&whole[..at], &vec![byte; count], &whole[at..]].concat();
                assert!(!is_intact(dir.path(), &inserted), "{count} of {byte:#x} at {at}");
            }
        }
        if at < whole.len() {
            let removed = [&whole[..at], &whole[at + 1..]].concat();
            assert!(!is_intact(dir.path(), &removed), "without byte {at}");
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                assert!(!is_intact(dir.path(), &changed), "bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn bytes_between_sections_are_named_by_their_offset() {
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(sample(dir.path())).unwrap();
    // The directory: a number of sections, and two offsets of a byte each.
    let directory = whole.len() - TRAILER_BYTES - 3;
    let inserted = [&whole[..directory], &[0; 100], &whole[directory..]].concat();
    let path = dir.path().join("inserted.refrain");
    std::fs::write(&path, inserted).unwrap();
    let integrity = Container::open(&path).unwrap().verify();
    assert_eq!(integrity.intact, 2);
    let [problem] = &integrity.problems[..] else { panic!("{integrity:?}") };
    assert!(problem.starts_with(&format!("100 bytes at offset {directory} ")), "{problem}");
}

#[test]
fn a_changed_byte_is_detected_and_its_section_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[0x19] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let container = Container::open(&path).unwrap();
    let error = container.read_checked("hi").unwrap_err().to_string();
    assert!(error.contains("section `hi` is damaged"), "{error}");
    container.read_checked("packed").unwrap();
}

#[test]
fn sections_of_every_size_and_kind_read_back_and_are_smaller_if_they_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.refrain");
    let mut random = 1u64;
    let mut byte = || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 56) as u8
    };
    let sizes = [0, 1, 1000, 100 << 10, 257 << 10, 1100 << 10, 2100 << 10];
    let mut all = Vec::new();
    for size in sizes {
        let noise: Vec<u8> = (0..size).map(|_| byte()).collect();
        // Few different words, in random order.
        let words: Vec<u8> = noise.iter().flat_map(|n| [7, n % 16, 9, 9]).take(size).collect();
        all.extend([noise, words]);
    }
    let mut writer = Writer::create(&path).unwrap();
    for (number, content) in all.iter().enumerate() {
        writer.add_packed(&number.to_string(), Packed::of(content)).unwrap();
    }
    writer.finish().unwrap();
    let container = Container::open(&path).unwrap();
    for (number, content) in all.iter().enumerate() {
        let name = number.to_string();
        assert!(container.read_checked(&name).unwrap() == *content, "{} bytes", content.len());
        let stored = container.section(&name).unwrap().stored;
        let is_small = number % 2 == 0 || content.len() < 1000 || stored < content.len() as u64 / 4;
        assert!(is_small && stored <= content.len() as u64, "{stored} of {}", content.len());
    }
}
