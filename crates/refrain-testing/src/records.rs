//! Writes the records of a thread as the agent would, from values: the inverse of
//! [`refrain_reader::raw`].

use refrain_format::define::{FunctionDef, ParamDef};
use refrain_format::record::{HEAD, PLAIN, Tag, array, head, state};
use refrain_mpi::abi::{Family, Layout};
use refrain_mpi::interface::{self, Direction};
use refrain_mpi::kind::Class;
use refrain_mpi::status::StatusFields;
use refrain_reader::event::Value;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The family whose handles, constants and statuses the logs hold.
pub const FAMILY: Family = Family::Mpich;

/// A function by name: its number in logs, and its definition.
pub fn function(name: &str) -> (u16, &'static FunctionDef) {
    static ALL: OnceLock<HashMap<&str, (u16, FunctionDef)>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let numbered = interface::functions().iter().enumerate();
        // Number 0 means none.
        numbered.map(|(i, f)| (f.name.as_str(), (i as u16 + 1, FunctionDef::from(f)))).collect()
    });
    let (number, def) = all.get(name).unwrap_or_else(|| panic!("no function {name}"));
    (*number, def)
}

/// A list of ints.
pub fn ints(values: impl IntoIterator<Item = i64>) -> Value {
    Value::List(values.into_iter().map(Value::Int).collect())
}

/// A list of handles.
pub fn words(values: impl IntoIterator<Item = u64>) -> Value {
    Value::List(values.into_iter().map(Value::Word).collect())
}

/// The status of a message.
pub fn message(source: i32, tag: i32, bytes: i64) -> Value {
    status(&StatusFields { source, tag, error: 0, count_bytes: Some(bytes), cancelled: false })
}

/// A status, as MPI would have written it.
pub fn status(fields: &StatusFields) -> Value {
    let layout = Layout::of(FAMILY).status;
    let mut bytes = vec![0; layout.bytes];
    layout.write(&mut bytes, fields);
    Value::Status { bytes, ignored: false }
}

/// The records of one thread.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where each record begins.
    pub starts: Vec<usize>,
    /// When each was written.
    times: Vec<u64>,
    /// Ticks of the last record.
    pub clock: u64,
    entered: u32,
    last_was_enter: bool,
    defined: Vec<u16>,
    /// Call sites written.
    sites: u32,
    /// The call site of the next calls, if call sites are recorded.
    site: Option<u32>,
}

impl Log {
    /// A call that succeeds, with no other records inside it.
    pub fn call(&mut self, name: &str, inputs: &[Value], outputs: &[Value]) {
        let number = self.enter(name, 0, inputs);
        self.leave(name, number, 0, 0, outputs);
    }

    /// Begins a call. Returns its number.
    pub fn enter(&mut self, name: &str, depth: u8, inputs: &[Value]) -> u32 {
        let (function, def) = function(name);
        if !self.defined.contains(&function) {
            self.defined.push(function);
            self.record(function, Tag::Define, 0, def.to_text().as_bytes());
        }
        let mut body = self.tick();
        let site = self.site.map(u32::to_le_bytes);
        body.extend(site.into_iter().flatten());
        let wanted = def.params.iter().filter(|p| p.is_input());
        put_values(&mut body, name, wanted, inputs);
        let tag = if site.is_some() { Tag::EnterAt } else { Tag::Enter };
        self.record(function, tag, depth, &body);
        self.last_was_enter = true;
        self.entered += 1;
        self.entered - 1
    }

    /// Ends a call.
    pub fn leave(&mut self, name: &str, number: u32, result: i64, class: i32, outputs: &[Value]) {
        let (function, def) = function(name);
        let plain = self.last_was_enter && (result, class) == (0, 0) && number + 1 == self.entered;
        let mut body = self.tick();
        if !plain {
            body.extend(result.to_le_bytes());
            body.extend(number.to_le_bytes());
            body.extend(class.to_le_bytes());
        }
        let wanted = def.params.iter().filter(|p| p.is_output());
        put_values(&mut body, name, wanted, outputs);
        self.record(function, Tag::Leave, if plain { PLAIN } else { 0 }, &body);
    }

    /// Sets the call site of the following calls.
    pub fn at_site(&mut self, number: u32) {
        while self.sites <= number {
            let mut body = self.sites.to_le_bytes().to_vec();
            body.extend(format!("program+{:x}", 0x400 + self.sites).into_bytes());
            self.record(0, Tag::Site, 0, &body);
            self.sites += 1;
        }
        self.site = Some(number);
    }

    /// Records the names of predefined handles, each with its kind.
    pub fn handles(&mut self, named: &[(&str, u64, &str)]) {
        let line = |(kind, handle, name): &(&str, u64, &str)| format!("{kind} {handle:x} {name}\n");
        let text: String = named.iter().map(line).collect();
        self.record(0, Tag::Handles, 0, text.as_bytes());
    }

    /// The bytes since the last time, which are then forgotten: so a log need not be in memory as a whole.
    pub fn take(&mut self) -> Vec<u8> {
        self.starts.clear();
        self.times.clear();
        std::mem::take(&mut self.bytes)
    }

    /// Records a new segment of memory.
    pub fn segment(&mut self, base: u64, bytes: u64, kind: u8, module: &str) {
        let mut body = self.tick();
        [base, bytes, base].into_iter().for_each(|n| body.extend(n.to_le_bytes()));
        body.push(kind);
        body.extend(0u32.to_le_bytes());
        body.extend(module.as_bytes());
        self.record(0, Tag::Segment, 0, &body);
    }

