//! The calls of one process: what is wrong with each by itself, and what other processes need to know of it.

use crate::arguments::{Scope, wrong};
use crate::collectives::Entry;
use crate::epochs::Window;
use crate::finding::{Class, Findings, Place};
use crate::memory::{Caller, InFlight, Owner, Range, Use, uses};
use crate::objects::Objects;
use crate::requests::Requests;
use crate::rma::{Access, At, Kind as AccessKind, Shape};
use crate::typemap::{Elements, Types};
use refrain_analysis::matching::{Blocked, Lane, Op, Operation, Receive, Step, Tracker};
use refrain_mpi::interface::Function;
use refrain_mpi::semantics::{self, Argument, Choice, Mode, Object, Rma, Sync, polls};
use refrain_reader::{Call, Item, Note, Peer, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The part of an operation that one process has.
#[derive(Clone, Debug)]
pub enum Part {
    /// A message is sent.
    Send(Mode, Option<Elements>),
    /// A message is received.
    Receive(Option<Elements>),
    /// A collective.
    Collective(Arc<Entry>),
}

/// An operation that begins.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The operation.
    pub op: Op,
    /// The call that begins it.
    pub place: Arc<Place>,
    /// What is sent or received.
    pub part: Part,
}

/// An operation that ends in a call.
#[derive(Clone, Debug)]
pub struct End {
    /// How it began.
    pub begun: Arc<Begun>,
    /// The lane of the message that a receive matched.
    pub lane: Option<Lane>,
    /// Whether the call returns only once it is complete.
    pub is_awaited: bool,
}

/// What a call means for other processes.
#[derive(Debug)]
pub struct Turn {
    /// The call.
    pub place: Arc<Place>,
    /// Operations that begin.
    pub begun: Vec<Arc<Begun>>,
    /// Operations that end.
    pub ends: Vec<End>,
    /// Operations whose outcome is not known.
    pub lost: Vec<Op>,
    /// Whether another run may complete other operations here, and go on differently.
    pub may_differ: bool,
    /// What a call that has not returned waits for.
    pub open: Option<Blocked<Arc<Place>>>,
    /// Accesses to windows.
    pub accesses: Vec<Access>,
    /// Windows whose earlier accesses by this process, or to a rank, are complete: identity and target.
    pub synchronized: Vec<(u64, Option<i32>)>,
    /// Whether communicators, windows or files may be new.
    pub has_new_scopes: bool,
    /// A window whose accesses are put in order by other means than those that are followed.
    pub unordered: Option<Unordered>,
    /// A window that this process makes: identity, and what it gives to it.
    pub window: Option<(u64, Shape)>,
}

/// Windows whose conflicts are not looked for.
#[derive(Clone, Copy, Debug)]
pub enum Unordered {
    /// This one: `MPI_Win_post` and `MPI_Win_start` order accesses between some of its ranks.
    One(u64),
    /// All: atomic operations may protect the memory of any.
    All,
}

impl Turn {
    fn new(place: Arc<Place>) -> Turn {
        Turn {
            place,
            begun: Vec::new(),
            ends: Vec::new(),
            lost: Vec::new(),
            may_differ: false,
            open: None,
            accesses: Vec::new(),
            synchronized: Vec::new(),
            has_new_scopes: false,
            unordered: None,
            window: None,
        }
    }
}

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

/// A window, as this process knows it.
#[derive(Debug)]
struct OwnWindow {
    epochs: Window,
    identity: u64,
    members: Arc<[i32]>,
    /// Its own memory in the window.
    memory: Option<Range>,
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
    predefined: [Comm; 2],
    comms: HashMap<u64, Comm>,
    cartesian: HashSet<u64>,
    types: Types,
    objects: Objects,
    requests: Requests,
    /// The buffers of persistent requests.
    templates: HashMap<u64, Template>,
    in_flight: InFlight,
    windows: HashMap<u64, OwnWindow>,
    names: HashMap<String, Arc<str>>,
    /// Operations that have begun and not ended, by number.
    live: HashMap<u64, Arc<Begun>>,
    /// Receives with a wildcard that have not matched.
    pub wildcards: Vec<(u64, Receive)>,
    /// Whether it has called `MPI_Finalize`.
    pub is_finalized: bool,
    /// Whether a call that communicates has returned an error.
    pub has_errors: bool,
    scopes: usize,
}

