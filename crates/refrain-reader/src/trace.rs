//! An open trace of calls: its sections, read when they are first asked for.

use crate::decoder::times::Times;
use crate::decoder::{Decoder, TaskError};
use crate::durations::Durations;
use crate::error::TraceError;
use crate::event::Event;
use crate::functions::Functions;
use crate::meta::{Meta, ProcessStreams};
use crate::objects::Objects;
use crate::raw::{DecodeError, Events};
use crate::residue::ResidueSections;
use crate::structure::Structure;
use crate::timing::Wanted;
use crate::view::{TaskView, handle_names};
use crate::{clocks, sections};
use refrain_container::Container;
use refrain_fold::Form;
use refrain_fold::histograms::HistogramTrace;
use refrain_format::define::FunctionDef;
use refrain_mpi::abi::Family;
use refrain_mpi::names::HandleTable;
use refrain_structure::group::Residue;
use refrain_structure::merged::Merged;
use refrain_structure::read;
use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub use refrain_signature::stats::Stats;
pub use refrain_structure::group::Group;

/// A trace that takes no more memory than this is read even on a smaller machine.
const LITTLE_MEMORY: u64 = 1 << 30;

/// The machine's memory in bytes.
fn physical_memory() -> u64 {
    let facts = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = facts.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|total| total.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.map_or(LITTLE_MEMORY, |kilobytes| kilobytes << 10)
}

/// How the sequences of calls are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredForm {
    /// As grammars, in the section `structure`.
    Grammar,
    /// With predicted and coded signatures, in the section `nest`.
    Coded {
        /// As loop nests, not as grammars.
        is_nest: bool,
        /// The bytes that the section `structure` would take.
        instead: u64,
    },
    /// With histograms of values: not losslessly ([`CallTrace::histograms`]).
    Histograms,
}

/// An open trace of calls.
///
/// Opening reads the facts of the run. The structure, and the residue of single ranks, are read when they are first
/// asked for. Calls are decoded from the structure in place: tasks of one group share it, however many.
#[derive(Debug)]
pub struct CallTrace {
    pub(crate) container: Container,
    pub(crate) meta: Meta,
    processes: Vec<ProcessStreams>,
    /// For each stream the index of its process.
    process_of: Vec<usize>,
    merged: OnceLock<Merged>,
    histograms: OnceLock<HistogramTrace>,
    functions: OnceLock<Functions>,
    /// The statistics of durations, or why they cannot be read.
    durations: OnceLock<Result<Option<Durations>, String>>,
    /// Whether statistics are by signature, as in older files.
    has_row_statistics: OnceLock<bool>,
    residues: ResidueSections,
    /// The objects of the process that was read last, with its index.
    objects: Mutex<Option<(usize, Arc<Objects>)>>,
}

impl CallTrace {
    /// Opens a trace.
    pub fn open(path: &Path) -> Result<CallTrace, TraceError> {
        CallTrace::of(Container::open(path)?)
    }

    /// The trace in a container.
    pub fn of(container: Container) -> Result<CallTrace, TraceError> {
        // An unknown name may be a damaged one.
        for section in container.sections().iter().filter(|s| !sections::is_known(&s.name)) {
            container.check(&section.name)?;
        }
        let meta = container.read_checked(sections::META)?;
        let unread = |section: &str| TraceError::Section {
            path: container.path().to_owned(),
            section: section.into(),
            why: "it does not read".into(),
        };
        let mut meta = Meta::from_bytes(&meta).ok_or_else(|| unread(sections::META))?;
        if container.section(sections::CLOCKS).is_ok() {
            let bytes = container.read_checked(sections::CLOCKS)?;
            clocks::read(&bytes, &mut meta).ok_or_else(|| unread(sections::CLOCKS))?;
        }
        let processes = meta.processes();
        let mut process_of = vec![0; meta.streams.len()];
        for (index, process) in processes.iter().enumerate() {
            process.streams.iter().for_each(|s| process_of[*s] = index);
        }
        Ok(CallTrace {
            container,
            meta,
            processes,
            process_of,
            merged: OnceLock::new(),
            histograms: OnceLock::new(),
            functions: OnceLock::new(),
            durations: OnceLock::new(),
            has_row_statistics: OnceLock::new(),
            residues: ResidueSections::default(),
            objects: Mutex::default(),
        })
    }

