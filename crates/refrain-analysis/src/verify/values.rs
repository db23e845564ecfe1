//! Compares one value of a record with the same value in the trace.

use super::handles::{Handles, Maker, is_request, shown};
use super::memory::Memory;
use refrain_format::define::ParamDef;
use refrain_mpi::abi::{Family, Layout, Source};
use refrain_mpi::kind::Class;
use refrain_mpi::names::{self, HandleTable};
use refrain_reader::event::{Event, Value};

/// The source or tag of a status if MPI does not define it: a trace does not store it.
const NOT_KEPT: i32 = i32::MIN;

/// Longer descriptions of values are shortened.
const LONGEST: usize = 160;

/// Two values that should be equal and are not.
#[derive(Debug, PartialEq, Eq)]
pub struct Unlike {
    /// What it should be.
    pub expected: String,
    /// What it is.
    pub got: String,
}

/// The objects of a process so far, and the names of its predefined handles.
pub struct World {
    /// Its objects.
    pub handles: Handles,
    /// Its memory.
    pub memory: Memory,
    /// Names of handles in its records.
    pub names: HandleTable,
    /// Its ABI.
    pub family: Family,
}

/// The direction of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The program passes it.
    Given,
    /// MPI returns it.
    Received,
}

/// The call whose values are compared.
#[derive(Clone, Copy)]
pub struct At<'a> {
    /// The call, as the records have it.
    pub call: &'a Event,
    /// The number of the thread that made it.
    pub thread: u32,
    /// Names of handles in the thread's trace.
    pub decoded_names: &'a HandleTable,
    /// The requests that the program passed, by their handles in the trace.
    pub requests: &'a [u64],
    /// The indices of completed requests, if the call returns them.
    pub indices: Option<&'a [i64]>,
}

impl World {
    fn name(&self, kind: &str, raw: u64) -> Option<&str> {
        self.names.name(kind, raw).or_else(|| names::handle_name(self.family, kind, raw))
    }

    /// Compares a value of a parameter.
    pub fn value(
        &mut self,
        at: At<'_>,
        p: &ParamDef,
        raw: &Value,
        decoded: &Value,
        way: Way,
    ) -> Result<(), Unlike> {
        if let (Value::List(raw), Value::List(decoded)) = (raw, decoded) {
            if raw.len() != decoded.len() {
                let elements = |all: &[Value]| format!("{} elements", all.len());
                return Err(Unlike { expected: elements(raw), got: elements(decoded) });
            }
            for (i, (raw, decoded)) in raw.iter().zip(decoded).enumerate() {
                self.element(at, p, i, raw, decoded, way).map_err(|unlike| Unlike {
                    expected: format!("[{i}] {}", unlike.expected),
                    got: format!("[{i}] {}", unlike.got),
                })?;
            }
            return Ok(());
        }
        self.element(at, p, 0, raw, decoded, way)
    }

    fn element(
        &mut self,
        at: At<'_>,
        p: &ParamDef,
        index: usize,
        raw: &Value,
        decoded: &Value,
        way: Way,
    ) -> Result<(), Unlike> {
        let found = match (raw, decoded) {
            (Value::Word(raw), Value::Word(decoded)) if p.class == Class::Handle => {
                self.handle(at, &p.reads_as, *raw, *decoded, way)
            }
            (Value::Status { bytes, ignored }, _) if p.class == Class::Status => {
                self.status(at, index, bytes, *ignored, decoded, way)
            }
            // Strings of strings.
            (Value::List(_), Value::List(_)) if p.class == Class::Strings2 => {
                return self.value(at, p, raw, decoded, way);
            }
            (Value::Int(raw), Value::Location { thread, segment, offset, .. }) => {
                self.address(at, *raw as u64, *thread, *segment, *offset)
            }
            (
                Value::Word(raw) | Value::Special(raw),
                Value::Location { thread, segment, offset, .. },
            ) => self.address(at, *raw, *thread, *segment, *offset),
            (Value::Word(a), Value::Word(b)) if a != b => self.named_address(at, &p.name, *a, *b),
            (Value::Special(a), Value::Special(b)) if a != b => {
                self.named_address(at, "address", *a, *b)
            }
            (Value::Word(a), Value::Int(b)) if *a == *b as u64 => Ok(()),
            _ if raw == decoded => Ok(()),
            _ => Err(describe(raw)),
        };
        found.map_err(|expected| Unlike { expected, got: describe(decoded) })
    }

    /// Compares a handle.
    pub fn handle(
        &mut self,
        at: At<'_>,
        kind: &str,
        raw: u64,
        decoded: u64,
        way: Way,
    ) -> Result<(), String> {
        match (self.name(kind, raw), at.decoded_names.name(kind, decoded)) {
            (Some(a), Some(b)) if a == b || self.is_alias(kind, raw, b) => Ok(()),
            (Some(name), Some(other)) => Err(format!("{name}, not {other}")),
            (Some(name), None) => Err(name.to_owned()),
            (None, Some(name)) => Err(format!("{raw:#x}, not {name}")),
            (None, None) if way == Way::Given => self.handles.given(kind, raw, decoded),
            (None, None) => self.handles.received(kind, raw, decoded, &at.call.function.name),
        }
    }

