//! Assembles a trace from the parts of a run.

use crate::form::{self, Structure};
use crate::parts::{Part, State, part_error, read_parts};
use crate::steps::Steps;
use crate::times::StreamTimes;
use crate::{align, ready};
use refrain_container::{Codec, Writer};
use refrain_encode::encoder::{Batch, Encoder};
use refrain_encode::times::{Block, Setting};
use refrain_fold::Facts;
use refrain_format::define::FunctionDef;
use refrain_format::state;
use refrain_mpi::abi::Family;
use refrain_mpi::interface;
use refrain_reader::TraceError;
use refrain_reader::meta::{Meta, ProcessStreams, StreamMeta};
use refrain_reader::timing::Wanted;
use refrain_reader::view::SingleTask;
use refrain_reader::{clocks, parallel, sections};
use refrain_signature::tasktrace::TaskTrace;
use refrain_signature::timekey::Detail;
use refrain_structure::merged::Merged;
use refrain_structure::times;
use refrain_structure::write::write;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

/// What to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The trace.
    Trace,
    /// The trace and the records that it was made of.
    Raw,
}

/// Makes a trace from a folder of parts. `meta` describes the run; its streams are filled in. Returns
/// the metadata that was written and the size of the file. `steps` counts what is done.
pub fn assemble(
    folder: &Path,
    trace: &Path,
    keep: Keep,
    structure: Structure,
    mut meta: Meta,
    steps: &Steps,
) -> Result<(Meta, u64), TraceError> {
    steps.begin("reading records", 0);
    let (parts, lost) = read_parts(folder)?;
    meta.streams = parts.iter().map(|p| p.stream.clone()).collect();
    meta.lost = lost;
    meta.raw_bytes = meta.streams.iter().fold(0, |sum, s| s.bytes.saturating_add(sum));
    (meta.tick, meta.time) = clock(&meta.streams);
    let mut timing = Timing { wanted: Wanted::of(folder), tick: meta.tick, times: Vec::new() };
    let merged = match ready::of(folder, &parts, &mut meta) {
        Some(merged) => {
            timing.take_from(&parts, &mut meta)?;
            merged
        }
        None => merge(&parts, &mut meta, &mut timing, steps)?,
    };
    align::align(&parts, &mut meta);
    if meta.is_redacted() {
        meta.redact();
    }
    let mut writer = Writer::create(trace)?;
    steps.begin("compressing", 0);
    write_sections(&mut writer, &meta, &merged, structure)?;
    if keep == Keep::Raw || timing.wanted.is_some() {
        writer.add_bytes(sections::CLOCKS, &clocks::to_bytes(&meta))?;
    }
    if let Some(wanted) = &timing.wanted {
        writer.add_bytes(sections::TIMING_SETTING, wanted.to_text().as_bytes())?;
    }
    timing.times.sort_by_key(|times| times.stream);
    for times in &timing.times {
        let name = format!("{}{}", sections::TIMES, times.stream);
        writer.add(&name, Codec::Stored, &mut times.reader())?;
    }
    if keep == Keep::Raw {
        for (index, part) in parts.iter().enumerate() {
            let mut records = part.records(0).map_err(|source| part_error(&part.path, source))?;
            writer.add(&format!("{}{index}", sections::RAW), Codec::Stored, &mut records)?;
        }
    }
    let bytes = writer.finish()?;
    Ok((meta, bytes))
}

fn write_sections(
    writer: &mut Writer,
    meta: &Meta,
    merged: &Merged,
    structure: Structure,
) -> Result<(), TraceError> {
    let streams = write(merged);
    writer.add_bytes(sections::META, &meta.to_bytes())?;
    if !form::add(writer, merged, &streams, structure, Facts::default())? {
        form::add_residues(writer, &streams)?;
    }
    writer.add_bytes(sections::TIMING, &statistics(merged, writer.len()))?;
    Ok(())
}

/// Statistics may always have this many bytes, also in a file of a few hundred.
const LEAST_STATISTICS: usize = 128;

