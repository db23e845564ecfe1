//! The calls of one process: what is wrong with each by itself, and what other processes need to know of it.

mod windows;

use self::windows::OwnWindow;
use crate::arguments::{Checked, Scope, communicates, wrong};
use crate::collectives::Entry;
use crate::finding::{Class, Findings, Place};
use crate::memory::{Caller, InFlight, Owner, Use, uses};
use crate::objects::Objects;
use crate::requests::Requests;
use crate::turn::{Begun, End, Part, Turn};
use crate::typemap::Types;
use crate::wildcards::Wildcards;
use refrain_analysis::matching::{Operation, Step, Tracker};
use refrain_bytes::table::{Map, Set};
use refrain_mpi::interface::Function;
use refrain_mpi::semantics::{self, Access, Argument, Choice, Mode, Object, polls};
use refrain_reader::{Call, Item, Note, Peer, Value};
use std::collections::VecDeque;
use std::sync::Arc;

/// A communicator.
#[derive(Clone, Debug)]
struct Comm {
    local: Arc<[i32]>,
    remote: Arc<[i32]>,
    /// The rank of this process in it.
    index: Option<usize>,
}

impl Comm {
    fn new(local: Arc<[i32]>, remote: Arc<[i32]>, rank: i32) -> Comm {
        let index = local.iter().position(|member| *member == rank);
        Comm { local, remote, index }
    }
}

/// What each start of a persistent request uses and begins, and the call that made it.
type Template = (Vec<Use>, Vec<Part>, Arc<Place>);

/// A process.
#[derive(Debug)]
pub struct Process {
    rank: i32,
    /// Follows messages and collectives.
    pub tracker: Tracker<Arc<Place>>,
    /// Whether several threads make calls: the order of their calls is then not known.
    is_threaded: bool,
    /// `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
    predefined: [Arc<Comm>; 2],
    comms: Map<u64, Arc<Comm>>,
    cartesian: Set<u64>,
    checked: Checked,
    types: Types,
    objects: Objects,
    requests: Requests,
    /// The buffers of persistent requests.
    templates: Map<u64, Template>,
    in_flight: InFlight,
    windows: Map<u64, OwnWindow>,
    /// Operations that have begun and not ended, by number.
    live: Map<u64, Arc<Begun>>,
    /// Receives with a wildcard that have not matched.
    pub wildcards: Wildcards,
    /// Whether it has called `MPI_Finalize`.
    pub is_finalized: bool,
    /// Whether a call that communicates has returned an error.
    pub has_errors: bool,
    scopes: usize,
    /// Communicators, windows and files with error handlers of the program.
    own_handlers: Set<u64>,
    /// The calls around the current one.
    outer: Vec<(&'static Function, Arc<Place>)>,
}

impl Process {
    /// A process with that rank, of a job of `ranks` ranks.
    pub fn new(rank: i32, ranks: usize, is_threaded: bool) -> Process {
        Process {
            rank,
            tracker: Tracker::new(rank, ranks),
            is_threaded,
            predefined: [
                Arc::new(Comm::new((0..ranks as i32).collect(), Arc::from([]), rank)),
                Arc::new(Comm::new(Arc::from([rank]), Arc::from([]), rank)),
            ],
            comms: Map::default(),
            cartesian: Set::default(),
            checked: Checked::default(),
            types: Types::default(),
            objects: Objects::default(),
            requests: Requests::default(),
            templates: Map::default(),
            in_flight: InFlight::default(),
            windows: Map::default(),
            live: Map::default(),
            wildcards: Wildcards::default(),
            is_finalized: false,
            has_errors: false,
            scopes: 0,
            own_handlers: Set::default(),
            outer: Vec::new(),
        }
    }

    /// Follows the next item of a thread.
    pub fn item(&mut self, thread: u32, item: &Item, findings: &mut Findings) -> Option<Turn> {
        match item {
            Item::Note(note) => {
                self.note(note);
                None
            }
            Item::Call(call) => self.call(thread, call, findings),
        }
    }

    /// Reports what is left after the last call, if it was `MPI_Finalize`: callbacks inside of that may free objects.
    pub fn finish(&mut self, findings: &mut Findings) {
        // Without an order among threads, a request or object may seem to be freed before it is created.
        if self.is_finalized && !self.is_threaded {
            if !self.has_errors {
                self.requests.finish(findings);
            }
            self.objects.finish(findings);
        }
    }

