//! Remarks about the calls of a trace: objects whose creation is missing, requests that were never
//! completed.
//!
//! These are not errors of the trace. Recording may have been off for a while, an object may come from
//! a call that MPI made itself, and a program may leave requests incomplete.

use super::handles::is_request;
use refrain_bytes::table::{Map, Set};
use refrain_format::define::FunctionDef;
use refrain_mpi::kind::Class;
use refrain_mpi::names::HandleTable;
use refrain_reader::event::{Event, Value};
use refrain_reader::{CallTrace, ProcessRef, TraceError, parallel};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of a kind of object, and a handle.
type Key = (u8, u64);

/// Counts over the calls of a trace.
#[derive(Debug, Default)]
pub struct Survey {
    /// Calls seen.
    pub calls: u64,
    /// By kind: the number of objects that were used before any recorded call created them.
    pub unmade: BTreeMap<String, u64>,
    /// By the function that created them: the number of requests that were never completed.
    pub pending: BTreeMap<String, u64>,
    process: OfProcess,
}

/// The state of the current process.
#[derive(Debug, Default)]
struct OfProcess {
    /// Kinds by number.
    kinds: Vec<String>,
    /// How often MPI returned each object, by stream.
    live: Map<(usize, Key), u32>,
    /// Objects that were used in a stream that had not created them before.
    unmade: Set<(usize, Key)>,
    /// Streams that created an object.
    makers: Map<Key, Vec<usize>>,
    /// Objects that were freed by calls that may not have returned: nested calls may still use them.
    dying: Map<usize, Vec<(u8, Key)>>,
    /// Requests by handle: the function that created the last, and how many were created and not completed.
    requests: Map<u64, (String, i64)>,
    /// The handles of each function, by stream and address of its definition.
    uses: Map<(usize, usize), Uses>,
}

/// A function and its parameters that have handles.
type Uses = (Arc<FunctionDef>, Arc<[HandleUse]>);

/// A parameter of a function that has handles.
#[derive(Debug)]
struct HandleUse {
    param: usize,
    /// The number of their kind.
    kind: u8,
    /// The predefined handles of that kind, in ascending order.
    predefined: Vec<u64>,
}

/// Decodes every call of a trace, several processes at a time.
pub fn survey(trace: &CallTrace) -> Result<Survey, TraceError> {
    let processes: Vec<ProcessRef<'_>> = trace.processes().collect();
    let surveys = parallel::map(processes.len(), |number| of_process(processes[number]));
    let mut all = Survey::default();
    for survey in surveys {
        all.add(survey?);
    }
    Ok(all)
}

fn of_process(process: ProcessRef<'_>) -> Result<Survey, TraceError> {
    let mut survey = Survey::default();
    for task in process.tasks() {
        let events = task.events()?;
        let names = events.names();
        for event in events {
            let event = event?;
            if !event.is_note() {
                survey.take(task.index(), &names, &event);
            }
        }
    }
    survey.end_of_process();
    Ok(survey)
}

impl Survey {
    /// Adds the survey of other processes.
    fn add(&mut self, other: Survey) {
        self.calls += other.calls;
        for (all, own) in [(&mut self.unmade, other.unmade), (&mut self.pending, other.pending)] {
            for (name, count) in own {
                *all.entry(name).or_default() += count;
            }
        }
    }

    /// Adds the next call of a stream; `names` are the names of its predefined handles.
    pub fn take(&mut self, stream: usize, names: &HandleTable, event: &Event) {
        self.calls += 1;
        self.process.bury(stream, event.depth);
        let uses = self.process.uses(stream, names, event);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for HandleUse { param, kind, predefined } in uses.iter() {
            handles(event.inputs.get(*param), &mut before);
            handles(event.outputs.get(*param), &mut after);
            let is_made = |handle: &u64| predefined.binary_search(handle).is_err();
            for handle in before.iter().copied().filter(is_made) {
                self.process.used(stream, (*kind, handle));
            }
            for (i, handle) in after.iter().enumerate() {
                let old = before.get(i);
                if old == Some(handle) {
                    continue;
                }
                if let Some(old) = old.copied().filter(is_made) {
                    self.process.freed(stream, event.depth, (*kind, old));
                }
                if is_made(handle) {
                    self.process.got(stream, (*kind, *handle), &event.function.name);
                }
            }
        }
    }

