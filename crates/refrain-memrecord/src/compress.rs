//! The compressor of one process.
//!
//! It works in rounds. A round reads the ledger as far as the program has published it, and then compresses the
//! published references. Each thread has its own stream; several streams are compressed at once. A segment that
//! replaces another is applied only after everything published before it is compressed: earlier references
//! belong to the old segment.

use crate::implied::without_implied;
use crate::keeper::Watched;
use crate::part::{PartFiles, RawWriter, Reserve, SealedWriter, WriteError};
use crate::state::State;
use crate::streams::{Stream, StreamError, Work};
use crate::tables::{OutOfOrder, Tables};
use refrain_memory::Merged;
use refrain_memtrace::process::{Ended, ProcessFacts};
use refrain_memtrace::sealed::put_chunk;
use refrain_rings::consumer::Program;
use refrain_rings::layout::{DONE, GONE, RUNNING};
use refrain_rings::record::Record;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant, SystemTime};

mod pool;
use pool::{Job, Pool};

/// How long the compressor sleeps when there is nothing to do, in milliseconds.
const NAP: u32 = 50;
/// How often progress is written to the progress file.
const PROGRESS: Duration = Duration::from_millis(250);
/// How often the state is written to disk, if writing it is quick. (The first state is written earlier.)
const SNAPSHOT: Duration = Duration::from_secs(2);
/// If writing the state takes time `t`, the next state is written after `t` times this.
const SNAPSHOT_SHARE: u32 = 50;
/// A state includes open coded chunks up to this size. Larger ones are sealed before: a state is written anew each
/// time. A sealed chunk is written once, but the model of the next one starts anew.
const LARGEST_OPEN: usize = 1 << 20;

/// The settings of a compressor.
#[derive(Clone, Debug)]
pub struct CompressorSettings {
    /// Where its files go.
    pub files: PartFiles,
    /// The rank of its process.
    pub rank: Option<u32>,
    /// Which image of the process: programs that replace themselves have several.
    pub image: u32,
    /// Whether raw words are kept.
    pub raw: bool,
    /// Whether host names and folders of files are left out.
    pub redact: bool,
    /// How many numbers a chunk holds before it is sealed; `None` for the default.
    pub window: Option<usize>,
}

/// A compressor at work.
struct Recording {
    settings: CompressorSettings,
    program: Program,
    process: Watched,
    tables: Arc<RwLock<Tables>>,
    streams: BTreeMap<u32, Arc<Stream>>,
    /// Streams of threads that have not ended.
    active: Vec<Arc<Stream>>,
    sealed: SealedWriter,
    reserve: Reserve,
    raw: Option<Arc<Mutex<RawWriter>>>,
    facts: ProcessFacts,
    pool: Pool,
    progress_at: Instant,
    snapshot_at: Instant,
}

/// Why a recording ended before the program did.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("its files were removed while the program ran")]
    Removed,
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("the memory that the program shares is damaged: {0}")]
    Ledger(#[from] io::Error),
    #[error("the memory that the program shares is damaged: the ledger is out of order")]
    OutOfOrder,
}

impl From<OutOfOrder> for Broken {
    fn from(_: OutOfOrder) -> Self {
        Self::OutOfOrder
    }
}

impl Broken {
    /// Whether the disk was full, or a limit on file sizes was reached.
    fn is_out_of_space(&self) -> bool {
        match self {
            Self::Write(error) | Self::Stream(StreamError::Write(error)) => error.is_out_of_space(),
            _ => false,
        }
    }
}

/// Compresses the references of a process until it ends, and leaves the result in the folder of parts. If
/// recording fails, the trace is truncated there, with the reason.
pub fn compress(
    program: Program,
    process: Watched,
    settings: CompressorSettings,
) -> io::Result<()> {
    let mut recording = Recording::new(program, process, settings).map_err(io::Error::other)?;
    recording.program.control().compressor_pid.store(std::process::id(), SeqCst);
    recording.program.set_state(RUNNING);
    let result = recording.run();
    if let Err(broken) = &result {
        recording.break_off(broken);
        // The program must not wait for a compressor that has stopped.
        recording.program.set_state(GONE);
    }
    recording.finish().map_err(io::Error::other)?;
    if result.is_ok() {
        recording.program.set_state(DONE);
    }
    Ok(())
}

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64)
}

impl Recording {
    fn new(
        program: Program,
        process: Watched,
        settings: CompressorSettings,
    ) -> Result<Self, WriteError> {
        let raw = match settings.raw {
            true => Some(Arc::new(Mutex::new(RawWriter::create(&settings.files.raw())?))),
            false => None,
        };
        let control = program.control();
        let facts = ProcessFacts {
            rank: settings.rank,
            pid: control.pid.load(SeqCst),
            image: settings.image,
            host: host(),
            front_end: control.front_end.load(SeqCst),
            time: (now(), now()),
            ..ProcessFacts::default()
        };
        let tables = Arc::new(RwLock::new(Tables::default()));
        Ok(Self {
            sealed: SealedWriter::create(&settings.files.sealed())?,
            reserve: Reserve::new(&settings.files),
            process,
            pool: Pool::new(tables.clone(), raw.clone()),
            streams: BTreeMap::new(),
            active: Vec::new(),
            progress_at: Instant::now() + PROGRESS,
            snapshot_at: Instant::now() + PROGRESS,
            settings,
            program,
            tables,
            raw,
            facts,
        })
    }

