//! The container: one file, `NAME.refrain`, of named, checksummed sections.
//!
//! | part | bytes |
//! |---|---|
//! | head | magic `89 52 45 46 52 41 49 4e` (`\x89REFRAIN`), version `u32` |
//! | section, any number | mark `a7 53`, codec `u8` ([`Codec`], plus 0x80 for a long head), name length `u8`, checksum `u32`, stored length, full length, name, stored bytes |
//! | directory | number of sections, then the offset of each, from the one before |
//! | trailer | checksum of the directory `u32`, its length `u32`, `RFND` |
//!
//! Instead of the name's length, the head may have 0x80 plus a number, for `meta` (0), `structure` (1) and `timing` (2);
//! the name is left out then. Fixed numbers are little-endian. Lengths and offsets are varints (LEB128), except in a long head,
//! which is written before the lengths are known and has them as `u64`. A checksum is the low half
//! of XXH3-64 over codec, name and stored bytes. The directory gives random access: a reader
//! touches the trailer, the directory, the heads, and the sections that it wants. If the end of a
//! file is lost, each head still leads to the next section, so undamaged sections stay readable
//! ([`Container::is_recovered`]).
//!
//! # Example
//!
//! A container with one section `hi`, which holds `abc` uncompressed:
//!
//! ```text
//! 00  89 52 45 46 52 41 49 4e  02 00 00 00               head, version 2
//! 0c  a7 53 00 02  CHECKSUM                              stored, name of 2
//! 14  03 03  68 69  61 62 63                             3 bytes of 3, "hi", "abc"
//! 1b  01 0c                                              directory: 1 section, at 0c
//! 1d  CHECKSUM  02 00 00 00  52 46 4e 44                 trailer
//! ```

mod mixed;
mod reader;
mod section;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{Container, Integrity};
pub use section::Section;
pub use writer::{Packed, Writer};

use std::io;
use std::path::{Path, PathBuf};

/// The first bytes of every container.
pub const MAGIC: [u8; 8] = *b"\x89REFRAIN";
/// The format version that this Refrain writes. Version 1 had no [`Codec::Mixed`], and all
/// names written out.
pub const VERSION: u32 = 2;

const HEAD_BYTES: u64 = 12;
const TRAILER_BYTES: usize = 12;
const TRAILER_MARK: [u8; 4] = *b"RFND";
/// Sections that are read into memory may always be this large.
const MOST_UNPACKED: u64 = 1 << 26;
/// Larger sections may be at most this many times larger than their stored bytes.
const MOST_RATIO: u64 = 1 << 10;

/// The largest decoded size that a reader accepts for a section of `stored` bytes: damaged files must
/// not exhaust memory.
fn most_unpacked(stored: u64) -> u64 {
    MOST_UNPACKED.max(stored.saturating_mul(MOST_RATIO))
}

/// How a section is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    Stored = 0,
    /// A zstd frame.
    Zstd = 1,
    /// Context mixing (`mixed.rs`), for small sections. The checksum covers the full length, too.
    Mixed = 2,
}

/// Why a container could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// The file could not be read or written.
    #[error("{path}: {}", reason(error))]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file is not a container.
    #[error("{path}: not a Refrain trace")]
    NotRefrain {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer Refrain.
    #[error(
        "{path}: format version {version}; this Refrain reads up to {VERSION}: use a newer one"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// A section is missing.
    #[error("{path}: has no section `{name}`{}", if *recovered { " (the end of the file is missing)" } else { "" })]
    NoSection {
        /// The file.
        path: PathBuf,
        /// The section.
        name: String,
        /// Whether the directory was lost.
        recovered: bool,
    },
    /// A section's bytes are not those that were written.
    #[error("{path}: section `{name}` is damaged ({what}); other sections may still be readable")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The section.
        name: String,
        /// What is wrong with it.
        what: String,
    },
}

/// Why a file could not be read or written, in words for users.
pub fn reason(error: &io::Error) -> String {
    use io::ErrorKind::*;
    let text = error.to_string();
    let system = text.split(" (os error").next().unwrap_or_default();
    match error.kind() {
        StorageFull => format!("the disk is full ({system})"),
        QuotaExceeded => format!("the disk quota is used up ({system})"),
        FileTooLarge => format!("the limit on file sizes is reached, see ulimit -f ({system})"),
        UnexpectedEof => "the file ends in the middle".into(),
        _ => system.to_owned(),
    }
}

fn io_error(path: &Path, error: io::Error) -> ContainerError {
    ContainerError::Io { path: path.to_owned(), error }
}
