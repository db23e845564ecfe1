//! From the bytes of a raw log to events.
//!
//! [`Events`] reads a log as a stream, in memory bounded by the calls that are open at once.
//! Events come in the order in which the calls were made.

use crate::event::{Event, Value};
use refrain_format::define::{FunctionDef, ParamDef};
use refrain_format::record::{HEAD, IGNORES_STATUS, PLAIN, Tag, array, state};
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Read};
use std::sync::Arc;

/// A malformed log.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes could not be read.
    #[error("the log cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The bytes are malformed.
    #[error("{log} is damaged at byte {at}: {what}")]
    Damaged {
        /// The name of the log.
        log: String,
        /// Offset in the log.
        at: u64,
        /// What is wrong.
        what: String,
    },
    /// A compressed trace is malformed.
    #[error("{0}")]
    Trace(String),
}

/// Names of predefined handles that a log carries: (kind, value) to name.
pub type HandleNames = HashMap<(String, u64), String>;

/// A record may not be longer; a larger length is damage.
const LONGEST: usize = 1 << 30;

/// The events of one raw log.
pub struct Events<R> {
    input: R,
    at: u64,
    functions: HashMap<u16, Arc<FunctionDef>>,
    handles: HandleNames,
    sites: HashMap<u32, Arc<str>>,
    open: VecDeque<Event>,
    /// For each event in `open`, whether it is complete or given up.
    settled: VecDeque<bool>,
    /// Numbers of the calls that are not, innermost last.
    unsettled: Vec<u64>,
    next_number: u64,
    finished: bool,
    buffer: Vec<u8>,
    /// The name of the log in errors.
    name: String,
}

impl<R: Read> Events<R> {
    /// Reads events from the records of a log.
    pub fn new(input: R) -> Events<R> {
        Events::named(input, "the log")
    }

    /// The same, with a name of the log for errors.
    pub fn named(input: R, name: impl Into<String>) -> Events<R> {
        Events {
            input,
            name: name.into(),
            at: 0,
            functions: HashMap::new(),
            handles: HashMap::new(),
            sites: HashMap::new(),
            open: VecDeque::new(),
            settled: VecDeque::new(),
            unsettled: Vec::new(),
            next_number: 0,
            finished: false,
            buffer: Vec::new(),
        }
    }

    /// Names of predefined handles seen so far.
    pub fn handle_names(&self) -> &HandleNames {
        &self.handles
    }

    fn damaged(&self, what: impl Into<String>) -> DecodeError {
        DecodeError::Damaged { log: self.name.clone(), at: self.at, what: what.into() }
    }

    /// Reads one record; false at the end.
    fn step(&mut self) -> Result<bool, DecodeError> {
        let mut head = [0; HEAD];
        let got = read_up_to(&mut self.input, &mut head)?;
        if got < HEAD || head[2] == Tag::End as u8 {
            return Ok(false);
        }
        let function = u16::from_le_bytes([head[0], head[1]]);
        let tag = Tag::from_byte(head[2])
            .ok_or_else(|| self.damaged(format!("no record begins with {}", head[2])))?;
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if !(HEAD..=LONGEST).contains(&length) {
            return Err(self.damaged(format!("a record of {length} bytes")));
        }
        let mut body = std::mem::take(&mut self.buffer);
        body.clear();
        let wanted = length - HEAD;
        let got = self.input.by_ref().take(wanted as u64).read_to_end(&mut body)?;
        if got < wanted {
            return Err(self.damaged("the log ends inside a record"));
        }
        let ignores_status = head[2] & IGNORES_STATUS != 0;
        let done = self.take_in((tag, ignores_status), function, head[3], &body);
        self.buffer = body;
        done?;
        self.at += length as u64;
        Ok(true)
    }

