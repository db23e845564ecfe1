//! The items of a task's sequence: its calls, and the notes between them.

use crate::arguments::CallArguments;
use crate::calls::{Call, Context, Span};
use crate::clocks;
use crate::communicators::Members;
use crate::decoder::{Decoder, TaskError};
use crate::event::{Event, Value};
use crate::objects::Objects;
use crate::view::TaskView;
use refrain_mpi::abi::{Family, Layout};
use refrain_mpi::names::HandleTable;
use refrain_mpi::semantics::Argument;
use std::collections::HashMap;
use std::sync::Arc;

/// An item of a task's sequence.
#[derive(Clone, Debug)]
pub enum Item {
    /// A call that the program made.
    Call(Call),
    /// Something between calls that later calls refer to.
    Note(Note),
}

impl Item {
    /// A single item, of an MPI of that family, whose predefined handles have these names: for items that come
    /// from elsewhere than a file, such as those of a simulated program.
    pub fn new(event: Event, family: Family, names: HandleTable) -> Item {
        let context = Context::new(family, names, Arc::default(), None, false);
        ItemReader::new(context, [(0, 0); 2]).item(event)
    }

    /// The item as it was decoded.
    pub fn event(&self) -> &Event {
        match self {
            Item::Call(call) => call.event(),
            Item::Note(note) => note.event(),
        }
    }

    /// The call, if it is one.
    pub fn call(self) -> Option<Call> {
        match self {
            Item::Call(call) => Some(call),
            Item::Note(_) => None,
        }
    }
}

/// A note between calls: memory that came into use or was freed, or the members of a communicator.
#[derive(Clone, Debug)]
pub struct Note {
    event: Event,
}

/// The members of a communicator, as a note has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommMembers {
    /// The communicator's handle.
    pub comm: u64,
    /// Ranks in `MPI_COMM_WORLD` of its processes; -1 for a process that is not in it.
    pub local: Vec<i32>,
    /// The same of the remote group of an intercommunicator; empty otherwise.
    pub remote: Vec<i32>,
}

impl CommMembers {
    /// The members that a note holds, if it holds these.
    pub(crate) fn of(note: &Event) -> Option<CommMembers> {
        if note.function.name != "refrain_members" {
            return None;
        }
        let Some(Some(Value::Word(comm))) = note.inputs.first() else { return None };
        let ranks = |param: usize| match note.inputs.get(param) {
            Some(Some(Value::List(list))) => list.iter().map(|v| v.as_result() as i32).collect(),
            _ => Vec::new(),
        };
        Some(CommMembers { comm: *comm, local: ranks(1), remote: ranks(2) })
    }
}

impl Note {
    /// The members of a new communicator, if the note holds these.
    pub fn members(&self) -> Option<CommMembers> {
        CommMembers::of(&self.event)
    }

    /// The note as it was decoded: an event of a function that MPI does not have.
    pub fn event(&self) -> &Event {
        &self.event
    }
}

/// Turns the events of one task into items.
#[derive(Debug)]
pub(crate) struct ItemReader {
    /// Ticks and nanoseconds, early and late.
    clock: [(u64, u64); 2],
    context: Arc<Context>,
    /// Of communicators that the task has made so far, by handle.
    members: HashMap<u64, Arc<Members>>,
}

impl ItemReader {
    /// For the task that a context is of.
    pub fn new(context: Context, clock: [(u64, u64); 2]) -> ItemReader {
        ItemReader { clock, context: Arc::new(context), members: HashMap::new() }
    }

    /// For a task that is in no file: it has no times.
    pub fn of_view(view: &TaskView<'_>) -> Result<ItemReader, TaskError> {
        let objects = Arc::new(Objects::of(std::slice::from_ref(view))?);
        let context = Context::new(view.family, view.handle_names(), objects, None, false);
        Ok(ItemReader::new(context, [(0, 0); 2]))
    }