    /// Ends the current process.
    pub fn end_of_process(&mut self) {
        let OfProcess { kinds, unmade, makers, requests, .. } = std::mem::take(&mut self.process);
        for (stream, key) in unmade {
            // Another thread may have created it before.
            if makers.get(&key).is_none_or(|makers| makers.iter().all(|m| *m == stream)) {
                let kind = kinds.get(usize::from(key.0)).cloned().unwrap_or_default();
                *self.unmade.entry(kind).or_default() += 1;
            }
        }
        for (function, pending) in requests.into_values() {
            let is_persistent = function.ends_with("_init") || function.ends_with("_init_c");
            if pending > 0 && !is_persistent {
                *self.pending.entry(function).or_default() += pending as u64;
            }
        }
    }

    /// The remarks, as text.
    pub fn remarks(&self) -> Vec<String> {
        let unmade = self.unmade.iter().map(|(kind, n)| {
            format!("{n} of kind {kind} used before any recorded call created them")
        });
        let pending = self.pending.iter().map(|(function, n)| {
            format!("{n} requests of {function} never completed by a recorded call")
        });
        unmade.chain(pending).collect()
    }
}

impl OfProcess {
    fn kind(&mut self, name: &str) -> u8 {
        let known = self.kinds.iter().position(|kind| kind == name);
        let number = known.unwrap_or_else(|| {
            self.kinds.push(name.to_owned());
            self.kinds.len() - 1
        });
        number as u8
    }

    /// The handles of a call.
    fn uses(&mut self, stream: usize, names: &HandleTable, event: &Event) -> Arc<[HandleUse]> {
        // The definition is kept, so no other one gets its address.
        let key = (stream, Arc::as_ptr(&event.function) as usize);
        if let Some((_, uses)) = self.uses.get(&key) {
            return uses.clone();
        }
        let params = event.function.params.iter().enumerate();
        let params = params.filter(|(_, p)| p.class == Class::Handle);
        let uses: Arc<[HandleUse]> = params
            .map(|(param, p)| {
                let of_kind = names.entries().filter(|(kind, ..)| *kind == p.reads_as);
                let mut predefined: Vec<u64> = of_kind.map(|(_, value, _)| value).collect();
                predefined.sort_unstable();
                HandleUse { param, kind: self.kind(&p.reads_as), predefined }
            })
            .collect();
        self.uses.insert(key, (event.function.clone(), uses.clone()));
        uses
    }

    fn is_request(&self, key: Key) -> bool {
        self.kinds.get(usize::from(key.0)).is_some_and(|kind| is_request(kind))
    }

    fn used(&mut self, stream: usize, key: Key) {
        if !self.live.contains_key(&(stream, key)) {
            self.unmade.insert((stream, key));
        }
    }

    fn got(&mut self, stream: usize, key: Key, function: &str) {
        if self.is_request(key) {
            let (maker, pending) = self.requests.entry(key.1).or_default();
            if maker != function {
                function.clone_into(maker);
            }
            *pending += 1;
        }
        let makers = self.makers.entry(key).or_default();
        if !makers.contains(&stream) {
            makers.push(stream);
        }
        *self.live.entry((stream, key)).or_default() += 1;
    }

    fn freed(&mut self, stream: usize, depth: u8, key: Key) {
        if self.is_request(key)
            && let Some((_, pending)) = self.requests.get_mut(&key.1)
        {
            *pending -= 1;
        }
        self.dying.entry(stream).or_default().push((depth, key));
    }

    /// A call begins at that depth: deeper and equally deep calls of the stream have returned.
    fn bury(&mut self, stream: usize, depth: u8) {
        let Some(dying) = self.dying.get_mut(&stream) else { return };
        while let Some((_, key)) = dying.pop_if(|(freed, _)| *freed >= depth) {
            let key = (stream, key);
            if let Some(references) = self.live.get_mut(&key) {
                *references -= 1;
                if *references == 0 {
                    self.live.remove(&key);
                }
            }
        }
    }
}

/// Puts the handles in a value into a list.
fn handles(value: Option<&Option<Value>>, list: &mut Vec<u64>) {
    list.clear();
    match value {
        Some(Some(Value::Word(handle))) => list.push(*handle),
        Some(Some(Value::List(all))) => list.extend(all.iter().filter_map(|value| match value {
            Value::Word(handle) => Some(*handle),
            _ => None,
        })),
        _ => {}
    }
}
