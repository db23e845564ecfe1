//! The container: one file, `NAME.refrain`, of named, checksummed sections.
//!
//! | part | bytes |
//! |---|---|
//! | head | magic `89 52 45 46 52 41 49 4e` (`\x89REFRAIN`), version `u32` |
//! | section, any number | mark `a7 53`, codec `u8` ([`Codec`], plus 0x80 for a long head), name length `u8`, checksum `u32`, stored length, full length, name, stored bytes |
//! | directory | number of sections, then the offset of each, from the one before |
//! | trailer | checksum of the directory `u32`, its length `u32`, `RFND` |
//!
//! Fixed numbers are little-endian. Lengths and offsets are varints (LEB128), except in a long head,
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
//! 00  89 52 45 46 52 41 49 4e  01 00 00 00               head, version 1
//! 0c  a7 53 00 02  CHECKSUM                              stored, name of 2
//! 14  03 03  68 69  61 62 63                             3 bytes of 3, "hi", "abc"
//! 1b  01 0c                                              directory: 1 section, at 0c
//! 1d  CHECKSUM  02 00 00 00  52 46 4e 44                 trailer
//! ```

use refrain_bytes::varint;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// The first bytes of every container.
pub const MAGIC: [u8; 8] = *b"\x89REFRAIN";
/// The format version that this Refrain writes.
pub const VERSION: u32 = 1;

const HEAD_BYTES: u64 = 12;
const SECTION_MARK: [u8; 2] = [0xa7, b'S'];
/// Mark, codec, name length, checksum.
const FIXED_HEAD: usize = 8;
const LONG: u8 = 0x80;
const TRAILER_BYTES: usize = 12;
const TRAILER_MARK: [u8; 4] = *b"RFND";
/// A directory that claims more sections is damaged.
const MOST_SECTIONS: u64 = 1 << 24;
/// Sections that are read into memory may always be this large.
const MOST_UNPACKED: u64 = 1 << 26;
/// Larger sections may be at most this many times larger than their stored bytes.
const MOST_RATIO: u64 = 1 << 10;

/// The largest decoded size that a reader accepts for so many stored bytes: damaged files must not
/// exhaust memory.
fn most_unpacked(stored: u64) -> u64 {
    MOST_UNPACKED.max(stored.saturating_mul(MOST_RATIO))
}
/// The zstd level for sections that are in memory.
const BEST: i32 = 19;
/// The zstd level for large sections, for which [`BEST`] would take minutes.
const GOOD: i32 = 9;
const LARGE: usize = 4 << 20;
/// The zstd level of a first try, and the size up to which that try says nothing.
const HASTE: i32 = 1;
const SMALL: usize = 1 << 10;

/// How a section is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    Stored = 0,
    /// A zstd frame.
    Zstd = 1,
}

/// A section, as its head describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name, e.g. `raw/3`.
    pub name: String,
    /// How it is stored.
    pub codec: Codec,
    /// Bytes in the file.
    pub stored: u64,
    /// Bytes when decoded.
    pub full: u64,
    /// Checksum of codec, name and stored bytes.
    pub checksum: u32,
    /// Where its head begins.
    offset: u64,
    /// Whether its head is long: lengths of fixed size.
    long: bool,
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

/// Writes a container. The file gets its name only when it is complete.
pub struct Writer {
    path: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
    at: u64,
    sections: Vec<Section>,
}