/// The statistics in as much detail as fits into a quarter of the file.
fn statistics(merged: &Merged, others: u64) -> Vec<u8> {
    let most = usize::try_from(others / 3).unwrap_or(usize::MAX).max(LEAST_STATISTICS);
    let mut bytes = Vec::new();
    for detail in Detail::ALL {
        bytes = times::write(merged, detail);
        if bytes.len() <= most {
            break;
        }
    }
    bytes
}

/// What was made of one process, or of several.
#[derive(Default)]
struct Encoding {
    merged: Merged,
    /// By stream.
    calls: Vec<(usize, BTreeMap<String, u64>)>,
    times: Vec<StreamTimes>,
    definitions: Definitions,
    /// What was unreadable.
    lost: Vec<String>,
    /// The first failure.
    failed: Option<TraceError>,
}

impl Encoding {
    /// Encodes the records of a process.
    fn of(parts: &[&Part], process: &ProcessStreams, meta: &Meta, timing: &Timing) -> Encoding {
        let mut encoding = Encoding::default();
        let encoded = encode(parts, &mut encoding.lost, timing.setting());
        let times = encoded.and_then(|Encoded { tasks, times, .. }| {
            let times = timing.of(parts[0], process, &meta.streams, &tasks, times);
            for (thread, task) in &tasks {
                encoding.definitions.note(&task.functions);
                let stream = process.streams.iter().find(|s| meta.streams[**s].thread == *thread);
                encoding.calls.extend(stream.map(|stream| (*stream, task.calls())));
            }
            let task = |(thread, task)| Merged::of(process.rank_index, thread, task);
            encoding.merged = Merged::merge_all(tasks.into_iter().map(task));
            times
        });
        match times {
            Ok(times) => encoding.times = times,
            Err(error) => encoding.failed = Some(error),
        }
        encoding
    }

    /// Adds what was made of later processes.
    fn join(mut self, later: Encoding) -> Encoding {
        self.calls.extend(later.calls);
        self.times.extend(later.times);
        self.definitions.add(later.definitions);
        self.lost.extend(later.lost);
        let failed = self.failed.or(later.failed);
        Encoding { merged: self.merged.merge(later.merged), failed, ..self }
    }
}

/// Encodes the records of all processes and merges their tasks, several processes at a time.
fn merge(
    parts: &[Part],
    meta: &mut Meta,
    timing: &mut Timing,
    steps: &Steps,
) -> Result<Merged, TraceError> {
    let processes = meta.processes();
    steps.begin("encoding ranks", processes.len());
    let (facts, setting) = (&*meta, &*timing);
    let encode = |number: usize| {
        let process = &processes[number];
        let parts: Vec<&Part> = process.streams.iter().map(|s| &parts[*s]).collect();
        let encoding = Encoding::of(&parts, process, facts, setting);
        steps.advance();
        encoding
    };
    let all = parallel::reduce(processes.len(), encode, Encoding::join).unwrap_or_default();
    let Encoding { mut merged, calls, times, definitions, lost, failed } = all;
    definitions.resolve(&mut merged.functions);
    for (stream, calls) in calls {
        meta.streams[stream].calls = calls;
    }
    timing.times.extend(times);
    meta.lost.extend(lost);
    failed.map_or(Ok(merged), Err)
}

/// Collects the times of calls.
struct Timing {
    wanted: Option<Wanted>,
    /// A tick in nanoseconds.
    tick: f64,
    times: Vec<StreamTimes>,
}

impl Timing {
    /// The setting for the encoder in each process.
    fn setting(&self) -> Option<Setting> {
        self.wanted.as_ref().map(Wanted::in_processes)
    }