    /// What it has pending, in numbers.
    pub fn pending(&self) -> [usize; 7] {
        let (requests, active) = self.requests.len();
        [
            requests,
            active,
            self.objects.len(),
            self.in_flight.len(),
            self.windows.len(),
            self.live.len(),
            self.wildcards.open(),
        ]
    }

    fn note(&mut self, note: &Note) {
        self.tracker.note(note);
        if let Some(members) = note.members() {
            let comm = Comm::new(members.local.into(), members.remote.into(), self.rank);
            self.comms.insert(members.comm, Arc::new(comm));
        }
    }

    /// The communicator of a handle.
    fn comm(&self, call: &Call, handle: u64) -> Option<Arc<Comm>> {
        match self.comms.get(&handle) {
            Some(known) => Some(known.clone()),
            None => match call.handle_name("comm", handle)? {
                "MPI_COMM_WORLD" => self.predefined.first().cloned(),
                "MPI_COMM_SELF" => self.predefined.last().cloned(),
                _ => None,
            },
        }
    }

    fn place(&self, thread: u32, call: &Call, function: &'static Function) -> Arc<Place> {
        let (number, site) = (call.number(), call.site().cloned());
        Arc::new(Place { rank: self.rank, thread, number, function: &function.name, site })
    }

    fn call(&mut self, thread: u32, call: &Call, findings: &mut Findings) -> Option<Turn> {
        let function = call.mpi()?;
        if polls(function.op(), function.form()) && call.is_failed_poll() {
            return None;
        }
        let place = self.place(thread, call, function);
        let mut turn = Turn::new(place.clone());
        let arguments = call.arguments();
        let comm = arguments.handle(Argument::Comm).and_then(|handle| self.comm(call, handle));
        let index = comm.as_ref().and_then(|comm| comm.index);
        let scope = self.scope(call, function, comm.as_deref(), index);
        // Programs may ask for errors, and handle them: where an error is returned, or a handler of their own is called,
        // which may return as if nothing had happened, or leave the call by an exception.
        if call.error().is_none() && self.own_handlers.is_empty() {
            let wrong = wrong(call, function, &mut self.checked, &mut self.types, scope);
            if !wrong.is_empty() && !call.returned() {
                findings.note_fatal(self.rank);
            }
            for (class, message) in wrong {
                findings.add(class, message, vec![(*place).clone()]);
            }
        }
        self.callbacks(call, function, &place, findings);
        if call.error().is_some() {
            // What the operations have done is not known.
            self.has_errors |=
                !function.is_local() || function.position(Argument::Request).is_some();
            return None;
        }
        let before = findings.added();
        if !self.is_threaded {
            self.requests.check(call, function, &place, findings);
        }
        if !call.returned() && findings.added() > before {
            findings.note_fatal(self.rank);
        }
        let peers = comm.as_ref().map(|comm| match comm.remote.is_empty() {
            true => comm.local.len() as u64,
            false => comm.remote.len() as u64,
        });
        let caller = Caller { thread, is_root: scope.is_root, peers };
        let mut used = uses(call, function, &mut self.types, caller);
        used.retain(|part| !is_to_nobody(call, function, part.buffer));
        if !self.is_threaded && !self.has_errors {
            self.in_flight.check(&used, &place, findings);
        }
        let before = findings.added();
        self.windows_of(call, function, &place, &used, &mut turn, findings);
        if !call.returned() && findings.added() > before {
            findings.note_fatal(self.rank);
        }
        let parts = self.parts(call, function, &place, index, scope.is_root);
        self.follow(call, function, &place, parts, used, &mut turn);
        self.new_window(call, &mut turn);
        if call.returned() {
            self.types_and_objects(call, function, &place);
        }
        if function.op() == semantics::Op::End && function.over() == Some(semantics::Over::World) {
            self.is_finalized = call.returned() || self.is_finalized;
        }
        Some(turn)
    }

    /// A call inside of another: reduction operations must not communicate (MPI 4.1 §6.9.5).
    fn callbacks(
        &mut self,
        call: &Call,
        function: &'static Function,
        place: &Arc<Place>,
        findings: &mut Findings,
    ) {
        self.outer.truncate(call.depth() as usize);
        if let Some((outer, at)) = self.outer.last()
            && matches!(outer.op(), semantics::Op::Collective(kind) if kind.reduces())
            && communicates(function)
            && !matches!(function.op(), semantics::Op::Pack | semantics::Op::Unpack)
        {
            let message = format!(
                "{} is called by a reduction operation inside of {}: it must not communicate.",
                place.function, at.function
            );
            findings.add(Class::Callback, message, vec![(**place).clone(), (**at).clone()]);
        }
        if !self.is_threaded && self.outer.len() == call.depth() as usize {
            self.outer.push((function, place.clone()));
        }
    }

