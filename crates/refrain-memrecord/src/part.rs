//! What a compressor leaves in the folder of parts.
//!
//! A process has a name, `RANK.PID.N` (`-` for no rank; N tells images of the same process apart), and
//! up to four files:
//!
//! | file | holds |
//! |---|---|
//! | `NAME.memory` | all that is known ([`crate::state`]), replaced from time to time as a whole |
//! | `NAME.sealed` | full chunks, appended: thread, length, bytes |
//! | `NAME.raw` | with `--raw`, what came out of the rings |
//! | `NAME.progress` | references and bytes so far, for the progress line |
//!
//! A sealed chunk is in its file before a state counts it, so a state never promises what is not
//! there.

use refrain_memtrace::sealed::put_chunk;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The files of one process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartFiles {
    stem: PathBuf,
}

impl PartFiles {
    /// Of a process's image.
    pub fn new(folder: &Path, rank: Option<u32>, pid: u32, image: u32) -> Self {
        let rank = rank.map_or_else(|| "-".into(), |rank| rank.to_string());
        Self { stem: folder.join(format!("{rank}.{pid}.{image}")) }
    }

    /// All that there are in a folder, in order.
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

    /// Puts a new state in the place of the old.
    pub fn replace_state(&self, bytes: &[u8]) -> io::Result<()> {
        let new = self.with("new");
        std::fs::write(&new, bytes)?;
        std::fs::rename(new, self.state())
    }

    /// Notes how far the compressor is.
    pub fn note_progress(&self, references: u64, bytes: u64) -> io::Result<()> {
        std::fs::write(self.progress(), [references.to_le_bytes(), bytes.to_le_bytes()].concat())
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
    file: File,
    /// Bytes written.
    pub bytes: u64,
}

impl SealedWriter {
    /// A new file.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, bytes: 0 })
    }

    /// Appends a chunk.
    pub fn write(&mut self, thread: u32, chunk: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(chunk.len() + 12);
        put_chunk(&mut bytes, thread, chunk);
        self.file.write_all(&bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Appends raw words.
#[derive(Debug)]
pub struct RawWriter {
    file: BufWriter<File>,
}

impl RawWriter {
    /// A new file.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: BufWriter::with_capacity(1 << 18, File::create(path)?) })
    }

    /// Appends the words of a thread.
    pub fn write(&mut self, thread: u32, words: &[u64]) -> io::Result<()> {
        if words.is_empty() {
            return Ok(());
        }
        self.file.write_all(&thread.to_le_bytes())?;
        self.file.write_all(&(words.len() as u32).to_le_bytes())?;
        for word in words {
            self.file.write_all(&word.to_le_bytes())?;
        }
        Ok(())
    }

    /// Everything is in the file.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