impl Writer {
    /// Creates a temporary file beside `path`.
    pub fn create(path: &Path) -> Result<Writer, ContainerError> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.incomplete", std::process::id()));
        let temporary = PathBuf::from(temporary);
        let start = || {
            let mut file = BufWriter::with_capacity(1 << 18, File::create(&temporary)?);
            file.write_all(&MAGIC)?;
            file.write_all(&VERSION.to_le_bytes())?;
            Ok(file)
        };
        let file = start().map_err(|source| io_error(&temporary, source))?;
        let path = path.to_owned();
        Ok(Writer { path, temporary, file, at: HEAD_BYTES, sections: Vec::new() })
    }

    /// Adds a section with all bytes of a reader.
    pub fn add(
        &mut self,
        name: &str,
        codec: Codec,
        content: &mut dyn Read,
    ) -> Result<(), ContainerError> {
        self.try_add(name, codec, content).map_err(|source| io_error(&self.temporary, source))
    }

    fn try_add(&mut self, name: &str, codec: Codec, content: &mut dyn Read) -> io::Result<()> {
        let mut section = Section {
            name: name.to_owned(),
            codec,
            stored: 0,
            full: 0,
            checksum: 0,
            offset: self.at,
            long: true,
        };
        self.file.write_all(&section.head()?)?;
        let hash = section.hasher();
        let mut out = Measured { inner: &mut self.file, bytes: 0, hash };
        section.full = match codec {
            Codec::Stored => io::copy(content, &mut out)?,
            Codec::Zstd => {
                let mut encoder = zstd::Encoder::new(&mut out, 3)?;
                let full = io::copy(content, &mut encoder)?;
                encoder.finish()?;
                full
            }
        };
        (section.stored, section.checksum) = (out.bytes, out.hash.finish() as u32);
        // The head's lengths and checksum are known only now.
        self.file.seek(SeekFrom::Start(section.offset))?;
        self.file.write_all(&section.head()?)?;
        self.at = section.content_offset() + section.stored;
        self.file.seek(SeekFrom::Start(self.at))?;
        self.sections.push(section);
        Ok(())
    }

    /// Adds a section from memory, compressed as well as possible.
    pub fn add_bytes(&mut self, name: &str, content: &[u8]) -> Result<(), ContainerError> {
        self.try_add_bytes(name, content).map_err(|source| io_error(&self.temporary, source))
    }

    fn try_add_bytes(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let level = if content.len() > LARGE { GOOD } else { BEST };
        // Bytes of an entropy coder do not compress further. A fast level finds that out in a
        // twentieth of the time.
        let mut packed = zstd::bulk::compress(content, HASTE)?;
        if packed.len() < content.len() || content.len() < SMALL {
            packed = zstd::bulk::compress(content, level)?;
        }
        // A reader refuses sections that compress too well.
        let is_accepted = content.len() as u64 <= most_unpacked(packed.len() as u64);
        let (codec, stored) = match packed.len() < content.len() && is_accepted {
            true => (Codec::Zstd, packed.as_slice()),
            false => (Codec::Stored, content),
        };
        let mut section = Section {
            name: name.to_owned(),
            codec,
            stored: stored.len() as u64,
            full: content.len() as u64,
            checksum: 0,
            offset: self.at,
            long: false,
        };
        let mut hash = section.hasher();
        hash.write(stored);
        section.checksum = hash.finish() as u32;
        self.file.write_all(&section.head()?)?;
        self.file.write_all(stored)?;
        self.at = section.content_offset() + section.stored;
        self.sections.push(section);
        Ok(())
    }

    /// Writes the directory and gives the file its name; returns its size.
    pub fn finish(mut self) -> Result<u64, ContainerError> {
        self.try_finish().map_err(|source| io_error(&self.path, source))
    }

    fn try_finish(&mut self) -> io::Result<u64> {
        let mut directory = Vec::new();
        varint::put(&mut directory, self.sections.len() as u64);
        let mut last = 0;
        for section in &self.sections {
            varint::put(&mut directory, section.offset - last);
            last = section.offset;
        }
        let mut trailer = Vec::new();
        trailer.extend((XxHash3_64::oneshot(&directory) as u32).to_le_bytes());
        trailer.extend((directory.len() as u32).to_le_bytes());
        trailer.extend(TRAILER_MARK);
        self.file.write_all(&directory)?;
        self.file.write_all(&trailer)?;
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        std::fs::rename(&self.temporary, &self.path)?;
        Ok(self.at + (directory.len() + trailer.len()) as u64)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Removes an incomplete file, whose source still exists. A complete one has been renamed.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

/// Reads a number; the end of the input is an error.
fn read_number(input: &mut impl Read) -> io::Result<u64> {
    varint::read(input)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

impl Section {
    /// The bytes of the head, with the name.
    fn head(&self) -> io::Result<Vec<u8>> {
        let length = u8::try_from(self.name.len())
            .map_err(|_| io::Error::other("a section's name is too long"))?;
        let mut head = SECTION_MARK.to_vec();
        head.push(self.codec as u8 | if self.long { LONG } else { 0 });
        head.push(length);
        head.extend(self.checksum.to_le_bytes());
        for length in [self.stored, self.full] {
            match self.long {
                true => head.extend(length.to_le_bytes()),
                false => varint::put(&mut head, length),
            }
        }
        head.extend(self.name.as_bytes());
        Ok(head)
    }

    /// A hasher that has consumed codec and name; the stored bytes follow.
    fn hasher(&self) -> XxHash3_64 {
        let mut hash = XxHash3_64::new();
        hash.write(&[self.codec as u8]);
        hash.write(self.name.as_bytes());
        hash
    }

    /// Reads a head with its name.
    fn read(input: &mut impl Read, offset: u64) -> io::Result<Section> {
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut head = [0; FIXED_HEAD];
        input.read_exact(&mut head)?;
        if head[..2] != SECTION_MARK {
            return Err(bad("no section begins here"));
        }
        let long = head[2] & LONG != 0;
        let codec = match head[2] & !LONG {
            0 => Codec::Stored,
            1 => Codec::Zstd,
            _ => return Err(bad("unknown codec")),
        };
        let checksum = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let mut number = || match long {
            true => {
                let mut bytes = [0; 8];
                input.read_exact(&mut bytes)?;
                Ok(u64::from_le_bytes(bytes))
            }
            false => read_number(input),
        };
        let (stored, full): (u64, u64) = (number()?, number()?);
        let mut name = vec![0; usize::from(head[3])];
        input.read_exact(&mut name)?;
        let name = String::from_utf8(name).map_err(|_| bad("a section's name is not text"))?;
        Ok(Section { name, codec, stored, full, checksum, offset, long })
    }

    fn content_offset(&self) -> u64 {
        let varint = |n: u64| u64::from((64 - (n | 1).leading_zeros()).div_ceil(7));
        let lengths = if self.long { 16 } else { varint(self.stored) + varint(self.full) };
        let head = (FIXED_HEAD + self.name.len()) as u64 + lengths;
        self.offset.saturating_add(head)
    }
}

/// An open container.
#[derive(Debug)]
pub struct Container {
    path: PathBuf,
    sections: Vec<Section>,
    recovered: bool,
    bytes: u64,
    stray: Vec<Stray>,
}

/// Bytes of a file that belong to no section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stray {
    offset: u64,
    bytes: u64,
}

/// What [`Container::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Integrity {
    /// How many sections are intact.
    pub intact: usize,
    /// What is wrong with the file, each with a remedy.
    pub problems: Vec<String>,
}

