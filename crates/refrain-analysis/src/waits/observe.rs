//! What a rank has done that others may wait for, and what its calls in flight wait for.

use super::call::{Call, index};
use super::roles::{Completion, Manner, Role, comes_from_root, role};
use super::{Kind, Lane, Need, Receipt, Scope, Standing, Step, Until, Wait};
use crate::objects::CallNames;
use refrain_mpi::abi::{Family, Layout};
use refrain_mpi::names::HandleTable;
use refrain_mpi::status::StatusFields;
use refrain_reader::event::{Event, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// The world, first among a rank's scopes.
const WORLD: usize = 0;
/// All processes as MPI begins and ends.
const RUNTIME: usize = 1;
/// The rank alone.
const SELF: usize = 2;

/// Something that a call begins, or a persistent request stands for.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Send(Lane),
    Receive { scope: usize, source: Option<i32>, tag: Option<i64> },
    Together { scope: usize, root: Option<i32> },
}

/// A request that is not complete.
#[derive(Debug, Default)]
struct Request {
    /// What it does whenever it is started, if it is persistent.
    again: Vec<(Operation, String)>,
    needs: Vec<(Need, String)>,
    /// Somebody has tried to cancel it.
    is_cancelled: bool,
}

/// Takes in the calls of a process.
pub struct Observer {
    layout: &'static Layout,
    names: HandleTable,
    standing: Standing,
    /// For each scope the ranks that its sources and destinations count.
    peers: Vec<Arc<[i32]>>,
    /// Scopes of communicators, windows and files, by kind of handle and handle.
    handles: HashMap<(Arc<str>, u64), usize>,
    made: HashMap<(Kind, Arc<[i32]>), u32>,
    requests: HashMap<u64, Request>,
    kinds: [Arc<str>; 3],
    /// How often the call was made that is taken in.
    times: u64,
    /// Receives begun.
    posted: u64,
    /// What became of messages, if somebody asks.
    steps: Option<Vec<Step>>,
}

const COMM: usize = 0;
const WIN: usize = 1;
const FILE: usize = 2;

impl Observer {
    /// For the process with that rank; `world` are the ranks of `MPI_COMM_WORLD`, `names` the
    /// predefined handles as its calls have them.
    pub fn new(rank: i32, world: &Arc<[i32]>, family: Family, names: HandleTable) -> Observer {
        let mut observer = Observer {
            layout: Layout::of(family),
            names,
            standing: Standing::new(rank),
            peers: Vec::new(),
            handles: HashMap::new(),
            made: HashMap::new(),
            requests: HashMap::new(),
            kinds: ["comm", "win", "file"].map(Arc::from),
            times: 1,
            posted: 0,
            steps: None,
        };
        observer.add_scope(Kind::Communicator, world.clone(), world.clone());
        observer.add_scope(Kind::Runtime, world.clone(), world.clone());
        let alone: Arc<[i32]> = Arc::from([rank]);
        observer.add_scope(Kind::Communicator, alone.clone(), alone);
        observer
    }

    /// The same, for who asks what became of messages, by [`steps`](Observer::steps), and does not
    /// ask for words.
    pub fn of_messages(mut self) -> Observer {
        self.steps = Some(Vec::new());
        self
    }

