//! Follows the operations of one process.

use super::action::{comes_from_root, is_persistent, makes_request};
use super::scopes::{RUNTIME, Scopes};
use super::{
    Action, Blocked, Counts, Kind, Lane, Lanes, Need, Op, Operation, Progress, Receive, Scope,
    Side, Step, Until,
};
use refrain_bytes::table::Map;
use refrain_mpi::interface::Function;
use refrain_mpi::semantics::{self, Argument, Choice, Form, Mode};
use refrain_mpi::status::StatusFields;
use refrain_reader::{Call, Item, Note};

/// An operation that a call begins, or that a persistent request will begin.
#[derive(Clone, Copy, Debug)]
enum Begin {
    Send(Lane),
    /// A partitioned send: its message is matched when the request is created, not when it is started.
    PartitionedSend(Lane),
    Receive {
        scope: usize,
        source: Option<i32>,
        tag: Option<i64>,
    },
    Collective {
        scope: usize,
        root: Option<i32>,
    },
}

/// A request that is not complete.
#[derive(Debug)]
struct Request<L> {
    /// The operations that each start begins, if the request is persistent.
    again: Vec<(Begin, L)>,
    pending: Vec<(Op, L)>,
    /// The program has tried to cancel it.
    is_cancelled: bool,
}

/// Follows the operations of one process; see [`super`]. `L` is a label that an analysis attaches to an operation until
/// it completes: a description, a call site, or nothing.
#[derive(Debug)]
pub struct Tracker<L = ()> {
    rank: i32,
    scopes: Scopes,
    counts: Counts,
    requests: Map<u64, Request<L>>,
    /// The number of operations that have begun.
    begun: u64,
    /// How often the current call was made in a row.
    times: u64,
    steps: Vec<Step>,
}

impl Tracker<()> {
    /// Adds an item and returns its steps.
    pub fn item(&mut self, item: &Item) -> Vec<Step> {
        match item {
            Item::Call(call) => self.call(call, 1, &|_| ()).steps,
            Item::Note(note) => {
                self.note(note);
                Vec::new()
            }
        }
    }
}

impl<L: Clone> Tracker<L> {
    /// A tracker for the process with that rank in an `MPI_COMM_WORLD` of `ranks` ranks.
    pub fn new(rank: i32, ranks: usize) -> Tracker<L> {
        Tracker {
            rank,
            scopes: Scopes::new(rank, ranks),
            counts: Counts::default(),
            requests: Map::default(),
            begun: 0,
            times: 1,
            steps: Vec::new(),
        }
    }

    /// The scopes of lanes and collectives, with the number of collectives that have begun on each.
    pub fn scopes(&self) -> impl Iterator<Item = (&Scope, u64)> {
        self.scopes.iter()
    }

    /// Counts of the operations so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The operations of incomplete requests.
    pub fn pending(&self) -> impl Iterator<Item = (&Op, &L)> {
        let pending = self.requests.values().flat_map(|request| &request.pending);
        pending.map(|(op, label)| (op, label))
    }

    /// Adds a note.
    pub fn note(&mut self, note: &Note) {
        if let Some(members) = note.members() {
            self.scopes.add_communicator(members);
        }
    }

    /// Adds a call that was made `times` times in a row. `label` is called for operations that are not complete when
    /// their call returns.
    pub fn call(&mut self, call: &Call, times: u64, label: &dyn Fn(Side) -> L) -> Progress<L> {
        self.times = times;
        let blocked = match call.mpi() {
            Some(function) if call.error().is_none() => {
                let blocked = self.observe(call, function, label);
                if call.returned() {
                    self.scopes.observe(call, function, times);
                }
                blocked
            }
            _ => None,
        };
        Progress { steps: std::mem::take(&mut self.steps), blocked }
    }

