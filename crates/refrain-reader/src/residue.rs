//! Per-rank residue: outcomes and failed polls that the ranks of a group do not share.
//!
//! Section `own/A-B` holds the residue of ranks A to B: a list of rank, thread, bytes. The section that was read last
//! is kept unpacked, since tasks are mostly read in their order.

use crate::error::TraceError;
use crate::sections;
use refrain_container::Container;
use refrain_signature::cells::Cells;
use refrain_structure::group::Residue;
use refrain_structure::read;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The `own` sections of a trace.
#[derive(Debug, Default)]
pub(crate) struct ResidueSections {
    last: Mutex<Option<Arc<Unpacked>>>,
}

/// A section, and where in it each task's bytes are.
#[derive(Debug)]
struct Unpacked {
    name: String,
    bytes: Vec<u8>,
    tasks: HashMap<(u32, u32), Range<usize>>,
}

impl ResidueSections {
    /// The residue of a task.
    pub fn of(
        &self,
        container: &Container,
        rank_index: u32,
        thread: u32,
    ) -> Result<Arc<Residue>, TraceError> {
        let holds = |name: &str| {
            let range = name.strip_prefix(sections::OWN).and_then(|range| range.split_once('-'));
            let range = range.and_then(|(first, last)| {
                Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
            });
            range.is_some_and(|range| range.contains(&rank_index))
        };
        for section in container.sections().iter().filter(|section| holds(&section.name)) {
            let unpacked = self.section(container, &section.name)?;
            if let Some(range) = unpacked.tasks.get(&(rank_index, thread)) {
                let bytes = unpacked.bytes.get(range.clone()).unwrap_or_default();
                let residue =
                    read::residue(bytes).map_err(|why| bad(container, &section.name, why))?;
                return Ok(Arc::new(residue));
            }
        }
        Ok(Arc::default())
    }

    /// The residue of all tasks, each with its rank index and thread.
    pub fn all(&self, container: &Container) -> Result<Vec<(u32, u32, Residue)>, TraceError> {
        let mut all = Vec::new();
        for section in container.sections() {
            if section.name.starts_with(sections::OWN) {
                let bytes = container.read_checked(&section.name)?;
                for ((rank_index, thread), range) in tasks(container, &section.name, &bytes)? {
                    let residue = read::residue(bytes.get(range).unwrap_or_default());
                    let residue = residue.map_err(|why| bad(container, &section.name, why))?;
                    all.push((rank_index, thread, residue));
                }
            }
        }
        Ok(all)
    }

    fn section(&self, container: &Container, name: &str) -> Result<Arc<Unpacked>, TraceError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unpacked) = last.as_ref().filter(|unpacked| unpacked.name == name) {
            return Ok(unpacked.clone());
        }
        let bytes = container.read_checked(name)?;
        let mut first_of = HashMap::new();
        for (task, range) in tasks(container, name, &bytes)? {
            first_of.entry(task).or_insert(range);
        }
        let unpacked = Arc::new(Unpacked { name: name.to_owned(), bytes, tasks: first_of });
        *last = Some(unpacked.clone());
        Ok(unpacked)
    }
}

/// Rank index and thread of each task in a section, and the range of its bytes.
type Tasks = Vec<((u32, u32), Range<usize>)>;

fn tasks(container: &Container, name: &str, bytes: &[u8]) -> Result<Tasks, TraceError> {
    let mut cells = Cells::new(bytes);
    let mut all = Vec::new();
    while !cells.is_empty() {
        let entry = (|| {
            let task = (cells.get_u32()?, cells.get_u32()?);
            let length = cells.get_bytes()?.len();
            let end = bytes.len() - cells.rest().len();
            Some((task, end - length..end))
        })();
        all.push(entry.ok_or_else(|| bad(container, name, "it does not read"))?);
    }
    Ok(all)
}

fn bad(container: &Container, section: &str, why: impl ToString) -> TraceError {
    let path = container.path().to_owned();
    TraceError::Section { path, section: section.to_owned(), why: why.to_string() }
}