    fn take_in(
        &mut self,
        (tag, ignores_status): (Tag, bool),
        function: u16,
        detail: u8,
        body: &[u8],
    ) -> Result<(), DecodeError> {
        match tag {
            Tag::End => Ok(()),
            Tag::Define => {
                let text = std::str::from_utf8(body).map_err(|e| self.damaged(e.to_string()))?;
                let def = FunctionDef::from_text(text).map_err(|e| self.damaged(e))?;
                self.functions.insert(function, Arc::new(def));
                Ok(())
            }
            Tag::Handles => {
                for line in String::from_utf8_lossy(body).lines() {
                    let mut words = line.split_whitespace();
                    if let (Some(kind), Some(value), Some(name)) =
                        (words.next(), words.next(), words.next())
                        && let Ok(value) = u64::from_str_radix(value, 16)
                    {
                        // Of two names for one handle the first is the better one.
                        let names = self.handles.entry((kind.to_owned(), value));
                        names.or_insert(name.to_owned());
                    }
                }
                Ok(())
            }
            Tag::Enter | Tag::EnterAt => {
                self.enter(function, detail, body, tag == Tag::EnterAt)?;
                if let Some(event) = self.open.back_mut().filter(|_| ignores_status) {
                    event.ignore_status();
                }
                Ok(())
            }
            Tag::Site => {
                let mut bytes = Bytes { rest: body };
                let number = bytes.u32().ok_or_else(|| self.damaged("a short call site"))?;
                self.sites.insert(number, String::from_utf8_lossy(bytes.rest).into());
                Ok(())
            }
            Tag::Segment | Tag::Release | Tag::Members => Ok(()),
            Tag::Leave => self.leave(function, detail, body),
        }
    }

    fn function(&self, number: u16) -> Result<Arc<FunctionDef>, DecodeError> {
        let found = self.functions.get(&number).cloned();
        found.ok_or_else(|| self.damaged(format!("function {number} is not defined")))
    }

    fn enter(
        &mut self,
        function: u16,
        depth: u8,
        body: &[u8],
        has_site: bool,
    ) -> Result<(), DecodeError> {
        let def = self.function(function)?;
        let mut bytes = Bytes { rest: body };
        let parsed = bytes.u64().and_then(|start| {
            let site = if has_site { self.sites.get(&bytes.u32()?).cloned() } else { None };
            let inputs = bytes.values(&def, ParamDef::is_input)?;
            Some((start, site, inputs))
        });
        let (start, site, inputs) =
            parsed.ok_or_else(|| self.damaged(format!("short inputs of {}", def.name)))?;
        // A call at this depth ends every call that was open as deep or deeper: those were
        // left by longjmp, an exception, or a cancelled thread.
        while let Some(&innermost) = self.unsettled.last()
            && depth < u8::MAX
            && self.event(innermost).is_none_or(|event| event.depth >= depth)
        {
            self.settle_innermost();
        }
        // A signal handler may call between the end of a call and its record: then it is not inside a call.
        let outer = self.unsettled.last().and_then(|&number| self.event(number));
        let depth = match depth {
            u8::MAX => depth,
            depth => depth.min(outer.map_or(0, |outer| outer.depth.saturating_add(1))),
        };
        self.unsettled.push(self.next_number);
        self.open.push_back(Event {
            number: self.next_number,
            depth,
            outputs: vec![None; def.params.len()],
            function: def,
            site,
            start,
            end: None,
            result: None,
            error_class: None,
            inputs,
        });
        self.settled.push_back(false);
        self.next_number += 1;
        Ok(())
    }

    fn leave(&mut self, function: u16, detail: u8, body: &[u8]) -> Result<(), DecodeError> {
        let def = self.function(function)?;
        let last = (self.next_number as u32).wrapping_sub(1);
        let mut bytes = Bytes { rest: body };
        let parsed = (|| {
            let end = bytes.u64()?;
            let (result, enter, class) = match detail == PLAIN {
                true => (0, last, 0),
                false => (bytes.u64()? as i64, bytes.u32()?, bytes.u32()? as i32),
            };
            Some((end, result, enter, class, bytes.values(&def, ParamDef::is_output)?))
        })();
        let (end, result, enter, class, outputs) =
            parsed.ok_or_else(|| self.damaged(format!("short outputs of {}", def.name)))?;
        // Only the low 32 bits of the number are written; open calls are recent.
        let found = self.open.iter().rposition(|e| e.number as u32 == enter);
        // A call already given up may still return where a program switches stacks by hand.
        let Some(index) = found else { return Ok(()) };
        let event = &mut self.open[index];
        event.end = Some(end);
        event.result = Some(result);
        event.error_class = Some(class);
        event.outputs = outputs;
        let number = event.number;
        while self.unsettled.last().is_some_and(|&innermost| innermost >= number) {
            self.settle_innermost();
        }
        Ok(())
    }

    /// An event that was not returned yet, by its number.
    fn event(&self, number: u64) -> Option<&Event> {
        let first = self.open.front()?.number;
        self.open.get(usize::try_from(number.checked_sub(first)?).ok()?)
    }