    /// Its facts.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The file.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// Whether the file has the raw records, too.
    pub fn has_raw(&self) -> bool {
        self.container.sections().iter().any(|s| s.name.starts_with(sections::RAW))
    }

    /// Whether the times of every call are kept.
    pub fn has_times(&self) -> bool {
        self.container.sections().iter().any(|s| s.name.starts_with(sections::TIMES))
    }

    /// How the times of every call are kept, if they are.
    pub fn timing(&self) -> Result<Option<Wanted>, TraceError> {
        if self.container.section(sections::TIMING_SETTING).is_err() {
            return Ok(None);
        }
        let bytes = self.container.read_checked(sections::TIMING_SETTING)?;
        let wanted = str::from_utf8(&bytes).ok().and_then(Wanted::from_text);
        let wanted = wanted.ok_or_else(|| self.bad(sections::TIMING_SETTING, "it does not read"));
        wanted.map(Some)
    }

    fn times_section(&self, stream: usize) -> Result<Option<Box<dyn Read + '_>>, TraceError> {
        let section = format!("{}{stream}", sections::TIMES);
        match self.container.section(&section) {
            Ok(_) => Ok(Some(Box::new(BufReader::new(self.container.read(&section)?)))),
            Err(_) => Ok(None),
        }
    }

    /// The times of a stream's calls, in the order of their return; none if they were not kept.
    pub fn times(&self, stream: usize) -> Result<Option<Times<'_>>, TraceError> {
        match (self.view(stream)?, self.times_section(stream)?) {
            (Some(view), Some(bytes)) => Ok(Some(Times::new(&view, bytes))),
            _ => Ok(None),
        }
    }

    /// The name of the section that has signatures and sequences.
    pub fn structure_section(&self) -> &'static str {
        let mut others = [sections::NEST, sections::HISTOGRAMS].into_iter();
        let there = others.find(|name| self.container.section(name).is_ok());
        there.unwrap_or(sections::STRUCTURE)
    }

    /// Its loops with histograms of values, if it has these instead of calls. Then everything that needs single calls
    /// returns [`TraceError::Histograms`].
    pub fn histograms(&self) -> Result<Option<&HistogramTrace>, TraceError> {
        if self.structure_section() != sections::HISTOGRAMS {
            return Ok(None);
        }
        if let Some(histograms) = self.histograms.get() {
            return Ok(Some(histograms));
        }
        let bytes = self.container.read_checked(sections::HISTOGRAMS)?;
        let read = refrain_fold::histograms::read(&bytes);
        let histograms = read.map_err(|why| self.bad(sections::HISTOGRAMS, why))?;
        Ok(Some(self.histograms.get_or_init(|| histograms)))
    }

    /// How the sequences of calls are stored.
    pub fn form(&self) -> Result<StoredForm, TraceError> {
        match self.structure_section() {
            sections::STRUCTURE => return Ok(StoredForm::Grammar),
            sections::HISTOGRAMS => return Ok(StoredForm::Histograms),
            _ => {}
        }
        let bytes = self.container.read_checked(sections::NEST)?;
        match refrain_fold::facts(&bytes) {
            Some((form, facts)) => {
                Ok(StoredForm::Coded { is_nest: form == Form::Nests, instead: facts.instead })
            }
            None => Err(self.bad(sections::NEST, "it does not read")),
        }
    }

    /// How many frames of call stacks may differ that are one place of its loop nests, as they are stored.
    pub fn fuzzy_frames(&self) -> Result<usize, TraceError> {
        if self.structure_section() != sections::NEST {
            return Ok(0);
        }
        let bytes = self.container.read_checked(sections::NEST)?;
        Ok(refrain_fold::facts(&bytes).map_or(0, |(_, facts)| facts.frames))
    }

    fn bad(&self, section: &str, why: impl ToString) -> TraceError {
        let path = self.container.path().to_owned();
        TraceError::Section { path, section: section.to_owned(), why: why.to_string() }
    }

    /// Signatures and grammars of all tasks, without the residue of single ranks.
    pub fn structure(&self) -> Result<&Merged, TraceError> {
        if let Some(merged) = self.merged.get() {
            return Ok(merged);
        }
        let section = self.structure_section();
        if section == sections::HISTOGRAMS {
            return Err(TraceError::Histograms { path: self.container.path().to_owned() });
        }
        let bytes = self.container.read_checked(section)?;
        let needed = match section {
            sections::NEST => refrain_fold::most_memory(&bytes),
            _ => read::most_memory(&bytes),
        };
        let there = physical_memory();
        if needed > there.max(LITTLE_MEMORY) {
            let why = format!(
                "it may take {} GB of memory, more than this machine has: use a larger one",
                needed >> 30
            );
            return Err(self.bad(section, why));
        }
        let rows =
            match (read::has_row_statistics(&bytes), self.container.section(sections::TIMING)) {
                (true, Ok(section)) => {
                    // More would not be unpacked.
                    let most = (section.stored << 10).max(1 << 26);
                    section.full.min(most) as usize / read::ROW_TIMING
                }
                _ => usize::MAX,
            };
        let has_rows = match section {
            sections::NEST => refrain_fold::has_row_statistics(&bytes),
            _ => read::has_row_statistics(&bytes),
        };
        let merged = match section {
            sections::NEST => refrain_fold::read(&bytes),
            _ => read::structure_of_rows(&bytes, rows),
        };
        let merged = merged.map_err(|why| self.bad(section, why))?;
        self.has_row_statistics.get_or_init(|| has_rows);
        Ok(self.merged.get_or_init(|| merged))
    }

    /// Whether its statistics are by signature, as in older files.
    pub fn has_row_statistics(&self) -> Result<bool, TraceError> {
        self.structure()?;
        Ok(self.has_row_statistics.get().copied().unwrap_or(false))
    }

    /// The statistics of durations; none if the file has none.
    pub fn durations(&self) -> Result<Option<&Durations>, TraceError> {
        let merged = self.structure()?;
        if self.durations.get().is_none() {
            let durations = self.read_durations(merged).map_err(|error| error.to_string());
            self.durations.get_or_init(|| durations);
        }
        match self.durations.get() {
            Some(Ok(durations)) => Ok(durations.as_ref()),
            Some(Err(why)) => Err(TraceError::Timing(why.clone())),
            None => Ok(None),
        }
    }

    fn read_durations(&self, merged: &Merged) -> Result<Option<Durations>, TraceError> {
        if self.container.section(sections::TIMING).is_err() {
            return Ok(None);
        }
        let bytes = self.container.read_checked(sections::TIMING)?;
        let has_rows = self.has_row_statistics.get().copied().unwrap_or(false);
        let residues = if has_rows { Vec::new() } else { self.residues()? };
        let durations = Durations::read(merged, has_rows, &bytes, &residues);
        durations.map(Some).map_err(|why| self.bad(sections::TIMING, why))
    }

    pub(crate) fn process_streams(&self) -> &[ProcessStreams] {
        &self.processes
    }

    /// The process of a stream.
    pub fn process_of(&self, stream: usize) -> Option<&ProcessStreams> {
        self.processes.get(*self.process_of.get(stream)?)
    }

    /// The rank index of a stream's process ([`ProcessStreams::rank_index`]).
    pub fn rank_index(&self, stream: usize) -> u32 {
        self.process_of(stream).map_or(0, |process| process.rank_index)
    }

    /// The residue of a task: outcomes and failed polls that its group does not share.
    pub fn residue(&self, stream: usize) -> Result<Arc<Residue>, TraceError> {
        let thread = self.meta.streams.get(stream).map_or(0, |s| s.thread);
        if self.structure_section() == sections::NEST {
            let rank = self.rank_index(stream);
            let mut groups = self.structure()?.groups.iter().filter(|group| group.thread == thread);
            let residue = groups.find_map(|group| group.residues.get(&rank));
            return Ok(residue.map_or_else(Arc::default, |residue| Arc::new(residue.clone())));
        }
        self.residues.of(&self.container, self.rank_index(stream), thread)
    }

    /// The residue of all tasks ([`CallTrace::residue`]), each with its rank index and thread.
    pub fn residues(&self) -> Result<Vec<(u32, u32, Residue)>, TraceError> {
        if self.structure_section() == sections::NEST {
            let groups = self.structure()?.groups.iter();
            let of = |group: &Group| {
                let thread = group.thread;
                let residue = |(rank, residue): (&u32, &Residue)| (*rank, thread, residue.clone());
                group.residues.iter().map(residue).collect::<Vec<_>>()
            };
            return Ok(groups.flat_map(of).collect());
        }
        self.residues.all(&self.container)
    }

    /// The functions that are called, by their numbers in signatures.
    pub fn function_table(&self) -> Result<&Functions, TraceError> {
        if let Some(functions) = self.functions.get() {
            return Ok(functions);
        }
        let texts = self.structure()?.functions.iter();
        let texts = texts.map(|(number, text)| (*number, text.as_str()));
        let functions = Functions::read(texts).map_err(|source| self.task_error(source))?;
        Ok(self.functions.get_or_init(|| functions))
    }

    pub(crate) fn task_error(&self, source: TaskError) -> TraceError {
        TraceError::Task { path: self.container.path().to_owned(), source }
    }

    /// A task, in place; none if it made no call.
    pub fn view(&self, stream: usize) -> Result<Option<TaskView<'_>>, TraceError> {
        let Some(meta) = self.meta.streams.get(stream) else { return Ok(None) };
        let (rank_index, mut groups) = (self.rank_index(stream), self.structure()?.groups.iter());
        let group = groups.find(|g| g.thread == meta.thread && g.ranks.contains(rank_index));
        let Some(group) = group else { return Ok(None) };
        let family = Family::from_code(meta.family).unwrap_or(Family::Mpich);
        let (functions, residue) = (self.function_table()?, self.residue(stream)?);
        Ok(Some(TaskView::new(group, functions, rank_index, family, residue)))
    }

    /// The objects that the process of a stream makes, in any of its threads.
    pub(crate) fn objects(&self, stream: usize) -> Result<Arc<Objects>, TraceError> {
        let Some(&process) = self.process_of.get(stream) else { return Ok(Arc::default()) };
        let last = || self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((index, objects)) = &*last()
            && *index == process
        {
            return Ok(objects.clone());
        }
        let streams = self.processes.get(process).map_or(&[][..], |process| &process.streams);
        let views = streams.iter().filter_map(|stream| self.view(*stream).transpose());
        let views: Vec<TaskView<'_>> = views.collect::<Result<_, _>>()?;
        let objects = Objects::of(&views).map_err(|source| self.task_error(source))?;
        let objects = Arc::new(objects);
        *last() = Some((process, objects.clone()));
        Ok(objects)
    }

    /// The objects that the process with this rank index makes.
    pub(crate) fn objects_of_rank(&self, rank_index: u32) -> Result<Arc<Objects>, TraceError> {
        let process = self.processes.iter().find(|process| process.rank_index == rank_index);
        match process.and_then(|process| process.streams.first()) {
            Some(stream) => self.objects(*stream),
            None => Ok(Arc::default()),
        }
    }

    /// The structures: tasks that do the same, symbolically.
    pub fn structures(&self) -> Result<impl Iterator<Item = Structure<'_>>, TraceError> {
        let functions = self.function_table()?;
        Ok(self.structure()?.groups.iter().enumerate().map(move |(number, group)| Structure {
            number,
            group,
            functions,
            trace: self,
        }))
    }

    /// The calls of a stream, from the compressed trace.
    pub fn decode(&self, stream: usize) -> Result<Option<Decoder<'_>>, TraceError> {
        let times = self.times_section(stream)?;
        Ok(self.view(stream)?.map(|view| match times {
            Some(times) => view.decode().with_times(times),
            None => view.decode(),
        }))
    }

    /// How often a stream calls each function.
    pub fn calls(&self, stream: usize) -> Result<BTreeMap<String, u64>, TraceError> {
        Ok(self.view(stream)?.map(|view| view.calls_by_function()).unwrap_or_default())
    }

    /// The definitions of the functions that are called, by their numbers in signatures, without notes.
    pub fn functions(&self) -> Result<BTreeMap<u16, Arc<FunctionDef>>, TraceError> {
        let called = self.function_table()?.called();
        Ok(called.map(|(number, function)| (number, function.def.clone())).collect())
    }

    /// One call for each rank index and signature of a group; see [`TaskView::samples`].
    pub fn samples(
        &self,
        group: &Group,
        wanted: &[(u32, usize)],
    ) -> Result<Vec<Event>, TraceError> {
        let functions = self.function_table()?;
        let none = Arc::new(Residue::default());
        let mut events = Vec::with_capacity(wanted.len());
        for some in wanted.chunk_by(|a, b| a.0 == b.0) {
            let rank_index = some.first().map_or(0, |(rank_index, _)| *rank_index);
            let signatures: Vec<u32> = some.iter().map(|(_, row)| *row as u32).collect();
            let view = TaskView::new(group, functions, rank_index, self.family(), none.clone());
            events.extend(view.samples(&signatures).map_err(|why| self.task_error(why))?);
        }
        Ok(events)
    }

    /// The names of the handles in a group's samples.
    pub fn sample_names(&self, group: &Group) -> HandleTable {
        handle_names(&group.predefined)
    }

    /// The family of the MPI of the first process; no job has two.
    pub fn family(&self) -> Family {
        let first = self.meta.streams.first();
        first.and_then(|s| Family::from_code(s.family)).unwrap_or(Family::Mpich)
    }

    /// The calls of a stream, from its records.
    pub fn raw(&self, stream: usize) -> Result<Events<Box<dyn Read>>, TraceError> {
        let section = format!("{}{stream}", sections::RAW);
        Ok(Events::named(self.container.read(&section)?, format!("section `{section}`")))
    }

    /// The records of a stream as they were written.
    pub fn records(&self, stream: usize) -> Result<Box<dyn Read>, TraceError> {
        Ok(self.container.read(&format!("{}{stream}", sections::RAW))?)
    }

    /// The calls of a stream from the compressed trace, whether or not its records were kept.
    pub fn decoded(&self, stream: usize) -> Result<StreamEvents<'_>, TraceError> {
        Ok(match self.decode(stream)? {
            Some(decoder) => StreamEvents::Decoded(Box::new(decoder)),
            None => StreamEvents::None,
        })
    }

    /// The same, without the times of calls: these may be damaged though the calls are not.
    pub fn untimed(&self, stream: usize) -> Result<StreamEvents<'_>, TraceError> {
        Ok(match self.view(stream)? {
            Some(view) => StreamEvents::Decoded(Box::new(view.decode())),
            None => StreamEvents::None,
        })
    }

    /// The calls of a stream: from its records, if they were kept.
    pub fn events(&self, stream: usize) -> Result<StreamEvents<'_>, TraceError> {
        match self.has_raw() {
            true => Ok(StreamEvents::Raw(Box::new(self.raw(stream)?))),
            false => self.decoded(stream),
        }
    }
}

/// The calls of a stream.
pub enum StreamEvents<'t> {
    /// From records.
    Raw(Box<Events<Box<dyn Read>>>),
    /// From the compressed trace.
    Decoded(Box<Decoder<'t>>),
    /// The stream has no calls.
    None,
}

impl StreamEvents<'_> {
    /// Names of predefined handles.
    pub fn handle_names(&self) -> HandleTable {
        match self {
            StreamEvents::Raw(events) => {
                let names = events.handle_names().iter();
                names.map(|((kind, value), name)| (kind.as_str(), *value, name.as_str())).collect()
            }
            StreamEvents::Decoded(decoder) => decoder.handle_names(),
            StreamEvents::None => HandleTable::default(),
        }
    }
}

impl Iterator for StreamEvents<'_> {
    type Item = Result<Event, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            StreamEvents::Raw(events) => events.next(),
            StreamEvents::Decoded(decoder) => {
                let next = decoder.next()?;
                let section = "structure";
                let named = |error| DecodeError::Trace(format!("section `{section}`: {error}"));
                Some(next.map_err(named))
            }
            StreamEvents::None => None,
        }
    }
}