    /// The times of a process, in the requested mode.
    fn of(
        &self,
        part: &Part,
        process: &ProcessStreams,
        streams: &[StreamMeta],
        tasks: &[(u32, TaskTrace)],
        times: Vec<(u32, Vec<Block>)>,
    ) -> Result<Vec<StreamTimes>, TraceError> {
        let mut all = Vec::new();
        let Some(wanted) = &self.wanted else { return Ok(all) };
        for (thread, blocks) in times.into_iter().filter(|(_, blocks)| !blocks.is_empty()) {
            let stream = process.streams.iter().find(|s| streams[**s].thread == thread);
            let task = tasks.iter().find(|(of, _)| *of == thread);
            let (Some(&stream), Some((_, task))) = (stream, task) else { continue };
            let spilled = State::beside(part, state::sealed_file_name);
            let times = StreamTimes { stream, blocks, spilled };
            all.push(match wanted.setting.mode == wanted.in_processes().mode {
                true => times,
                false => {
                    let path = times.spilled.clone();
                    let task = SingleTask::new(task.clone(), Family::Mpich, thread);
                    let task =
                        task.map_err(|why| TraceError::Times { path, why: why.to_string() })?;
                    times.recoded(&task.view(), wanted, self.tick)?
                }
            });
        }
        Ok(all)
    }

    /// Adds the times of processes that merged their traces in `MPI_Finalize`.
    fn take_from(&mut self, parts: &[Part], meta: &mut Meta) -> Result<(), TraceError> {
        if self.wanted.is_none() {
            return Ok(());
        }
        for process in &meta.processes() {
            let parts: Vec<&Part> = process.streams.iter().map(|s| &parts[*s]).collect();
            let Encoded { tasks, times, .. } = encode(&parts, &mut meta.lost, self.setting())?;
            let times = self.of(parts[0], process, &meta.streams, &tasks, times)?;
            self.times.extend(times);
        }
        Ok(())
    }
}

/// The function definitions of all tasks. They should agree; a damaged log must not change the calls of
/// other tasks.
#[derive(Default)]
struct Definitions(BTreeMap<u16, BTreeMap<String, usize>>);

impl Definitions {
    /// Adds the definitions of a task.
    fn note(&mut self, functions: &[(u16, String)]) {
        for (number, text) in functions {
            let texts = self.0.entry(*number).or_default();
            match texts.get_mut(text) {
                Some(times) => *times += 1,
                None => drop(texts.insert(text.clone(), 1)),
            }
        }
    }

    /// Adds the definitions of other tasks.
    fn add(&mut self, others: Definitions) {
        for (number, texts) in others.0 {
            let known = self.0.entry(number).or_default();
            for (text, times) in texts {
                *known.entry(text).or_default() += times;
            }
        }
    }

    /// Where tasks disagree, takes the most frequent definition; of equally frequent ones, the one of this
    /// Refrain's table.
    fn resolve(self, functions: &mut BTreeMap<u16, String>) {
        let is_known = |text: &str| {
            let mut known = interface::functions().iter();
            known.any(|f| text.starts_with(&f.name) && FunctionDef::from(f).to_text() == text)
        };
        for (number, texts) in self.0.into_iter().filter(|(_, texts)| texts.len() > 1) {
            let most = texts.into_iter().max_by_key(|(text, times)| (*times, is_known(text)));
            functions.extend(most.map(|(text, _)| (number, text)));
        }
    }
}

/// The encoded parts of a process.
pub struct Encoded {
    /// By thread.
    pub tasks: Vec<(u32, TaskTrace)>,
    /// By thread, the calls that have not returned, outermost first: number and start in ticks.
    pub open: Vec<(u32, Vec<(u64, u64)>)>,
    /// By thread, the times of its calls, if they were recorded.
    pub times: Vec<(u32, Vec<Block>)>,
}

