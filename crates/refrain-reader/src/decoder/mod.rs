//! From the trace of a task back to its calls, in the order in which they began.
//!
//! The decoder numbers handles itself, with the same number for as long as the object lives. Addresses
//! are a segment and an offset. If the trace has no times of calls, the times of events are steps: they only
//! define an order.

mod fit;
pub(crate) mod handles;
pub mod loops;
mod status;
mod terminals;
pub mod times;

use crate::event::{Event, Value};
use crate::functions::Function;
use crate::view::{RankCells, TaskView, VaryingOutcomes, handle_names};
use refrain_format::record::{segment, state};
use refrain_mpi::abi::Layout;
use refrain_mpi::names::HandleTable;
use refrain_mpi::status::StatusFields;
use refrain_signature::cells::Cells;
use refrain_signature::codes::code;
use refrain_signature::head::Head;
use refrain_signature::outcome::IGNORES_STATUS;
use refrain_signature::plan::{Form, Op, Plan, Role};
use refrain_signature::{array, notes};
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;
pub(crate) use terminals::Terminals;
use times::{Clock, TimesError};

/// A trace that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// A definition.
    #[error("function {0}: {1}")]
    Function(u16, String),
    /// A signature.
    #[error("signature {0} ({1}): its values do not read")]
    Signature(u32, String),
    /// A call.
    #[error("call {0}: signature {1} is not defined")]
    Undefined(u64, u32),
    /// Calls inside of calls.
    #[error("call {0}: too many calls are inside of it")]
    TooDeep(u64),
    /// Times of calls.
    #[error("{0}")]
    Times(String),
}

impl From<TimesError> for TaskError {
    fn from(why: TimesError) -> TaskError {
        TaskError::Times(why.to_string())
    }
}

/// The longest array that a trace may claim.
const LONGEST: usize = 1 << 28;

/// The memory that an event takes besides its parameters, in values.
const EVENT: usize = 8;

/// The most values that a call and all calls inside of it may take, unless the trace is as long.
const MOST_HELD: usize = 1 << 23;

pub(crate) const PREDEFINED: u64 = 1 << 62;
const REQUESTS: u64 = 1 << 61;
/// Predefined handles that the trace does not name.
const IMPLIED: u64 = PREDEFINED | 1 << 32;

/// The calls of a task.
pub struct Decoder<'t> {
    view: TaskView<'t>,
    /// Signatures decoded so far, evaluated for this rank.
    cells: Vec<Option<RankCells<'t>>>,
    /// Their outcomes.
    outcomes: Vec<SignatureOutcomes<'t>>,
    /// Only samples are wanted: calls as if each were the only one.
    is_sampling: bool,
    /// Requests in arrays are those of the signature, even if they are null by then.
    keeps_requests: bool,
    /// Calls come in the order of the sequence: those inside a call before it.
    in_sequence: bool,
    /// The signature of the last call read, and whether it is a poll that failed.
    last: (u32, bool),
    layout: &'static Layout,
    terminals: Terminals<'t>,
    /// When calls were made, if that is known.
    times: Option<Clock<'t>>,
    /// Call sites met so far, by their strings.
    sites: HashMap<usize, Arc<str>>,
    live: loops::Live,
    last_status: Option<StatusFields>,
    segments: HashMap<(u32, u32), Arc<str>>,
    /// Calls made inside a call that is still to come. Each has its depth and is followed by the calls made
    /// inside of it.
    inner: Vec<(u32, Vec<(u32, Event)>)>,
    /// Calls to return, the first at the end.
    ready: Vec<Event>,
    /// Values in `inner` and in the call being read, as far as they count.
    held: usize,
    number: u64,
    clock: u64,
    failed: bool,
}

/// The outcomes of a signature.
enum SignatureOutcomes<'t> {
    /// Not asked for yet.
    Unread,
    /// All the same.
    Constant(RankCells<'t>),
    /// One after the other.
    Varying(VaryingOutcomes<'t>),
}

/// What is read of a call.
struct Reading<'a> {
    signature: Cells<'a>,
    outcome: Cells<'a>,
    numbers: Vec<i64>,
    indices: Vec<i64>,
    /// How many calls it was made inside of.
    depth: u32,
    /// Handles before the call that it may change: kind, then values.
    before: Vec<Value>,
}

