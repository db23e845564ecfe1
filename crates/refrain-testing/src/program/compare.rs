//! Compares decoded calls with the calls that a process made, up to the numbering of its objects.

use super::{Call, Expected, Life, Process, Returned};
use crate::records::FAMILY;
use refrain_mpi::abi::Layout;
use refrain_mpi::names::HandleTable;
use refrain_reader::event::{Event, Value};
use refrain_reader::view::SingleTask;
use refrain_signature::tasktrace::TaskTrace;
use std::collections::HashMap;

/// The name of each object and segment of a process in its decoded trace, so far.
#[derive(Debug, Default)]
pub struct Names {
    /// By identity: kind and name.
    by_identity: HashMap<usize, (&'static str, u64)>,
    /// By kind and name: all objects that had this name.
    by_name: HashMap<(&'static str, u64), Vec<usize>>,
}

impl Names {
    fn is(&mut self, kind: &'static str, identity: usize, name: u64, lives: &[Life]) -> bool {
        if let Some(known) = self.by_identity.get(&identity) {
            return *known == (kind, name);
        }
        self.by_identity.insert(identity, (kind, name));
        let others = self.by_name.entry((kind, name)).or_default();
        others.push(identity);
        // A name may be reused only after its object has ended.
        let apart = |a: Life, b: Life| a.died <= b.born || b.died <= a.born;
        others.iter().all(|&other| other == identity || apart(lives[other], lives[identity]))
    }
}

/// Compares the trace of a thread with its calls; an error says what differs.
pub fn compare(
    process: &Process,
    thread: usize,
    trace: &TaskTrace,
    names: &mut Names,
) -> Result<(), String> {
    let task = SingleTask::new(trace.clone(), FAMILY, thread as u32);
    let task = task.map_err(|error| error.to_string())?;
    let decoder = task.view().decode();
    let handles = decoder.handle_names();
    let mut calls = process.threads[thread].calls.iter();
    for event in decoder {
        let event = event.map_err(|error| error.to_string())?;
        if event.is_note() {
            continue;
        }
        let number = event.number;
        let call = calls.next().ok_or_else(|| format!("call {number} was never made"))?;
        let mut reader = Reader { process, thread, handles: &handles, names };
        reader.call(call, &event).map_err(|what| {
            format!("thread {thread}, call {number}: {what}\n made {call:?}\n read {event:?}")
        })?;
    }
    match calls.next() {
        Some(call) => Err(format!("thread {thread}: {call:?} is missing")),
        None => Ok(()),
    }
}

struct Reader<'a> {
    process: &'a Process,
    thread: usize,
    handles: &'a HandleTable,
    names: &'a mut Names,
}

impl Reader<'_> {
    fn call(&mut self, call: &Call, event: &Event) -> Result<(), String> {
        if event.function.name != call.name || event.depth != call.depth {
            return Err(format!("{} at depth {}", event.function.name, event.depth));
        }
        self.values("input", &call.inputs, &event.inputs)?;
        let Some((gave, class)) = &call.returned else {
            return match event.result.is_none() && event.outputs.iter().all(Option::is_none) {
                true => Ok(()),
                false => Err("it never returned".into()),
            };
        };
        self.values("output", &call.outputs, &event.outputs)?;
        let same = match gave {
            Returned::Number(n) => event.result == Some(*n),
            Returned::Named(kind, name) => {
                event.result.and_then(|n| self.handles.name(kind, n as u64)) == Some(name)
            }
        };
        if !same || event.error_class != Some(*class) {
            return Err(format!("gave {:?} of class {:?}", event.result, event.error_class));
        }
        Ok(())
    }

    fn values(
        &mut self,
        what: &str,
        expected: &[Expected],
        values: &[Option<Value>],
    ) -> Result<(), String> {
        let values: Vec<&Value> = values.iter().flatten().collect();
        if values.len() != expected.len() {
            return Err(format!("{} {what}s", values.len()));
        }
        for (i, (expected, value)) in expected.iter().zip(values).enumerate() {
            if !self.value(expected, value) {
                return Err(format!("{what} {i}: made {expected:?}, read {value:?}"));
            }
        }
        Ok(())
    }

    fn value(&mut self, expected: &Expected, value: &Value) -> bool {
        match (expected, value) {
            (Expected::Same(same), value) => same == value,
            (Expected::Named(kind, name), Value::Word(word)) => {
                self.handles.name(kind, *word) == Some(name)
            }
            (Expected::Object(kind, identity), Value::Word(word)) => {
                self.handles.name(kind, *word).is_none()
                    && self.names.is(kind, *identity, *word, &self.process.lives)
            }
            (
                Expected::Place(identity, offset),
                Value::Location { thread, segment, offset: o, .. },
            ) => {
                let owner = thread.map_or(self.thread as u64, u64::from);
                let name = owner << 32 | u64::from(*segment);
                offset == o && self.names.is("segment", *identity, name, &self.process.lives)
            }
            (Expected::List(all), Value::List(values)) => {
                all.len() == values.len()
                    && all.iter().zip(values).all(|(e, value)| self.value(e, value))
            }
            (expected, Value::Status { bytes, ignored }) => {
                let fields = Layout::of(FAMILY).status.status_fields(bytes);
                fields.is_some_and(|read| match expected {
                    Expected::Message { fields, cancelled, error, ignored: expected } => {
                        (read.source, read.tag, read.count_bytes)
                            == (fields.0, fields.1, Some(fields.2))
                            && read.cancelled == *cancelled
                            && error.is_none_or(|error| read.error == error)
                            && ignored == expected
                    }
                    Expected::Cancelled(cancelled) => read.cancelled == *cancelled,
                    Expected::Error(error) => read.error == *error,
                    _ => false,
                })
            }
            _ => false,
        }
    }
}