    fn observe(
        &mut self,
        call: &Call,
        function: &Function,
        label: &dyn Fn(Side) -> L,
    ) -> Option<Blocked<L>> {
        let (action, is_open) = (Action::of(function), !call.returned());
        match action {
            Action::None => {}
            Action::Cancel => self.cancel(call),
            Action::Start => self.start(call),
            Action::Complete if is_open => return self.waits_for_requests(call, function),
            Action::Complete => self.complete(call),
            Action::Target => {
                let target = self.scopes.of(call).and_then(|scope| {
                    self.scopes.peer(scope, call.arguments().int(Argument::Target)?)
                });
                let need = target.map(|rank| (Need::Rank(rank), Side::Target));
                return blocked(is_open, need, label);
            }
            Action::AnyMember => {
                let need = self.scopes.of(call).map(|scope| (Need::AnyMember(scope), Side::Whole));
                return blocked(is_open, need, label);
            }
            Action::Probe => {
                let probed = self.probed(call).map(Operation::Receive).map(Need::Operation);
                return blocked(is_open, probed.map(|need| (need, Side::Whole)), label);
            }
            Action::MatchedProbe if function.form() == Form::Nonblocking => {
                // A probe that failed or has not returned has matched nothing.
                if !is_open && call.arguments().output_int(Argument::Flag) == Some(1) {
                    self.blocking(call, function, action, label);
                }
            }
            _ if makes_request(function) => self.request(call, function, action, label),
            _ => return self.blocking(call, function, action, label),
        }
        None
    }

    /// A call that returns when its operations are complete.
    fn blocking(
        &mut self,
        call: &Call,
        function: &Function,
        action: Action,
        label: &dyn Fn(Side) -> L,
    ) -> Option<Blocked<L>> {
        let begins = self.begins(call, function, action);
        let begun: Vec<(Op, Side)> =
            begins.into_iter().map(|(begin, side)| (self.begin(begin), side)).collect();
        if call.returned() {
            let status = call.arguments().status(0);
            begun.iter().for_each(|(op, _)| self.finish(*op, status));
            return None;
        }
        if matches!(function.op(), semantics::Op::Send(Mode::Buffered)) {
            return None;
        }
        let need = |(op, side): (Op, Side)| (Need::Operation(op.what), label(side));
        Some(Blocked { needs: begun.into_iter().map(need).collect(), until: Until::All })
    }

    /// Scope, source and tag that a call receives from; `None` for `MPI_PROC_NULL`.
    fn source(&self, call: &Call) -> Option<(usize, Option<i32>, Option<i64>)> {
        let (scope, arguments, layout) = (self.scopes.of(call)?, call.arguments(), call.layout());
        let (source, tag) = (arguments.int(Argument::Source)?, arguments.int(Argument::Tag)?);
        let tag = (tag != i64::from(layout.any_tag)).then_some(tag);
        match source == i64::from(layout.any_source) {
            true => Some((scope, None, tag)),
            false => Some((scope, Some(self.scopes.peer(scope, source)?), tag)),
        }
    }

    /// The receive that would match the message that a probe waits for.
    fn probed(&self, call: &Call) -> Option<Receive> {
        let (scope, source, tag) = self.source(call)?;
        let nth = match (source, tag) {
            (Some(source), Some(tag)) => {
                self.counts.named.get(&(scope, source, tag)).copied().unwrap_or(0) + 1
            }
            _ => 0,
        };
        Some(Receive { scope, source, tag, nth })
    }

    /// The operations that a call begins.
    fn begins(&self, call: &Call, function: &Function, action: Action) -> Vec<(Begin, Side)> {
        let send = || {
            let (scope, arguments) = (self.scopes.of(call)?, call.arguments());
            let dest = self.scopes.peer(scope, arguments.int(Argument::Dest)?)?;
            let lane = (scope, dest, arguments.int(Argument::SendTag)?);
            let begin = match function.form() == Form::Partitioned {
                true => Begin::PartitionedSend(lane),
                false => Begin::Send(lane),
            };
            Some((begin, Side::Send))
        };
        let receive = || {
            let (scope, source, tag) = self.source(call)?;
            Some((Begin::Receive { scope, source, tag }, Side::Receive))
        };
        let collective = |scope: usize| {
            let is_inter = self.scopes.get(scope).map(|s| s.kind) == Some(Kind::Intercommunicator);
            let root = call.arguments().int(Argument::Root);
            let root = root.filter(|_| !is_inter && comes_from_root(function));
            let root = root.and_then(|root| self.scopes.peer(scope, root));
            (Begin::Collective { scope, root }, Side::Whole)
        };
        match action {
            Action::Send => send().into_iter().collect(),
            Action::Receive | Action::MatchedProbe => receive().into_iter().collect(),
            Action::SendReceive => send().into_iter().chain(receive()).collect(),
            Action::Collective => self.scopes.of(call).map(collective).into_iter().collect(),
            Action::Runtime => vec![collective(RUNTIME)],
            _ => Vec::new(),
        }
    }