    fn run(&mut self) -> Result<(), Broken> {
        loop {
            // The end is checked before the round: then the round sees everything that was published before the end.
            let ended = self.program.control().ended.load(SeqCst) != 0;
            let died = !ended && self.process.has_ended();
            let is_idle = self.round()? == 0;
            if is_idle && (ended || died) {
                let is_replaced = self.program.control().replaced.load(SeqCst) != 0;
                self.facts.ended = match ended {
                    true => Ended::Exited,
                    false if is_replaced => Ended::Replaced,
                    false => Ended::Died,
                };
                return self.take_unpublished();
            }
            self.note()?;
            if is_idle {
                let (program, active) = (&self.program, &self.active);
                program.sleep(NAP, || {
                    program.written() == program.read()
                        && active.iter().all(|stream| lock(stream).ready(u64::MAX) == 0)
                        && program.control().ended.load(SeqCst) == 0
                });
            }
        }
    }

    /// Reads the published records of the ledger and compresses the published parts of the rings. Returns how
    /// many records and parts there were.
    fn round(&mut self) -> Result<u64, Broken> {
        let until = self.program.written();
        let mut done = 0;
        loop {
            let tables = self.tables.clone();
            let Some((record, bytes)) = self.program.peek(until)? else { break };
            if read(&tables).replaces_segment(&record) {
                let ledger = self.program.read();
                done += self.take_parts(ledger)?;
            }
            let Some((record, _)) = self.program.peek(until)? else { break };
            write(&tables).apply(&record)?;
            let begun = match record {
                Record::Thread { thread, ring, ring_bytes, .. } => Some((thread, ring, ring_bytes)),
                Record::ThreadEnd { thread } => {
                    self.end_thread(thread)?;
                    None
                }
                _ => None,
            };
            if let Some((thread, ring, ring_bytes)) = begun {
                let ring = self.program.ring(ring, ring_bytes)?;
                let stream = Arc::new(Stream::new(thread, ring, self.settings.window));
                self.active.push(stream.clone());
                self.streams.insert(thread, stream);
            }
            self.program.advance(bytes);
            done += 1;
        }
        Ok(done + self.take_parts(until)?)
    }

    /// Compresses the parts that need no more of the ledger than its first `ledger` bytes.
    fn take_parts(&mut self, ledger: u64) -> Result<u64, Broken> {
        let jobs: Vec<Job> = self
            .active
            .iter()
            .map(|stream| Job { stream: stream.clone(), parts: lock(stream).ready(ledger) })
            .filter(|job| job.parts > 0)
            .collect();
        let parts = jobs.iter().map(|job| job.parts).sum();
        if parts > 0 {
            self.pool.run(jobs)?;
            self.write_sealed()?;
        }
        Ok(parts)
    }

    fn write_sealed(&mut self) -> Result<(), WriteError> {
        for stream in &self.active {
            lock(stream).write_sealed(stream.thread, &mut self.sealed)?;
        }
        Ok(())
    }

    /// Truncates the recording. It keeps the chunks that are in the file, and the open chunks of threads whose full
    /// chunks are all in the file.
    fn break_off(&mut self, broken: &Broken) {
        self.facts.lost = broken.to_string();
        self.reserve.release();
        if matches!(broken, Broken::Removed) {
            self.sealed.bytes = 0;
            self.streams.values().for_each(|stream| lock(stream).clear());
            return;
        }
        // On a full disk the released space is needed for the state.
        if !broken.is_out_of_space() {
            let _ = self.seal_all();
        }
        for stream in self.streams.values() {
            lock(stream).truncate(&read(&self.tables));
        }
    }

    /// A thread has ended. Its ring is emptied now, because another thread may reuse it.
    fn end_thread(&mut self, thread: u32) -> Result<(), Broken> {
        if let Some(stream) = self.streams.get(&thread).cloned() {
            {
                let mut work = lock(&stream);
                let parts = work.ready(u64::MAX);
                let tables = read(&self.tables);
                work.take(parts, thread, &tables, self.raw.as_deref())?;
                work.ring = None;
            }
            self.write_sealed()?;
            self.active.retain(|active| active.thread != thread);
        }
        Ok(())
    }

    /// Compresses what threads have written but not published, after the process has ended.
    fn take_unpublished(&mut self) -> Result<(), Broken> {
        for stream in &self.active {
            let tables = read(&self.tables);
            lock(stream).take_unpublished(stream.thread, &tables, self.raw.as_deref())?;
        }
        Ok(self.write_sealed()?)
    }

