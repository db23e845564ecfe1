//! The calls of one process in order of time, over all its threads.

use crate::objects::Objects;
use refrain_mpi::abi::Family;
use refrain_mpi::names::{HandleTable, version_of};
use refrain_reader::event::Event;
use refrain_reader::meta::ProcessStreams;
use refrain_reader::raw::DecodeError;
use refrain_reader::trace::StreamEvents;
use refrain_trace::{Trace, TraceError};

/// What stops a reading of calls.
#[derive(Debug, thiserror::Error)]
pub enum CallsError {
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A stream of it.
    #[error("rank {rank}, thread {thread}: {source}")]
    Stream {
        /// The rank.
        rank: i32,
        /// The thread.
        thread: u32,
        /// What is wrong.
        source: DecodeError,
    },
}

/// One process of a trace.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its rank in `MPI_COMM_WORLD`; -1 if it never had one.
    pub rank: i32,
    /// Places of its threads' streams in the trace.
    pub streams: Vec<usize>,
}

/// The processes of a trace, by rank.
pub fn processes(trace: &Trace) -> Vec<Process> {
    let rank = |streams: &[usize]| trace.meta().streams[streams[0]].rank;
    let process =
        |p: &ProcessStreams| Process { rank: rank(&p.streams), streams: p.streams.clone() };
    trace.processes().iter().map(process).collect()
}

/// A call with where it was made.
#[derive(Clone, Debug)]
pub struct Call {
    /// The stream's place in the trace.
    pub stream: usize,
    /// The call.
    pub event: Event,
}

struct Source<'t> {
    stream: usize,
    events: StreamEvents<'t>,
    next: Option<Event>,
}

/// The calls of a process in the order in which they began.
pub struct Calls<'t> {
    trace: &'t Trace,
    sources: Vec<Source<'t>>,
    family: Family,
    version: Option<(u32, u32)>,
    failed: bool,
}

impl<'t> Calls<'t> {
    /// Opens the streams of a process.
    pub fn of(trace: &'t Trace, process: &Process) -> Result<Calls<'t>, CallsError> {
        let mut sources = Vec::new();
        let (mut family, mut version) = (Family::Mpich, None);
        for &stream in &process.streams {
            let meta = &trace.meta().streams[stream];
            family = Family::from_code(meta.family).unwrap_or(family);
            version = version_of(&meta.library);
            let events = trace.events(stream)?;
            sources.push(Source { stream, events, next: None });
        }
        let mut calls = Calls { trace, sources, family, version, failed: false };
        for index in 0..calls.sources.len() {
            calls.advance(index)?;
        }
        Ok(calls)
    }

    /// The ABI family of the process.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The version of its MPI library, major and minor, if it is one that tells.
    pub fn version(&self) -> Option<(u32, u32)> {
        self.version
    }

    /// Objects of this process, with the names its log carries. To be asked for once calls
    /// are open: the names stand at the beginning of the log.
    pub fn objects(&self) -> Objects {
        let tables: Vec<HandleTable> =
            self.sources.iter().map(|s| s.events.handle_names()).collect();
        let table = tables.iter().flat_map(HandleTable::entries).collect();
        Objects::new(self.family, table)
    }

    fn advance(&mut self, index: usize) -> Result<(), CallsError> {
        let source = &mut self.sources[index];
        let stream = &self.trace.meta().streams[source.stream];
        source.next = source.events.next().transpose().map_err(|source| {
            let (rank, thread) = (stream.rank, stream.thread);
            CallsError::Stream { rank, thread, source }
        })?;
        Ok(())
    }
}

impl Iterator for Calls<'_> {
    type Item = Result<Call, CallsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let earliest = self
            .sources
            .iter()
            .enumerate()
            .filter_map(|(i, s)| s.next.as_ref().map(|event| (event.start, i)))
            .min()?;
        let index = earliest.1;
        let stream = self.sources[index].stream;
        let event = self.sources[index].next.take()?;
        if let Err(error) = self.advance(index) {
            self.failed = true;
            return Some(Err(error));
        }
        Some(Ok(Call { stream, event }))
    }
}