    /// The names of predefined handles.
    pub fn names(&self) -> &HandleTable {
        self.context.names()
    }

    /// The family of the task's MPI.
    pub fn family(&self) -> Family {
        self.context.family()
    }

    /// Whether its items have times.
    pub fn has_times(&self) -> bool {
        self.context.has_times()
    }

    /// An event as an item.
    pub fn item(&mut self, event: Event) -> Item {
        if event.is_note() {
            let note = Note { event };
            if let Some(members) = note.members() {
                self.members.insert(members.comm, Arc::new(members.into()));
            }
            return Item::Note(note);
        }
        let nanos = |ticks: u64| clocks::nanos(&self.clock, ticks);
        let span = self
            .context
            .has_times()
            .then(|| Span { start: nanos(event.start), end: event.end.map(nanos) });
        let layout = Layout::of(self.context.family());
        let comm = CallArguments::of(&event, layout).handle(Argument::Comm);
        let members = comm.and_then(|comm| {
            let made_here = self.members.get(&comm);
            made_here.or_else(|| self.context.communicators().members(comm)).cloned()
        });
        Item::Call(Call::of(event, span, members, self.context.clone()))
    }
}

/// The items of a task that is in no file; see [`TaskView::items`].
pub struct ViewItems<'t> {
    decoder: Decoder<'t>,
    reader: ItemReader,
}

impl<'t> ViewItems<'t> {
    pub(crate) fn new(view: &TaskView<'t>) -> Result<ViewItems<'t>, TaskError> {
        Ok(ViewItems { decoder: view.decode(), reader: ItemReader::of_view(view)? })
    }
}

impl Iterator for ViewItems<'_> {
    type Item = Result<Item, TaskError>;

    fn next(&mut self) -> Option<Self::Item> {
        let event = self.decoder.next()?;
        Some(event.map(|event| self.reader.item(event)))
    }
}

/// Merges the items of a process's threads in the order in which they began, as far as that is known: without times,
/// threads advance evenly. Each item comes with whose it is.
pub struct Interleaved<K, I: Iterator> {
    threads: Vec<(K, I, Option<I::Item>)>,
    is_started: bool,
}

/// What can be put in order: an item, alone or with something else.
pub trait Ordered {
    /// When it began, in ticks or in steps of its task.
    fn start(&self) -> u64;
}

impl Ordered for Item {
    fn start(&self) -> u64 {
        self.event().start
    }
}

/// An item, and how many like it there were.
impl Ordered for (Item, u64) {
    fn start(&self) -> u64 {
        self.0.start()
    }
}

impl<K, I: Iterator> Interleaved<K, I> {
    /// The threads, each with what to call it.
    pub fn new(threads: impl IntoIterator<Item = (K, I)>) -> Interleaved<K, I> {
        let threads = threads.into_iter().map(|(key, items)| (key, items, None)).collect();
        Interleaved { threads, is_started: false }
    }
}

impl<K: Copy, T: Ordered, E, I: Iterator<Item = Result<T, E>>> Iterator for Interleaved<K, I> {
    type Item = Result<(K, T), E>;

    fn next(&mut self) -> Option<Self::Item> {
        if !std::mem::replace(&mut self.is_started, true) {
            self.threads.iter_mut().for_each(|(_, items, next)| *next = items.next());
        }
        // An error comes first: nothing behind it can be put in order.
        let start = |(i, (_, _, next)): (usize, &(K, I, Option<I::Item>))| match next {
            Some(Ok(item)) => Some((item.start(), i)),
            Some(Err(_)) => Some((0, i)),
            None => None,
        };
        let (_, earliest) = self.threads.iter().enumerate().filter_map(start).min()?;
        let (key, items, next) = self.threads.get_mut(earliest)?;
        let key = *key;
        match next.take()? {
            Ok(item) => {
                *next = items.next();
                Some(Ok((key, item)))
            }
            Err(error) => {
                self.threads.clear();
                Some(Err(error))
            }
        }
    }
}