    /// Counts an operation that begins.
    fn begin(&mut self, begin: Begin) -> Op {
        let times = self.times;
        let counted = |lanes: &mut Lanes, lane: Lane| {
            let count = lanes.entry(lane).or_default();
            *count += times;
            *count
        };
        let what = match begin {
            Begin::Send(lane) | Begin::PartitionedSend(lane) => {
                Operation::Send { lane, nth: counted(&mut self.counts.sent, lane) }
            }
            Begin::Receive { scope, source, tag } => {
                let mut receive = Receive { scope, source, tag, nth: 0 };
                if let Some(lane) = receive.lane() {
                    receive.nth = counted(&mut self.counts.named, lane);
                }
                Operation::Receive(receive)
            }
            Begin::Collective { scope, root } => {
                let nth = self.scopes.count_collectives(scope, times);
                let root = root.filter(|root| *root != self.rank);
                Operation::Collective { scope, nth, root }
            }
        };
        let op = Op { id: self.begun, what };
        self.begun += times;
        self.steps.push(match what {
            Operation::Collective { .. } => Step::Entered(op),
            _ => Step::Posted(op),
        });
        if let Begin::PartitionedSend(_) = begin {
            self.steps.push(Step::Unknown(op));
        }
        op
    }

    /// Completes an operation. The status has the match of a receive with a wildcard.
    fn finish(&mut self, op: Op, status: Option<StatusFields>) {
        match op.what {
            Operation::Collective { .. } => self.steps.push(Step::Left(op)),
            Operation::Send { .. } => self.steps.push(Step::Completed(op)),
            Operation::Receive(receive) => match (receive.lane(), self.lane_in(receive, status)) {
                (Some(lane), _) => {
                    self.steps.extend([Step::Matched(op, lane), Step::Completed(op)])
                }
                (None, Some(lane)) => {
                    *self.counts.matched.entry(lane).or_default() += 1;
                    self.steps.extend([Step::Matched(op, lane), Step::Completed(op)]);
                }
                (None, None) => self.steps.push(Step::Unknown(op)),
            },
        }
    }

    /// The lane of the message that a receive with a wildcard matched; none if its status says something else than the
    /// receive asked for: some libraries leave statuses as they were.
    fn lane_in(&self, receive: Receive, status: Option<StatusFields>) -> Option<Lane> {
        let status = status?;
        let source = self.scopes.peer(receive.scope, status.source.into())?;
        let tag = i64::from(status.tag);
        let fits = receive.source.is_none_or(|asked| asked == source)
            && receive.tag.is_none_or(|asked| asked == tag);
        fits.then_some((receive.scope, source, tag))
    }

    fn cancel(&mut self, call: &Call) {
        for handle in call.arguments().requests() {
            if let Some(request) = self.requests.get_mut(&handle) {
                request.is_cancelled = true;
            }
        }
    }

    /// Completes an operation that the program has tried to cancel.
    fn finish_cancelled(&mut self, op: Op, status: Option<StatusFields>) {
        match (op.what, status) {
            (Operation::Send { .. }, _) => self.steps.push(Step::Unknown(op)),
            (Operation::Receive(receive), Some(status)) if status.cancelled => {
                self.withdraw(receive);
                self.steps.push(Step::Cancelled(op));
            }
            (Operation::Receive(receive), None) => self.steps.push(match receive.lane() {
                Some(_) => Step::Doubtful(op),
                None => Step::Unknown(op),
            }),
            _ => self.finish(op, status),
        }
    }