impl Container {
    /// Whether a file begins with the magic of a container.
    pub fn is_one(path: &Path) -> bool {
        let mut head = [0; MAGIC.len()];
        File::open(path).and_then(|mut f| f.read_exact(&mut head)).is_ok_and(|()| head == MAGIC)
    }

    /// Opens a file and reads its directory. If that is damaged, looks for sections one by one.
    pub fn open(path: &Path) -> Result<Container, ContainerError> {
        let io = |source| io_error(path, source);
        let mut file = BufReader::new(File::open(path).map_err(io)?);
        let bytes = file.get_ref().metadata().map_err(io)?.len();
        let mut head = [0; HEAD_BYTES as usize];
        if file.read_exact(&mut head).is_err() || head[..8] != MAGIC {
            return Err(ContainerError::NotRefrain { path: path.to_owned() });
        }
        let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if version == 0 {
            return Err(ContainerError::NotRefrain { path: path.to_owned() });
        }
        if version > VERSION {
            return Err(ContainerError::Newer { path: path.to_owned(), version });
        }
        let ((sections, stray), recovered) = match Self::directory(&mut file, bytes) {
            Ok(found) => (found, false),
            Err(_) => ((Self::scan(&mut file, bytes), Vec::new()), true),
        };
        Ok(Container { path: path.to_owned(), sections, recovered, bytes, stray })
    }

