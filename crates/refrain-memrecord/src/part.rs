//! The files that a compressor writes to the folder of parts.
//!
//! A process has a name, `RANK.PID.N` (`-` for no rank; N tells images of the same process apart), and
//! up to five files:
//!
//! | file | holds |
//! |---|---|
//! | `NAME.memory` | the state ([`crate::state`]), replaced as a whole from time to time |
//! | `NAME.sealed` | full chunks, appended: thread, length, bytes |
//! | `NAME.raw` | with `--raw`, the words read from the rings |
//! | `NAME.progress` | references and bytes so far, for the progress line |
//! | `NAME.reserve` | disk space for the last state, if the disk becomes full |
//!
//! A sealed chunk is in its file before a state counts it, so a state never counts a chunk that is
//! not in the file.

use refrain_memtrace::sealed::put_chunk;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file of the folder of parts could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {}", path.display(), refrain_container::reason(error))]
pub struct WriteError {
    path: PathBuf,
    error: io::Error,
}

impl WriteError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self { path: path.to_owned(), error }
    }

    /// Whether the disk was full, or a limit on file sizes was reached.
    pub fn is_out_of_space(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self.error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
    }
}

/// The files of one process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartFiles {
    stem: PathBuf,
}

impl PartFiles {
    /// The files of an image of a process.
    pub fn new(folder: &Path, rank: Option<u32>, pid: u32, image: u32) -> Self {
        let rank = rank.map_or_else(|| "-".into(), |rank| rank.to_string());
        Self { stem: folder.join(format!("{rank}.{pid}.{image}")) }
    }

    /// The files of all processes in a folder, in order.
    pub fn all(folder: &Path) -> io::Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "memory") {
                all.push(Self { stem: path.with_extension("") });
            }
        }
        all.sort();
        Ok(all)
    }

    /// The folder of parts.
    pub fn folder(&self) -> &Path {
        self.stem.parent().unwrap_or(Path::new(""))
    }

    /// The name of the process's files, without the folder and the extension.
    pub fn name(&self) -> String {
        self.stem.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn with(&self, extension: &str) -> PathBuf {
        let mut name = self.stem.clone().into_os_string();
        name.push(".");
        name.push(extension);
        name.into()
    }

    /// The state.
    pub fn state(&self) -> PathBuf {
        self.with("memory")
    }

    /// The sealed chunks.
    pub fn sealed(&self) -> PathBuf {
        self.with("sealed")
    }

    /// The raw records.
    pub fn raw(&self) -> PathBuf {
        self.with("raw")
    }

    /// The progress.
    pub fn progress(&self) -> PathBuf {
        self.with("progress")
    }

    /// The reserved disk space.
    fn reserve(&self) -> PathBuf {
        self.with("reserve")
    }

    /// Replaces the state. If that fails, the old one stays.
    pub fn replace_state(&self, bytes: &[u8]) -> Result<(), WriteError> {
        let new = self.with("new");
        let replaced =
            std::fs::write(&new, bytes).and_then(|()| std::fs::rename(&new, self.state()));
        replaced.map_err(|error| {
            let _ = std::fs::remove_file(&new);
            WriteError::at(&self.state())(error)
        })
    }

    /// Writes how far the compressor is. Only the progress line depends on it, so a failure is not an error.
    pub fn note_progress(&self, references: u64, bytes: u64) {
        let numbers = [references.to_le_bytes(), bytes.to_le_bytes()].concat();
        let _ = std::fs::write(self.progress(), numbers);
    }
}

/// Disk space that is set aside for the last state, so that a full disk does not keep the state
/// from counting all sealed chunks.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
}

impl Reserve {
    /// The initial size.
    const INITIAL: u64 = 1 << 20;

    /// Sets disk space aside; nothing if the disk does not have that much.
    pub fn new(files: &PartFiles) -> Self {
        let path = files.reserve();
        let file = File::create(&path).ok();
        let mut reserve = Self { path, file, bytes: 0 };
        reserve.grow_to(Self::INITIAL);
        reserve
    }

    /// Sets more aside, for states of this size: twice as much, since states grow.
    pub fn fit(&mut self, state_bytes: usize) {
        self.grow_to((2 * state_bytes as u64).max(Self::INITIAL));
    }

