//! The loop nests of all processes.

use crate::error::{TraceError, within};
use crate::sections;
use crate::trace::MemoryTrace;
use refrain_elastic::RankList;
use refrain_memory::{Outline, Processes, Structure};
use std::borrow::Cow;

/// The loop nests of some processes: see [`MemoryTrace::structures`].
#[derive(Clone, Debug)]
pub struct Structures<'a> {
    trace: &'a MemoryTrace,
    processes: Cow<'a, Processes>,
    /// Threads that executed too much code without loops: process, thread, and how many executions of
    /// blocks or loops at its end are left out.
    pub left_out: Vec<(u32, u32, u64)>,
}

/// The loop nest of a group of threads, in all processes that have it.
#[derive(Clone, Debug)]
pub struct SharedStructure {
    /// The processes, by their numbers in the trace.
    pub processes: RankList,
    /// The process whose addresses, strides and trip counts are in `structure`.
    pub process: u32,
    /// The loop nest.
    pub structure: Structure,
}

impl MemoryTrace {
    /// The loop nests of the processes for which `is_wanted` is true. Threads and processes that execute
    /// the same loops are one group.
    ///
    /// This takes time in proportion to the compressed trace, except for threads with sealed chunks: to join the
    /// loops of these chunks, their references are decoded once.
    pub fn structures(
        &self,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Result<Structures<'_>, TraceError> {
        let mut left_out = Vec::new();
        if !self.has_sealed() {
            let processes = Cow::Borrowed(self.merged());
            return Ok(Structures { trace: self, processes, left_out });
        }
        let mut all = Vec::new();
        for number in (0..self.facts().processes.len() as u32).filter(|number| is_wanted(*number)) {
            let outline = within(sections::SEALED, self.process(number)?.trace.outline())?;
            let Outline { merged, left_out: threads } = outline;
            all.push(Processes::of(number, &merged));
            left_out.extend(threads.into_iter().map(|(thread, count)| (number, thread, count)));
        }
        let processes = Cow::Owned(Processes::join_all(all));
        Ok(Structures { trace: self, processes, left_out })
    }
}

impl Structures<'_> {
    /// All loop nests, each with the numbers of its first process.
    pub fn all(&self) -> Result<Vec<SharedStructure>, TraceError> {
        let first = |process: u32| self.beginning_with(process);
        let numbers = 0..self.trace.facts().processes.len() as u32;
        Ok(numbers.map(first).collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// The loop nests whose first process is this one.
    pub fn beginning_with(&self, process: u32) -> Result<Vec<SharedStructure>, TraceError> {
        self.of_process(process, |ranks| ranks.first() == Some(process))
    }

    /// The loop nests of a process.
    pub fn of(&self, process: u32) -> Result<Vec<SharedStructure>, TraceError> {
        self.of_process(process, |ranks| ranks.contains(process))
    }

    fn of_process(
        &self,
        process: u32,
        is_in: impl Fn(&RankList) -> bool,
    ) -> Result<Vec<SharedStructure>, TraceError> {
        let code = self.trace.code(process);
        let groups = self.processes.groups().iter().filter(|group| is_in(&group.ranks));
        let structure = |group: &refrain_memory::RankGroup| {
            let structure = group.of(process).and_then(|threads| threads.structure(&code.blocks));
            let structure = within(sections::THREADS, structure)?;
            Ok(SharedStructure { processes: group.ranks.clone(), process, structure })
        };
        groups.map(structure).collect()
    }
}
