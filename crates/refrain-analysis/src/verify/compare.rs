//! Compares the calls of the records with the calls decoded from the compressed trace.
//!
//! Processes are compared one after the other. Within a process, calls are compared in the order in
//! which they returned, over all threads: from then on the objects that a call created exist, and those
//! that it freed do not.

use super::handles::{Handles, is_request};
use super::memory::Memory;
use super::records::{Mark, Marks};
use super::survey::Survey;
use super::values::{At, Unlike, Way, World, describe};
use refrain_format::define::ParamDef;
use refrain_mpi::abi::Family;
use refrain_mpi::interface::Direction;
use refrain_mpi::kind::Class;
use refrain_mpi::names::HandleTable;
use refrain_reader::event::{Event, Value};
use refrain_reader::raw::DecodeError;
use refrain_reader::trace::StreamEvents;
use refrain_reader::{CallTrace, ProcessRef, StreamMeta, TraceError};
use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;

/// The most differences that are described; all are counted.
pub const MOST_DESCRIBED: usize = 20;

/// A value of the trace that differs from the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The rank.
    pub rank: i32,
    /// The thread.
    pub thread: u32,
    /// The number of the call in its thread.
    pub call: u64,
    /// Its function.
    pub function: String,
    /// The parameter, and whether the value is the one before or after the call.
    pub parameter: String,
    /// The recorded value.
    pub expected: String,
    /// The value in the trace.
    pub got: String,
}

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Calls compared.
    pub events: u64,
    /// Values compared.
    pub arguments: u64,
    /// The first differences.
    pub differences: Vec<Difference>,
    /// The number of all differences.
    pub different: u64,
}

/// Compares all processes of a trace whose records were kept.
pub fn compare(trace: &CallTrace, survey: &mut Survey) -> Result<Comparison, TraceError> {
    let mut comparison = Comparison::default();
    for process in trace.processes() {
        Comparer::of(trace, process, &mut comparison, survey)?.run()?;
        survey.end_of_process();
    }
    Ok(comparison)
}

/// A thread of the process.
struct Task<'t> {
    stream: usize,
    meta: &'t StreamMeta,
    marks: Marks<Box<dyn Read>>,
    next: Option<(u64, Mark)>,
    raw: StreamEvents<'t>,
    decoded: StreamEvents<'t>,
    decoded_names: HandleTable,
    /// Calls by number, from `first` on, in the order of their starts.
    pairs: VecDeque<Option<(Event, Event)>>,
    first: u64,
    /// Calls that have not returned: number and depth.
    open: Vec<(u64, u8)>,
    entered: u64,
    /// The sequences of calls differ: the rest cannot be compared.
    diverged: bool,
}

struct Comparer<'t, 'c> {
    tasks: Vec<Task<'t>>,
    world: World,
    comparison: &'c mut Comparison,
    survey: &'c mut Survey,
}

impl<'t, 'c> Comparer<'t, 'c> {
    fn of(
        trace: &'t CallTrace,
        process: ProcessRef<'t>,
        comparison: &'c mut Comparison,
        survey: &'c mut Survey,
    ) -> Result<Comparer<'t, 'c>, TraceError> {
        let mut tasks = Vec::new();
        let mut family = Family::Mpich;
        for task in process.tasks() {
            let (stream, meta) = (task.index(), task.facts());
            family = Family::from_code(meta.family).unwrap_or(family);
            let decoded = trace.untimed(stream)?;
            tasks.push(Task {
                stream,
                meta,
                marks: Marks::new(trace.records(stream)?),
                next: None,
                raw: StreamEvents::Raw(Box::new(trace.raw(stream)?)),
                decoded_names: decoded.handle_names(),
                decoded,
                pairs: VecDeque::new(),
                first: 0,
                open: Vec::new(),
                entered: 0,
                diverged: false,
            });
        }
        let world = World {
            handles: Handles::default(),
            memory: Memory::default(),
            names: HandleTable::default(),
            family,
        };
        Ok(Comparer { tasks, world, comparison, survey })
    }

    fn run(&mut self) -> Result<(), TraceError> {
        for index in 0..self.tasks.len() {
            self.tasks[index].advance()?;
            self.fetch(index)?;
        }
        // One of the logs begins with the names of predefined handles.
        let names: Vec<HandleTable> = self.tasks.iter().map(|t| t.raw.handle_names()).collect();
        self.world.names = names.iter().flat_map(HandleTable::entries).collect();
        while let Some((_, index)) = self.earliest() {
            let Some((_, mark)) = self.tasks[index].next.take() else { break };
            self.take_in(index, mark)?;
            self.tasks[index].advance()?;
        }
        for index in 0..self.tasks.len() {
            while let Some((number, _)) = self.tasks[index].open.pop() {
                self.complete(index, number)?;
            }
            self.end(index)?;
        }
        Ok(())
    }