    /// What the last call has told about messages.
    pub fn steps(&mut self) -> Vec<Step> {
        self.steps.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The scopes that lanes are of.
    pub fn scopes(&self) -> impl Iterator<Item = &Scope> {
        self.standing.scopes.iter().map(|(scope, _)| scope)
    }

    /// Receives that are not over.
    pub fn receives(&self) -> impl Iterator<Item = Receipt> {
        self.requests.values().flat_map(|request| &request.needs).filter_map(|(need, _)| match need
        {
            Need::Receipt(receipt) => Some(*receipt),
            _ => None,
        })
    }

    fn step(&mut self, step: Step) {
        if let Some(steps) = &mut self.steps {
            steps.push(step);
        }
    }

    /// Takes in a call that was made so many times; gives what it waits for if it has not returned.
    pub fn event(
        &mut self,
        thread: u32,
        event: &Event,
        names: &CallNames,
        times: u64,
    ) -> Option<Wait> {
        self.times = times;
        if event.function.name == "refrain_members" {
            self.members(event);
            return None;
        }
        let is_open = event.result.is_none();
        if event.is_failed() {
            return None;
        }
        let role = role(&event.function.name);
        let is_told = is_open || matches!(manner(role), Manner::Requested | Manner::Persistent);
        let is_told = is_told && self.steps.is_none();
        let call = Call { event, names, layout: self.layout, is_told };
        let (needs, until) = match role {
            Role::None if event.function.name == "MPI_Cancel" => {
                self.cancel(&call);
                return None;
            }
            Role::None => return None,
            Role::Start => {
                self.start(&call);
                return None;
            }
            Role::Complete(completion) => return self.complete(thread, &call, completion, is_open),
            Role::Target => (self.target(&call), Until::All),
            Role::Partners => {
                let scope = self.scope(&call).map(|scope| (Need::ActOfAny(scope), call.words("")));
                (scope.into_iter().collect(), Until::All)
            }
            Role::TryToTakeMessage if is_open || call.output_int("flag") != Some(1) => return None,
            Role::Probe => {
                let (scope, source, tag) = self.source(&call, "source", "tag")?;
                // To look does not take: it is served by what the next receive would get.
                let nth = match (source, tag) {
                    (Some(source), Some(tag)) => {
                        let named = &self.standing.named;
                        named.get(&(scope, source, tag)).copied().unwrap_or(0) + 1
                    }
                    _ => 0,
                };
                let receipt = Receipt { scope, source, tag, nth, posted: self.posted };
                (vec![(Need::Receipt(receipt), call.words(""))], Until::All)
            }
            _ => {
                let operations = self.operations(&call, role);
                let manner = manner(role);
                if matches!(manner, Manner::Requested | Manner::Persistent) {
                    self.request(&call, manner, operations, is_open);
                    return None;
                }
                let begun = operations.into_iter().map(|(o, words)| (self.begin(o), words));
                (begun.collect(), Until::All)
            }
        };
        if !is_open {
            let status = call.status("status");
            needs.iter().for_each(|(need, _)| self.settle(need, status, role == Role::Probe));
            self.make(&call);
            return None;
        }
        if matches!(role, Role::Send(Manner::Local)) {
            return None;
        }
        Some(Wait { thread, function: event.function.name.clone(), needs, until })
    }

    /// Whether a call receives whatever comes: then only single calls tell what it was.
    pub fn is_wildcard(&self, event: &Event) -> bool {
        let int = |name: &str| match index(&event.function, name).map(|i| &event.inputs[i]) {
            Some(Some(Value::Int(n))) => Some(*n),
            _ => None,
        };
        let receives = matches!(
            role(&event.function.name),
            Role::Receive(_) | Role::Exchange(_) | Role::TakeMessage | Role::TryToTakeMessage
        );
        let (any_source, any_tag) = (self.layout.any_source, self.layout.any_tag);
        receives
            && (int("source") == Some(any_source.into())
                || int("tag").or_else(|| int("recvtag")) == Some(any_tag.into()))
    }

    /// What is known of the process, which is in these calls.
    pub fn finish(mut self, waits: Vec<Wait>) -> Standing {
        let wildcard = |(need, _): &(Need, String)| match need {
            Need::Receipt(r) if r.source.is_none() || r.tag.is_none() => Some(*r),
            _ => None,
        };
        // What a call waits for may be a request, which counts once.
        let receives = |wait: &&Wait| !matches!(role(&wait.function), Role::Complete(_));
        let of_calls = waits.iter().filter(receives).flat_map(|wait| &wait.needs);
        let of_requests = self.requests.values().flat_map(|request| &request.needs);
        self.standing.open = of_calls.chain(of_requests).filter_map(wildcard).collect();
        self.standing.waits = waits;
        self.standing
    }

    fn add_scope(&mut self, kind: Kind, members: Arc<[i32]>, peers: Arc<[i32]>) -> usize {
        let count = self.made.entry((kind, members.clone())).or_default();
        let scope = Scope { kind, members, nth: *count };
        *count += 1;
        self.standing.scopes.push((scope, 0));
        self.peers.push(peers);
        self.peers.len() - 1
    }

    /// A note: who is in a new communicator.
    fn members(&mut self, event: &Event) {
        let ranks = |name: &str| -> Vec<i32> {
            let value = index(&event.function, name).and_then(|i| event.inputs[i].as_ref());
            let Some(Value::List(all)) = value else { return Vec::new() };
            let rank =
                |v: &Value| if let Value::Int(n) = v { i32::try_from(*n).ok() } else { None };
            all.iter().filter_map(rank).collect()
        };
        let Some(Some(Value::Word(comm))) =
            index(&event.function, "comm").map(|i| &event.inputs[i])
        else {
            return;
        };
        let (local, remote) = (ranks("ranks"), ranks("remote_ranks"));
        let kind = if remote.is_empty() { Kind::Communicator } else { Kind::Intercommunicator };
        let mut members: Vec<i32> = local.iter().chain(&remote).copied().collect();
        members.sort_unstable();
        let peers = if remote.is_empty() { local } else { remote };
        let scope = self.add_scope(kind, members.into(), peers.into());
        self.handles.insert((self.kinds[COMM].clone(), *comm), scope);
    }

    /// Windows and files that a call has made.
    fn make(&mut self, call: &Call<'_>) {
        for (of, kind) in [(WIN, Kind::Window), (FILE, Kind::File)] {
            let Some(handle) = call.made(&self.kinds[of]) else { continue };
            let Some(comm) = self.scope(call) else { continue };
            let members = self.standing.scopes[comm].0.members.clone();
            let scope = self.add_scope(kind, members, self.peers[comm].clone());
            self.handles.insert((self.kinds[of].clone(), handle), scope);
        }
    }

    /// The communicator, window or file that a call is about.
    fn scope(&self, call: &Call<'_>) -> Option<usize> {
        let of = |kind: &Arc<str>| call.handle(kind).map(|handle| (kind.clone(), handle));
        let (kind, handle) = self.kinds.iter().find_map(of)?;
        match self.names.name(&kind, handle) {
            Some("MPI_COMM_WORLD") => Some(WORLD),
            Some("MPI_COMM_SELF") => Some(SELF),
            Some(_) => None,
            None => self.handles.get(&(kind, handle)).copied(),
        }
    }

    /// The rank in `MPI_COMM_WORLD` of a rank of a scope.
    fn peer(&self, scope: usize, rank: i64) -> Option<i32> {
        let peers = self.peers.get(scope)?;
        peers.get(usize::try_from(rank).ok()?).copied().filter(|rank| *rank >= 0)
    }

    /// What a call receives; none from `MPI_PROC_NULL`.
    fn source(
        &self,
        call: &Call<'_>,
        source: &str,
        tag: &str,
    ) -> Option<(usize, Option<i32>, Option<i64>)> {
        let scope = self.scope(call)?;
        let (source, tag) = (call.int(source)?, call.int(tag)?);
        let tag = (tag != i64::from(self.layout.any_tag)).then_some(tag);
        match source == i64::from(self.layout.any_source) {
            true => Some((scope, None, tag)),
            false => Some((scope, Some(self.peer(scope, source)?), tag)),
        }
    }

    /// What a call is about, with words for it.
    fn operations(&self, call: &Call<'_>, role: Role) -> Vec<(Operation, String)> {
        let send = |tag: &str| {
            let scope = self.scope(call)?;
            let lane = (scope, self.peer(scope, call.int("dest")?)?, call.int(tag)?);
            Some((Operation::Send(lane), call.words("dest")))
        };
        let receive = |tag: &str| {
            let (scope, source, tag) = self.source(call, "source", tag)?;
            Some((Operation::Receive { scope, source, tag }, call.words("source")))
        };
        let together = |scope: usize| {
            let is_inter = self.standing.scopes[scope].0.kind == Kind::Intercommunicator;
            let root = call
                .int("root")
                .filter(|_| !is_inter && comes_from_root(&call.event.function.name));
            let root = root.and_then(|root| self.peer(scope, root));
            (Operation::Together { scope, root }, call.words(""))
        };
        match role {
            Role::Send(_) => send("tag").into_iter().collect(),
            Role::Receive(_) | Role::TakeMessage | Role::TryToTakeMessage => {
                receive("tag").into_iter().collect()
            }
            Role::Exchange(_) => send("sendtag").into_iter().chain(receive("recvtag")).collect(),
            Role::Collective(_) => self.scope(call).map(together).into_iter().collect(),
            Role::Runtime => vec![together(RUNTIME)],
            _ => Vec::new(),
        }
    }

    fn target(&self, call: &Call<'_>) -> Vec<(Need, String)> {
        let target = self.scope(call).and_then(|scope| self.peer(scope, call.int("rank")?));
        target.map(|rank| (Need::Act(rank), call.words("rank"))).into_iter().collect()
    }

    /// Counts something that begins; gives what it needs.
    fn begin(&mut self, operation: Operation) -> Need {
        let times = self.times;
        let counted = |lanes: &mut HashMap<Lane, u64>, lane: Lane| {
            let count = lanes.entry(lane).or_default();
            *count += times;
            *count
        };
        match operation {
            Operation::Send(lane) => {
                self.step(Step::Sent(lane));
                Need::Sent { lane, nth: counted(&mut self.standing.sent, lane) }
            }
            Operation::Receive { scope, source, tag } => {
                let nth = match (source, tag) {
                    (Some(source), Some(tag)) => {
                        counted(&mut self.standing.named, (scope, source, tag))
                    }
                    _ => 0,
                };
                let posted = self.posted;
                self.posted += times;
                Need::Receipt(Receipt { scope, source, tag, nth, posted })
            }
            Operation::Together { scope, root } => {
                let count = &mut self.standing.scopes[scope].1;
                *count += times;
                let root = root.filter(|root| *root != self.standing.rank);
                Need::Together { scope, nth: *count, root }
            }
        }
    }

    /// A need is met. Which message a wildcard got, its status tells.
    fn settle(&mut self, need: &Need, status: Option<StatusFields>, is_look: bool) {
        if let Need::Receipt(receipt) = need
            && !is_look
        {
            let got = self.lane_of(receipt, status);
            self.step(got.map_or(Step::Lost(*receipt), |lane| Step::Got(lane, *receipt)));
        }
        if let Need::Receipt(receipt) = need
            && (receipt.source.is_none() || receipt.tag.is_none())
            && let Some(status) = status.filter(|_| !is_look)
            && let Some(source) = self.peer(receipt.scope, status.source.into())
        {
            let lane = (receipt.scope, source, status.tag.into());
            *self.standing.matched.entry(lane).or_default() += 1;
        }
    }

    /// The lane of what a receive got.
    fn lane_of(&self, receipt: &Receipt, status: Option<StatusFields>) -> Option<Lane> {
        if let (Some(source), Some(tag)) = (receipt.source, receipt.tag) {
            return Some((receipt.scope, source, tag));
        }
        let status = status?;
        Some((receipt.scope, self.peer(receipt.scope, status.source.into())?, status.tag.into()))
    }

    /// Somebody tries to cancel a request.
    fn cancel(&mut self, call: &Call<'_>) {
        for handle in call.requests() {
            if let Some(request) = self.requests.get_mut(&handle) {
                request.is_cancelled = true;
            }
        }
    }

    /// A request is over that somebody has tried to cancel.
    fn settle_cancelled(&mut self, need: &Need, status: Option<StatusFields>) {
        match (need, status) {
            (Need::Sent { lane, .. }, _) => self.step(Step::Unsure(*lane)),
            (Need::Receipt(_), Some(status)) if status.cancelled => {}
            (Need::Receipt(receipt), None) => self.step(Step::Lost(*receipt)),
            _ => self.settle(need, status, false),
        }
    }

    /// A request takes the name of another that nobody has seen completed.
    fn forget(&mut self, request: &Request) {
        for (need, _) in &request.needs {
            if let Need::Receipt(receipt) = need {
                self.step(Step::Lost(*receipt));
            }
        }
    }

    fn request(
        &mut self,
        call: &Call<'_>,
        manner: Manner,
        operations: Vec<(Operation, String)>,
        is_open: bool,
    ) {
        let mut request = Request::default();
        if manner == Manner::Persistent {
            // To make a persistent collective is one itself.
            if let Some((operation @ Operation::Together { .. }, _)) = operations.first() {
                self.begin(*operation);
            }
            // Partitioned messages are matched by their making, not by their starts.
            if call.event.function.name == "MPI_Psend_init" {
                let lanes = operations.iter().filter_map(|(o, _)| match o {
                    Operation::Send(lane) => Some(Step::Unsure(*lane)),
                    _ => None,
                });
                lanes.for_each(|step| self.step(step));
            }
            request.again = operations;
        } else {
            let begun = operations.into_iter().map(|(o, words)| (self.begin(o), words));
            request.needs = begun.collect();
        }
        let made = call.made("request").filter(|_| !is_open);
        if let Some(handle) = made
            && let Some(old) = self.requests.insert(handle, request)
        {
            self.forget(&old);
        }
    }

    fn start(&mut self, call: &Call<'_>) {
        for handle in call.requests() {
            let Some(mut request) = self.requests.remove(&handle) else { continue };
            self.forget(&request);
            let begun = request.again.iter().map(|(o, words)| (self.begin(*o), words.clone()));
            request.needs = begun.collect();
            self.requests.insert(handle, request);
        }
    }

    /// Requests are completed, or waited for.
    fn complete(
        &mut self,
        thread: u32,
        call: &Call<'_>,
        completion: Completion,
        is_open: bool,
    ) -> Option<Wait> {
        let handles = call.requests();
        if is_open {
            if completion == Completion::Test {
                return None;
            }
            let function = call.event.function.name.clone();
            let of = |handle: &u64| self.requests.get(handle);
            let needs = handles.iter().filter_map(of).flat_map(|request| &request.needs);
            let needs = needs.map(|(n, w)| (n.clone(), format!("{function}: {w}"))).collect();
            let until = if completion == Completion::All { Until::All } else { Until::Any };
            return Some(Wait { thread, function, needs, until });
        }
        for (place, status) in call.completed(handles.len()) {
            let Some(handle) = handles.get(place) else { continue };
            let Some(mut request) = self.requests.remove(handle) else { continue };
            let is_cancelled = std::mem::take(&mut request.is_cancelled);
            for (need, _) in std::mem::take(&mut request.needs) {
                match is_cancelled {
                    true => self.settle_cancelled(&need, status),
                    false => self.settle(&need, status, false),
                }
            }
            if !request.again.is_empty() {
                self.requests.insert(*handle, request);
            }
        }
        None
    }
}

fn manner(role: Role) -> Manner {
    match role {
        Role::Send(m) | Role::Receive(m) | Role::Exchange(m) | Role::Collective(m) => m,
        _ => Manner::Blocking,
    }
}