    /// The sections that the directory lists, and the bytes between them.
    fn directory(file: &mut BufReader<File>, bytes: u64) -> io::Result<(Vec<Section>, Vec<Stray>)> {
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        let trailer_at = bytes.checked_sub(TRAILER_BYTES as u64).ok_or_else(bad)?;
        file.seek(SeekFrom::Start(trailer_at))?;
        let mut trailer = [0; TRAILER_BYTES];
        file.read_exact(&mut trailer)?;
        let number = |at: usize| {
            u32::from_le_bytes([trailer[at], trailer[at + 1], trailer[at + 2], trailer[at + 3]])
        };
        let length = u64::from(number(4));
        let offset = trailer_at.checked_sub(length).ok_or_else(bad)?;
        if trailer[8..] != TRAILER_MARK {
            return Err(bad());
        }
        file.seek(SeekFrom::Start(offset))?;
        let mut directory = Vec::new();
        file.by_ref().take(length).read_to_end(&mut directory)?;
        if XxHash3_64::oneshot(&directory) as u32 != number(0) {
            return Err(bad());
        }
        let mut input = directory.as_slice();
        let count = read_number(&mut input)?;
        if count > MOST_SECTIONS {
            return Err(bad());
        }
        let (mut sections, mut stray) = (Vec::new(), Vec::new());
        let (mut at, mut last_end) = (0u64, HEAD_BYTES);
        for _ in 0..count {
            at = at.checked_add(read_number(&mut input)?).ok_or_else(bad)?;
            file.seek(SeekFrom::Start(at))?;
            let section = Section::read(file, at)?;
            let end = section.content_offset().checked_add(section.stored).ok_or_else(bad)?;
            // Overlapping sections would let a small file claim any amount of data.
            if end > offset || at < last_end {
                return Err(bad());
            }
            stray.push(Stray { offset: last_end, bytes: at - last_end });
            last_end = end;
            sections.push(section);
        }
        stray.push(Stray { offset: last_end, bytes: offset - last_end });
        stray.push(Stray { offset: trailer_at - input.len() as u64, bytes: input.len() as u64 });
        stray.retain(|stray| stray.bytes > 0);
        Ok((sections, stray))
    }

