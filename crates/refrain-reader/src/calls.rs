//! The calls of a task, one by one.

use crate::datatypes::{Sizes, makes_datatypes};
use crate::decoder::{Decoder, is_note};
use crate::error::TraceError;
use crate::event::{Event, Value};
use crate::payload::payload;
use crate::tasks::TaskRef;
use refrain_format::define::FunctionDef;
use refrain_mpi::abi::{Family, Layout};
use refrain_mpi::names::{HandleTable, constant_value};
use refrain_mpi::status::StatusFields;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// When a call was made: nanoseconds since 1970, on one clock for all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it began.
    pub start: u64,
    /// When it returned; none if it never did.
    pub end: Option<u64>,
}

/// Whom a call talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// A rank of the call's communicator.
    Rank(u32),
    /// `MPI_PROC_NULL`: nobody.
    ProcNull,
    /// `MPI_ANY_SOURCE`: whoever sends.
    Any,
    /// `MPI_ROOT`: this process is the root, of an operation between two groups.
    Root,
}

/// What all calls of a task share.
#[derive(Debug)]
struct Context {
    family: Family,
    names: HandleTable,
    /// The sizes of the datatypes that the process makes.
    sizes: Sizes,
    has_times: bool,
}

/// Who is in a communicator: ranks in `MPI_COMM_WORLD`, and those on its other side if it has one.
type Members = [Vec<i64>; 2];

/// A call that a program made.
#[derive(Clone, Debug)]
pub struct Call {
    event: Event,
    span: Option<Span>,
    /// Who is in its communicator, unless that is `MPI_COMM_WORLD` or predefined otherwise.
    members: Option<Arc<Members>>,
    context: Arc<Context>,
}

impl Call {
    /// Its number in its task, from 0, in the order in which calls began.
    pub fn number(&self) -> u64 {
        self.event.number
    }

    /// How many calls of its task it was made inside of, from callbacks.
    pub fn depth(&self) -> u32 {
        self.event.depth.into()
    }

    /// The function's name: `MPI_Send`.
    pub fn name(&self) -> &str {
        &self.event.function.name
    }

    /// The function: its parameters, with the names that the MPI standard gives them.
    pub fn function(&self) -> &FunctionDef {
        &self.event.function
    }

    /// The call site, if call sites were recorded (`trace --callsite`): a line for each frame, innermost first, as
    /// `module+hex-offset`.
    pub fn site(&self) -> Option<&str> {
        self.event.site.as_deref()
    }

    /// When it was made; none unless the trace has the times of every call (`trace --timing`).
    pub fn span(&self) -> Option<Span> {
        self.span
    }

    /// Whether it returned.
    pub fn returned(&self) -> bool {
        self.event.result.is_some()
    }

    /// The class of the error that it returned, if it did.
    pub fn error(&self) -> Option<i32> {
        self.event.is_failed().then(|| self.event.error_class.unwrap_or(0))
    }

    /// An argument by its name in the MPI standard: its value after the call if the call sets it, else before.
    pub fn arg(&self, name: &str) -> Option<&Value> {
        self.event.value(self.param(name)?)
    }

    /// The value of an argument before the call.
    pub fn input(&self, name: &str) -> Option<&Value> {
        self.event.inputs.get(self.param(name)?)?.as_ref()
    }

    /// A number among the arguments.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.arg(name)? {
            Value::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// The name of a predefined object among the arguments: `MPI_COMM_WORLD`, `MPI_DOUBLE`.
    pub fn predefined(&self, name: &str) -> Option<&str> {
        let param = self.param(name)?;
        let Value::Word(handle) = self.event.value(param)? else { return None };
        self.context.names.name(&self.function().params.get(param)?.reads_as, *handle)
    }

    /// Whom it talks to: the destination of what it sends, else the source that it receives from, else the rank whose
    /// window it accesses. Ranks are those of its communicator.
    pub fn peer(&self) -> Option<Peer> {
        ["dest", "source", "target_rank"].into_iter().find_map(|name| self.peer_in(name))
    }

    /// The same in a certain argument.
    pub fn peer_in(&self, name: &str) -> Option<Peer> {
        let Value::Int(rank) = self.input(name)? else { return None };
        let is = |constant: &str| constant_value(self.context.family, constant) == Some(*rank);
        Some(match u32::try_from(*rank) {
            Ok(rank) => Peer::Rank(rank),
            Err(_) if is("MPI_PROC_NULL") => Peer::ProcNull,
            Err(_) if is("MPI_ANY_SOURCE") => Peer::Any,
            Err(_) if is("MPI_ROOT") => Peer::Root,
            Err(_) => return None,
        })
    }

    /// The rank in `MPI_COMM_WORLD` of whom it talks to; none if that is nobody in particular, or not known.
    pub fn world_rank_in(&self, name: &str) -> Option<u32> {
        let Peer::Rank(rank) = self.peer_in(name)? else { return None };
        match &self.members {
            Some(members) => {
                let [local, remote] = &**members;
                let side = if remote.is_empty() { local } else { remote };
                u32::try_from(*side.get(rank as usize)?).ok()
            }
            None => (self.predefined("comm") == Some("MPI_COMM_WORLD")).then_some(rank),
        }
    }

