//! The processes of a trace, and the items of their tasks from a chosen source.

use crate::calls::Context;
use crate::communicators::Members;
use crate::decoder::loops::Loops;
use crate::decoder::{Decoder, TaskError};
use crate::error::TraceError;
use crate::event::Event;
use crate::items::{Interleaved, Item, ItemReader};
use crate::meta::{Ended, StreamMeta};
use crate::raw::{DecodeError, Events};
use crate::sections;
use crate::tasks::TaskRef;
use crate::trace::CallTrace;
use refrain_mpi::abi::Family;
use refrain_mpi::names::HandleTable;
use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::sync::Arc;

/// Where items are read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The compressed trace, with the times of calls if the trace has them.
    #[default]
    Compressed,
    /// The compressed trace without times, which may be damaged where calls are not.
    Untimed,
    /// The compressed trace, with the times of the raw records if these were kept (`trace --raw`).
    RecordTimes,
    /// The raw records if they were kept, else the compressed trace. Raw records hold the handles and addresses of
    /// the MPI library, and no notes.
    Records,
}

/// A process: a rank with its threads.
#[derive(Clone, Copy)]
pub struct ProcessRef<'t> {
    trace: &'t CallTrace,
    index: usize,
}

impl CallTrace {
    /// The processes, by rank.
    pub fn processes(&self) -> impl ExactSizeIterator<Item = ProcessRef<'_>> {
        (0..self.process_streams().len()).map(|index| ProcessRef { trace: self, index })
    }
}

impl<'t> ProcessRef<'t> {
    /// Its rank in `MPI_COMM_WORLD`; -1 if it never had one.
    pub fn rank(&self) -> i32 {
        self.facts().rank
    }

    /// Its index among the ranks of structures ([`crate::Structure::ranks`]): the rank, where no two processes have
    /// the same.
    pub fn rank_index(&self) -> u32 {
        self.trace.process_streams()[self.index].rank_index
    }

    /// Machine, process number, MPI library …: the facts of its first thread.
    pub fn facts(&self) -> &'t StreamMeta {
        let first = self.trace.process_streams()[self.index].streams.first();
        &self.trace.meta.streams[first.copied().unwrap_or(0)]
    }

    /// Its threads.
    pub fn tasks(
        &self,
    ) -> impl DoubleEndedIterator<Item = TaskRef<'t>> + ExactSizeIterator + use<'t> {
        let trace = self.trace;
        let streams = trace.process_streams()[self.index].streams.iter();
        streams.map(move |stream| TaskRef { trace, stream: *stream })
    }

    /// How it ended: if one thread aborted, all did.
    pub fn ended(&self) -> Ended {
        let mut all = self.tasks().map(|task| &task.facts().ended);
        let early = all.find(|e| matches!(e, Ended::Aborted(_) | Ended::LogStopped(_)));
        early.unwrap_or(&self.facts().ended).clone()
    }

    /// The calls and notes of all its threads, each with its task, in the order in which they began. Without times
    /// that order is known in each thread only: threads then advance evenly. A call on a communicator knows its
    /// members, even if the note with them comes later.
    pub fn items(&self, source: Source) -> Result<ProcessItems<'t>, TraceError> {
        let threads: Result<Vec<_>, TraceError> =
            self.tasks().map(|task| Ok((task, task.items(source)?))).collect();
        let threads = threads?;
        let names = threads.iter().flat_map(|(_, items)| items.names().entries()).collect();
        let has_times = threads.iter().all(|(_, items)| items.reader.has_times());
        let items = Interleaved::new(threads);
        Ok(ProcessItems { names, items, members: has_times.then(HashMap::new) })
    }
}

impl fmt::Debug for ProcessRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessRef(rank {})", self.rank())
    }
}

/// The items of a process; see [`ProcessRef::items`].
pub struct ProcessItems<'t> {
    names: HandleTable,
    items: Interleaved<TaskRef<'t>, Items<'t>>,
    /// The members of the latest communicator of each handle, in any thread; none if items have no true order.
    members: Option<HashMap<u64, Arc<Members>>>,
}

impl ProcessItems<'_> {
    /// The names of the predefined handles in its calls.
    pub fn names(&self) -> &HandleTable {
        &self.names
    }
}

impl<'t> Iterator for ProcessItems<'t> {
    type Item = Result<(TaskRef<'t>, Item), TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut next = self.items.next()?;
        if let (Some(members), Ok((_, item))) = (&mut self.members, &mut next) {
            match item {
                Item::Note(note) => {
                    if let Some(new) = note.members() {
                        members.insert(new.comm, Arc::new(new.into()));
                    }
                }
                Item::Call(call) => {
                    if let Some(known) = call.comm().and_then(|comm| members.get(&comm)) {
                        call.set_members(known);
                    }
                }
            }
        }
        Some(next)
    }
}

/// The calls and notes of a task; see [`TaskRef::items`].
pub struct Items<'t> {
    task: TaskRef<'t>,
    events: Decoded<'t>,
    /// The source of times, if the events have none.
    records: Option<Events<Box<dyn Read>>>,
    /// When the previous item began.
    now: u64,
    /// An event that was read ahead.
    ahead: Option<Result<Event, DecodeError>>,
    reader: ItemReader,
}

enum Decoded<'t> {
    Compressed(Box<Decoder<'t>>),
    Records(Box<Events<Box<dyn Read>>>),
    None,
}