    /// Follows the heads from section to section, up to the first that is damaged.
    fn scan(file: &mut BufReader<File>, bytes: u64) -> Vec<Section> {
        let (mut sections, mut at) = (Vec::new(), HEAD_BYTES);
        while at < bytes && file.seek(SeekFrom::Start(at)).is_ok() {
            let Ok(section) = Section::read(file, at) else {
                break;
            };
            let Some(end) = section.content_offset().checked_add(section.stored) else {
                break;
            };
            if end > bytes || end <= at {
                break;
            }
            at = end;
            sections.push(section);
        }
        sections
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the directory was lost, and sections were found by their heads.
    pub fn is_recovered(&self) -> bool {
        self.recovered
    }

    /// All sections.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The section of that name.
    pub fn section(&self, name: &str) -> Result<&Section, ContainerError> {
        self.sections.iter().find(|s| s.name == name).ok_or_else(|| ContainerError::NoSection {
            path: self.path.clone(),
            name: name.to_owned(),
            recovered: self.recovered,
        })
    }

    /// Reads a section as a stream. The last bytes are returned only if the checksum is right.
    pub fn read(&self, name: &str) -> Result<Box<dyn Read>, ContainerError> {
        let section = self.section(name)?;
        let stored = self.stored(section)?;
        match section.codec {
            Codec::Stored => Ok(Box::new(stored)),
            Codec::Zstd => {
                let decoder = zstd::Decoder::new(stored);
                let decoder = decoder.map_err(|e| self.damage(name, e.to_string()))?;
                Ok(Box::new(BufReader::new(decoder.take(section.full))))
            }
        }
    }

    fn stored(&self, section: &Section) -> Result<BufReader<Verified<File>>, ContainerError> {
        let open = || {
            let mut inner = File::open(&self.path)?;
            inner.seek(SeekFrom::Start(section.content_offset()))?;
            let (name, expected) = (section.name.clone(), section.checksum);
            let hash = section.hasher();
            let verified = Verified { inner, left: section.stored, hash, expected, name };
            Ok(BufReader::with_capacity(1 << 16, verified))
        };
        open().map_err(|source| io_error(&self.path, source))
    }

    /// Reads a whole section into memory and verifies it.
    pub fn read_checked(&self, name: &str) -> Result<Vec<u8>, ContainerError> {
        self.check(name)?;
        let section = self.section(name)?;
        if section.full > most_unpacked(section.stored) {
            let (stored, full) = (section.stored, section.full);
            return Err(
                self.damage(name, format!("{stored} stored bytes claim to decode to {full}"))
            );
        }
        let mut content = Vec::new();
        let done = self.read(name)?.read_to_end(&mut content);
        done.map_err(|e| self.damage(name, e.to_string()))?;
        match content.len() as u64 == section.full {
            true => Ok(content),
            false => Err(self.damage(name, "wrong length")),
        }
    }

    /// Checks every byte of the file: each section's checksum and length, and that the sections,
    /// the directory and the trailer fill the file without a gap.
    pub fn verify(&self) -> Integrity {
        let mut integrity = Integrity::default();
        if self.recovered {
            integrity.problems.push(
                "the directory at the end of the file is missing or damaged: take the file from \
                 a copy of it"
                    .into(),
            );
        }
        for Stray { offset, bytes } in &self.stray {
            integrity.problems.push(format!(
                "{bytes} bytes at offset {offset} belong to no section: take the file from a copy \
                 of it"
            ));
        }
        for section in &self.sections {
            match self.check(&section.name).and_then(|()| self.check_length(section)) {
                Ok(()) => integrity.intact += 1,
                Err(error) => {
                    integrity.problems.push(format!("{error}: take the file from a copy of it"));
                }
            }
        }
        integrity
    }

    /// Compares a section's length, which its checksum does not cover, with its content.
    fn check_length(&self, section: &Section) -> Result<(), ContainerError> {
        let length = match section.codec {
            Codec::Stored => Ok(section.stored),
            // One byte more than there should be shows that the head's number is too small.
            Codec::Zstd => zstd::Decoder::new(self.stored(section)?).and_then(|decoder| {
                io::copy(&mut decoder.take(section.full.saturating_add(1)), &mut io::sink())
            }),
        };
        match length.map_err(|e| self.damage(&section.name, e.to_string()))? {
            length if length == section.full => Ok(()),
            _ => Err(self.damage(&section.name, "it is not as long as it should be")),
        }
    }

    /// Verifies the checksum of a section.
    pub fn check(&self, name: &str) -> Result<(), ContainerError> {
        let section = self.section(name)?;
        if section.stored == 0 && section.hasher().finish() as u32 != section.checksum {
            return Err(self.damage(name, "wrong checksum"));
        }
        let read = io::copy(&mut self.stored(section)?, &mut io::sink());
        read.map(drop).map_err(|e| self.damage(name, e.to_string()))
    }

    fn damage(&self, name: &str, what: impl Into<String>) -> ContainerError {
        let (path, name) = (self.path.clone(), name.to_owned());
        ContainerError::Damaged { path, name, what: what.into() }
    }
}

fn io_error(path: &Path, error: io::Error) -> ContainerError {
    ContainerError::Io { path: path.to_owned(), error }
}

/// Reads the stored bytes of a section and verifies their checksum.
struct Verified<R> {
    inner: R,
    left: u64,
    hash: XxHash3_64,
    expected: u32,
    name: String,
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bad = |what: &str| {
            let what = format!("section `{}`: {what}", self.name);
            Err(io::Error::new(io::ErrorKind::InvalidData, what))
        };
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let n = self.inner.read(&mut buffer[..most])?;
        if n == 0 && most > 0 {
            return bad("truncated");
        }
        self.hash.write(&buffer[..n]);
        self.left -= n as u64;
        if self.left == 0 && n > 0 && self.hash.finish() as u32 != self.expected {
            return bad("wrong checksum");
        }
        Ok(n)
    }
}

/// Counts and hashes the bytes that are written through it.
struct Measured<W> {
    inner: W,
    bytes: u64,
    hash: XxHash3_64,
}

impl<W: Write> Write for Measured<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.hash.write(&bytes[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_file_cut_at_any_byte_gives_a_clear_error_or_its_whole_sections() {
        let dir = tempfile::tempdir().unwrap();
        let whole = std::fs::read(sample(dir.path())).unwrap();
        let cut = dir.path().join("cut.refrain");
        for n in 0..whole.len() {
            std::fs::write(&cut, &whole[..n]).unwrap();
            match Container::open(&cut) {
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
    fn inserted_removed_and_changed_bytes_are_found_wherever_they_are() {
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
}