    /// Marks the innermost open call as complete or given up.
    fn settle_innermost(&mut self) {
        if let Some(number) = self.unsettled.pop()
            && let Some(first) = self.open.front().map(|event| event.number)
            && let Some(settled) = self.settled.get_mut((number - first) as usize)
        {
            *settled = true;
        }
    }
}

impl<R: Read> Iterator for Events<R> {
    type Item = Result<Event, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.finished || self.settled.front() == Some(&true) {
                self.settled.pop_front();
                return self.open.pop_front().map(Ok);
            }
            match self.step() {
                Ok(more) => self.finished = !more,
                Err(error) => {
                    self.finished = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match input.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

/// A cursor that returns `None` at the end of the bytes.
struct Bytes<'a> {
    rest: &'a [u8],
}

impl Bytes<'_> {
    fn take(&mut self, n: usize) -> Option<&[u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn values(
        &mut self,
        def: &FunctionDef,
        wanted: impl Fn(&ParamDef) -> bool,
    ) -> Option<Vec<Option<Value>>> {
        let value = |p: &ParamDef| match wanted(p) {
            true => self.value(p).map(Some),
            false => Some(None),
        };
        def.params.iter().map(value).collect()
    }

    fn value(&mut self, p: &ParamDef) -> Option<Value> {
        match (p.class, p.array) {
            (Class::Status, false) => self.status(),
            (Class::Status, true) => self.statuses(),
            (Class::Str, _) => self.counted(Bytes::text),
            (Class::Strings, _) => self.strings(),
            (Class::Strings2, _) => self.list(Bytes::strings),
            (class, true) => self.list(|b| b.scalar(class)),
            (class, false) if by_value(p) => self.scalar(class),
            (class, false) => match self.u8()? {
                state::VALUE => self.scalar(class),
                state::NULL => Some(Value::Null),
                _ => Some(Value::Unset),
            },
        }
    }

    fn scalar(&mut self, class: Class) -> Option<Value> {
        Some(match class {
            Class::Int => Value::Int(self.u32()? as i32 as i64),
            Class::Aint | Class::Count | Class::Offset => Value::Int(self.u64()? as i64),
            _ => Value::Word(self.u64()?),
        })
    }

    /// The elements after their number, or the meaning of the code that replaces the number.
    fn counted(&mut self, read: impl Fn(&mut Self, usize) -> Option<Value>) -> Option<Value> {
        match self.u32()? {
            array::NULL => Some(Value::Null),
            array::SPECIAL => self.u64().map(Value::Special),
            array::INSIGNIFICANT => Some(Value::Insignificant),
            array::UNSET => Some(Value::Unset),
            array::IGNORED => Some(Value::Ignored),
            n => read(self, n as usize),
        }
    }

    fn text(&mut self, n: usize) -> Option<Value> {
        self.take(n).map(|b| Value::Text(b.to_vec()))
    }

    fn list(&mut self, item: impl Fn(&mut Self) -> Option<Value>) -> Option<Value> {
        self.counted(|bytes, n| {
            // An element takes at least a byte: more elements than bytes is damage.
            if n > bytes.rest.len() {
                return None;
            }
            (0..n).map(|_| item(bytes)).collect::<Option<Vec<_>>>().map(Value::List)
        })
    }

    fn strings(&mut self) -> Option<Value> {
        self.list(|bytes| bytes.counted(Bytes::text))
    }

    fn status(&mut self) -> Option<Value> {
        match self.u8()? {
            state @ (state::VALUE | state::CAPTURED) => {
                let size = self.u8()? as usize;
                let bytes = self.take(size)?.to_vec();
                Some(Value::Status { bytes, ignored: state == state::CAPTURED })
            }
            state::NULL => Some(Value::Null),
            state::IGNORED => Some(Value::Ignored),
            _ => Some(Value::Unset),
        }
    }

    fn statuses(&mut self) -> Option<Value> {
        self.counted(|bytes, n| {
            let (state, size) = (bytes.u8()?, bytes.u8()? as usize);
            let all = bytes.take(n.checked_mul(size)?)?;
            let status =
                |b: &[u8]| Value::Status { bytes: b.to_vec(), ignored: state == state::CAPTURED };
            Some(Value::List(all.chunks_exact(size.max(1)).map(status).collect()))
        })
    }
}

/// Whether C passes the parameter itself, not its address.
fn by_value(p: &ParamDef) -> bool {
    p.direction == Direction::In || p.class == Class::Memory
}
