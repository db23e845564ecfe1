//! The items of a task's sequence: its calls, and the notes between them.

use crate::calls::{Call, Context, Members, Span};
use crate::clocks;
use crate::datatypes::{Sizes, makes_datatypes};
use crate::decoder::{Decoder, TaskError};
use crate::event::{Event, Value};
use crate::view::TaskView;
use refrain_mpi::abi::Family;
use refrain_mpi::names::HandleTable;
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
    /// An item on its own, of an MPI of that family, whose predefined handles have these names: for items that come
    /// from elsewhere than a file, such as those of a simulated program.
    pub fn new(event: Event, family: Family, names: HandleTable) -> Item {
        let context = Context::new(family, names, Sizes::default(), false);
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

impl Note {
    /// The members of a new communicator, if the note holds these.
    pub fn members(&self) -> Option<CommMembers> {
        if self.event.function.name != "refrain_members" {
            return None;
        }
        let Some(Some(Value::Word(comm))) = self.event.inputs.first() else { return None };
        let ranks = |param: usize| match self.event.inputs.get(param) {
            Some(Some(Value::List(list))) => list.iter().map(|v| v.as_result() as i32).collect(),
            _ => Vec::new(),
        };
        Some(CommMembers { comm: *comm, local: ranks(1), remote: ranks(2) })
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
    /// By the communicator's handle.
    members: HashMap<u64, Arc<Members>>,
}

impl ItemReader {
    /// For the task that a context is of.
    pub fn new(context: Context, clock: [(u64, u64); 2]) -> ItemReader {
        ItemReader { clock, context: Arc::new(context), members: HashMap::new() }
    }

    /// For a task that is in no file: it has no times.
    pub fn of_view(view: &TaskView<'_>) -> Result<ItemReader, TaskError> {
        let made = makers(view)?;
        let names = view.handle_names();
        let sizes = Sizes::new(made.into_iter().map(|event| (event, &names)));
        Ok(ItemReader::new(Context::new(view.family, names, sizes, false), [(0, 0); 2]))
    }

    /// The names of predefined handles.
    pub fn names(&self) -> &HandleTable {
        self.context.names()
    }

    /// The family of the task's MPI.
    pub fn family(&self) -> Family {
        self.context.family()
    }

    /// An event as an item.
    pub fn item(&mut self, event: Event) -> Item {
        if event.is_note() {
            let note = Note { event };
            if let Some(CommMembers { comm, local, remote }) = note.members() {
                self.members.insert(comm, Arc::new([local, remote]));
            }
            return Item::Note(note);
        }
        let nanos = |ticks: u64| clocks::nanos(&self.clock, ticks);
        let span = self
            .context
            .has_times()
            .then(|| Span { start: nanos(event.start), end: event.end.map(nanos) });
        let comm = event.function.params.iter().position(|p| p.name == "comm");
        let members = match comm.and_then(|comm| event.inputs.get(comm)) {
            Some(Some(Value::Word(handle))) => self.members.get(handle).cloned(),
            _ => None,
        };
        Item::Call(Call::of(event, span, members, self.context.clone()))
    }
}

/// One call for each signature of a task that makes a datatype.
pub(crate) fn makers(view: &TaskView<'_>) -> Result<Vec<Event>, TaskError> {
    let makes = |signature: &u32| {
        let function = view.head_function(*signature).and_then(|f| view.function(f));
        function.is_some_and(|function| makes_datatypes(&function.def))
    };
    let makers: Vec<u32> = (0..view.signatures() as u32).filter(makes).collect();
    if makers.is_empty() { Ok(Vec::new()) } else { view.samples(&makers) }
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
