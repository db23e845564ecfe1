//! Writes containers.

use crate::mixed;
use crate::section::Section;
use crate::{
    Codec, ContainerError, HEAD_BYTES, MAGIC, TRAILER_MARK, VERSION, io_error, most_unpacked,
};
use refrain_bytes::varint;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// The zstd level for sections that are in memory.
const BEST: i32 = 19;
/// The zstd level for large sections, for which [`BEST`] would take minutes.
const GOOD: i32 = 9;
const LARGE: usize = 4 << 20;
/// The zstd level of a first try, and the size up to which that try says nothing.
const HASTE: i32 = 1;
const SMALL: usize = 1 << 10;

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
            is_named: Section::is_known(name),
        };
        self.file.write_all(&section.head()?)?;
        let hash = section.hasher();
        let mut out = Measured { inner: &mut self.file, bytes: 0, hash };
        section.full = match codec {
            Codec::Stored => io::copy(content, &mut out)?,
            Codec::Mixed => return Err(io::ErrorKind::Unsupported.into()),
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
        let (mut codec, mut stored) = match packed.len() < content.len() && is_accepted {
            true => (Codec::Zstd, packed.as_slice()),
            false => (Codec::Stored, content),
        };
        let mixed = match content.len() {
            1..=mixed::MOST => mixed::compress(content),
            _ => Vec::new(),
        };
        if !mixed.is_empty() && mixed.len() < stored.len() {
            (codec, stored) = (Codec::Mixed, &mixed);
        }
        let mut section = Section {
            name: name.to_owned(),
            codec,
            stored: stored.len() as u64,
            full: content.len() as u64,
            checksum: 0,
            offset: self.at,
            long: false,
            is_named: Section::is_known(name),
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

    /// How many bytes the file has so far.
    pub fn len(&self) -> u64 {
        self.at
    }

    /// Whether it has no section yet.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
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