    fn grow_to(&mut self, bytes: u64) {
        let Some(file) = &self.file else { return };
        if bytes > self.bytes {
            // SAFETY: a plain system call on a file of our own.
            let errno = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) };
            match errno {
                0 => self.bytes = bytes,
                // A failed attempt may have allocated a part; give it back.
                _ => drop(file.set_len(self.bytes)),
            }
        }
    }

    /// Gives the disk space back.
    pub fn release(&mut self) {
        if self.file.take().is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.release();
    }
}

/// References and bytes of all processes that are being compressed in a folder.
pub fn progress(folder: &Path) -> (u64, u64) {
    let mut sum = (0, 0);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "progress")
            && let Ok(bytes) = std::fs::read(&path)
            && let Some((&[references, size], _)) = bytes.as_chunks::<8>().0.split_first_chunk()
        {
            sum.0 += u64::from_le_bytes(references);
            sum.1 += u64::from_le_bytes(size);
        }
    }
    sum
}

/// Appends sealed chunks.
#[derive(Debug)]
pub struct SealedWriter {
    path: PathBuf,
    file: File,
    /// Bytes of whole chunks in the file.
    pub bytes: u64,
}

impl SealedWriter {
    /// A new file.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        let file = File::create(path).map_err(WriteError::at(path))?;
        Ok(Self { path: path.to_owned(), file, bytes: 0 })
    }

    /// Appends a chunk, completely or not at all.
    pub fn write(&mut self, thread: u32, chunk: &[u8]) -> Result<(), WriteError> {
        let mut bytes = Vec::with_capacity(chunk.len() + 12);
        put_chunk(&mut bytes, thread, chunk);
        if let Err(error) = self.file.write_all(&bytes) {
            let _ = self.file.set_len(self.bytes);
            return Err(WriteError::at(&self.path)(error));
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Whether somebody has removed the file.
    pub fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }
}

/// Appends raw words.
#[derive(Debug)]
pub struct RawWriter {
    path: PathBuf,
    file: BufWriter<File>,
}

impl RawWriter {
    /// A new file.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        let file = File::create(path).map_err(WriteError::at(path))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::with_capacity(1 << 18, file) })
    }

    /// Appends the words of a thread.
    pub fn write(&mut self, thread: u32, words: &[u64]) -> Result<(), WriteError> {
        if words.is_empty() {
            return Ok(());
        }
        let mut append = || {
            self.file.write_all(&thread.to_le_bytes())?;
            self.file.write_all(&(words.len() as u32).to_le_bytes())?;
            words.iter().try_for_each(|word| self.file.write_all(&word.to_le_bytes()))
        };
        append().map_err(WriteError::at(&self.path))
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.file.flush().map_err(WriteError::at(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_named_with_the_reason() {
        // Every write to it finds the disk full.
        let mut sealed = SealedWriter::create(Path::new("/dev/full")).unwrap();
        let error = sealed.write(0, b"chunk").unwrap_err();
        assert!(error.is_out_of_space());
        let text = "cannot write /dev/full: the disk is full (No space left on device)";
        assert_eq!(error.to_string(), text);
        assert_eq!(sealed.bytes, 0);
    }

    #[test]
    fn a_state_that_cannot_be_written_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let files = PartFiles::new(folder.path(), None, 7, 0);
        files.replace_state(b"old").unwrap();
        std::fs::create_dir(files.with("new")).unwrap();
        assert!(files.replace_state(b"new").is_err());
        assert_eq!(std::fs::read(files.state()).unwrap(), b"old");
    }

    #[test]
    fn reserved_space_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let files = PartFiles::new(folder.path(), None, 7, 0);
        let mut reserve = Reserve::new(&files);
        let blocks = || std::fs::metadata(files.reserve()).map(|metadata| metadata.blocks() * 512);
        assert!(blocks().unwrap() >= Reserve::INITIAL);
        reserve.fit(Reserve::INITIAL as usize);
        assert!(blocks().unwrap() >= 2 * Reserve::INITIAL);
        reserve.release();
        assert!(blocks().is_err());
    }

    #[test]
    fn a_removed_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sealed");
        let sealed = SealedWriter::create(&path).unwrap();
        assert!(!sealed.is_removed());
        std::fs::remove_file(path).unwrap();
        assert!(sealed.is_removed());
    }
}
