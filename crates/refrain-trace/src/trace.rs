//! An open trace.

use crate::error::TraceError;
use crate::meta::Meta;
use crate::times::Wanted;
use crate::{clocks, sections};
use refrain_container::Container;
use refrain_format::define::FunctionDef;
use refrain_grammar::{Grammar, Symbol};
use refrain_mpi::abi::Family;
use refrain_mpi::names::HandleTable;
use refrain_reader::decoder::Decoder;
use refrain_reader::decoder::times::Times;
use refrain_reader::event::Event;
use refrain_reader::raw::{DecodeError, Events};
use refrain_signature::cells::Cells;
use refrain_signature::head::Head;
use refrain_signature::notes;
use refrain_signature::tasktrace::{SignatureTrace, TaskTrace};
use refrain_structure::group::Own;
use refrain_structure::merged::Merged;
use refrain_structure::read;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::OnceLock;

pub use refrain_signature::stats::Stats;
pub use refrain_structure::group::Group;

/// A trace that takes no more memory than this is read on any machine.
const LITTLE_MEMORY: u64 = 1 << 30;

/// The machine's memory in bytes.
fn physical_memory() -> u64 {
    let facts = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = facts.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|total| total.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.map_or(LITTLE_MEMORY, |kilobytes| kilobytes << 10)
}

/// An open trace.
#[derive(Debug)]
pub struct Trace {
    container: Container,
    meta: Meta,
    /// For each stream the place of its process.
    places: Vec<u32>,
    merged: OnceLock<Merged>,
    /// Why durations do not read, if they do not.
    bad_timing: OnceLock<String>,
    tasks: Vec<OnceLock<Box<TaskTrace>>>,
}

impl Trace {
    /// Opens a trace.
    pub fn open(path: &Path) -> Result<Trace, TraceError> {
        let container = Container::open(path)?;
        // A name that nobody asks for may be one that was damaged.
        for section in container.sections().iter().filter(|s| !sections::is_known(&s.name)) {
            container.check(&section.name)?;
        }
        let meta = container.read_checked(sections::META)?;
        let unread = |section: &str| TraceError::Section {
            path: path.to_owned(),
            section: section.into(),
            why: "it does not read".into(),
        };
        let mut meta = Meta::from_bytes(&meta).ok_or_else(|| unread(sections::META))?;
        if container.section(sections::CLOCKS).is_ok() {
            let bytes = container.read_checked(sections::CLOCKS)?;
            clocks::read(&bytes, &mut meta).ok_or_else(|| unread(sections::CLOCKS))?;
        }
        let mut places = vec![0; meta.streams.len()];
        for process in meta.processes() {
            process.streams.iter().for_each(|s| places[*s] = process.place);
        }
        let tasks = meta.streams.iter().map(|_| OnceLock::new()).collect();
        let (merged, bad_timing) = (OnceLock::new(), OnceLock::new());
        Ok(Trace { container, meta, places, merged, bad_timing, tasks })
    }