impl Process {
    /// A process with that rank, of a job of `ranks` ranks.
    pub fn new(rank: i32, ranks: usize, is_threaded: bool) -> Process {
        Process {
            rank,
            tracker: Tracker::new(rank, ranks),
            is_threaded,
            predefined: [
                Comm::new((0..ranks as i32).collect(), Arc::from([]), rank),
                Comm::new(Arc::from([rank]), Arc::from([]), rank),
            ],
            comms: HashMap::new(),
            cartesian: HashSet::new(),
            types: Types::default(),
            objects: Objects::default(),
            requests: Requests::default(),
            templates: HashMap::new(),
            in_flight: InFlight::default(),
            windows: HashMap::new(),
            names: HashMap::new(),
            live: HashMap::new(),
            wildcards: Vec::new(),
            is_finalized: false,
            has_errors: false,
            scopes: 0,
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
            self.wildcards.len(),
        ]
    }

    fn note(&mut self, note: &Note) {
        self.tracker.note(note);
        if let Some(members) = note.members() {
            let comm = Comm::new(members.local.into(), members.remote.into(), self.rank);
            self.comms.insert(members.comm, comm);
        }
    }

    /// The communicator of a handle.
    fn comm(&self, call: &Call, handle: u64) -> Option<Comm> {
        match call.handle_name("comm", handle) {
            Some("MPI_COMM_WORLD") => self.predefined.first().cloned(),
            Some("MPI_COMM_SELF") => self.predefined.last().cloned(),
            Some(_) => None,
            None => self.comms.get(&handle).cloned(),
        }
    }

    fn place(&mut self, thread: u32, call: &Call) -> Arc<Place> {
        let function = match self.names.get(call.name()) {
            Some(name) => name.clone(),
            None => {
                let name: Arc<str> = call.name().into();
                self.names.insert(call.name().to_owned(), name.clone());
                name
            }
        };
        let (rank, number, site) = (self.rank, call.number(), call.site().cloned());
        Arc::new(Place { rank, thread, number, function, site })
    }

