//! Tests a tracker with a model of MPI's matching rules: for random programs, joining the steps of all ranks yields the
//! match of every receive.

use super::*;
use proptest::prelude::*;
use refrain_format::define::FunctionDef;
use refrain_mpi::abi::Family;
use refrain_mpi::interface::function;
use refrain_mpi::names::HandleTable;
use refrain_mpi::status::StatusFields;
use refrain_reader::{Event, Item, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

const RANKS: usize = 4;
const WORLD: u64 = 100;

/// Ranks in `MPI_COMM_WORLD` of the members of each communicator, as a rank sees it. All but the first have a note.
fn communicators(rank: usize) -> [Vec<i32>; 4] {
    let all = 0..RANKS as i32;
    let half = |other: &i32| *other as usize % 2 == rank % 2;
    [
        all.clone().collect(),
        all.clone().collect(),
        all.clone().rev().collect(),
        all.filter(half).collect(),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    number: usize,
    comm: usize,
    from: usize,
    tag: i64,
}

#[derive(Clone, Copy, Debug)]
struct Posted {
    /// The number of the receive on its rank.
    number: usize,
    comm: usize,
    source: Option<usize>,
    tag: Option<i64>,
}

impl Posted {
    fn fits(&self, message: &Message) -> bool {
        self.comm == message.comm
            && self.source.is_none_or(|source| source == message.from)
            && self.tag.is_none_or(|tag| tag == message.tag)
    }
}

/// A request that the program holds.
#[derive(Clone, Copy, Debug)]
struct Request {
    handle: u64,
    /// The receive, while it is active; none for sends.
    receive: Option<usize>,
    persistent: Option<Posted>,
    is_active: bool,
}

#[derive(Default)]
struct Rank {
    items: Vec<Item>,
    unexpected: Vec<Message>,
    posted: Vec<Posted>,
    requests: Vec<Request>,
    receives: usize,
    /// By receive.
    matched: BTreeMap<usize, Message>,
    /// Numbers of its messages in the order in which it sent them.
    sent: Vec<usize>,
}

/// A job as MPI would run it.
struct Job {
    ranks: Vec<Rank>,
    messages: usize,
    handles: u64,
    collectives: usize,
}

fn names() -> HandleTable {
    [("comm", WORLD, "MPI_COMM_WORLD"), ("request", 1, "MPI_REQUEST_NULL")].into_iter().collect()
}

fn event(function: Arc<FunctionDef>, values: &[(&str, Value)], outputs: &[(&str, Value)]) -> Event {
    let of = |given: &[(&str, Value)]| -> Vec<Option<Value>> {
        let value = |name: &str| given.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
        function.params.iter().map(|p| value(&p.name)).collect()
    };
    Event {
        number: 0,
        depth: 0,
        site: None,
        start: 0,
        end: Some(0),
        result: Some(0),
        error_class: None,
        inputs: of(values),
        outputs: of(outputs),
        function,
    }
}

fn cancelled_status() -> Value {
    let layout = refrain_mpi::abi::Layout::of(Family::Mpich);
    let mut bytes = vec![0; layout.status.bytes];
    let fields =
        StatusFields { source: 0, tag: 0, error: 0, count_bytes: Some(0), cancelled: true };
    layout.status.write(&mut bytes, &fields);
    Value::Status { bytes, ignored: true }
}

impl Job {
    fn new() -> Job {
        let ranks = (0..RANKS).map(|_| Rank::default()).collect();
        let mut job = Job { ranks, messages: 0, handles: 1000, collectives: 0 };
        for rank in 0..RANKS {
            for (comm, members) in communicators(rank).into_iter().enumerate().skip(1) {
                let text = "refrain_members int:error comm:in:handle:comm ranks:in:int[]:number \
                            remote_ranks:in:int[]:number";
                let function = Arc::new(FunctionDef::from_text(text).expect("a definition"));
                let ranks = members.into_iter().map(|rank| Value::Int(rank.into())).collect();
                let none = Value::List(Vec::new());
                let values = [
                    ("comm", job.comm(rank, comm)),
                    ("ranks", Value::List(ranks)),
                    ("remote_ranks", none),
                ];
                let note = event(function, &values, &[]);
                job.ranks[rank].items.push(Item::new(note, Family::Mpich, names()));
            }
        }
        job
    }

    fn comm(&self, rank: usize, comm: usize) -> Value {
        Value::Word(if comm == 0 { WORLD } else { (200 + 10 * rank + comm) as u64 })
    }

    fn call(
        &mut self,
        rank: usize,
        name: &str,
        values: &[(&str, Value)],
        outputs: &[(&str, Value)],
    ) {
        let function = Arc::new(FunctionDef::from(function(name).expect(name)));
        let event = event(function, values, outputs);
        self.ranks[rank].items.push(Item::new(event, Family::Mpich, names()));
    }

    /// The rank of a member in a communicator.
    fn rank_in(rank: usize, comm: usize, other: usize) -> Option<Value> {
        let members = &communicators(rank)[comm];
        let at = members.iter().position(|member| *member == other as i32)?;
        Some(Value::Int(at as i64))
    }

    fn new_handle(&mut self) -> u64 {
        self.handles += 1;
        self.handles
    }

    fn deliver(&mut self, from: usize, to: usize, comm: usize, tag: i64) {
        let message = Message { number: self.messages, comm, from, tag };
        self.messages += 1;
        self.ranks[from].sent.push(message.number);
        let receiver = &mut self.ranks[to];
        match receiver.posted.iter().position(|posted| posted.fits(&message)) {
            Some(at) => {
                let posted = receiver.posted.remove(at);
                receiver.matched.insert(posted.number, message);
            }
            None => receiver.unexpected.push(message),
        }
    }

    fn post(&mut self, rank: usize, comm: usize, source: Option<usize>, tag: Option<i64>) -> usize {
        let receiver = &mut self.ranks[rank];
        let posted = Posted { number: receiver.receives, comm, source, tag };
        receiver.receives += 1;
        match receiver.unexpected.iter().position(|message| posted.fits(message)) {
            Some(at) => {
                let message = receiver.unexpected.remove(at);
                receiver.matched.insert(posted.number, message);
            }
            None => receiver.posted.push(posted),
        }
        posted.number
    }

    fn status(rank: usize, message: &Message) -> Value {
        let layout = refrain_mpi::abi::Layout::of(Family::Mpich);
        let Some(Value::Int(source)) = Job::rank_in(rank, message.comm, message.from) else {
            return Value::Ignored;
        };
        let mut bytes = vec![0; layout.status.bytes];
        let fields = StatusFields {
            source: source as i32,
            tag: message.tag as i32,
            error: 0,
            count_bytes: Some(8),
            cancelled: false,
        };
        layout.status.write(&mut bytes, &fields);
        Value::Status { bytes, ignored: false }
    }

    fn send(&mut self, rank: usize, comm: usize, to: usize, tag: i64, nonblocking: bool) {
        let Some(dest) = Job::rank_in(rank, comm, to) else { return };
        let values = [("dest", dest), ("tag", Value::Int(tag)), ("comm", self.comm(rank, comm))];
        if nonblocking {
            let handle = self.new_handle();
            self.call(rank, "MPI_Isend", &values, &[("request", Value::Word(handle))]);
            let request = Request { handle, receive: None, persistent: None, is_active: true };
            self.ranks[rank].requests.push(request);
        } else {
            self.call(rank, "MPI_Send", &values, &[]);
        }
        self.deliver(rank, to, comm, tag);
    }

    fn envelope(
        &self,
        rank: usize,
        comm: usize,
        source: Option<usize>,
        tag: Option<i64>,
    ) -> Option<[(&'static str, Value); 3]> {
        let layout = refrain_mpi::abi::Layout::of(Family::Mpich);
        let source = match source {
            Some(source) => Job::rank_in(rank, comm, source)?,
            None => Value::Int(layout.any_source.into()),
        };
        let tag = Value::Int(tag.unwrap_or(layout.any_tag.into()));
        Some([("source", source), ("tag", tag), ("comm", self.comm(rank, comm))])
    }

    fn irecv(&mut self, rank: usize, comm: usize, source: Option<usize>, tag: Option<i64>) {
        let Some(values) = self.envelope(rank, comm, source, tag) else { return };
        let handle = self.new_handle();
        self.call(rank, "MPI_Irecv", &values, &[("request", Value::Word(handle))]);
        let receive = Some(self.post(rank, comm, source, tag));
        let request = Request { handle, receive, persistent: None, is_active: true };
        self.ranks[rank].requests.push(request);
    }

    /// A blocking receive or matched probe, if it returns at once.
    fn receive(
        &mut self,
        rank: usize,
        comm: usize,
        source: Option<usize>,
        tag: Option<i64>,
        name: &str,
    ) {
        let Some(values) = self.envelope(rank, comm, source, tag) else { return };
        let posted = Posted { number: 0, comm, source, tag };
        if !self.ranks[rank].unexpected.iter().any(|message| posted.fits(message)) {
            return;
        }
        let number = self.post(rank, comm, source, tag);
        let status = Job::status(rank, &self.ranks[rank].matched[&number].clone());
        self.call(rank, name, &values, &[("status", status), ("flag", Value::Int(1))]);
    }

    fn recv_init(&mut self, rank: usize, comm: usize, source: Option<usize>, tag: Option<i64>) {
        let Some(values) = self.envelope(rank, comm, source, tag) else { return };
        let handle = self.new_handle();
        self.call(rank, "MPI_Recv_init", &values, &[("request", Value::Word(handle))]);
        let persistent = Some(Posted { number: 0, comm, source, tag });
        let request = Request { handle, receive: None, persistent, is_active: false };
        self.ranks[rank].requests.push(request);
    }

    fn start(&mut self, rank: usize) {
        let inactive = self.ranks[rank].requests.iter().position(|request| !request.is_active);
        let Some(at) = inactive else { return };
        let request = self.ranks[rank].requests[at];
        let Some(Posted { comm, source, tag, .. }) = request.persistent else { return };
        self.call(rank, "MPI_Start", &[("request", Value::Word(request.handle))], &[]);
        let receive = Some(self.post(rank, comm, source, tag));
        self.ranks[rank].requests[at] = Request { receive, is_active: true, ..request };
    }

    /// Completes one of the requests that can complete, by a function with an index, or makes a failed poll.
    fn complete(&mut self, rank: usize, which: usize) {
        let own = &self.ranks[rank];
        let is_done = |request: &Request| {
            request.is_active && request.receive.is_none_or(|r| own.matched.contains_key(&r))
        };
        let done: Vec<usize> =
            (0..own.requests.len()).filter(|at| is_done(&own.requests[*at])).collect();
        let handles = own.requests.iter().map(|request| Value::Word(request.handle)).collect();
        let handles = ("array_of_requests", Value::List(handles));
        let Some(&at) = done.get(which % done.len().max(1)) else {
            self.call(rank, "MPI_Testany", &[handles], &[("flag", Value::Int(0))]);
            return;
        };
        let request = own.requests[at];
        let message = request.receive.map(|receive| own.matched[&receive]);
        let status = message.map_or(Value::Ignored, |message| Job::status(rank, &message));
        let index = Value::Int(at as i64);
        match which % 3 {
            0 => {
                let list = |value: Value| Value::List(vec![value]);
                let outputs = [
                    ("outcount", Value::Int(1)),
                    ("array_of_indices", list(index)),
                    ("array_of_statuses", list(status)),
                ];
                self.call(rank, "MPI_Waitsome", &[handles], &outputs);
            }
            1 => {
                self.call(rank, "MPI_Waitany", &[handles], &[("index", index), ("status", status)])
            }
            _ => {
                let handle = ("request", Value::Word(request.handle));
                let outputs = [("flag", Value::Int(1)), ("status", status)];
                self.call(rank, "MPI_Test", &[handle], &outputs);
            }
        }
        let own = &mut self.ranks[rank];
        match request.persistent {
            Some(_) => own.requests[at] = Request { receive: None, is_active: false, ..request },
            None => drop(own.requests.remove(at)),
        }
    }

    /// Cancels an active receive and waits for it. If it has matched a message, that cannot be undone.
    fn cancel(&mut self, rank: usize, which: usize) {
        let own = &self.ranks[rank];
        let is_receive = |at: &usize| own.requests[*at].receive.is_some();
        let receives: Vec<usize> = (0..own.requests.len()).filter(is_receive).collect();
        let Some(&at) = receives.get(which % receives.len().max(1)) else { return };
        let request = own.requests[at];
        let receive = request.receive.expect("a receive");
        let status = match own.matched.get(&receive) {
            Some(message) => Job::status(rank, &message.clone()),
            None => cancelled_status(),
        };
        let handle = ("request", Value::Word(request.handle));
        self.call(rank, "MPI_Cancel", std::slice::from_ref(&handle), &[]);
        self.call(rank, "MPI_Wait", &[handle], &[("status", status)]);
        let own = &mut self.ranks[rank];
        own.posted.retain(|posted| posted.number != receive);
        match request.persistent {
            Some(_) => own.requests[at] = Request { receive: None, is_active: false, ..request },
            None => drop(own.requests.remove(at)),
        }
    }

    fn collective(&mut self, comm: usize, function: &str) {
        self.collectives += 1;
        for rank in 0..RANKS {
            let comm = ("comm", self.comm(rank, comm));
            self.call(rank, function, &[comm, ("root", Value::Int(0))], &[]);
        }
    }

    fn act(&mut self, (rank, what, comm, other, tag): (usize, u8, usize, usize, i64)) {
        let (any, any_tag) = (other % 3 == 0, tag == 0);
        let (source, given) = ((!any).then_some(other), (!any_tag).then_some(tag));
        match what {
            0 | 1 => self.send(rank, comm, other, tag, what == 1),
            2 | 3 => self.irecv(rank, comm, source, given),
            4 => self.receive(rank, comm, source, given, "MPI_Recv"),
            5 => self.receive(rank, comm, source, given, "MPI_Improbe"),
            6 => self.recv_init(rank, comm, source, given),
            7 => self.start(rank),
            8 => self.collective(comm, "MPI_Barrier"),
            9 => self.collective(comm, "MPI_Bcast"),
            10 => self.cancel(rank, other),
            _ => self.complete(rank, other + tag as usize),
        }
    }
}

/// A lane in terms that are the same on all ranks: scope, source, destination, tag.
type Global = (Scope, i32, i32, i64);

proptest! {
    #[test]
    fn joined_steps_have_the_match_of_every_receive(
        actions in prop::collection::vec((0..RANKS, 0u8..15, 0usize..4, 0..RANKS, 0i64..3), 1..200)
    ) {
        let mut job = Job::new();
        actions.into_iter().for_each(|action| job.act(action));
        let mut sent: BTreeMap<Global, Vec<usize>> = BTreeMap::new();
        let mut got: BTreeMap<Global, Vec<(u64, usize, usize)>> = BTreeMap::new();
        let mut entered: BTreeMap<(Scope, u64), usize> = BTreeMap::new();
        let mut left = 0;
        for (rank, own) in job.ranks.iter().enumerate() {
            let mut tracker = Tracker::new(rank as i32, RANKS);
            let (mut sends, mut receives) = (own.sent.iter(), 0);
            let mut by_op = HashMap::new();
            let mut open = 0i64;
            for item in &own.items {
                let steps = tracker.item(item);
                let scopes: Vec<Scope> = tracker.scopes().map(|(scope, _)| scope.clone()).collect();
                let me = rank as i32;
                for step in steps {
                    match step {
                        Step::Posted(Op { what: Operation::Send { lane: (scope, to, tag), .. }, .. }) => {
                            let lane = (scopes[scope].clone(), me, to, tag);
                            sent.entry(lane).or_default().push(*sends.next().expect("a message"));
                            open += 1;
                        }
                        Step::Posted(op) => {
                            by_op.insert(op.id, receives);
                            receives += 1;
                            open += 1;
                        }
                        Step::Matched(op, (scope, from, tag)) => {
                            let lane = (scopes[scope].clone(), from, me, tag);
                            got.entry(lane).or_default().push((op.id, rank, by_op[&op.id]));
                        }
                        Step::Completed(_) => open -= 1,
                        Step::Cancelled(op) => {
                            prop_assert!(!own.matched.contains_key(&by_op[&op.id]));
                            open -= 1;
                        }
                        Step::Unknown(_) | Step::Doubtful(_) => prop_assert!(false, "{step:?}"),
                        Step::Entered(op) => {
                            let Operation::Collective { scope, nth, .. } = op.what else { panic!() };
                            *entered.entry((scopes[scope].clone(), nth)).or_default() += 1;
                        }
                        Step::Left(_) => left += 1,
                    }
                }
            }
            prop_assert_eq!(sends.len(), 0, "every message is a step");
            prop_assert_eq!(receives, own.receives, "every receive is a step");
            let active = own.requests.iter().filter(|request| request.is_active).count();
            prop_assert_eq!(tracker.pending().count(), active, "and every request is followed");
            prop_assert_eq!(open, active as i64);
            // Cancelled receives do not count: those of a lane have the numbers of the messages that they match.
            for (op, ()) in tracker.pending() {
                if let Operation::Receive(receive) = op.what
                    && let Some(lane) = receive.lane()
                {
                    prop_assert!((1..=tracker.counts().named[&lane]).contains(&receive.nth));
                }
            }
        }
        // Every completed receive has the message that the model matched with it.
        for (lane, mut receives) in got {
            receives.sort_unstable();
            let messages = sent.get(&lane).map_or(&[][..], Vec::as_slice);
            for (n, (_, rank, receive)) in receives.into_iter().enumerate() {
                let matched = job.ranks[rank].matched[&receive];
                // Receives that matched but have not completed are missing here; the order is the same.
                let at = messages.iter().position(|number| *number == matched.number);
                prop_assert!(at.is_some_and(|at| at >= n), "{lane:?}: {messages:?}, {n}");
                let is_hole_free = job.ranks[rank].requests.iter().all(|r| !r.is_active);
                prop_assert!(!is_hole_free || at == Some(n), "{lane:?}: {messages:?}, {n}");
            }
        }
        // Members agree on which collective each one was.
        for ((scope, nth), ranks) in &entered {
            prop_assert_eq!(*ranks, scope.members.len(), "{:?} {}", scope, nth);
        }
        prop_assert_eq!(entered.values().sum::<usize>(), RANKS * job.collectives);
        prop_assert_eq!(left, RANKS * job.collectives);
    }
}

#[test]
fn an_open_call_has_its_needs() {
    let mut job = Job::new();
    job.irecv(0, 1, Some(2), Some(7));
    job.irecv(0, 0, None, Some(8));
    let handles: Vec<_> =
        job.ranks[0].requests.iter().map(|request| Value::Word(request.handle)).collect();
    job.call(0, "MPI_Waitall", &[("array_of_requests", Value::List(handles))], &[]);
    let mut items = std::mem::take(&mut job.ranks[0].items);
    let Some(Item::Call(last)) = items.pop() else { panic!("a call") };
    let mut event = last.event().clone();
    (event.result, event.end) = (None, None);
    let Item::Call(wait) = Item::new(event, Family::Mpich, names()) else { panic!("a call") };
    let mut tracker: Tracker<String> = Tracker::new(0, RANKS);
    for item in items {
        match item {
            Item::Note(note) => tracker.note(&note),
            Item::Call(call) => {
                let progress = tracker.call(&call, 1, &|side| format!("{side:?}"));
                assert!(progress.blocked.is_none());
            }
        }
    }
    let blocked = tracker.call(&wait, 1, &|_| String::new()).blocked.expect("it waits");
    let receive = |scope, source, tag, nth| {
        Need::Operation(Operation::Receive(Receive { scope, source, tag: Some(tag), nth }))
    };
    let needs = [receive(3, Some(2), 7, 1), receive(0, None, 8, 0)];
    assert_eq!(blocked.until, Until::All);
    assert_eq!(blocked.needs, needs.map(|need| (need, "Receive".to_owned())));
}