impl Decoded<'_> {
    fn next_event(&mut self) -> Option<Result<Event, DecodeError>> {
        match self {
            Decoded::Compressed(decoder) => Some(decoder.next()?.map_err(undecoded)),
            Decoded::Records(events) => events.next(),
            Decoded::None => None,
        }
    }

    fn names(&self) -> HandleTable {
        match self {
            Decoded::Compressed(decoder) => decoder.handle_names(),
            Decoded::Records(events) => {
                let names = events.handle_names().iter();
                names.map(|((kind, value), name)| (kind.as_str(), *value, name.as_str())).collect()
            }
            Decoded::None => HandleTable::default(),
        }
    }
}

impl<'t> Items<'t> {
    pub(crate) fn new(task: TaskRef<'t>, source: Source) -> Result<Items<'t>, TraceError> {
        let TaskRef { trace, stream } = task;
        let has_raw = trace.has_raw();
        let compressed = |decoder: Option<Decoder<'t>>| match decoder {
            Some(decoder) => Decoded::Compressed(Box::new(decoder)),
            None => Decoded::None,
        };
        let untimed = || Ok::<_, TraceError>(trace.view(stream)?.map(|view| view.decode()));
        let (mut events, records) = match source {
            Source::Records if has_raw => (Decoded::Records(Box::new(trace.raw(stream)?)), None),
            Source::RecordTimes if has_raw => (compressed(untimed()?), Some(trace.raw(stream)?)),
            Source::Untimed => (compressed(untimed()?), None),
            _ => (compressed(trace.decode(stream)?), None),
        };
        let is_raw = matches!(events, Decoded::Records(_));
        // A log begins with the names of predefined handles.
        let ahead = if is_raw { events.next_event() } else { None };
        let has_times = match source {
            Source::Untimed => false,
            Source::Compressed => trace.has_times(),
            Source::RecordTimes | Source::Records => has_raw || trace.has_times(),
        };
        let objects = if is_raw { Arc::default() } else { trace.objects(stream)? };
        let family = Family::from_code(task.facts().family).unwrap_or(Family::Mpich);
        let world_size = u32::try_from(task.facts().size).ok();
        let context = Context::new(family, events.names(), objects, world_size, has_times);
        let reader = ItemReader::new(context, task.facts().clock);
        Ok(Items { task, events, records, now: 0, ahead, reader })
    }

    /// The names of the predefined handles in its calls.
    pub fn names(&self) -> &HandleTable {
        self.reader.names()
    }

    /// The family of its MPI.
    pub fn family(&self) -> Family {
        self.reader.family()
    }

    /// Where the task is in its loops; none where that is not known. An analysis whose own state is the same at the
    /// same place of two iterations need not look at those between: [`Items::skip_iterations`].
    pub fn loops(&self) -> Option<Loops> {
        match &self.events {
            Decoded::Compressed(decoder) if self.records.is_none() && self.ahead.is_none() => {
                decoder.loops()
            }
            _ => None,
        }
    }

    /// Leaves out `n` iterations of a loop, which have that many calls. False, and nothing is left out, if calls of
    /// the loop have outcomes that vary.
    pub fn skip_iterations(&mut self, level: usize, n: u64, calls: u64) -> bool {
        match &mut self.events {
            Decoded::Compressed(decoder) => decoder.skip_iterations(level, n, calls),
            _ => false,
        }
    }

    fn next_event(&mut self) -> Option<Result<Event, DecodeError>> {
        let next = self.ahead.take().or_else(|| self.events.next_event())?;
        let Some(records) = &mut self.records else { return Some(next) };
        let mut event = match next {
            Ok(event) => event,
            error => return Some(error),
        };
        if event.is_note() {
            event.start = self.now;
        } else {
            match records.next()? {
                Ok(record) => (event.start, event.end) = (record.start, record.end),
                error => return Some(error),
            }
        }
        self.now = event.start;
        Some(Ok(event))
    }
}

impl Iterator for Items<'_> {
    type Item = Result<Item, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_event()? {
            Ok(event) => Some(Ok(self.reader.item(event))),
            Err(source) => {
                (self.events, self.records) = (Decoded::None, None);
                let (rank, thread) = (self.task.rank(), self.task.thread());
                Some(Err(TraceError::Stream { rank, thread, source }))
            }
        }
    }
}

/// The calls and notes of a task as they are decoded; see [`TaskRef::events`].
pub struct TaskEvents<'t> {
    task: TaskRef<'t>,
    decoder: Option<Decoder<'t>>,
}

impl<'t> TaskEvents<'t> {
    pub(crate) fn new(task: TaskRef<'t>) -> Result<TaskEvents<'t>, TraceError> {
        let decoder = task.view()?.map(|view| view.decode());
        Ok(TaskEvents { task, decoder })
    }

    /// The names of the predefined handles in its calls.
    pub fn names(&self) -> HandleTable {
        self.decoder.as_ref().map_or_else(HandleTable::default, Decoder::handle_names)
    }
}

impl Iterator for TaskEvents<'_> {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let event = self.decoder.as_mut()?.next()?;
        Some(event.map_err(|error| {
            let (rank, thread) = (self.task.rank(), self.task.thread());
            TraceError::Stream { rank, thread, source: undecoded(error) }
        }))
    }
}

/// An error of the decoder, with the section that it is in.
fn undecoded(error: TaskError) -> DecodeError {
    DecodeError::Trace(format!("section `{}`: {error}", sections::STRUCTURE))
}