    fn earliest(&self) -> Option<(u64, usize)> {
        let times = self.tasks.iter().enumerate();
        times.filter_map(|(i, t)| t.next.map(|(time, _)| (time, i))).min()
    }

    fn take_in(&mut self, index: usize, mark: Mark) -> Result<(), TraceError> {
        match mark {
            Mark::Segment { base, bytes, anchor } => {
                self.world.memory.announce(base, bytes, anchor);
            }
            Mark::Release { base } => self.world.memory.release(base),
            Mark::Enter { depth } => {
                // Open calls of the same depth or deeper never returned.
                while let Some(&(number, open)) = self.tasks[index].open.last()
                    && open >= depth
                {
                    self.tasks[index].open.pop();
                    self.complete(index, number)?;
                }
                let task = &mut self.tasks[index];
                task.open.push((task.entered, depth));
                task.entered += 1;
            }
            Mark::Leave { number } => {
                let open = &self.tasks[index].open;
                if !open.iter().any(|(n, _)| *n as u32 == number) {
                    return Ok(());
                }
                while let Some((n, _)) = self.tasks[index].open.pop() {
                    self.complete(index, n)?;
                    if n as u32 == number {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads one more call of a task; false at its end.
    fn fetch(&mut self, index: usize) -> Result<bool, TraceError> {
        let task = &mut self.tasks[index];
        if task.diverged {
            return Ok(false);
        }
        let raw = task.raw.next().transpose().map_err(|e| stream_error(task.meta, e))?;
        let decoded = task.next_decoded(self.survey)?;
        let (raw, decoded) = match (raw, decoded) {
            (None, None) => return Ok(false),
            (Some(raw), Some(decoded))
                if raw.function.name == decoded.function.name && raw.depth == decoded.depth =>
            {
                task.pairs.push_back(Some((raw, decoded)));
                return Ok(true);
            }
            both => both,
        };
        let Some(first) = raw.as_ref().or(decoded.as_ref()) else { return Ok(false) };
        let (call, function) = (first.number, first.function.name.clone());
        task.diverged = true;
        let shown = |event: &Option<Event>| match event {
            Some(event) => format!("{} inside {} calls", event.function.name, event.depth),
            None => "the end of the calls".to_owned(),
        };
        let unlike = Unlike { expected: shown(&raw), got: shown(&decoded) };
        self.differs(index, call, function, "the call itself".to_owned(), unlike);
        Ok(false)
    }

    /// Compares a call that has returned or never will.
    fn complete(&mut self, index: usize, number: u64) -> Result<(), TraceError> {
        loop {
            let task = &mut self.tasks[index];
            if number < task.first + task.pairs.len() as u64 {
                break;
            }
            if !self.fetch(index)? {
                return Ok(());
            }
        }
        let task = &mut self.tasks[index];
        let Some(at) = number.checked_sub(task.first) else { return Ok(()) };
        let pair = task.pairs.get_mut(at as usize).and_then(Option::take);
        while let Some(None) = task.pairs.front() {
            task.pairs.pop_front();
            task.first += 1;
        }
        if let Some((raw, decoded)) = pair {
            self.call(index, &raw, &decoded);
        }
        Ok(())
    }

    /// After the last record, no call may be left.
    fn end(&mut self, index: usize) -> Result<(), TraceError> {
        while self.fetch(index)? {}
        let left: Vec<_> = self.tasks[index].pairs.drain(..).flatten().collect();
        for (raw, decoded) in left {
            self.call(index, &raw, &decoded);
        }
        Ok(())
    }

    fn differs(
        &mut self,
        index: usize,
        call: u64,
        function: String,
        parameter: String,
        unlike: Unlike,
    ) {
        let Comparison { differences, different, .. } = self.comparison;
        *different += 1;
        if differences.len() < MOST_DESCRIBED {
            let StreamMeta { rank, thread, .. } = *self.tasks[index].meta;
            let Unlike { expected, got } = unlike;
            differences.push(Difference { rank, thread, call, function, parameter, expected, got });
        }
    }

    fn call(&mut self, index: usize, raw: &Event, decoded: &Event) {
        self.comparison.events += 1;
        let requests = requests(decoded);
        let indices = indices(raw);
        let task = &self.tasks[index];
        let at = At {
            call: raw,
            thread: task.meta.thread,
            decoded_names: &task.decoded_names,
            requests: &requests,
            indices: indices.as_deref(),
        };
        let mut found = Vec::new();
        let mut arguments = 0;
        if raw.site != decoded.site {
            let shown = |site: &Option<Arc<str>>| site.as_deref().unwrap_or("none").to_owned();
            let unlike = Unlike { expected: shown(&raw.site), got: shown(&decoded.site) };
            found.push(("the call site".to_owned(), unlike));
        }
        let world = &mut self.world;
        let params = &raw.function.params;
        for (i, p) in params.iter().enumerate() {
            let values = (raw.inputs.get(i), decoded.inputs.get(i));
            let like = match flat(values) {
                (None, None) => continue,
                (Some(raw), Some(decoded)) => world.value(at, p, raw, decoded, Way::Given),
                missing => Err(missing_value(missing)),
            };
            arguments += 1;
            found.extend(like.err().map(|unlike| (p.name.clone(), unlike)));
        }
        if raw.function.name == "MPI_Cancel"
            && let Some(request) = requests.first().and_then(|r| world.handles.request(*r))
        {
            request.cancelled = true;
        }
        arguments += 1;
        found.extend(result(world, at, raw, decoded).err().map(|u| ("result".to_owned(), u)));
        // Statuses first: they need the requests, which the call may free. Then handles that change: they
        // free names that new requests may get.
        let turn = |p: &ParamDef| match (p.class, p.direction) {
            (Class::Status, _) => 0,
            (Class::Handle, Direction::InOut) => 2,
            (Class::Handle, _) if is_request(&p.reads_as) => 3,
            _ => 1,
        };
        let in_turn = (0..4).flat_map(|n| {
            params.iter().enumerate().filter(move |(_, p)| p.is_output() && turn(p) == n)
        });
        for (i, p) in in_turn {
            let values = (raw.outputs.get(i), decoded.outputs.get(i));
            let like = match flat(values) {
                (None, None) => continue,
                (Some(new), Some(now)) if turn(p) == 2 => {
                    let before = flat((raw.inputs.get(i), decoded.inputs.get(i)));
                    changed(world, at, &p.reads_as, before, (new, now))
                }
                (Some(raw), Some(decoded)) => world.value(at, p, raw, decoded, Way::Received),
                missing => Err(missing_value(missing)),
            };
            arguments += 1;
            found.extend(like.err().map(|unlike| (format!("{} after the call", p.name), unlike)));
        }
        self.comparison.arguments += arguments;
        for (parameter, unlike) in found {
            self.differs(index, raw.number, raw.function.name.clone(), parameter, unlike);
        }
    }
}

impl Task<'_> {
    fn advance(&mut self) -> Result<(), TraceError> {
        let next = self.marks.next_mark();
        self.next = next.map_err(|e| stream_error(self.meta, DecodeError::Io(e)))?;
        Ok(())
    }

    /// The next decoded call, without notes.
    fn next_decoded(&mut self, survey: &mut Survey) -> Result<Option<Event>, TraceError> {
        loop {
            let next = self.decoded.next().transpose().map_err(|e| stream_error(self.meta, e))?;
            let Some(event) = next else { return Ok(None) };
            if !event.is_note() {
                survey.take(self.stream, &self.decoded_names, &event);
                return Ok(Some(event));
            }
        }
    }
}

pub(crate) fn stream_error(meta: &StreamMeta, source: DecodeError) -> TraceError {
    TraceError::Stream { rank: meta.rank, thread: meta.thread, source }
}

type Both<'a> = (Option<&'a Value>, Option<&'a Value>);

fn flat<'a>(both: (Option<&'a Option<Value>>, Option<&'a Option<Value>>)) -> Both<'a> {
    (both.0.and_then(Option::as_ref), both.1.and_then(Option::as_ref))
}

fn missing_value((raw, decoded): Both<'_>) -> Unlike {
    let shown = |value: Option<&Value>| value.map_or("no value".to_owned(), describe);
    Unlike { expected: shown(raw), got: shown(decoded) }
}

/// Compares the handles of a parameter that the call may change: those before and after, of records and trace.
fn changed(
    world: &mut World,
    at: At<'_>,
    kind: &str,
    before: Both<'_>,
    (new, now): (&Value, &Value),
) -> Result<(), Unlike> {
    let words = |value: Option<&Value>| match value {
        Some(Value::Word(word)) => Some(vec![*word]),
        Some(Value::List(all)) => {
            let word = |v: &Value| if let Value::Word(word) = v { Some(*word) } else { None };
            all.iter().map(word).collect()
        }
        _ => None,
    };
    let (Some(news), Some(nows)) = (words(Some(new)), words(Some(now))) else {
        return match new == now {
            true => Ok(()),
            false => Err(Unlike { expected: describe(new), got: describe(now) }),
        };
    };
    if news.len() != nows.len() {
        return Err(Unlike { expected: describe(new), got: describe(now) });
    }
    let (olds, thens) = (words(before.0).unwrap_or_default(), words(before.1).unwrap_or_default());
    // All are compared, so that one wrong handle does not cause errors for later ones.
    let mut first = Ok(());
    for (i, (new, now)) in news.iter().zip(&nows).enumerate() {
        let like = match (olds.get(i), thens.get(i)) {
            (Some(old), Some(then)) if old == new => {
                // A null request may have two numbers, but has one name.
                let name = |handle: &u64| at.decoded_names.name(kind, *handle);
                match then == now || name(then).is_some() && name(then) == name(now) {
                    true => Ok(()),
                    false => Err(format!("unchanged, {then:#x}")),
                }
            }
            (Some(old), Some(then)) => {
                world.freed(at, kind, *old, *then);
                world.handle(at, kind, *new, *now, Way::Received)
            }
            _ => world.handle(at, kind, *new, *now, Way::Received),
        };
        first = first.and(like.map_err(|expected| Unlike {
            expected: format!("[{i}] {expected}"),
            got: format!("[{i}] {}", describe(&Value::Word(*now))),
        }));
    }
    first
}

/// Compares what two calls returned.
fn result(world: &mut World, at: At<'_>, raw: &Event, decoded: &Event) -> Result<(), Unlike> {
    let shown = |event: &Event| match event.result {
        Some(result) => format!("{result}, class {}", event.error_class.unwrap_or(0)),
        None => "it never returned".to_owned(),
    };
    let unlike = |_| Unlike { expected: shown(raw), got: shown(decoded) };
    let (Some(was), Some(is)) = (raw.result, decoded.result) else {
        return if raw.result == decoded.result { Ok(()) } else { Err(unlike(())) };
    };
    let function = &raw.function;
    let like = match (function.result, function.result_reads_as.as_str()) {
        (_, "error") => was == is && raw.error_class == decoded.error_class,
        // A trace does not store the results of MPI_Wtime.
        (Class::Double, _) if function.name == "MPI_Wtime" => true,
        (Class::Handle, kind) => {
            let raw = match refrain_mpi::abi::Layout::of(world.family).bytes_of(kind) {
                4 => was as u64 & 0xffff_ffff,
                _ => was as u64,
            };
            let like = world.handle(at, kind, raw, is as u64, Way::Given);
            return like
                .map_err(|expected| Unlike { expected, got: describe(&Value::Word(is as u64)) });
        }
        // An address is decoded as an offset.
        (Class::Address, _) => was == is || world.memory.offset(was as u64) == Some(is),
        _ => was == is,
    };
    if like { Ok(()) } else { Err(unlike(())) }
}

/// The requests that the program passed to a call.
fn requests(event: &Event) -> Vec<u64> {
    let params = event.function.params.iter().zip(&event.inputs);
    let of_requests = params.filter(|(p, _)| p.class == Class::Handle && is_request(&p.reads_as));
    let words = of_requests.flat_map(|(_, value)| match value {
        Some(Value::List(all)) => all.as_slice(),
        Some(value) => std::slice::from_ref(value),
        None => &[],
    });
    words.filter_map(|v| if let Value::Word(word) = v { Some(*word) } else { None }).collect()
}

/// The indices of completed requests, if the call returns them.
fn indices(event: &Event) -> Option<Vec<i64>> {
    let params = event.function.params.iter().zip(&event.outputs);
    let mut named = params.filter(|(p, _)| matches!(p.name.as_str(), "index" | "array_of_indices"));
    let int = |value: &Value| if let Value::Int(n) = value { *n } else { -1 };
    match named.next()?.1 {
        Some(Value::List(all)) => Some(all.iter().map(int).collect()),
        Some(value @ Value::Int(_)) => Some(vec![int(value)]),
        _ => Some(Vec::new()),
    }
}