    /// From time to time, writes the progress for the waiting command, and the state in case of a crash.
    fn note(&mut self) -> Result<(), Broken> {
        let now = Instant::now();
        if now < self.progress_at {
            return Ok(());
        }
        if self.sealed.is_removed() {
            return Err(Broken::Removed);
        }
        let references = self.streams.values().map(|stream| lock(stream).references()).sum();
        self.settings.files.note_progress(references, self.sealed.bytes);
        self.progress_at = now + PROGRESS;
        if now >= self.snapshot_at {
            for stream in &self.active {
                lock(stream).seal_coded(LARGEST_OPEN);
            }
            self.write_sealed()?;
            // Raw words go first: a state must not count references whose raw words are not in the file.
            self.flush_raw()?;
            let bytes = self.write_state(false)?;
            self.reserve.fit(bytes);
            self.snapshot_at = now + SNAPSHOT.max(now.elapsed() * SNAPSHOT_SHARE);
        }
        Ok(())
    }

    /// Writes the state and returns its size. If it is the last state, the streams are consumed.
    fn write_state(&mut self, is_last: bool) -> Result<usize, Broken> {
        let tables = read(&self.tables);
        let (mut chunks, mut references, mut intra) = (Vec::new(), 0, Duration::ZERO);
        let (mut code, numbers) = tables.code.canonical();
        let mut open_coded = Vec::new();
        for (&thread, stream) in &self.streams {
            let mut work = lock(stream);
            references += work.references();
            intra += work.compressing;
            if let Some(chunk) = work.open_coded() {
                put_chunk(&mut open_coded, thread, &chunk);
            }
            let chunk = match is_last {
                true => work.last_chunk(&tables),
                false => work.open_chunk(&tables),
            };
            let chunk = chunk.renumbered(&numbers, &code.blocks);
            chunks.push((thread, chunk.map_err(StreamError::Memory)?));
        }
        let main = tables.code.modules.values().find(|module| module.is_main);
        self.facts.program = main.map(|module| module.path.clone()).unwrap_or_default();
        (self.facts.threads, self.facts.references) = (chunks.len() as u32, references);
        self.facts.time.1 = now();
        let control = self.program.control();
        let counted = [&control.recorded_blocks, &control.skipped_blocks];
        self.facts.basic_blocks = counted.map(|count| count.load(SeqCst)).into();
        let began = Instant::now();
        let mut merged = Merged::merge(&chunks);
        // Sealed chunks and raw words may refer to any context, so then none is left out.
        if self.sealed.bytes == 0
            && open_coded.is_empty()
            && self.raw.is_none()
            && let Ok(rest) = without_implied(&code, &merged)
        {
            (code, merged) = rest;
        }
        let micros = |time: Duration| time.as_micros() as u64;
        self.facts.stages = (micros(intra), micros(began.elapsed()));
        let mut state = State {
            facts: self.facts.clone(),
            code,
            segments: tables.segments.clone(),
            merged,
            sealed: self.sealed.bytes,
            open_coded,
            numbers,
        };
        if self.settings.redact {
            state.redact(self.settings.files.folder());
        }
        let bytes = state.to_bytes();
        self.settings.files.replace_state(&bytes)?;
        Ok(bytes.len())
    }

    fn finish(&mut self) -> Result<(), Broken> {
        if self.facts.lost.is_empty() {
            let sealed = self.seal_all().and_then(|()| self.flush_raw());
            if let Err(error) = sealed {
                self.break_off(&error.into());
            } else if self.sealed.is_removed() {
                self.break_off(&Broken::Removed);
            }
        }
        let written = self.write_state(self.facts.lost.is_empty());
        self.reserve.release();
        written.map(drop)
    }

    /// Ends all streams, and writes the chunks that are sealed by that.
    fn seal_all(&mut self) -> Result<(), WriteError> {
        for stream in self.streams.values() {
            let mut work = lock(stream);
            work.settle(&read(&self.tables));
            work.write_sealed(stream.thread, &mut self.sealed)?;
        }
        Ok(())
    }

    fn flush_raw(&self) -> Result<(), WriteError> {
        match self.raw.as_ref().map(|raw| raw.lock()) {
            Some(Ok(mut raw)) => raw.flush(),
            _ => Ok(()),
        }
    }
}

/// Locks a stream, even if a thread panicked while it held the lock: the pool reports that as an error.
fn lock(stream: &Stream) -> MutexGuard<'_, Work> {
    stream.work.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn read(tables: &RwLock<Tables>) -> std::sync::RwLockReadGuard<'_, Tables> {
    tables.read().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn write(tables: &RwLock<Tables>) -> std::sync::RwLockWriteGuard<'_, Tables> {
    tables.write().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn host() -> String {
    let mut name = [0u8; 256];
    // SAFETY: at most as many bytes as there is room for.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    String::from_utf8_lossy(&name[..end]).into_owned()
}