    /// Counts a receive no more: it was cancelled. Those that were posted after it match one message earlier.
    fn withdraw(&mut self, cancelled: Receive) {
        let Some(lane) = cancelled.lane() else { return };
        if let Some(count) = self.counts.named.get_mut(&lane) {
            *count = count.saturating_sub(1);
        }
        let pending = self.requests.values_mut().flat_map(|request| &mut request.pending);
        for (op, _) in pending {
            if let Operation::Receive(later) = &mut op.what
                && later.lane() == Some(lane)
                && later.nth > cancelled.nth
            {
                later.nth -= 1;
            }
        }
    }

    /// Marks operations whose completion will not be recorded.
    fn abandon(&mut self, pending: &[(Op, L)]) {
        for (op, _) in pending {
            if let Operation::Receive(_) = op.what {
                self.steps.push(Step::Unknown(*op));
            }
        }
    }

    /// A call that returns a request for its operations.
    fn request(
        &mut self,
        call: &Call,
        function: &Function,
        action: Action,
        label: &dyn Fn(Side) -> L,
    ) {
        let begins = self.begins(call, function, action);
        let mut request = Request { again: Vec::new(), pending: Vec::new(), is_cancelled: false };
        if is_persistent(function) {
            // Creating the request of a persistent collective is itself collective.
            if let Some((begin @ Begin::Collective { .. }, _)) = begins.first() {
                let op = self.begin(*begin);
                if call.returned() {
                    self.finish(op, None);
                }
            }
            request.again = begins.into_iter().map(|(begin, side)| (begin, label(side))).collect();
        } else {
            let begun = begins.into_iter().map(|(begin, side)| (self.begin(begin), label(side)));
            request.pending = begun.collect();
        }
        // A call that has not returned has not returned its request either.
        if !call.returned() {
            return;
        }
        if let Some(handle) = call.arguments().output_handle(Argument::Request)
            && let Some(old) = self.requests.insert(handle, request)
        {
            self.abandon(&old.pending);
        }
    }

    fn start(&mut self, call: &Call) {
        for handle in call.arguments().requests() {
            let Some(mut request) = self.requests.remove(&handle) else { continue };
            self.abandon(&request.pending);
            let begun = request.again.iter().map(|(b, label)| (self.begin(*b), label.clone()));
            request.pending = begun.collect();
            self.requests.insert(handle, request);
        }
    }

    /// The requests that a call waits for.
    fn waits_for_requests(&self, call: &Call, function: &Function) -> Option<Blocked<L>> {
        if function.is_local() {
            return None;
        }
        let handles = call.arguments().requests();
        let pending = handles.iter().filter_map(|handle| self.requests.get(handle));
        let pending = pending.flat_map(|request| &request.pending);
        let needs = pending.map(|(op, label)| (Need::Operation(op.what), label.clone())).collect();
        let until = match function.op() {
            semantics::Op::Complete(Choice::Any | Choice::Some) => Until::Any,
            _ => Until::All,
        };
        Some(Blocked { needs, until })
    }

    /// Completes requests.
    fn complete(&mut self, call: &Call) {
        let arguments = call.arguments();
        let handles = arguments.requests();
        for (index, status) in arguments.completed() {
            let Some(handle) = handles.get(index) else { continue };
            let Some(mut request) = self.requests.remove(handle) else { continue };
            let is_cancelled = std::mem::take(&mut request.is_cancelled);
            for (op, _) in std::mem::take(&mut request.pending) {
                match is_cancelled {
                    true => self.finish_cancelled(op, status),
                    false => self.finish(op, status),
                }
            }
            if !request.again.is_empty() {
                self.requests.insert(*handle, request);
            }
        }
    }
}

/// An open call with at most one need.
fn blocked<L>(
    is_open: bool,
    need: Option<(Need, Side)>,
    label: &dyn Fn(Side) -> L,
) -> Option<Blocked<L>> {
    let needs = need.into_iter().map(|(need, side)| (need, label(side)));
    is_open.then(|| Blocked { needs: needs.collect(), until: Until::All })
}
