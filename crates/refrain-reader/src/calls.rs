//! The calls of a task, one by one.

use crate::arguments::CallArguments;
use crate::communicators::{Communicators, Members};
use crate::error::TraceError;
use crate::event::{Event, Value};
use crate::items::Item;
use crate::objects::Objects;
use crate::payload::payload;
use crate::processes::{Items, Source};
use crate::tasks::TaskRef;
use refrain_format::define::{FunctionDef, ParamDef};
use refrain_mpi::abi::{Family, Layout};
use refrain_mpi::interface::{Direction, Function, function};
use refrain_mpi::names::{HandleTable, constant_value};
use refrain_mpi::semantics::{Argument, op_and_form, polls};
use refrain_mpi::status::StatusFields;
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

/// The other side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// A rank of the call's communicator.
    Rank(u32),
    /// `MPI_PROC_NULL`: no process.
    ProcNull,
    /// `MPI_ANY_SOURCE`: any process.
    Any,
    /// `MPI_ROOT`: this process is the root, of an operation between two groups.
    Root,
}

impl Peer {
    /// The peer that a rank stands for in an MPI of that family; none for a number that means nothing.
    pub fn of(rank: i64, family: Family) -> Option<Peer> {
        let is = |constant: &str| constant_value(family, constant) == Some(rank);
        Some(match u32::try_from(rank) {
            Ok(rank) => Peer::Rank(rank),
            Err(_) if is("MPI_PROC_NULL") => Peer::ProcNull,
            Err(_) if is("MPI_ANY_SOURCE") => Peer::Any,
            Err(_) if is("MPI_ROOT") => Peer::Root,
            Err(_) => return None,
        })
    }
}

/// `3`, `MPI_PROC_NULL`, `MPI_ANY_SOURCE`, `MPI_ROOT`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Rank(rank) => rank.fmt(f),
            Peer::ProcNull => f.pad("MPI_PROC_NULL"),
            Peer::Any => f.pad("MPI_ANY_SOURCE"),
            Peer::Root => f.pad("MPI_ROOT"),
        }
    }
}

/// What all calls of a task share.
#[derive(Debug)]
pub(crate) struct Context {
    family: Family,
    names: HandleTable,
    /// What the process makes.
    objects: Arc<Objects>,
    /// The size of `MPI_COMM_WORLD`.
    world_size: Option<u32>,
    has_times: bool,
}

impl Context {
    pub(crate) fn new(
        family: Family,
        names: HandleTable,
        objects: Arc<Objects>,
        world_size: Option<u32>,
        has_times: bool,
    ) -> Context {
        Context { family, names, objects, world_size, has_times }
    }

    pub(crate) fn communicators(&self) -> &Communicators {
        &self.objects.communicators
    }

    pub(crate) fn family(&self) -> Family {
        self.family
    }

    pub(crate) fn names(&self) -> &HandleTable {
        &self.names
    }

    pub(crate) fn has_times(&self) -> bool {
        self.has_times
    }
}

/// A call that a program made.
#[derive(Clone, Debug)]
pub struct Call {
    event: Event,
    span: Option<Span>,
    /// The members of its communicator, if they are known and it is not predefined.
    members: Option<Arc<Members>>,
    context: Arc<Context>,
}

impl Call {
    pub(crate) fn of(
        event: Event,
        span: Option<Span>,
        members: Option<Arc<Members>>,
        context: Arc<Context>,
    ) -> Call {
        Call { event, span, members, context }
    }

    /// Its number in its task, from 0, in the order in which calls began.
    pub fn number(&self) -> u64 {
        self.event.number
    }

    /// Nesting depth: inside how many calls of its task callbacks made it.
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

