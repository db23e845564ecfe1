//! What a reader of a trace may wonder about: objects that nobody made, requests that nobody
//! completed.
//!
//! None of it is an error. Recording may have been off for a while, or an object may come from a
//! call that MPI made itself; and a program may leave requests behind.

use super::compare::{is_note, stream_error};
use super::handles::is_request;
use crate::calls::{CallsError, processes};
use refrain_format::decode::{Event, Value};
use refrain_mpi::kind::Class;
use refrain_mpi::names::HandleTable;
use refrain_trace::Trace;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A kind of object and a handle.
type Key = (String, u64);

/// What was seen of the calls of a trace.
#[derive(Debug, Default)]
pub struct Survey {
    /// Calls seen.
    pub calls: u64,
    /// By kind: how many objects were used before any call made them.
    pub unmade: BTreeMap<String, u64>,
    /// By the function that made them: how many requests were never completed.
    pub pending: BTreeMap<String, u64>,
    process: OfProcess,
}

#[derive(Debug, Default)]
struct OfProcess {
    /// How often each object was got, by stream.
    live: HashMap<(usize, Key), u32>,
    /// Used in a stream that had not made them by then.
    unmade: HashSet<(usize, Key)>,
    /// Streams that made an object.
    makers: HashMap<Key, HashSet<usize>>,
    /// Freed by calls that have perhaps not returned: callbacks inside these still use them.
    dying: HashMap<usize, Vec<(u8, Key)>>,
    /// Requests: the function that made the last, and how many were made and not completed.
    requests: HashMap<u64, (String, i64)>,
}

/// Decodes every call of a trace.
pub fn survey(trace: &Trace) -> Result<Survey, CallsError> {
    let mut survey = Survey::default();
    for process in processes(trace) {
        for &stream in &process.streams {
            let mut events = trace.decoded(stream)?;
            let names = events.handle_names();
            while let Some(event) = events.next() {
                let meta = &trace.meta().streams[stream];
                let event = event.map_err(|e| stream_error(meta, e))?;
                if !is_note(&event) {
                    survey.take(stream, &names, &event);
                }
            }
        }
        survey.end_of_process();
    }
    Ok(survey)
}

impl Survey {
    /// Takes in the next call of a stream, whose predefined handles have these names.
    pub fn take(&mut self, stream: usize, names: &HandleTable, event: &Event) {
        self.calls += 1;
        self.process.bury(stream, event.depth);
        for (i, p) in event.function.params.iter().enumerate() {
            if p.class != Class::Handle {
                continue;
            }
            let before = handles(event.inputs.get(i));
            let after = handles(event.outputs.get(i));
            let is_made = |handle: &u64| names.name(&p.reads_as, *handle).is_none();
            for handle in before.iter().copied().filter(is_made) {
                self.process.used(stream, &p.reads_as, handle);
            }
            for (place, handle) in after.iter().enumerate() {
                let old = before.get(place);
                if old == Some(handle) {
                    continue;
                }
                if let Some(old) = old.copied().filter(is_made) {
                    self.process.freed(stream, event.depth, &p.reads_as, old);
                }
                if is_made(handle) {
                    self.process.got(stream, &p.reads_as, *handle, &event.function.name);
                }
            }
        }
    }

    /// No more calls of this process follow.
    pub fn end_of_process(&mut self) {
        let OfProcess { unmade, makers, requests, .. } = std::mem::take(&mut self.process);
        for (stream, key) in unmade {
            // Another thread may have made it before.
            if makers.get(&key).is_none_or(|makers| makers.iter().all(|m| *m == stream)) {
                *self.unmade.entry(key.0).or_default() += 1;
            }
        }
        for (function, pending) in requests.into_values() {
            let is_persistent = function.ends_with("_init") || function.ends_with("_init_c");
            if pending > 0 && !is_persistent {
                *self.pending.entry(function).or_default() += pending as u64;
            }
        }
    }

    /// What is worth saying, in sentences.
    pub fn remarks(&self) -> Vec<String> {
        let unmade = self
            .unmade
            .iter()
            .map(|(kind, n)| format!("{n} of kind {kind} used before any recorded call made them"));
        let pending = self.pending.iter().map(|(function, n)| {
            format!("{n} requests of {function} never completed by a recorded call")
        });
        unmade.chain(pending).collect()
    }
}

impl OfProcess {
    fn used(&mut self, stream: usize, kind: &str, handle: u64) {
        let key = (stream, (kind.to_owned(), handle));
        if !self.live.contains_key(&key) {
            self.unmade.insert(key);
        }
    }

    fn got(&mut self, stream: usize, kind: &str, handle: u64, function: &str) {
        if is_request(kind) {
            let (maker, pending) = self.requests.entry(handle).or_default();
            function.clone_into(maker);
            *pending += 1;
        }
        let key = (kind.to_owned(), handle);
        self.makers.entry(key.clone()).or_default().insert(stream);
        *self.live.entry((stream, key)).or_default() += 1;
    }

    fn freed(&mut self, stream: usize, depth: u8, kind: &str, handle: u64) {
        if is_request(kind)
            && let Some((_, pending)) = self.requests.get_mut(&handle)
        {
            *pending -= 1;
        }
        let dying = self.dying.entry(stream).or_default();
        dying.push((depth, (kind.to_owned(), handle)));
    }

    /// A call begins at that depth: those of a stream that are not around it have returned.
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

/// The handles in a value.
fn handles(value: Option<&Option<Value>>) -> Vec<u64> {
    match value {
        Some(Some(Value::Word(handle))) => vec![*handle],
        Some(Some(Value::List(all))) => all
            .iter()
            .filter_map(|v| if let Value::Word(handle) = v { Some(*handle) } else { None })
            .collect(),
        _ => Vec::new(),
    }
}