    fn scope(
        &self,
        call: &Call,
        function: &Function,
        comm: Option<&Comm>,
        index: Option<usize>,
    ) -> Scope {
        let arguments = call.arguments();
        let handle = arguments.handle(Argument::Comm);
        let win = arguments.handle(Argument::Window).and_then(|win| self.windows.get(&win));
        let is_inter = comm.is_some_and(|comm| !comm.remote.is_empty());
        let size = match (win, comm) {
            (Some(win), _) => Some(win.members.len() as i64),
            (None, Some(comm)) if is_inter => Some(comm.remote.len() as i64),
            (None, Some(comm)) => Some(comm.local.len() as i64),
            (None, None) => None,
        };
        let is_root = crate::arguments::has_root(function).then(|| {
            let root = arguments.int(Argument::Root)?;
            match is_inter {
                true => Some(Peer::of(root, call.layout().family) == Some(Peer::Root)),
                false => Some(index? as i64 == root),
            }
        });
        let is_cartesian = match (handle, comm) {
            (Some(handle), Some(_)) => Some(self.cartesian.contains(&handle)),
            _ => None,
        };
        Scope { size, is_inter, is_root: is_root.flatten(), is_cartesian }
    }

    /// The parts of the operations that a call begins, or that its request will begin.
    fn parts(
        &mut self,
        call: &Call,
        function: &'static Function,
        place: &Arc<Place>,
        index: Option<usize>,
        is_root: Option<bool>,
    ) -> Vec<Part> {
        let elements = |process: &mut Process, buffer: usize| {
            let buffer = function.buffers().get(buffer)?;
            let input = |param: usize| call.input(function.params.get(param)?.name);
            let semantics::Amount::Count(count) = buffer.amount else { return None };
            let (Value::Int(count), Value::Word(datatype)) =
                (input(count)?, input(buffer.datatype?)?)
            else {
                return None;
            };
            process.types.elements(call, u64::try_from(*count).ok()?, *datatype)
        };
        match function.op() {
            semantics::Op::Send(mode) => vec![Part::Send(mode, elements(self, 0))],
            semantics::Op::Receive => vec![Part::Receive(elements(self, 0))],
            semantics::Op::MatchedProbe => vec![Part::Receive(None)],
            semantics::Op::SendReceive => {
                let receive = usize::from(function.buffers().len() > 1);
                vec![
                    Part::Send(Mode::Standard, elements(self, 0)),
                    Part::Receive(elements(self, receive)),
                ]
            }
            _ if function.is_collective() => {
                let entry = Entry::of(call, function, place, (index, is_root), &mut self.types);
                vec![Part::Collective(Arc::new(entry))]
            }
            _ => Vec::new(),
        }
    }