/// The tasks of a process, from its state and from the records that it has not encoded. The process may
/// still be running; then all complete records are used. Appends what was unreadable to `lost`. `timing`
/// is the setting for times if the process has no state yet.
pub fn encode(
    parts: &[&Part],
    lost: &mut Vec<String>,
    timing: Option<Setting>,
) -> Result<Encoded, TraceError> {
    let family = parts.first().and_then(|p| Family::from_code(p.stream.family));
    let known = parts.first().and_then(|part| State::positions_of(part)).unwrap_or_default();
    let mut logs = Vec::new();
    for part in parts {
        let thread = part.stream.thread;
        let known = known.get(&thread).copied().unwrap_or(0);
        let (start, log) = log_of(part, known).map_err(|source| part_error(&part.path, source))?;
        logs.push((*part, start, log));
    }
    // The state must be read after the logs. A log restarts only after a state was written, so this
    // state covers everything before the beginning of each log that was read.
    let state = match parts.first().map(|part| State::of(part)) {
        Some(Err(why)) => {
            lost.push(why);
            None
        }
        Some(Ok(state)) => state,
        None => None,
    };
    let fresh = || {
        let mut encoder = Encoder::new(family.unwrap_or(Family::Mpich));
        if let Some(setting) = timing {
            encoder.keep_times(setting);
        }
        State { encoder, encoded: BTreeMap::new() }
    };
    let State { mut encoder, encoded } = state.unwrap_or_else(fresh);
    let mut batches = Vec::new();
    for (part, start, log) in &logs {
        let thread = part.stream.thread;
        let from = encoded.get(&thread).copied().unwrap_or(0);
        let Some(skip) = from.checked_sub(*start) else {
            let path = part.path.display();
            lost.push(format!("{path}: records before byte {start} are missing"));
            continue;
        };
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        batches.push(Batch { thread, records: log.get(skip..).unwrap_or_default() });
    }
    for damage in encoder.feed(&batches) {
        let path = parts.iter().find(|p| p.stream.thread == damage.thread).map(|p| &p.path);
        let path = path.map(|p| p.display().to_string()).unwrap_or_default();
        lost.push(format!("{path}: {} at byte {} of its records", damage.what, damage.at));
    }
    let open = |thread: u32| {
        let calls = encoder.open_calls(thread).into_iter();
        (thread, calls.map(|(_, number, start)| (number.into(), start)).collect())
    };
    let open = (0..encoder.threads()).map(open).collect();
    encoder.finish();
    let task = |thread: u32| Some((thread, encoder.task_trace(thread)?));
    let tasks = (0..encoder.threads()).filter_map(task).collect();
    let times = (0..encoder.threads()).map(|thread| (thread, encoder.take_times(thread)));
    let times = times.collect();
    Ok(Encoded { tasks, open, times })
}

/// The log of a part from a position on, and the position where it begins. That is later if a state
/// already covers what comes before.
fn log_of(part: &Part, from: u64) -> io::Result<(u64, Vec<u8>)> {
    /// How often a log is read again if it restarts meanwhile.
    const TRIES: usize = 16;
    let read = |part: &Part| {
        let (start, mut log) = (from.max(part.base), Vec::new());
        part.records(start)?.read_to_end(&mut log).map(|_| (start, log))
    };
    let mut log = read(part)?;
    let mut is_current = part.is_current();
    for _ in 0..TRIES {
        let Some(now) = (!is_current).then(|| part.again()).flatten() else { break };
        log = read(&now)?;
        is_current = now.is_current();
    }
    Ok(log)
}

/// Nanoseconds per tick, and the first and last moment of all streams.
fn clock(streams: &[StreamMeta]) -> (f64, (u64, u64)) {
    let rate = |s: &StreamMeta| {
        let [(t0, n0), (t1, n1)] = s.clock;
        (t1 > t0 && n1 > n0).then(|| ((n1 - n0) as f64 / (t1 - t0) as f64, n1 - n0))
    };
    // The longest interval gives the most precise rate.
    let rates = streams.iter().filter_map(rate);
    let tick = rates.max_by_key(|(_, span)| *span).map_or(1.0, |(rate, _)| rate);
    let begin = streams.iter().map(|s| s.clock[0].1).min().unwrap_or(0);
    let end = streams.iter().map(|s| s.clock[1].1.max(s.clock[0].1)).max().unwrap_or(begin);
    (tick, (begin, end))
}