    fn call(&mut self, thread: u32, call: &Call, findings: &mut Findings) -> Option<Turn> {
        let function = call.mpi()?;
        if polls(function.op(), function.form()) && call.is_failed_poll() {
            return None;
        }
        let place = self.place(thread, call);
        let mut turn = Turn::new(place.clone());
        let arguments = call.arguments();
        let comm = arguments.handle(Argument::Comm).and_then(|handle| self.comm(call, handle));
        let index = comm.as_ref().and_then(|comm| comm.index);
        let scope = self.scope(call, function, comm.as_ref(), index);
        // A call that failed and returned was asked for by programs that handle errors.
        if call.error().is_none() {
            let wrong = wrong(call, function, &mut self.types, scope);
            if !wrong.is_empty() && !call.returned() {
                findings.note_fatal(self.rank);
            }
            for (class, message) in wrong {
                findings.add(class, message, vec![(*place).clone()]);
            }
        }
        if call.error().is_some() {
            // What the operations have done is not known.
            self.has_errors |=
                !function.is_local() || function.position(Argument::Request).is_some();
            return None;
        }
        if !self.is_threaded {
            self.requests.check(call, function, &place, findings);
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
        self.windows_of(call, function, &place, &used, &mut turn, findings);
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
        let mut parts_of_starts = Vec::new();
        if call.returned() {
            let change = self.requests.observe(call, function, place);
            self.in_flight.done(|owner| match owner {
                Owner::Request(request) => change.ended.contains(&request),
                Owner::Window(..) => false,
            });
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
        let mut available: Vec<(Part, Arc<Place>)> = match function.op() {
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
                    let (part, place) = match (at, op.what) {
                        (Some(at), _) => available.remove(at),
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
                        self.wildcards.push((op.id, receive));
                    }
                    self.live.insert(op.id, begun.clone());
                    turn.begun.push(begun);
                }
                Step::Matched(op, lane) => {
                    self.wildcards.retain(|(id, _)| *id != op.id);
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
                    self.wildcards.retain(|(id, _)| *id != op.id);
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

    /// Follows windows: epochs, accesses, and memory of windows that other calls use.
    fn windows_of(
        &mut self,
        call: &Call,
        function: &Function,
        place: &Arc<Place>,
        used: &[Use],
        turn: &mut Turn,
        findings: &mut Findings,
    ) {
        let arguments = call.arguments();
        let handle = arguments.handle(Argument::Window);
        match function.op() {
            semantics::Op::Rma(kind) => {
                let Some(handle) = handle else { return };
                self.access(call, kind, handle, place, used, turn, findings);
            }
            semantics::Op::Sync(sync) => {
                let Some(handle) = handle else { return };
                let Some(window) = self.windows.get_mut(&handle) else { return };
                window.epochs.synchronize(call, sync, place, findings);
                if matches!(sync, Sync::Start | Sync::Post) {
                    turn.unordered = Some(Unordered::One(window.identity));
                }
                let target = arguments.int(Argument::Target);
                let one = matches!(sync, Sync::Unlock | Sync::Flush | Sync::FlushLocal);
                let none = matches!(
                    sync,
                    Sync::Lock
                        | Sync::LockAll
                        | Sync::Start
                        | Sync::Post
                        | Sync::Memory
                        | Sync::Wait
                );
                if none {
                    return;
                }
                let target = target.filter(|_| one);
                self.in_flight.done(|owner| match owner {
                    Owner::Window(of, to) => {
                        of == handle && target.is_none_or(|target| target == to)
                    }
                    Owner::Request(_) => false,
                });
                if !matches!(sync, Sync::FlushLocal | Sync::FlushLocalAll) {
                    let world =
                        |target: i64| window.members.get(usize::try_from(target).ok()?).copied();
                    turn.synchronized.push((window.identity, target.and_then(world)));
                }
            }
            semantics::Op::Free(Object::Window) => {
                if let Some(window) = handle.and_then(|handle| self.windows.get(&handle)) {
                    window.epochs.free(place, findings);
                }
                if let Some(handle) = handle.filter(|_| call.returned()) {
                    if let Some(window) = self.windows.remove(&handle) {
                        turn.synchronized.push((window.identity, None));
                    }
                    self.in_flight
                        .done(|owner| matches!(owner, Owner::Window(of, _) if of == handle));
                }
            }
            _ => self.own_windows(used, turn, false),
        }
    }

    /// Accesses to the process's own memory in windows by its other calls.
    fn own_windows(&self, used: &[Use], turn: &mut Turn, until_sync: bool) {
        for window in self.windows.values() {
            let own = window.members.iter().position(|rank| *rank == self.rank);
            let is_locked = own.is_some_and(|own| window.epochs.is_locked(own as i64));
            let Some(memory) = window.memory.filter(|_| !is_locked) else { continue };
            for part in used.iter().filter(|part| part.range.meets(&memory)) {
                let kind = if part.writes { AccessKind::Store } else { AccessKind::Load };
                let at = At::Bytes(part.range.start - memory.start, part.range.end - memory.start);
                turn.accesses.push(Access {
                    window: window.identity,
                    target: self.rank,
                    at,
                    kind,
                    place: turn.place.clone(),
                    is_exclusive: false,
                    ends_at_once: !until_sync,
                });
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all parts of one call")]
    fn access(
        &mut self,
        call: &Call,
        kind: Rma,
        handle: u64,
        place: &Arc<Place>,
        used: &[Use],
        turn: &mut Turn,
        findings: &mut Findings,
    ) {
        let int = |name: &str| match call.input(name) {
            Some(Value::Int(n)) => Some(*n),
            _ => None,
        };
        let Some(target) = call.arguments().int(Argument::Target).filter(|target| *target >= 0)
        else {
            return;
        };
        let Some(window) = self.windows.get_mut(&handle) else { return };
        window.epochs.access(target, place, findings);
        let is_exclusive = window.epochs.is_exclusive(target);
        let identity = window.identity;
        let world =
            usize::try_from(target).ok().and_then(|target| window.members.get(target)).copied();
        // The buffers of accesses with requests are in flight until these are complete.
        if call.mpi().is_some_and(|function| function.form() != semantics::Form::Nonblocking) {
            self.in_flight.add(Owner::Window(handle, target), used, place);
        }
        if matches!(kind, Rma::FetchAndOp | Rma::CompareAndSwap) {
            turn.unordered = Some(Unordered::All);
        }
        self.own_windows(used, turn, true);
        let datatype =
            ["target_datatype", "datatype"].into_iter().find_map(|name| match call.input(name) {
                Some(Value::Word(handle)) => Some(*handle),
                _ => None,
            });
        let bytes = datatype.and_then(|datatype| {
            let (datatype, _) = self.types.get(call, datatype)?;
            let extent = datatype.extent.filter(|_| datatype.is_dense)?;
            int("target_count").unwrap_or(1).checked_mul(extent)
        });
        let op = match call.input("op") {
            Some(Value::Word(op)) => call.handle_name("op", *op),
            _ => None,
        };
        let kind = match kind {
            Rma::Put => AccessKind::Put,
            Rma::Get => AccessKind::Get,
            // Compare-and-swap is atomic with respect to the others.
            _ => AccessKind::Accumulate(op.map(Into::into)),
        };
        if let (Some(world), Some(bytes), Some(at)) = (world, bytes, int("target_disp"))
            && bytes > 0
        {
            turn.accesses.push(Access {
                window: identity,
                target: world,
                at: At::Units(at, bytes),
                kind,
                place: place.clone(),
                is_exclusive,
                ends_at_once: false,
            });
        }
    }

    /// A window that a call has made; its scope is the last one.
    fn new_window(&mut self, call: &Call, turn: &mut Turn) {
        let Some(function) = call.mpi() else { return };
        if function.op() != semantics::Op::Make(Object::Window)
            || !call.returned()
            || call.error().is_some()
        {
            return;
        }
        let arguments = call.arguments();
        let Some(handle) = arguments.output_handle(Argument::Window) else { return };
        let comm = arguments.handle(Argument::Comm).and_then(|comm| self.comm(call, comm));
        let (Some(comm), Some((scope, _))) = (comm, self.tracker.scopes().last()) else { return };
        let int = |name: &str| match call.input(name) {
            Some(Value::Int(n)) => Some(*n),
            _ => None,
        };
        let size = int("size");
        let memory = call
            .arg("base")
            .zip(size)
            .and_then(|(base, size)| Range::at(base, turn.place.thread, size))
            .filter(|_| function.name.starts_with("MPI_Win_create"));
        let identity = scope.identity();
        let unit = int("disp_unit").filter(|unit| *unit > 0);
        turn.window = Some((identity, Shape { size, unit }));
        let epochs = Window::new(turn.place.clone());
        self.windows.insert(handle, OwnWindow { epochs, identity, members: comm.local, memory });
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

/// A finding about threads: calls of threads beyond the level that MPI provides.
pub fn thread_level(calls: &[(u32, Place)], provided: Option<&str>, findings: &mut Findings) {
    let Some(provided) = provided else { return };
    let Some((_, main)) = calls.iter().find(|(thread, _)| *thread == 0) else { return };
    let Some((_, other)) = calls.iter().find(|(thread, _)| *thread != 0) else { return };
    if matches!(provided, "MPI_THREAD_SINGLE" | "MPI_THREAD_FUNNELED") {
        let message = format!(
            "{} is called by a thread that did not initialize MPI, and MPI provides {provided} only.",
            other.function
        );
        findings.add(Class::ThreadLevel, message, vec![other.clone(), main.clone()]);
    }
}