    /// Its facts.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The file.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// Whether the records are kept as well.
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
        match (self.task(stream)?, self.times_section(stream)?) {
            (Some(task), Some(bytes)) => Ok(Some(Times::new(task, bytes))),
            _ => Ok(None),
        }
    }

    fn bad(&self, section: &str, why: impl ToString) -> TraceError {
        let path = self.container.path().to_owned();
        TraceError::Section { path, section: section.to_owned(), why: why.to_string() }
    }

    /// Signatures and grammars of all tasks, without what ranks have of their own. Where durations
    /// do not read there are none: [`Trace::check_timing`] says so to those who need them.
    pub fn structure(&self) -> Result<&Merged, TraceError> {
        if let Some(merged) = self.merged.get() {
            return Ok(merged);
        }
        let bytes = self.container.read_checked(sections::STRUCTURE)?;
        let (needed, there) = (read::most_memory(&bytes), physical_memory());
        if needed > there.max(LITTLE_MEMORY) {
            let why = format!(
                "it may take {} GB of memory, more than this machine has: use a larger one",
                needed >> 30
            );
            return Err(self.bad(sections::STRUCTURE, why));
        }
        let timing = match self.container.section(sections::TIMING) {
            Ok(_) => match self.container.read_checked(sections::TIMING) {
                Ok(timing) => Some(timing),
                Err(error) => {
                    self.bad_timing.get_or_init(|| error.to_string());
                    None
                }
            },
            Err(_) => None,
        };
        let rows = timing.as_ref().map_or(usize::MAX, |timing| timing.len() / read::ROW_TIMING);
        let mut merged = read::structure_of_rows(&bytes, rows)
            .map_err(|why| self.bad(sections::STRUCTURE, why))?;
        if let Some(Err(why)) = timing.map(|timing| read::timing(&mut merged, &timing)) {
            let error = self.bad(sections::TIMING, why);
            self.bad_timing.get_or_init(|| error.to_string());
        }
        Ok(self.merged.get_or_init(|| merged))
    }

    /// Whether durations read.
    pub fn check_timing(&self) -> Result<(), TraceError> {
        self.structure()?;
        match self.bad_timing.get() {
            Some(why) => Err(TraceError::Timing(why.clone())),
            None => Ok(()),
        }
    }

    /// The place of a stream's process.
    pub fn place(&self, stream: usize) -> u32 {
        self.places.get(stream).copied().unwrap_or(0)
    }

    /// What a task has of its own.
    pub fn own(&self, stream: usize) -> Result<Own, TraceError> {
        let place = self.place(stream);
        let thread = self.meta.streams.get(stream).map_or(0, |s| s.thread);
        let holds = |name: &str| {
            let range = name.strip_prefix(sections::OWN)?.split_once('-')?;
            let (first, last): (u32, u32) = (range.0.parse().ok()?, range.1.parse().ok()?);
            (first..=last).contains(&place).then_some(())
        };
        for section in self.container.sections() {
            if holds(&section.name).is_none() {
                continue;
            }
            let bytes = self.container.read_checked(&section.name)?;
            let mut cells = Cells::new(&bytes);
            while !cells.is_empty() {
                let entry =
                    (|| Some((cells.get_unsigned()?, cells.get_unsigned()?, cells.get_bytes()?)))();
                let (rank, of, own) =
                    entry.ok_or_else(|| self.bad(&section.name, "it does not read"))?;
                if rank == u64::from(place) && of == u64::from(thread) {
                    return read::own(own).map_err(|why| self.bad(&section.name, why));
                }
            }
        }
        Ok(Own::default())
    }

    /// What all tasks have of their own: rank's place, thread, and it.
    pub fn owns(&self) -> Result<Vec<(u32, u32, Own)>, TraceError> {
        let mut all = Vec::new();
        for section in self.container.sections() {
            if !section.name.starts_with(sections::OWN) {
                continue;
            }
            let bytes = self.container.read_checked(&section.name)?;
            let mut cells = Cells::new(&bytes);
            while !cells.is_empty() {
                let entry = (|| {
                    let place = u32::try_from(cells.get_unsigned()?).ok()?;
                    let thread = u32::try_from(cells.get_unsigned()?).ok()?;
                    Some((place, thread, cells.get_bytes()?))
                })();
                let (place, thread, own) =
                    entry.ok_or_else(|| self.bad(&section.name, "it does not read"))?;
                let own = read::own(own).map_err(|why| self.bad(&section.name, why))?;
                all.push((place, thread, own));
            }
        }
        Ok(all)
    }

    /// The whole trace of a task; none if it made no call.
    pub fn task(&self, stream: usize) -> Result<Option<&TaskTrace>, TraceError> {
        let (Some(room), Some(meta)) = (self.tasks.get(stream), self.meta.streams.get(stream))
        else {
            return Ok(None);
        };
        if let Some(task) = room.get() {
            return Ok(Some(task.as_ref()));
        }
        let merged = self.structure()?;
        let Some(mut task) = merged.task(self.place(stream), meta.thread) else {
            return Ok(None);
        };
        let own = self.own(stream)?;
        for (signature, outcomes) in own.outcomes {
            if let Some(s) = task.signatures.get_mut(signature as usize) {
                s.varying = Some(outcomes);
            }
        }
        for (signature, polls) in own.polls {
            if let Some(s) = task.signatures.get_mut(signature as usize) {
                s.polls = Some(polls);
            }
        }
        Ok(Some(room.get_or_init(|| Box::new(task)).as_ref()))
    }

    /// The calls of a stream, from the compressed trace.
    pub fn decode(&self, stream: usize) -> Result<Option<Decoder<'_>>, TraceError> {
        let times = self.times_section(stream)?;
        Ok(self.decode_untimed(stream)?.map(|decoder| match times {
            Some(times) => decoder.with_times(times),
            None => decoder,
        }))
    }

    /// The same without their times.
    fn decode_untimed(&self, stream: usize) -> Result<Option<Decoder<'_>>, TraceError> {
        let Some(task) = self.task(stream)? else { return Ok(None) };
        let meta = &self.meta.streams[stream];
        let family = Family::from_code(meta.family).unwrap_or(Family::Mpich);
        let decoder = Decoder::new(task, family, meta.thread).map(Some);
        decoder
            .map_err(|source| TraceError::Task { path: self.container.path().to_owned(), source })
    }

    /// How often a stream calls each function.
    pub fn calls(&self, stream: usize) -> Result<BTreeMap<String, u64>, TraceError> {
        Ok(self.task(stream)?.map(TaskTrace::calls).unwrap_or_default())
    }

    /// The forms of the functions that are called, by their numbers in signatures. Those of notes
    /// are not among them.
    pub fn functions(&self) -> Result<BTreeMap<u16, FunctionDef>, TraceError> {
        let form = |(number, text): (&u16, &String)| match FunctionDef::from_text(text) {
            Ok(form) => Ok((*number, form)),
            Err(why) => Err(self.bad(sections::STRUCTURE, why)),
        };
        self.structure()?.functions.range(..notes::FIRST).map(form).collect()
    }

    /// One call for each place and signature of a group, as if it were the only one: with the
    /// outcome of the first, outside of all others, with no requests from before, and with empty
    /// texts, since those are a place's own.
    pub fn samples(
        &self,
        group: &Group,
        wanted: &[(u32, usize)],
    ) -> Result<Vec<Event>, TraceError> {
        let sample = |(place, row): &(u32, usize)| {
            let row = group.rows.get(*row)?;
            let cells = outermost(&row.cells.cells(*place)?)?;
            let outcome = row.outcome.cells(*place)?;
            Some(SignatureTrace { cells, outcome, ..SignatureTrace::default() })
        };
        let signatures: Option<Vec<_>> = wanted.iter().map(sample).collect();
        let signatures =
            signatures.ok_or_else(|| self.bad(sections::STRUCTURE, "a signature does not read"))?;
        let used: BTreeSet<u16> =
            signatures.iter().filter_map(|s| Some(s.head()?.function)).collect();
        let functions = self.structure()?.functions.iter();
        let sequence = (0..signatures.len() as u32).map(|s| Symbol::terminal(s, 1)).collect();
        let sequence =
            Grammar::new(vec![sequence]).map_err(|why| self.bad(sections::STRUCTURE, why))?;
        let task = TaskTrace {
            functions: functions
                .filter(|(number, _)| used.contains(number))
                .map(|(number, text)| (*number, text.clone()))
                .collect(),
            predefined: group.predefined.clone(),
            strings: vec![Vec::new(); group.strings.len()],
            signatures,
            grammars: vec![sequence],
            ..TaskTrace::default()
        };
        let error = |source| TraceError::Task { path: self.container.path().to_owned(), source };
        let decoder = Decoder::new(&task, self.family(), group.thread).map_err(error)?;
        decoder.map(|event| event.map_err(error)).collect()
    }

    /// The names of the handles in a group's samples.
    pub fn sample_names(&self, group: &Group) -> Result<HandleTable, TraceError> {
        let task = TaskTrace { predefined: group.predefined.clone(), ..TaskTrace::default() };
        let error = |source| TraceError::Task { path: self.container.path().to_owned(), source };
        Ok(Decoder::new(&task, self.family(), group.thread).map_err(error)?.handle_names())
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

    /// The same, without the times of calls, which may be damaged where the calls are not.
    pub fn untimed(&self, stream: usize) -> Result<StreamEvents<'_>, TraceError> {
        Ok(match self.decode_untimed(stream)? {
            Some(decoder) => StreamEvents::Decoded(Box::new(decoder)),
            None => StreamEvents::None,
        })
    }

    /// The calls of a stream: from its records, if they were kept.
    pub fn events(&self, stream: usize) -> Result<StreamEvents<'_>, TraceError> {
        Ok(match (self.has_raw(), self.decode(stream)?) {
            (true, _) => StreamEvents::Raw(Box::new(self.raw(stream)?)),
            (false, Some(decoder)) => StreamEvents::Decoded(Box::new(decoder)),
            (false, None) => StreamEvents::None,
        })
    }
}

/// The cells of a signature without its depth; see [`refrain_encode::call`].
fn outermost(cells: &[u8]) -> Option<Vec<u8>> {
    let mut from = Cells::new(cells);
    let head = Head::read(&mut from)?;
    let mut out = Vec::with_capacity(cells.len());
    Head { depth: 0, ..head }.put(&mut out);
    out.extend_from_slice(from.rest());
    Some(out)
}

/// The calls of a stream.
pub enum StreamEvents<'t> {
    /// From records.
    Raw(Box<Events<Box<dyn Read>>>),
    /// From the compressed trace.
    Decoded(Box<Decoder<'t>>),
    /// It made none.
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
                let section = sections::STRUCTURE;
                let named = |error| DecodeError::Trace(format!("section `{section}`: {error}"));
                Some(next.map_err(named))
            }
            StreamEvents::None => None,
        }
    }
}
