//! Where two traces of calls differ.
//!
//! Two traces are equal if each task makes the same calls with the same arguments and results, in the same order. What
//! differs between runs of one program does not count:
//!
//! * an object of one trace is paired with one of the other when a call returns it, or first names it;
//! * addresses are compared by segment and offset. Segments are paired in the same way. In allocations, offsets must be equal. On stacks and in static data, they must have the
//!   same distance to each other, because the layout of a program differs between builds;
//! * files are compared by their names without folders, callbacks by whether there is one;
//! * keys of attributes and added error codes are paired like segments;
//! * times and call sites are not compared. Traces of different MPIs are compared by the names of constants, and the
//!   texts that MPI returns are not.
//!
//! Tasks that have one structure in each trace, and whose structures are equal, are not decoded.

mod values;

use crate::difference::values::Pairing;
use refrain_mpi::abi::Family;
use refrain_reader::view::TaskView;
use refrain_reader::{CallTrace, Event, TaskRef, TraceError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What does not count as a difference.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignored {
    /// How many polls failed.
    pub polls: bool,
    /// Where on the stack a buffer is.
    pub stack_buffers: bool,
}

/// The first difference of a task.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The rank.
    pub rank: i32,
    /// The thread.
    pub thread: u32,
    /// How many calls before it are equal.
    pub equal: u64,
    /// The call of the left trace; none if its task has ended.
    pub left: Option<Event>,
    /// The call of the right trace.
    pub right: Option<Event>,
    /// What differs.
    pub what: String,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The first difference of each task that has one.
    pub differences: Vec<Difference>,
    /// How many tasks were compared.
    pub tasks: usize,
    /// How many of them were decoded call by call.
    pub decoded: usize,
    /// For each function, how many calls all tasks of the left and of the right trace make, where that differs.
    pub functions: BTreeMap<String, [u64; 2]>,
}

/// Compares two traces.
pub fn compare(
    left: &CallTrace,
    right: &CallTrace,
    ignored: Ignored,
) -> Result<Comparison, TraceError> {
    let mut comparison = Comparison::default();
    let families = [left.family(), right.family()];
    let others: Vec<TaskRef<'_>> = right.tasks().collect();
    let mut is_paired = vec![false; others.len()];
    for task in left.tasks() {
        comparison.tasks += 1;
        let key = |task: &TaskRef<'_>| (task.rank(), task.thread());
        let found = (0..others.len()).find(|at| !is_paired[*at] && key(&others[*at]) == key(&task));
        let Some(at) = found else {
            let first = first_call(&task)?;
            comparison.differences.push(absent(&task, [first, None]));
            continue;
        };
        is_paired[at] = true;
        comparison.add(&task, &others[at], families, ignored)?;
    }
    for (other, is_paired) in others.iter().zip(is_paired) {
        if !is_paired {
            comparison.tasks += 1;
            let first = first_call(other)?;
            comparison.differences.push(absent(other, [None, first]));
        }
    }
    comparison.differences.sort_by_key(|found| (found.rank, found.thread));
    if !comparison.differences.is_empty() {
        comparison.functions = functions([left, right], ignored)?;
    }
    Ok(comparison)
}

fn absent(task: &TaskRef<'_>, [left, right]: [Option<Event>; 2]) -> Difference {
    let what = "only one of the traces has this task".to_owned();
    Difference { rank: task.rank(), thread: task.thread(), equal: 0, left, right, what }
}

fn first_call(task: &TaskRef<'_>) -> Result<Option<Event>, TraceError> {
    for event in task.events()? {
        let event = event?;
        if !event.is_note() {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

/// Calls by function, where they differ.
fn functions(
    traces: [&CallTrace; 2],
    ignored: Ignored,
) -> Result<BTreeMap<String, [u64; 2]>, TraceError> {
    let mut all: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (side, trace) in traces.into_iter().enumerate() {
        for structure in trace.structures()? {
            let ranks = structure.ranks().len() as u64;
            for (signature, occurrences) in structure.signatures().zip(structure.occurrences()) {
                if !signature.is_note() {
                    let name = signature.function.name.clone();
                    all.entry(name).or_default()[side] += occurrences.saturating_mul(ranks);
                }
            }
        }
        if !ignored.polls {
            for (_, _, residue) in trace.residues()? {
                let failed: u64 = residue.polls.values().map(|polls| polls.total()).sum();
                all.entry("failed polls".to_owned()).or_default()[side] += failed;
            }
        }
    }
    all.retain(|_, [left, right]| left != right);
    Ok(all)
}

impl Comparison {
    fn add(
        &mut self,
        left: &TaskRef<'_>,
        right: &TaskRef<'_>,
        families: [Family; 2],
        ignored: Ignored,
    ) -> Result<(), TraceError> {
        let (Some(a), Some(b)) = (left.view()?, right.view()?) else {
            if left.view()?.is_some() || right.view()?.is_some() {
                let calls = [first_call(left)?, first_call(right)?];
                self.differences.push(absent(left, calls));
            }
            return Ok(());
        };
        let failed = |source| TraceError::Task { path: "trace".into(), source };
        let names = [Arc::new(a.handle_names()), Arc::new(b.handle_names())];
        let pairing = || Pairing::new(families, names.clone(), ignored);
        if a.has_equal_structure(&b, ignored.polls)
            && are_samples_equal(&a, &b, pairing()).map_err(failed)?
        {
            return Ok(());
        }
        self.decoded += 1;
        if let Some((equal, calls, what)) =
            first_difference(&a, &b, pairing(), ignored).map_err(failed)?
        {
            let [left_call, right_call] = calls;
            self.differences.push(Difference {
                rank: left.rank(),
                thread: left.thread(),
                equal,
                left: left_call,
                right: right_call,
                what,
            });
        }
        Ok(())
    }
}

type TaskResult<T> = Result<T, refrain_reader::decoder::TaskError>;

/// Whether a call of each signature is equal.
fn are_samples_equal(a: &TaskView<'_>, b: &TaskView<'_>, mut pairing: Pairing) -> TaskResult<bool> {
    let (ours, theirs) = (a.whole_samples()?, b.whole_samples()?);
    if ours.len() != theirs.len() {
        return Ok(false);
    }
    Ok(ours.iter().zip(&theirs).all(|(a, b)| match (a.is_note(), b.is_note()) {
        (true, true) => {
            pairing.note(0, a);
            pairing.note(1, b);
            true
        }
        (false, false) => pairing.difference(a, b).is_none(),
        _ => false,
    }))
}

type Found = (u64, [Option<Event>; 2], String);

/// The first difference of two tasks, call by call.
fn first_difference(
    a: &TaskView<'_>,
    b: &TaskView<'_>,
    mut pairing: Pairing,
    ignored: Ignored,
) -> TaskResult<Option<Found>> {
    let mut sides = [a.decode().numbered(), b.decode().numbered()];
    for equal in 0.. {
        let mut calls: [Option<Event>; 2] = [None, None];
        for (side, items) in sides.iter_mut().enumerate() {
            for item in items {
                let (_, is_failed_poll, event) = item?;
                if event.is_note() {
                    pairing.note(side, &event);
                } else if !(is_failed_poll && ignored.polls) {
                    calls[side] = Some(event);
                    break;
                }
            }
        }
        let what = match &calls {
            [None, None] => return Ok(None),
            [Some(_), None] => Some("the right task has ended".to_owned()),
            [None, Some(_)] => Some("the left task has ended".to_owned()),
            [Some(left), Some(right)] => pairing.difference(left, right),
        };
        if let Some(what) = what {
            return Ok(Some((equal, calls, what)));
        }
    }
    Ok(None)
}