    /// Records that memory is freed.
    pub fn release(&mut self, base: u64) {
        let mut body = self.tick();
        body.extend(base.to_le_bytes());
        self.record(0, Tag::Release, 0, &body);
    }

    /// Records the members of a communicator.
    pub fn members(&mut self, comm: u64, ranks: &[i32], remote: &[i32]) {
        let mut body = self.tick();
        body.extend(comm.to_le_bytes());
        for list in [ranks, remote] {
            body.extend((list.len() as u32).to_le_bytes());
            list.iter().for_each(|rank| body.extend(rank.to_le_bytes()));
        }
        self.record(0, Tag::Members, 0, &body);
    }

    /// Repeats what `records` writes `times` times, with the same ticks. It may write only complete calls.
    pub fn repeat(&mut self, times: usize, records: impl FnOnce(&mut Log)) {
        let (start, entered) = (self.bytes.len(), self.entered);
        records(self);
        let (end, calls) = (self.bytes.len(), self.entered - entered);
        for _ in 1..times {
            self.bytes.extend_from_within(start..end);
            self.entered += calls;
        }
    }

    /// The position after the records up to a moment.
    pub fn end_of(&self, moment: u64) -> usize {
        let at = self.times.partition_point(|time| *time <= moment);
        self.starts.get(at).copied().unwrap_or(self.bytes.len())
    }

    fn tick(&mut self) -> Vec<u8> {
        self.clock += 7;
        self.clock.to_le_bytes().to_vec()
    }

    fn record(&mut self, function: u16, tag: Tag, detail: u8, body: &[u8]) {
        self.last_was_enter = false;
        self.starts.push(self.bytes.len());
        self.times.push(self.clock);
        self.bytes.extend(head(function, tag, detail, HEAD + body.len()).to_le_bytes());
        self.bytes.extend(body);
    }
}

fn put_values<'a>(
    out: &mut Vec<u8>,
    name: &str,
    params: impl Iterator<Item = &'a ParamDef>,
    values: &[Value],
) {
    let mut values = values.iter();
    for param in params {
        let value = values.next().unwrap_or_else(|| panic!("{name}: no {}", param.name));
        put_value(out, param, value);
    }
    assert!(values.next().is_none(), "{name}: too many values");
}

fn put_value(out: &mut Vec<u8>, p: &ParamDef, value: &Value) {
    let by_value = p.direction == Direction::In || p.class == Class::Memory;
    match (p.class, p.array) {
        (Class::Status, false) => put_status(out, value),
        (Class::Status, true) => put_statuses(out, value),
        (Class::Str, _) => put_text(out, value),
        (Class::Strings, _) => put_list(out, value, put_text),
        (Class::Strings2, _) => {
            put_list(out, value, |out, value| put_list(out, value, put_text));
        }
        (class, true) => put_list(out, value, |out, value| put_scalar(out, class, value)),
        (class, false) if by_value => put_scalar(out, class, value),
        (class, false) => match value {
            Value::Null => out.push(state::NULL),
            Value::Unset => out.push(state::UNSET),
            value => {
                out.push(state::VALUE);
                put_scalar(out, class, value);
            }
        },
    }
}

fn put_scalar(out: &mut Vec<u8>, class: Class, value: &Value) {
    let number = match value {
        Value::Int(n) => *n,
        Value::Word(word) => *word as i64,
        other => panic!("{other:?} is not a scalar"),
    };
    match class {
        Class::Int => out.extend((number as i32).to_le_bytes()),
        _ => out.extend(number.to_le_bytes()),
    }
}

/// Writes the code for a value that is not an array; true if there is one.
fn put_code(out: &mut Vec<u8>, value: &Value) -> bool {
    let code = match value {
        Value::Null => array::NULL,
        Value::Special(_) => array::SPECIAL,
        Value::Insignificant => array::INSIGNIFICANT,
        Value::Unset => array::UNSET,
        Value::Ignored => array::IGNORED,
        _ => return false,
    };
    out.extend(code.to_le_bytes());
    if let Value::Special(address) = value {
        out.extend(address.to_le_bytes());
    }
    true
}

fn put_text(out: &mut Vec<u8>, value: &Value) {
    if let Value::Text(text) = value {
        out.extend((text.len() as u32).to_le_bytes());
        out.extend(text);
    } else {
        assert!(put_code(out, value), "{value:?} is not a string");
    }
}

fn put_list(out: &mut Vec<u8>, value: &Value, item: impl Fn(&mut Vec<u8>, &Value)) {
    if let Value::List(all) = value {
        out.extend((all.len() as u32).to_le_bytes());
        all.iter().for_each(|value| item(out, value));
    } else {
        assert!(put_code(out, value), "{value:?} is not an array");
    }
}

fn put_status(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Status { bytes, ignored } => {
            out.push(if *ignored { state::CAPTURED } else { state::VALUE });
            out.push(bytes.len() as u8);
            out.extend(bytes);
        }
        Value::Null => out.push(state::NULL),
        Value::Ignored => out.push(state::IGNORED),
        _ => out.push(state::UNSET),
    }
}

fn put_statuses(out: &mut Vec<u8>, value: &Value) {
    let Value::List(all) = value else {
        assert!(put_code(out, value), "{value:?} are not statuses");
        return;
    };
    out.extend((all.len() as u32).to_le_bytes());
    let ignored = all.iter().any(|s| matches!(s, Value::Status { ignored: true, .. }));
    out.push(if ignored { state::CAPTURED } else { state::VALUE });
    out.push(Layout::of(FAMILY).status.bytes as u8);
    for status in all {
        let Value::Status { bytes, .. } = status else { panic!("{status:?} is not a status") };
        out.extend(bytes);
    }
}