    /// Follows operations and requests.
    fn follow(
        &mut self,
        call: &Call,
        function: &'static Function,
        place: &Arc<Place>,
        parts: Vec<Part>,
        used: Vec<Use>,
        turn: &mut Turn,
    ) {
        let progress = self.tracker.call(call, 1, &|_| place.clone());
        let mut parts_of_starts = VecDeque::new();
        if call.returned() {
            let change = self.requests.observe(call, function, place);
            change.ended.iter().for_each(|request| self.in_flight.request_done(*request));
            if let Some(request) = change.made {
                match change.is_persistent {
                    true => {
                        self.templates.insert(request, (used, parts.clone(), place.clone()));
                    }
                    false => self.in_flight.add(Owner::Request(request), &used, place),
                }
            }
            for request in change.started {
                if let Some((used, parts, made)) = self.templates.get(&request) {
                    self.in_flight.add(Owner::Request(request), used, made);
                    parts_of_starts.extend(parts.iter().map(|part| (part.clone(), made.clone())));
                }
            }
        }
        let of_call = parts.into_iter().map(|part| (part, place.clone()));
        let mut available: VecDeque<(Part, Arc<Place>)> = match function.op() {
            semantics::Op::Start => parts_of_starts,
            _ => of_call.collect(),
        };
        let is_poll = polls(function.op(), function.form());
        let is_choice =
            matches!(function.op(), semantics::Op::Complete(Choice::Any | Choice::Some));
        let frees = matches!(function.op(), semantics::Op::Free(Object::Comm));
        for step in progress.steps {
            match step {
                Step::Posted(op) | Step::Entered(op) => {
                    let fits = |(part, _): &(Part, Arc<Place>)| {
                        matches!(
                            (part, op.what),
                            (Part::Send(..), Operation::Send { .. })
                                | (Part::Receive(_), Operation::Receive(_))
                                | (Part::Collective(_), Operation::Collective { .. })
                        )
                    };
                    let at = available.iter().position(fits);
                    let (part, place) = match (at.and_then(|at| available.remove(at)), op.what) {
                        (Some(found), _) => found,
                        (None, Operation::Send { .. }) => {
                            (Part::Send(Mode::Standard, None), place.clone())
                        }
                        (None, Operation::Receive(_)) => (Part::Receive(None), place.clone()),
                        (None, Operation::Collective { .. }) => continue,
                    };
                    let begun = Arc::new(Begun { op, place, part });
                    if let Operation::Receive(receive) = op.what
                        && receive.lane().is_none()
                    {
                        self.wildcards.add(op.id, receive);
                    }
                    self.live.insert(op.id, begun.clone());
                    turn.begun.push(begun);
                }
                Step::Matched(op, lane) => {
                    self.wildcards.remove(op.id);
                    if let Some(begun) = self.live.remove(&op.id) {
                        turn.ends.push(End { begun, lane: Some(lane), is_awaited: true });
                    }
                }
                Step::Completed(op) => {
                    if let Some(begun) = self.live.remove(&op.id) {
                        let is_awaited = !is_poll && !is_choice;
                        turn.ends.push(End { begun, lane: None, is_awaited });
                    }
                }
                Step::Left(op) => {
                    if let Some(begun) = self.live.remove(&op.id) {
                        let is_awaited = !is_poll && !is_choice && !frees;
                        turn.ends.push(End { begun, lane: None, is_awaited });
                    }
                }
                Step::Unknown(op) | Step::Doubtful(op) | Step::Cancelled(op) => {
                    match step {
                        Step::Cancelled(_) => self.wildcards.remove(op.id),
                        _ => self.wildcards.lose(op.id),
                    }
                    self.live.remove(&op.id);
                    turn.lost.push(op);
                }
            }
        }
        turn.may_differ = is_poll || is_choice;
        turn.open = progress.blocked;
        let makes = matches!(
            function.op(),
            semantics::Op::Make(Object::Comm | Object::Window | Object::File)
                | semantics::Op::Connect
        );
        turn.has_new_scopes = makes || self.scopes == 0;
        self.scopes += 1;
    }

    fn types_and_objects(&mut self, call: &Call, function: &Function, place: &Arc<Place>) {
        self.objects.observe(call, function, place);
        match function.op() {
            semantics::Op::Make(Object::Datatype)
            | semantics::Op::Free(Object::Datatype)
            | semantics::Op::Change(Object::Datatype)
            | semantics::Op::Query(Object::Datatype) => self.types.observe(call),
            semantics::Op::Errhandler(Access::Set) => {
                let arguments = call.arguments();
                let on = [Argument::Comm, Argument::Window, Argument::File];
                let on = on.into_iter().find_map(|on| arguments.handle(on));
                let is_own = matches!(call.input("errhandler"), Some(Value::Word(handler))
                    if call.handle_name("errhandler", *handler).is_none());
                match (on, is_own) {
                    (Some(on), true) => drop(self.own_handlers.insert(on)),
                    (Some(on), false) => drop(self.own_handlers.remove(&on)),
                    (None, _) => {}
                }
            }
            semantics::Op::Make(Object::Comm) => {
                let arguments = call.arguments();
                let Some(new) = arguments.output_handle(Argument::NewComm) else { return };
                let old = arguments.handle(Argument::Comm);
                let is_copy = function.name.contains("dup");
                let is_cartesian = function.name.starts_with("MPI_Cart")
                    || is_copy && old.is_some_and(|old| self.cartesian.contains(&old));
                match is_cartesian {
                    true => self.cartesian.insert(new),
                    false => self.cartesian.remove(&new),
                };
            }
            _ => {}
        }
    }
}

/// Whether a buffer is not used, because its peer is `MPI_PROC_NULL`.
fn is_to_nobody(call: &Call, function: &Function, buffer: usize) -> bool {
    let is_null = |name: &str| call.peer_in(name) == Some(Peer::ProcNull);
    match function.op() {
        semantics::Op::SendReceive if function.buffers().len() > 1 => {
            is_null(if buffer == 0 { "dest" } else { "source" })
        }
        semantics::Op::Send(_) => is_null("dest"),
        semantics::Op::Receive => is_null("source"),
        semantics::Op::Rma(_) => is_null("target_rank"),
        _ => false,
    }
}