    /// A handle was freed, unless it is predefined.
    pub fn freed(&mut self, at: At<'_>, kind: &str, raw: u64, decoded: u64) {
        if self.name(kind, raw).is_none() && at.decoded_names.name(kind, decoded).is_none() {
            self.handles.freed(kind, raw, decoded);
        }
    }

    /// Whether a predefined handle also has that name.
    fn is_alias(&self, kind: &str, raw: u64, name: &str) -> bool {
        names::predefined_handles(self.family)
            .any(|(k, n, source)| k == kind && n == name && source == Source::Value(raw as usize))
    }

    fn address(
        &mut self,
        at: At<'_>,
        address: u64,
        thread: Option<u32>,
        segment: u32,
        offset: i64,
    ) -> Result<(), String> {
        self.memory.check(address, (thread.unwrap_or(at.thread), segment), offset)
    }

    fn named_address(&self, at: At<'_>, kind: &str, raw: u64, decoded: u64) -> Result<(), String> {
        match (self.name(kind, raw), at.decoded_names.name(kind, decoded)) {
            (Some(a), Some(b)) if a == b || self.is_alias(kind, raw, b) => Ok(()),
            (Some(name), _) => Err(name.to_owned()),
            (None, _) => Err(format!("{raw:#x}")),
        }
    }

    /// Compares the fields of a status that MPI defines.
    fn status(
        &mut self,
        at: At<'_>,
        index: usize,
        raw: &[u8],
        ignored: bool,
        decoded: &Value,
        way: Way,
    ) -> Result<(), String> {
        let layout = Layout::of(self.family).status;
        let Some(raw) = layout.status_fields(raw) else { return Ok(()) };
        let about = if way == Way::Given { Maker::Unknown } else { self.about(at, index) };
        let expected = || {
            let asked = if ignored { ", ignored" } else { "" };
            format!("status {raw:?}{asked}")
        };
        let (fields, was_ignored) = match decoded {
            Value::Status { bytes, ignored } => match layout.status_fields(bytes) {
                Some(fields) => (fields, *ignored),
                None => return Err(expected()),
            },
            // No status in the trace is correct if MPI defines none.
            Value::Unset if matches!(about, Maker::Other | Maker::Unknown) => return Ok(()),
            _ => return Err(expected()),
        };
        let kept = fields.source != NOT_KEPT;
        let failed = at.call.is_failed() && way == Way::Received;
        let whole = about == Maker::Receive;
        let count = raw.count_bytes.unwrap_or(0);
        let cancelled = self.was_cancelled(at, index);
        let like = ignored == was_ignored
            && (kept || !whole)
            && (!kept || (fields.source, fields.tag) == (raw.source, raw.tag))
            && (!kept || fields.cancelled == raw.cancelled)
            && (!cancelled || fields.cancelled == raw.cancelled)
            && (!(kept || about == Maker::Transfer) || fields.count_bytes.unwrap_or(0) == count)
            && (!failed || fields.error == raw.error);
        if like { Ok(()) } else { Err(expected()) }
    }

    /// What created the request of a status.
    fn about(&mut self, at: At<'_>, index: usize) -> Maker {
        let function = &at.call.function;
        if function.name.starts_with("MPI_File_") {
            return Maker::Transfer;
        }
        if function.params.iter().all(|p| !is_request(&p.reads_as)) {
            return Maker::Receive;
        }
        let request = self.request_of(at, index);
        request.and_then(|r| self.handles.request(r)).map_or(Maker::Unknown, |r| r.maker)
    }

    fn was_cancelled(&mut self, at: At<'_>, index: usize) -> bool {
        let request = self.request_of(at, index);
        request.and_then(|r| self.handles.request(r)).is_some_and(|r| r.cancelled)
    }

    /// The request of a status.
    fn request_of(&self, at: At<'_>, index: usize) -> Option<u64> {
        let index = match at.indices {
            Some(indices) => usize::try_from(*indices.get(index)?).ok()?,
            None => index,
        };
        at.requests.get(index).copied()
    }
}

/// A value as text.
pub fn describe(value: &Value) -> String {
    let text = match value {
        Value::Int(n) => n.to_string(),
        Value::Word(word) => shown(*word),
        Value::Special(address) => format!("named address {address:#x}"),
        Value::Text(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        Value::Null => "NULL".to_owned(),
        Value::Unset => "unset".to_owned(),
        Value::Insignificant => "insignificant".to_owned(),
        Value::Ignored => "ignored".to_owned(),
        Value::Location { name, offset, .. } => format!("{name}{offset:+#x}"),
        Value::List(all) => {
            let each: Vec<String> = all.iter().take(16).map(describe).collect();
            format!("{} elements: {}", all.len(), each.join(", "))
        }
        Value::Status { bytes, ignored } => format!("status {bytes:?}, ignored: {ignored}"),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