    /// The function in the table of MPI's interface, which says what it does ([`refrain_mpi::semantics`]); none for
    /// functions that only other versions of Refrain know.
    pub fn mpi(&self) -> Option<&'static Function> {
        function(self.name())
    }

    /// Its arguments by what they mean, for analyses that treat many functions alike.
    pub fn arguments(&self) -> CallArguments<'_> {
        CallArguments::of(&self.event, Layout::of(self.context.family))
    }

    /// Whether it asked if something has happened, and nothing had: a test or probe that found nothing.
    pub fn is_failed_poll(&self) -> bool {
        let Some((op, form)) = op_and_form(self.name()) else { return false };
        let arguments = self.arguments();
        let found_none = arguments.output_int(Argument::OutCount) == Some(0) || !arguments.found();
        polls(op, form) && self.returned() && found_none
    }

    /// How its MPI lays out values, and which numbers are its constants.
    pub fn layout(&self) -> &'static Layout {
        Layout::of(self.context.family)
    }

    /// The name of a predefined handle: `MPI_COMM_WORLD`.
    pub fn handle_name(&self, kind: &str, handle: u64) -> Option<&str> {
        self.context.names.name(kind, handle)
    }

    /// The call site, if call sites were recorded (`trace --callsite`): a line for each frame, innermost first, as
    /// `module+hex-offset`.
    pub fn site(&self) -> Option<&Arc<str>> {
        self.event.site.as_ref()
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

    /// The name of a predefined object among the arguments, as it is after the call: `MPI_COMM_WORLD`, `MPI_DOUBLE`;
    /// `MPI_COMM_NULL` for the argument of `MPI_Comm_free`. Before the call: [`Call::handle_name`] of
    /// [`Call::input`].
    pub fn predefined(&self, name: &str) -> Option<&str> {
        let param = self.param(name)?;
        let Value::Word(handle) = self.event.value(param)? else { return None };
        self.context.names.name(&self.function().params.get(param)?.reads_as, *handle)
    }

    /// Its peer: the destination of what it sends, else the source that it receives from, else the rank whose
    /// window it accesses. Ranks are those of its communicator.
    pub fn peer(&self) -> Option<Peer> {
        ["dest", "source", "target_rank"].into_iter().find_map(|name| self.peer_in(name))
    }

    /// The same in a certain argument.
    pub fn peer_in(&self, name: &str) -> Option<Peer> {
        let Value::Int(rank) = self.input(name)? else { return None };
        Peer::of(*rank, self.context.family)
    }

    /// The same as a rank in `MPI_COMM_WORLD`; none if the argument names no single rank, or the members of the
    /// communicator are not known.
    pub fn world_rank_in(&self, name: &str) -> Option<u32> {
        let Peer::Rank(rank) = self.peer_in(name)? else { return None };
        let is_comm = |p: &&ParamDef| p.reads_as == "comm" && p.direction != Direction::Out;
        if self.function().params.iter().filter(is_comm).count() != 1 {
            // Two communicators: the rank may be of either.
            return None;
        }
        match &self.members {
            Some(members) => members.world_rank(rank),
            None => (self.comm_name() == Some("MPI_COMM_WORLD")).then_some(rank),
        }
    }

    /// How many processes its communicator has, in its local group if it is an intercommunicator; none if the call
    /// has no communicator, or its members are not known.
    pub fn comm_size(&self) -> Option<u32> {
        match (&self.members, self.comm_name()) {
            (Some(members), _) => u32::try_from(members.local.len()).ok(),
            (None, Some("MPI_COMM_WORLD")) => self.context.world_size,
            (None, Some("MPI_COMM_SELF")) => Some(1),
            (None, _) => None,
        }
    }

    /// The handle of its communicator, as passed.
    pub(crate) fn comm(&self) -> Option<u64> {
        self.arguments().handle(Argument::Comm)
    }

    /// The name of its communicator, if it is predefined.
    fn comm_name(&self) -> Option<&str> {
        self.context.names.name("comm", self.comm()?)
    }

    /// The members of its communicator, if nothing else says which they are.
    pub(crate) fn set_members(&mut self, members: &Arc<Members>) {
        self.members.get_or_insert_with(|| members.clone());
    }

    /// Bytes that it sends, may receive, or gives to a collective ([`crate::payload`] says which buffer counts); none
    /// if it has no buffer, or a datatype whose size is not known.
    pub fn bytes(&self) -> Option<u64> {
        let payload = payload(&self.event, &self.context.names, self.context.family)?;
        self.context.objects.sizes.bytes(&payload)
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

    /// The call as it was decoded.
    pub fn event(&self) -> &Event {
        &self.event
    }

    fn param(&self, name: &str) -> Option<usize> {
        self.event.function.params.iter().position(|p| p.name == name)
    }
}

/// Name and arguments, as they are after the call:
/// `#12 MPI_Send(buf=heap3+0x40, count=4, datatype=MPI_INT, dest=1, tag=7, comm=MPI_COMM_WORLD)`. Statuses are left
/// out.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {}(", self.number(), self.name())?;
        let mut comma = "";
        for (param, p) in self.function().params.iter().enumerate() {
            let Some(value) = self.event.value(param) else { continue };
            let name = match value {
                Value::Status { .. } | Value::Ignored => continue,
                Value::Word(handle) => self.handle_name(&p.reads_as, *handle),
                _ => None,
            };
            match name {
                Some(name) => write!(f, "{comma}{}={name}", p.name)?,
                None => write!(f, "{comma}{}={value}", p.name)?,
            }
            comma = ", ";
        }
        f.write_str(")")
    }
}

/// The calls of a task, in the order in which they began; see [`TaskRef::calls`].
pub struct Calls<'t> {
    items: Items<'t>,
    from: u64,
}

impl<'t> Calls<'t> {
    pub(crate) fn new(task: TaskRef<'t>, from: u64) -> Result<Calls<'t>, TraceError> {
        Ok(Calls { items: task.items(Source::Compressed)?, from })
    }
}

impl Iterator for Calls<'_> {
    type Item = Result<Call, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.items.next()? {
                Ok(Item::Call(call)) if call.number() >= self.from => return Some(Ok(call)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
