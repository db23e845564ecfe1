//! Writes containers.

use crate::mixed;
use crate::section::Section;
use crate::{
    Codec, ContainerError, HEAD_BYTES, MAGIC, TRAILER_MARK, VERSION, io_error, most_unpacked,
};
use refrain_bytes::varint;
use std::borrow::Cow;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// The zstd levels for sections that are in memory, and up to how many bytes each takes less than half a second.
const LEVELS: [(i32, usize); 2] = [(19, 1 << 20), (16, 2 << 20)];
/// The level for larger sections, and for those that the better levels hardly make smaller.
const GOOD: i32 = 9;
/// A section with more bytes is tried first: a piece of it, with both levels. The better one must save a share of 1 in
/// this many bytes.
const PIECE: usize = 128 << 10;
const WORTHWHILE: usize = 25;
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
        self.add_packed(name, Packed::of(content))
    }

    /// Adds a section that is compressed already.
    pub fn add_packed(&mut self, name: &str, packed: Packed<'_>) -> Result<(), ContainerError> {
        self.try_add_packed(name, &packed).map_err(|source| io_error(&self.temporary, source))
    }

    fn try_add_packed(&mut self, name: &str, packed: &Packed<'_>) -> io::Result<()> {
        let mut section = Section {
            name: name.to_owned(),
            codec: packed.codec,
            stored: packed.stored.len() as u64,
            full: packed.full,
            checksum: 0,
            offset: self.at,
            long: false,
            is_named: Section::is_known(name),
        };
        let mut hash = section.hasher();
        hash.write(&packed.stored);
        section.checksum = hash.finish() as u32;
        self.file.write_all(&section.head()?)?;
        self.file.write_all(&packed.stored)?;
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

/// The content of a section as it is stored. Compressing takes nearly all the time of writing, and several sections can
/// be compressed at once.
pub struct Packed<'c> {
    codec: Codec,
    stored: Cow<'c, [u8]>,
    full: u64,
}

impl<'c> Packed<'c> {
    /// Compresses the content of a section as well as possible.
    pub fn of(content: &'c [u8]) -> Packed<'c> {
        let full = content.len() as u64;
        // Bytes of an entropy coder do not compress further. A fast level finds that out in a
        // twentieth of the time.
        let pack = |level| zstd::bulk::compress(content, level).ok();
        let mut packed = pack(HASTE);
        if content.len() < SMALL || packed.as_ref().is_some_and(|p| p.len() < content.len()) {
            packed = pack(level(content));
        }
        // A reader refuses sections that compress too well.
        let is_accepted = |stored: &Vec<u8>| {
            stored.len() < content.len() && full <= most_unpacked(stored.len() as u64)
        };
        let packed = match packed.filter(is_accepted) {
            Some(stored) => Packed { codec: Codec::Zstd, stored: stored.into(), full },
            None => Packed { codec: Codec::Stored, stored: content.into(), full },
        };
        let mixed = match content.len() {
            1..=mixed::MOST => mixed::compress(content),
            _ => Vec::new(),
        };
        if !mixed.is_empty() && mixed.len() < packed.stored.len() {
            return Packed { codec: Codec::Mixed, stored: mixed.into(), full };
        }
        packed
    }
}

impl Packed<'_> {
    /// How many bytes it takes.
    pub fn len(&self) -> usize {
        self.stored.len()
    }

    /// Whether it takes none.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }
}

/// The zstd level for a section.
fn level(content: &[u8]) -> i32 {
    let best = LEVELS.into_iter().find(|(_, most)| content.len() <= *most);
    let Some((best, _)) = best else { return GOOD };
    if content.len() <= 2 * PIECE {
        return best;
    }
    let from = (content.len() - PIECE) / 2;
    let piece = content.get(from..from + PIECE).unwrap_or_default();
    let packed = |level| zstd::bulk::compress(piece, level).map_or(usize::MAX, |p| p.len());
    let (good, better) = (packed(GOOD), packed(best));
    if good.saturating_sub(better) > good / WORTHWHILE { best } else { GOOD }
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