impl<'t> Decoder<'t> {
    /// The calls of a task in that sequence.
    pub(crate) fn new(view: TaskView<'t>, terminals: Terminals<'t>) -> Decoder<'t> {
        let rows = view.signatures();
        Decoder {
            layout: Layout::of(view.family),
            view,
            cells: vec![None; rows],
            outcomes: (0..rows).map(|_| SignatureOutcomes::Unread).collect(),
            is_sampling: false,
            keeps_requests: false,
            in_sequence: false,
            last: (0, false),
            terminals,
            times: None,
            sites: HashMap::new(),
            live: loops::Live::default(),
            last_status: None,
            segments: HashMap::new(),
            inner: Vec::new(),
            ready: Vec::new(),
            held: 0,
            number: 0,
            clock: 0,
            failed: false,
        }
    }

    /// A call for each of these signatures; see [`TaskView::samples`].
    pub(crate) fn samples(view: TaskView<'t>, signatures: &[u32]) -> Result<Vec<Event>, TaskError> {
        let mut decoder = Decoder::new(view, Terminals::list(Vec::new()));
        decoder.is_sampling = true;
        let mut events = Vec::with_capacity(signatures.len());
        for &signature in signatures {
            decoder.live.clear();
            decoder.last_status = None;
            decoder.terminals = Terminals::list(vec![signature]);
            decoder.decode_next()?;
            events.extend(decoder.ready.pop());
        }
        Ok(events)
    }

    /// A call for each signature; see [`TaskView::whole_samples`].
    pub(crate) fn whole_samples(view: TaskView<'t>) -> Result<Vec<Event>, TaskError> {
        let count = view.signatures() as u32;
        let mut decoder = Decoder::new(view, Terminals::list((0..count).collect()));
        (decoder.is_sampling, decoder.keeps_requests) = (true, true);
        decoder.in_sequence = true;
        let mut events = Vec::with_capacity(count as usize);
        while decoder.decode_next()? {
            events.extend(decoder.ready.pop());
        }
        Ok(events)
    }

    /// The calls in the order of the sequence, each with its signature, and whether it is a poll that failed: calls
    /// that callbacks make come before the call that they are inside of.
    pub fn numbered(mut self) -> Numbered<'t> {
        self.in_sequence = true;
        Numbered { decoder: self }
    }

    /// With the times of its calls: bytes as [`times::Times`] reads them.
    pub fn with_times(mut self, input: Box<dyn Read + 't>) -> Decoder<'t> {
        let times = times::Times::new(&self.view, input);
        self.times = Some(Clock::new(self.view.clone(), times));
        self
    }

    /// The names of the handles that calls hold.
    pub fn handle_names(&self) -> HandleTable {
        handle_names(self.view.predefined())
    }

    fn decode_next(&mut self) -> Result<bool, TaskError> {
        let Some((number, is_failed_poll)) = self.terminals.next() else { return Ok(false) };
        self.last = (number, is_failed_poll);
        let undefined = TaskError::Undefined(self.number, number);
        let Some(cells) = self.cells_of(number) else { return Err(undefined) };
        let mut signature = Cells::new(&cells);
        let head = Head::read(&mut signature);
        let functions = self.view.functions;
        let function = head.and_then(|head| functions.get(head.function));
        let (Some(head), Some(function)) = (head, function) else { return Err(undefined) };
        let bad = || TaskError::Signature(number, function.def.name.clone());
        let outcome = match is_failed_poll {
            true => {
                let polls = self.view.polls().get(&number);
                polls.map(|polls| RankCells::Evaluated(polls.failed.as_slice().into()))
            }
            false => self.outcome_of(number),
        };
        let outcome = outcome.ok_or_else(bad)?;
        let mut reading = Reading {
            signature,
            outcome: Cells::new(&outcome),
            numbers: Vec::new(),
            indices: Vec::new(),
            depth: 0,
            before: Vec::new(),
        };
        let mut event = self.event(number, head, function, &mut reading).ok_or_else(bad)?;
        if !reading.signature.is_empty() || !reading.outcome.is_empty() {
            return Err(bad());
        }
        self.give_times(&mut event, reading.depth)?;
        self.note_segment(head.function, &event);
        self.hold(EVENT + event.inputs.len()).ok_or(TaskError::TooDeep(self.number))?;
        self.place_in_order(event, reading.depth);
        Ok(true)
    }

    /// The cells of a signature on this rank.
    fn cells_of(&mut self, number: u32) -> Option<RankCells<'t>> {
        let known = self.cells.get_mut(number as usize)?;
        if known.is_none() {
            *known = self.view.cells(number);
        }
        known.clone()
    }

    /// The next outcome of a signature.
    fn outcome_of(&mut self, number: u32) -> Option<RankCells<'t>> {
        let outcomes = self.outcomes.get_mut(number as usize)?;
        if let SignatureOutcomes::Unread = outcomes {
            *outcomes = match self.view.varying(number).filter(|_| !self.is_sampling) {
                Some(varying) => SignatureOutcomes::Varying(varying),
                None => SignatureOutcomes::Constant(self.view.first_outcome(number)?),
            };
        }
        match outcomes {
            SignatureOutcomes::Varying(varying) => varying.next_outcome(),
            SignatureOutcomes::Constant(outcome) => Some(outcome.clone()),
            SignatureOutcomes::Unread => None,
        }
    }

    /// Sets the times of a call, if they are known.
    fn give_times(&mut self, event: &mut Event, depth: u32) -> Result<(), TaskError> {
        if let Some(clock) = &mut self.times
            && !event.is_note()
        {
            let (start, end) = clock.span(depth)?;
            event.start = start;
            event.end = event.result.map(|_| end);
        }
        Ok(())
    }

    /// Calls inside a call come before it in the sequence; the decoder returns them after it.
    fn place_in_order(&mut self, event: Event, depth: u32) {
        if depth == 0 && self.inner.is_empty() || self.in_sequence {
            return self.release(event);
        }
        // A note belongs to whatever call comes next.
        let depth = if event.is_note() && !self.inner.is_empty() { u32::MAX } else { depth };
        let inside = self.inner.iter().rev().take_while(|(d, _)| *d > depth).count();
        let mut whole = vec![(depth, event)];
        let children = self.inner.split_off(self.inner.len() - inside);
        whole.extend(children.into_iter().flat_map(|(_, events)| events));
        self.inner.push((depth, whole));
        if depth == 0 {
            self.release_inner();
        }
    }

    /// Counts values that are held; none if there are too many.
    fn hold(&mut self, values: usize) -> Option<()> {
        self.held = self.held.saturating_add(values);
        (self.held <= MOST_HELD).then_some(())
    }

    /// The same for an array, if it takes fewer bytes than it has elements.
    fn hold_array(&mut self, elements: usize, cells: &Cells<'_>) -> Option<()> {
        if elements > cells.rest().len() { self.hold(elements) } else { Some(()) }
    }

    /// Returns a call that no other was made inside of.
    fn release(&mut self, mut event: Event) {
        self.held = 0;
        event.number = self.number;
        self.number += u64::from(!event.is_note());
        match (self.times.is_some(), event.is_note()) {
            // A note has no time: it gets the start of the call before.
            (true, true) => event.start = self.clock,
            (true, false) => self.clock = event.start,
            (false, _) => {
                event.start = self.clock;
                self.clock += 1;
                self.close(&mut event);
            }
        }
        self.ready.push(event);
    }

    fn release_inner(&mut self) {
        self.held = 0;
        let inner = std::mem::take(&mut self.inner);
        let inner = inner.into_iter().flat_map(|(_, events)| events);
        let (depths, mut all): (Vec<u32>, Vec<Event>) = inner.unzip();
        let mut open: Vec<usize> = Vec::new();
        for i in 0..all.len() {
            while let Some(&outer) = open.last()
                && depths[outer] >= depths[i]
            {
                self.close(&mut all[outer]);
                open.pop();
            }
            all[i].number = self.number;
            self.number += u64::from(!all[i].is_note());
            if self.times.is_some() {
                // A note has no time: it gets the start of the call before.
                match all[i].is_note() {
                    true => all[i].start = self.clock,
                    false => self.clock = all[i].start,
                }
                continue;
            }
            all[i].start = self.clock;
            self.clock += 1;
            open.push(i);
        }
        while let Some(outer) = open.pop() {
            self.close(&mut all[outer]);
        }
        all.reverse();
        self.ready = all;
    }

    fn close(&mut self, event: &mut Event) {
        if event.result.is_some() {
            event.end = Some(self.clock);
        }
        self.clock += 1;
    }

    fn note_segment(&mut self, function: u16, event: &Event) {
        let int = |i: usize| match event.inputs.get(i) {
            Some(Some(Value::Int(n))) => *n,
            _ => 0,
        };
        if function != notes::SEGMENT {
            return;
        }
        let (number, device) = (int(0), int(2));
        let name = match int(1) as u8 {
            segment::HEAP => format!("heap{number}"),
            segment::STATIC => match event.inputs.get(3) {
                Some(Some(Value::Text(path))) => {
                    let path = String::from_utf8_lossy(path);
                    path.rsplit('/').next().unwrap_or_default().to_owned()
                }
                _ => format!("static{number}"),
            },
            segment::STACK => "stack".to_owned(),
            segment::DEVICE => format!("gpu{device}.{number}"),
            segment::MANAGED => format!("managed{number}"),
            segment::PINNED => format!("pinned{number}"),
            _ => format!("mem{number}"),
        };
        // 0 is the task's own thread.
        self.segments.insert((0, number as u32), name.into());
    }

    fn event(
        &mut self,
        number: u32,
        head: Head,
        function: &Function,
        reading: &mut Reading<'_>,
    ) -> Option<Event> {
        let Function { def, plan } = function;
        let Head { returned, site, .. } = head;
        let depth = if self.is_sampling && !self.in_sequence { 0 } else { head.depth };
        reading.depth = depth;
        let site = match site {
            Some(site) => Some(self.site(site)?),
            None => None,
        };
        let mut event = Event {
            number: 0,
            depth: depth.min(u8::MAX.into()) as u8,
            function: def.clone(),
            site,
            start: 0,
            end: None,
            result: None,
            error_class: None,
            inputs: vec![None; def.params.len()],
            outputs: vec![None; def.params.len()],
        };
        for op in &plan.inputs {
            let value = match op.form {
                Form::Status => self.input_status(reading)?,
                _ => self.value(op, reading, false)?,
            };
            if op.changes && matches!(op.form, Form::Handle(_)) {
                reading.before = match &value {
                    Value::List(all) => all.clone(),
                    Value::Word(_) => vec![value.clone()],
                    _ => Vec::new(),
                };
            }
            *event.inputs.get_mut(usize::from(op.param))? = Some(value);
        }
        if !returned {
            if !reading.outcome.is_empty() {
                let is_known = reading.outcome.get()? == IGNORES_STATUS;
                is_known.then(|| event.ignore_status())?;
            }
            return Some(event);
        }
        self.outputs(number, plan, reading, &mut event)?;
        Some(event)
    }

    fn outputs(
        &mut self,
        number: u32,
        plan: &Plan,
        reading: &mut Reading<'_>,
        event: &mut Event,
    ) -> Option<()> {
        let class = reading.outcome.get()?;
        let code = if class == 0 { 0 } else { reading.outcome.get()? };
        event.result = Some(code);
        event.error_class = Some(if class == -1 { 0 } else { class as i32 });
        match plan.result {
            Some(Form::Handle(kind)) => match self.handle(kind, &mut reading.signature)? {
                Value::Word(handle) => event.result = Some(handle as i64),
                _ => return None,
            },
            Some(Form::Address(_)) => {
                let address = self.address(&mut reading.signature)?;
                event.result = Some(address.as_result());
            }
            Some(_) if !plan.tells_time => event.result = Some(reading.signature.get()?),
            _ => {}
        }
        let mut made = None;
        for op in &plan.outputs {
            let value = match op.form {
                Form::Status => self.status(op, reading)?,
                // At the end.
                Form::Handle(_) if op.changes => continue,
                Form::Handle(kind) if !op.array && !op.by_value => {
                    match self.new_handle(kind, plan, reading)? {
                        Some(value) => value,
                        None => {
                            made = Some(op.param);
                            continue;
                        }
                    }
                }
                _ => self.value(op, reading, plan.decides)?,
            };
            *event.outputs.get_mut(usize::from(op.param))? = Some(value);
        }
        for op in plan.outputs.iter().filter(|op| op.changes) {
            if let Form::Handle(kind) = op.form {
                let value = self.change(kind, op, plan, reading)?;
                *event.outputs.get_mut(usize::from(op.param))? = Some(value);
            }
        }
        if let Some(param) = made {
            let which = u32::try_from(reading.signature.get()?).ok()?;
            let base = match which {
                0 => number,
                _ => u32::try_from(reading.signature.get()?).ok()?,
            };
            self.live.insert((base, which));
            let request = Value::Word(self.request_word(None, base, which));
            *event.outputs.get_mut(usize::from(param))? = Some(request);
        }
        Some(())
    }

    fn value(&mut self, op: &Op, reading: &mut Reading<'_>, to: bool) -> Option<Value> {
        let Reading { signature, outcome, numbers, indices, .. } = reading;
        let cells = if to { outcome } else { signature };
        match op.form {
            Form::Text => return self.text(cells),
            Form::Texts => return self.list(cells, |this, cells| this.text(cells)),
            Form::Texts2 => {
                return self
                    .list(cells, |this, cells| this.list(cells, |this, cells| this.text(cells)));
            }
            _ if op.array => return self.array(op, cells, numbers, indices),
            _ => {}
        }
        if !op.by_value {
            match cells.get()? as u8 {
                state::VALUE => {}
                state::NULL => return Some(Value::Null),
                _ => return Some(Value::Unset),
            }
        }
        match op.form {
            Form::Int | Form::Long => {
                let n = cells.get()?;
                if op.role == Role::Index {
                    indices.push(n);
                }
                Some(Value::Int(n))
            }
            Form::Aint => self.aint(cells),
            Form::Handle(kind) => self.handle(kind, cells),
            Form::Address(_) => self.address(cells),
            Form::Text | Form::Texts | Form::Texts2 | Form::Status => None,
        }
    }

    fn array(
        &mut self,
        op: &Op,
        cells: &mut Cells<'_>,
        numbers: &mut Vec<i64>,
        indices: &mut Vec<i64>,
    ) -> Option<Value> {
        let n = match self.count(cells)? {
            Ok(n) => n,
            Err(value) => {
                if !matches!(op.form, Form::Handle(_)) {
                    numbers.clear();
                }
                return Some(value);
            }
        };
        let is_mixed = n < 0;
        if is_mixed {
            let n = cells.get_checked(LONGEST)?;
            if !matches!(op.form, Form::Handle(_)) {
                numbers.clear();
            }
            let mut all = Vec::new();
            for _ in 0..n {
                all.push(match op.form {
                    Form::Handle(kind) => self.mixed_handle(kind, cells)?,
                    Form::Address(_) => self.address(cells)?,
                    _ => self.aint(cells)?,
                });
            }
            return Some(Value::List(all));
        }
        let n = usize::try_from(n).ok()?;
        if let Form::Handle(kind) = op.form {
            return self.handles(kind, n, cells);
        }
        self.hold_array(n, cells)?;
        let all = array::get(cells, n, LONGEST, numbers)?;
        if op.role == Role::Indices {
            indices.clone_from(&all);
        }
        let list = all.iter().map(|v| Value::Int(*v)).collect();
        *numbers = all;
        Some(Value::List(list))
    }

    fn address(&mut self, cells: &mut Cells<'_>) -> Option<Value> {
        let first = cells.get()?;
        self.address_from(first, cells)
    }

    fn address_from(&mut self, first: i64, cells: &mut Cells<'_>) -> Option<Value> {
        let id = |v: i64| u32::try_from(v).ok();
        match first {
            0 => Some(Value::Word(0)),
            -1 => cells.get().map(|raw| Value::Word(raw as u64)),
            -2 => {
                let (thread, segment) = (id(cells.get()?)?, id(cells.get()?)?);
                let name = format!("thread{thread}:mem{segment}").into();
                let offset = cells.get()?;
                Some(Value::Location { thread: Some(thread), segment, name, offset })
            }
            first if first < 0 => Some(Value::Word(PREDEFINED | (-3 - first) as u64)),
            first => {
                let segment = id(first)?;
                let name = match self.segments.get(&(0, segment)) {
                    Some(name) => name.clone(),
                    None => format!("mem{segment}").into(),
                };
                Some(Value::Location { thread: None, segment, name, offset: cells.get()? })
            }
        }
    }

    fn aint(&mut self, cells: &mut Cells<'_>) -> Option<Value> {
        match cells.get()? {
            -5 => cells.get().map(Value::Int),
            number if number & 1 == 0 => Some(Value::Int(number / 2)),
            address => self.address_from(address >> 1, cells),
        }
    }

    /// A number of elements, or the meaning of the code that replaces it; -1 for mixed elements.
    fn count(&mut self, cells: &mut Cells<'_>) -> Option<Result<i64, Value>> {
        Some(match cells.get()? {
            code::NULL => Err(Value::Null),
            code::INSIGNIFICANT => Err(Value::Insignificant),
            code::UNSET => Err(Value::Unset),
            code::IGNORED => Err(Value::Ignored),
            code::SPECIAL => Err(match self.address(cells)? {
                Value::Word(address) => Value::Special(address),
                other => other,
            }),
            code::MIXED => Ok(-1),
            n if n >= 0 => Ok(n),
            _ => return None,
        })
    }

    /// The call site that a string names.
    fn site(&mut self, string: u32) -> Option<Arc<str>> {
        let string = string as usize;
        if let Some(site) = self.sites.get(&string) {
            return Some(site.clone());
        }
        let site: Arc<str> = String::from_utf8_lossy(&self.view.text(string)?).into();
        self.sites.insert(string, site.clone());
        Some(site)
    }

    fn text(&mut self, cells: &mut Cells<'_>) -> Option<Value> {
        match self.count(cells)? {
            Ok(number) => self.view.text(usize::try_from(number).ok()?).map(Value::Text),
            Err(value) => Some(value),
        }
    }

    fn list<'a>(
        &mut self,
        cells: &mut Cells<'a>,
        item: impl Fn(&mut Self, &mut Cells<'a>) -> Option<Value>,
    ) -> Option<Value> {
        match self.count(cells)? {
            Ok(n) => {
                let n = usize::try_from(n).ok().filter(|n| *n <= cells.rest().len())?;
                (0..n).map(|_| item(self, cells)).collect::<Option<_>>().map(Value::List)
            }
            Err(value) => Some(value),
        }
    }
}

/// See [`Decoder::numbered`].
pub struct Numbered<'t> {
    decoder: Decoder<'t>,
}

impl Iterator for Numbered<'_> {
    type Item = Result<(u32, bool, Event), TaskError>;

    fn next(&mut self) -> Option<Self::Item> {
        let event = self.decoder.next()?;
        let (signature, is_failed_poll) = self.decoder.last;
        Some(event.map(|event| (signature, is_failed_poll, event)))
    }
}

impl Iterator for Decoder<'_> {
    type Item = Result<Event, TaskError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.ready.pop() {
                return Some(Ok(event));
            }
            if self.failed {
                return None;
            }
            match self.decode_next() {
                Ok(true) => {}
                Ok(false) => {
                    self.failed = true;
                    self.release_inner();
                }
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