    /// Bytes that it sends, may receive, or gives to a collective ([`crate::payload`] says which buffer counts); none
    /// if it has no buffer, or a datatype whose size the trace does not tell.
    pub fn bytes(&self) -> Option<u64> {
        self.context.sizes.bytes(&payload(&self.event, &self.context.names, self.context.family)?)
    }

    /// The statuses that it returned, and that MPI defines: matched source and tag, bytes.
    pub fn statuses(&self) -> Vec<StatusFields> {
        let layout = &Layout::of(self.context.family).status;
        let mut all = Vec::new();
        for value in ["status", "array_of_statuses"].into_iter().filter_map(|name| self.arg(name)) {
            let list = match value {
                Value::List(list) => list.as_slice(),
                one => std::slice::from_ref(one),
            };
            let fields = |value: &Value| match value {
                Value::Status { bytes, .. } => layout.status_fields(bytes),
                _ => None,
            };
            all.extend(list.iter().filter_map(fields));
        }
        all
    }

    /// All of it as it was decoded.
    pub fn event(&self) -> &Event {
        &self.event
    }

    fn param(&self, name: &str) -> Option<usize> {
        self.event.function.params.iter().position(|p| p.name == name)
    }
}

/// Name and plain values, for a look at it: `#12 MPI_Send(count=4, dest=1, tag=7)`.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {}(", self.number(), self.name())?;
        let mut comma = "";
        for (param, p) in self.function().params.iter().enumerate() {
            if let Some(Value::Int(n)) = self.event.value(param) {
                write!(f, "{comma}{}={n}", p.name)?;
                comma = ", ";
            }
        }
        f.write_str(")")
    }
}

/// The calls of a task, in the order in which they began; see [`TaskRef::calls`].
pub struct Calls<'t> {
    task: TaskRef<'t>,
    decoder: Option<Decoder<'t>>,
    context: Arc<Context>,
    /// By the communicator's handle.
    members: HashMap<u64, Arc<Members>>,
    from: u64,
}

impl<'t> Calls<'t> {
    pub(crate) fn new(task: TaskRef<'t>) -> Result<Calls<'t>, TraceError> {
        let decoder = task.trace.decode(task.stream)?;
        let context = Context {
            family: Family::from_code(task.facts().family).unwrap_or(Family::Mpich),
            names: decoder.as_ref().map(Decoder::handle_names).unwrap_or_default(),
            sizes: sizes(task)?,
            has_times: task.trace.has_times(),
        };
        let (context, members) = (Arc::new(context), HashMap::new());
        Ok(Calls { task, decoder, context, members, from: 0 })
    }

    pub(crate) fn from(self, from: u64) -> Calls<'t> {
        Calls { from, ..self }
    }

    fn call(&self, event: Event) -> Call {
        let facts = self.task.facts();
        let span = self.context.has_times.then(|| Span {
            start: facts.nanos(event.start),
            end: event.end.map(|end| facts.nanos(end)),
        });
        let comm = event.function.params.iter().position(|p| p.name == "comm");
        let members = match comm.and_then(|comm| event.inputs.get(comm)) {
            Some(Some(Value::Word(handle))) => self.members.get(handle).cloned(),
            _ => None,
        };
        Call { event, span, members, context: self.context.clone() }
    }

    /// Notes tell who is in a new communicator.
    fn note(&mut self, event: &Event) {
        let list = |param: usize| match event.inputs.get(param) {
            Some(Some(Value::List(list))) => list.iter().map(Value::as_result).collect(),
            _ => Vec::new(),
        };
        if let (true, Some(Some(Value::Word(comm)))) =
            (event.function.name == "refrain_members", event.inputs.first())
        {
            self.members.insert(*comm, Arc::new([list(1), list(2)]));
        }
    }
}

/// The sizes of the datatypes that the process of a task makes, in any of its threads.
fn sizes(task: TaskRef<'_>) -> Result<Sizes, TraceError> {
    let trace = task.trace;
    let mut made = Vec::new();
    for &stream in trace.process_of(task.stream).map_or(&[][..], |process| &process.streams) {
        let Some(view) = trace.view(stream)? else { continue };
        let makes = |signature: &u32| {
            let function = view.head_function(*signature).and_then(|f| view.function(f));
            function.is_some_and(|function| makes_datatypes(&function.def))
        };
        let makers: Vec<u32> = (0..view.signatures() as u32).filter(makes).collect();
        if !makers.is_empty() {
            let events = view.samples(&makers).map_err(|source| trace.task_error(source))?;
            made.push((events, view.handle_names()));
        }
    }
    let calls =
        made.iter().flat_map(|(events, names)| events.iter().map(move |e| (e.clone(), names)));
    Ok(Sizes::new(calls))
}

impl Iterator for Calls<'_> {
    type Item = Result<Call, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.decoder.as_mut()?.next()? {
                Ok(event) if is_note(&event) => self.note(&event),
                Ok(event) if event.number < self.from => {}
                Ok(event) => return Some(Ok(self.call(event))),
                Err(source) => {
                    self.decoder = None;
                    return Some(Err(self.task.trace.task_error(source)));
                }
            }
        }
    }
}
