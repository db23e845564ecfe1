//! The tasks of a trace: threads of ranks.

use crate::calls::Calls;
use crate::error::TraceError;
use crate::meta::StreamMeta;
use crate::processes::{Items, Source, TaskEvents};
use crate::run::Run;
use crate::structure::Structure;
use crate::trace::CallTrace;
use crate::view::{LastCall, TaskView};
use std::fmt;

/// A task: one thread of one rank.
#[derive(Clone, Copy)]
pub struct TaskRef<'t> {
    pub(crate) trace: &'t CallTrace,
    pub(crate) stream: usize,
}

impl CallTrace {
    /// The recorded run.
    pub fn run(&self) -> Run {
        Run::of_calls(&self.meta)
    }

    /// The tasks, by rank and thread.
    pub fn tasks(&self) -> impl Iterator<Item = TaskRef<'_>> {
        (0..self.meta.streams.len()).map(|stream| TaskRef { trace: self, stream })
    }
}

impl<'t> TaskRef<'t> {
    /// Its rank in `MPI_COMM_WORLD`; -1 if it never had one.
    pub fn rank(&self) -> i32 {
        self.facts().rank
    }

    /// Its number in its process, from 0.
    pub fn thread(&self) -> u32 {
        self.facts().thread
    }

    /// Machine, process number, MPI library, how it ended ….
    pub fn facts(&self) -> &'t StreamMeta {
        &self.trace.meta.streams[self.stream]
    }

    /// Its index among the tasks of the trace.
    pub fn index(&self) -> usize {
        self.stream
    }

    /// Its calls in the order in which they began, decoded one by one, in memory that does not depend on their
    /// number.
    pub fn calls(&self) -> Result<Calls<'t>, TraceError> {
        Calls::new(*self, 0)
    }

    /// Its calls from number `n` on. Those before are decoded and dropped: which request a handle stands for depends
    /// on them.
    pub fn calls_from(&self, n: u64) -> Result<Calls<'t>, TraceError> {
        Calls::new(*self, n)
    }

    /// Its calls and the notes between them, in the order in which they began.
    pub fn items(&self, source: Source) -> Result<Items<'t>, TraceError> {
        Items::new(*self, source)
    }

    /// Its calls and notes as they are decoded, without times and members of communicators: for analyses that look at
    /// the values of every call.
    pub fn events(&self) -> Result<TaskEvents<'t>, TraceError> {
        TaskEvents::new(*self)
    }

    /// The task in its structure, in place; none if it made no call.
    pub fn view(&self) -> Result<Option<TaskView<'t>>, TraceError> {
        self.trace.view(self.stream)
    }

    /// The last calls, the very last at the end, from the end of the sequence: the rest is not decoded. At most `n`,
    /// fewer if there are notes among them.
    pub fn tail(&self, n: u64) -> Result<Vec<LastCall<'t>>, TraceError> {
        Ok(self.trace.view(self.stream)?.map(|view| view.tail(n)).unwrap_or_default())
    }

    /// The structure that it shares with the tasks of other ranks; none if it made no call.
    pub fn structure(&self) -> Result<Option<Structure<'t>>, TraceError> {
        let (rank, thread) = (self.trace.rank_index(self.stream), self.thread());
        let mut structures = self.trace.structures()?;
        Ok(structures.find(|s| s.thread() == thread && s.ranks().contains(rank)))
    }
}

impl fmt::Debug for TaskRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskRef(rank {}, thread {})", self.rank(), self.thread())
    }
}
