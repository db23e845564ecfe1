//! Opens containers, reads their sections, and verifies them.

use crate::mixed;
use crate::section::{Section, read_number};
use crate::{
    Codec, ContainerError, HEAD_BYTES, MAGIC, TRAILER_BYTES, TRAILER_MARK, VERSION, io_error,
    most_unpacked,
};
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// A directory that claims more sections is damaged.
const MOST_SECTIONS: u64 = 1 << 24;

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
        let mut stored = self.stored(section)?;
        match section.codec {
            Codec::Stored => Ok(Box::new(stored)),
            Codec::Zstd => {
                let decoder = zstd::Decoder::new(stored);
                let decoder = decoder.map_err(|e| self.damage(name, e.to_string()))?;
                Ok(Box::new(BufReader::new(decoder.take(section.full))))
            }
            Codec::Mixed => {
                let mut bytes = Vec::new();
                let read = stored.read_to_end(&mut bytes);
                read.map_err(|e| self.damage(name, e.to_string()))?;
                let length = usize::try_from(section.full).ok().filter(|n| *n <= mixed::MOST);
                let length =
                    length.ok_or_else(|| self.damage(name, "it claims to be too large"))?;
                Ok(Box::new(io::Cursor::new(mixed::decompress(&bytes, length))))
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
            // The checksum covers it.
            Codec::Mixed => Ok(section.full),
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
