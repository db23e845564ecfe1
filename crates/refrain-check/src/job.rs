//! Runs the processes of a trace against each other.
//!
//! Each process goes from call to call. A call that returned in the recorded run is passed once what it waits for has
//! happened: the receive of a message that it sends is posted, the message of a receive was sent, all members are in the
//! collective. That is stricter than MPI, which may buffer. Where no process can go on, the program relied on buffering:
//! that is reported once for each set of call sites, and the sends that wait are taken as buffered.

use crate::clock::Clock;
use crate::collectives::{self, Entry};
use crate::finding::{Class, Finding, Findings, Place};
use crate::messages::{Lane, Messages, Sent};
use crate::process::{Begun, End, Part, Process, Turn, Unordered, thread_level};
use crate::races::races;
use crate::repeat::{self, Repetition, Skip, Snapshot, TaskItems};
use crate::rma::Windows;
use crate::stuck::{self, Waiting};
use refrain_analysis::matching::{Need, Operation, Receive, Scope, Until};
use refrain_analysis::waits::{Life, RankWaitState};
use refrain_mpi::names::constant_name;
use refrain_mpi::semantics::{self, Collective, Mode, Pattern, Root};
use refrain_reader::{CallTrace, Ended, Item, Source, TraceError, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// How to check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Assume that MPI buffers standard sends: programs may rely on it.
    pub assume_buffering: bool,
}

/// Finds the errors in a trace.
pub fn check(trace: &CallTrace, options: Options) -> Result<Vec<Finding>, TraceError> {
    let mut findings = Findings::default();
    let processes: Vec<_> = trace.processes().collect();
    let ranks: BTreeSet<i32> = processes.iter().map(|process| process.rank()).collect();
    let is_one_job = ranks.len() == processes.len()
        && ranks.iter().copied().eq(0..processes.len() as i32)
        && processes.len() == trace.run().ranks();
    let has_stopped =
        |process: &refrain_reader::ProcessRef<'_>| matches!(process.ended(), Ended::LogStopped(_));
    let is_complete = trace.meta().left_out().is_empty()
        && trace.meta().lost.is_empty()
        && !processes.iter().any(has_stopped);
    let mut threads = 0;
    for process in &processes {
        let calls = first_calls(process)?;
        threads = threads.max(calls.0.len());
        thread_level(&calls.0, calls.1, &mut findings);
    }
    let has_connects = trace.functions()?.values().any(|function| {
        let mpi = refrain_mpi::interface::function(&function.name);
        mpi.is_some_and(|function| function.op() == semantics::Op::Connect)
    });
    let is_single = processes.iter().all(|process| process.tasks().len() == 1);
    let together = is_one_job && is_complete && is_single && !has_connects;
    match together {
        true => {
            let mut job = Job::new(options, trace.run().ranks());
            for process in &processes {
                for task in process.tasks() {
                    let items = TaskItems::new(task.items(Source::Untimed)?, task.thread());
                    job.add(process.rank(), process.ended(), Box::new(items));
                }
            }
            job.run(&mut findings)?;
        }
        false => {
            for process in &processes {
                let mut alone = Process::new(process.rank(), trace.run().ranks(), threads > 1);
                for next in process.items(Source::Compressed)? {
                    let (task, item) = next?;
                    alone.item(task.thread(), &item, &mut findings);
                }
                alone.finish(&mut findings);
            }
        }
    }
    let mut found = findings.into_sorted();
    if !is_complete {
        // What follows from calls that are missing is not known.
        found.retain(|finding| {
            matches!(finding.class, Class::InvalidArgument | Class::ThreadLevel | Class::RmaRange)
        });
    }
    Ok(found)
}

/// The first call of each thread of a process that needs MPI, and the thread level that MPI provides.
type FirstCalls = (Vec<(u32, Place)>, Option<&'static str>);

fn first_calls(process: &refrain_reader::ProcessRef<'_>) -> Result<FirstCalls, TraceError> {
    let (mut calls, mut provided) = (Vec::new(), None);
    for task in process.tasks() {
        for call in task.calls()? {
            let call = call?;
            let Some(function) = call.mpi() else { continue };
            if function.op() == semantics::Op::Begin {
                let level = match call.arg("provided") {
                    Some(Value::Int(level)) => {
                        constant_name(call.layout().family, "thread", *level)
                    }
                    _ => Some("MPI_THREAD_SINGLE"),
                };
                provided = level.filter(|_| call.returned());
            }
            // Any thread may ask these at any time.
            let is_free = matches!(
                function.name.as_str(),
                "MPI_Initialized"
                    | "MPI_Finalized"
                    | "MPI_Get_version"
                    | "MPI_Get_library_version"
                    | "MPI_Query_thread"
                    | "MPI_Is_thread_main"
                    | "MPI_Wtime"
                    | "MPI_Wtick"
            ) || matches!(function.op(), semantics::Op::Tool | semantics::Op::Clock);
            if !is_free {
                calls.push((task.thread(), Place::of(process.rank(), task.thread(), &call)));
                break;
            }
        }
    }
    Ok((calls, provided))
}

/// The items of a process.
pub type Items<'t> = Box<dyn repeat::Source + 't>;

/// A process and where it is.
struct Rank<'t> {
    rank: i32,
    process: Process,
    items: Items<'t>,
    ended: Ended,
    /// The call that it is in, if it cannot pass it yet.
    turn: Option<Turn>,
    /// Whether its sends, or all that it waits for, count as done.
    released: Released,
    /// The call that never returned.
    open: Option<Turn>,
    is_over: bool,
    /// Identities of its scopes, by index, and the other way round.
    scopes: Vec<(u64, Scope)>,
    by_identity: HashMap<u64, usize>,
    entered: Vec<u64>,
    clock: Clock,
    calls: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Released {
    Nothing,
    Sends,
    Collectives,
    All,
}

/// A collective that not all members have left.
#[derive(Default)]
struct Gathering {
    entries: Vec<Arc<Entry>>,
    all: Option<Clock>,
    root: Option<Clock>,
    left: usize,
}

/// So many parts of one collective are compared with each new one.
const COMPARED: usize = 64;

/// Jobs of more ranks have no vector clocks: races and conflicting accesses are not looked for.
const CLOCKED: usize = 128;

/// The processes.
pub struct Job<'t> {
    options: Options,
    /// How many ranks it has.
    size: usize,
    ranks: Vec<Rank<'t>>,
    messages: Messages,
    windows: Windows,
    gatherings: HashMap<(u64, u64), Gathering>,
    /// Scopes whose members have called different collectives.
    diverged: HashSet<u64>,
    has_clocks: bool,
    /// Whether a call was passed although what it waits for has not happened.
    is_doubtful: bool,
    reported: HashSet<Vec<Option<Arc<str>>>>,
    turns: u64,
    repetition: Repetition,
}

impl<'t> Job<'t> {
    /// A job of that many ranks.
    pub fn new(options: Options, ranks: usize) -> Job<'t> {
        Job {
            options,
            size: ranks,
            ranks: Vec::new(),
            messages: Messages::default(),
            windows: Windows::default(),
            gatherings: HashMap::new(),
            diverged: HashSet::new(),
            has_clocks: ranks <= CLOCKED,
            is_doubtful: false,
            reported: HashSet::new(),
            turns: 0,
            repetition: Repetition::default(),
        }
    }

    /// Adds the process of the next rank.
    pub fn add(&mut self, rank: i32, ended: Ended, items: Items<'t>) {
        let ranks = self.size;
        self.ranks.push(Rank {
            rank,
            process: Process::new(rank, ranks, false),
            items,
            ended,
            turn: None,
            released: Released::Nothing,
            open: None,
            is_over: false,
            scopes: Vec::new(),
            by_identity: HashMap::new(),
            entered: Vec::new(),
            clock: Clock::new(if self.has_clocks { ranks } else { 0 }),
            calls: 0,
        });
    }

    /// Runs all processes to their ends.
    pub fn run(&mut self, findings: &mut Findings) -> Result<(), TraceError> {
        let mut queue: VecDeque<usize> = (0..self.ranks.len()).collect();
        let mut waiters: Vec<Vec<usize>> = vec![Vec::new(); self.ranks.len()];
        loop {
            while let Some(at) = queue.pop_front() {
                if self.advance(at, findings)? {
                    queue.extend(waiters[at].drain(..));
                }
                if let Some(on) = self.missing(at)
                    && let Some(waiters) = waiters.get_mut(on)
                    && !waiters.contains(&at)
                {
                    waiters.push(at);
                }
            }
            let blocked: Vec<usize> =
                (0..self.ranks.len()).filter(|at| self.ranks[*at].turn.is_some()).collect();
            if blocked.is_empty() {
                break;
            }
            self.release(&blocked, findings);
            waiters.iter_mut().for_each(Vec::clear);
            queue.extend(blocked);
        }
        self.finish(findings);
        Ok(())
    }

    /// Runs a process until it waits or ends. Returns whether it has done anything.
    fn advance(&mut self, at: usize, findings: &mut Findings) -> Result<bool, TraceError> {
        let mut has_moved = false;
        loop {
            if let Some(turn) = self.ranks[at].turn.take() {
                if !self.is_ready(at, &turn) {
                    self.ranks[at].turn = Some(turn);
                    return Ok(has_moved);
                }
                self.pass(at, turn);
                self.ranks[at].released = Released::Nothing;
                has_moved = true;
            }
            if at == 0 && self.repetition.is_due(self.turns) {
                self.skip_iterations(findings);
            }
            let rank = &mut self.ranks[at];
            if rank.is_over {
                return Ok(has_moved);
            }
            let Some(next) = rank.items.next() else {
                rank.is_over = true;
                rank.process.finish(findings);
                return Ok(true);
            };
            let (thread, item) = next?;
            let is_open = matches!(&item, Item::Call(call) if !call.returned());
            rank.calls += u64::from(matches!(item, Item::Call(_)));
            let turn = rank.process.item(thread, &item, findings);
            self.is_doubtful |= rank.process.has_errors;
            let Some(turn) = turn else {
                // A note may have the members of a new communicator.
                if matches!(item, Item::Note(_)) {
                    self.update_scopes(at);
                }
                continue;
            };
            has_moved = true;
            self.arrive(at, &turn, findings);
            let rank = &mut self.ranks[at];
            match is_open {
                // Calls that callbacks make inside of it may follow.
                true => rank.open = Some(turn),
                false => {
                    if matches!(&item, Item::Call(call) if call.depth() == 0) {
                        rank.open = None;
                    }
                    rank.turn = Some(turn);
                }
            }
            self.turns += 1;
            if self.has_clocks && self.turns.is_multiple_of(4096) {
                let clocks: Vec<Clock> = self.ranks.iter().map(|rank| rank.clock.clone()).collect();
                self.windows.forget(&clocks);
            }
        }
    }

    /// Leaves out iterations in which nothing new happens.
    fn skip_iterations(&mut self, findings: &Findings) {
        let first = self.ranks.first().and_then(|rank| rank.items.loops());
        if !self.repetition.wants(self.turns, first.as_ref()) {
            return;
        }
        let now = self.snapshot(findings);
        let Some(skips) = self.repetition.compare(self.turns, now) else { return };
        if !self.leave_out(&skips) {
            self.repetition.give_up(self.turns);
            return;
        }
        // The loop around that loop may repeat, too.
        let now = self.snapshot(findings);
        if let Some(skips) = self.repetition.compare_outer(now) {
            self.leave_out(&skips);
        }
    }

    fn snapshot(&self, findings: &Findings) -> Snapshot {
        Snapshot {
            loops: self.ranks.iter().map(|rank| rank.items.loops()).collect(),
            calls: self.ranks.iter().map(|rank| rank.calls).collect(),
            pending: self.pending(findings),
        }
    }

    /// Leaves out iterations, unless calls in one of the loops have outcomes that vary.
    fn leave_out(&mut self, skips: &[Skip]) -> bool {
        let mut can = |skip: &Skip, n, calls| {
            let rank = self.ranks.get_mut(skip.rank);
            rank.is_some_and(|rank| rank.items.skip_iterations(skip.level, n, calls))
        };
        if !skips.iter().all(|skip| can(skip, 0, 0)) {
            return false;
        }
        for skip in skips {
            can(skip, skip.iterations, skip.calls);
        }
        for skip in skips {
            if let Some(rank) = self.ranks.get_mut(skip.rank) {
                rank.calls += skip.calls;
            }
        }
        true
    }

    /// A hash of everything that is pending, without what grows on all processes alike.
    fn pending(&self, findings: &Findings) -> u64 {
        let mut hasher = DefaultHasher::new();
        (findings.len(), self.is_doubtful, self.gatherings.len(), self.windows.len())
            .hash(&mut hasher);
        self.messages.pending().hash(&mut hasher);
        let left: usize = self.gatherings.values().map(|one| one.left + one.entries.len()).sum();
        left.hash(&mut hasher);
        for (at, rank) in self.ranks.iter().enumerate() {
            rank.process.pending().hash(&mut hasher);
            (rank.turn.is_some(), rank.released as u8, rank.open.is_some(), rank.is_over)
                .hash(&mut hasher);
            for (scope, (identity, of)) in rank.scopes.iter().enumerate() {
                let first =
                    of.members.first().and_then(|first| self.ranks.get(self.index(*first)?));
                let there =
                    first.and_then(|first| first.entered.get(*first.by_identity.get(identity)?));
                let here = rank.entered.get(scope).copied().unwrap_or(0);
                here.wrapping_sub(there.copied().unwrap_or(0)).hash(&mut hasher);
            }
            let mut lanes = 0u64;
            for ((scope, to, tag), sent) in &rank.process.tracker.counts().sent {
                let received = self.received(at, (*scope, *to, *tag)).unwrap_or(0);
                let mut one = DefaultHasher::new();
                (scope, to, tag, sent.wrapping_sub(received)).hash(&mut one);
                lanes = lanes.wrapping_add(one.finish());
            }
            lanes.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// How many receives have been posted for a lane of a sender.
    fn received(&self, at: usize, (scope, to, tag): (usize, i32, i64)) -> Option<u64> {
        let other = self.ranks.get(self.index(to)?)?;
        let there = other.by_identity.get(&self.identity(at, scope)?)?;
        let lane = (*there, self.ranks.get(at)?.rank, tag);
        let counts = other.process.tracker.counts();
        let of = |lanes: &HashMap<_, u64>| lanes.get(&lane).copied().unwrap_or(0);
        Some(of(&counts.named) + of(&counts.matched))
    }

    /// What a call begins.
    fn arrive(&mut self, at: usize, turn: &Turn, findings: &mut Findings) {
        if turn.has_new_scopes || self.ranks[at].scopes.is_empty() {
            self.update_scopes(at);
        }
        let me = self.ranks[at].rank;
        if let Some((window, shape)) = turn.window {
            self.windows.add(window, me, shape);
        }
        match turn.unordered {
            Some(Unordered::One(window)) => self.windows.ignore(Some(window)),
            Some(Unordered::All) => self.windows.ignore(None),
            None => {}
        }
        for access in &turn.accesses {
            if self.has_clocks && !self.is_doubtful {
                self.windows.access(access.clone(), at, &self.ranks[at].clock, findings);
            }
        }
        for (window, target) in &turn.synchronized {
            let step = self.ranks[at].clock.tick(at);
            self.windows.synchronize(*window, *target, at, step);
        }
        for begun in &turn.begun {
            match (&begun.op.what, &begun.part) {
                (Operation::Send { lane, .. }, Part::Send(_, elements)) => {
                    let Some(scope) = self.identity(at, lane.0) else { continue };
                    self.ranks[at].clock.tick(at);
                    let clock = self.ranks[at].clock.clone();
                    let sent =
                        Sent { elements: elements.clone(), place: begun.place.clone(), clock };
                    let lane = Lane { scope, from: me, to: lane.1, tag: lane.2 };
                    self.messages.send(lane, sent, findings);
                }
                (Operation::Receive(receive), Part::Receive(elements)) => {
                    let Some(scope) = self.identity(at, receive.scope) else { continue };
                    let what = ((receive.source, receive.tag), elements.clone());
                    let place = begun.place.clone();
                    self.messages.post((scope, me), begun.op.id, what, place, findings);
                }
                (Operation::Collective { scope, nth, .. }, Part::Collective(entry)) => {
                    self.enter(at, (*scope, *nth), entry, findings);
                }
                _ => {}
            }
        }
        for end in &turn.ends {
            if let (Operation::Receive(receive), Some(lane)) = (&end.begun.op.what, end.lane)
                && receive.lane().is_none()
                && let Some(scope) = self.identity(at, lane.0)
            {
                let lane = Lane { scope, from: lane.1, to: me, tag: lane.2 };
                self.messages.resolve(lane, end.begun.op.id, findings);
            }
        }
        for lost in &turn.lost {
            match lost.what {
                Operation::Receive(receive) => {
                    if let Some(scope) = self.identity(at, receive.scope) {
                        self.messages.lose(scope, me);
                    }
                }
                Operation::Send { lane, .. } => {
                    if let Some(scope) = self.identity(at, lane.0) {
                        self.messages.lose(scope, lane.1);
                    }
                }
                Operation::Collective { .. } => {}
            }
        }
    }

    fn identity(&self, at: usize, scope: usize) -> Option<u64> {
        self.ranks[at].scopes.get(scope).map(|(identity, _)| *identity)
    }

    fn update_scopes(&mut self, at: usize) {
        let rank = &mut self.ranks[at];
        for (scope, _) in rank.process.tracker.scopes().skip(rank.scopes.len()) {
            let identity = scope.identity();
            rank.by_identity.insert(identity, rank.scopes.len());
            rank.scopes.push((identity, scope.clone()));
            rank.entered.push(0);
        }
    }

    /// A process enters a collective.
    fn enter(
        &mut self,
        at: usize,
        (scope, nth): (usize, u64),
        entry: &Arc<Entry>,
        findings: &mut Findings,
    ) {
        let rank = &mut self.ranks[at];
        if let Some(entered) = rank.entered.get_mut(scope) {
            *entered = nth;
        }
        let Some((identity, scope)) =
            rank.scopes.get(scope).map(|(id, scope)| (*id, scope.clone()))
        else {
            return;
        };
        rank.clock.tick(at);
        let clock = rank.clock.clone();
        let gathering = self.gatherings.entry((identity, nth)).or_default();
        if !self.diverged.contains(&identity) {
            let first = gathering.entries.first();
            let fits =
                first.is_none_or(|first| collectives::compare(scope.kind, first, entry, findings));
            if fits {
                for other in gathering.entries.iter().skip(1) {
                    collectives::compare(scope.kind, other, entry, findings);
                }
            } else {
                self.diverged.insert(identity);
            }
        }
        if gathering.entries.len() < COMPARED {
            gathering.entries.push(entry.clone());
        }
        if entry.is_root == Some(true) {
            gathering.root = Some(clock.clone());
        }
        match &mut gathering.all {
            Some(all) => all.join(&clock),
            None => gathering.all = Some(clock),
        }
    }

    /// Whether what a call waits for has happened.
    fn is_ready(&self, at: usize, turn: &Turn) -> bool {
        turn.ends.iter().all(|end| self.unmet(at, end).is_none())
    }

    /// The rank that the process waits for first.
    fn missing(&self, at: usize) -> Option<usize> {
        let turn = self.ranks[at].turn.as_ref()?;
        turn.ends.iter().find_map(|end| self.unmet(at, end))
    }

    fn index(&self, rank: i32) -> Option<usize> {
        usize::try_from(rank).ok().filter(|at| *at < self.ranks.len())
    }

    /// The rank that the end of an operation waits for; none if it has happened, or is not waited for.
    fn unmet(&self, at: usize, end: &End) -> Option<usize> {
        let me = &self.ranks[at];
        if !end.is_awaited || me.released == Released::All {
            return None;
        }
        match end.begun.op.what {
            Operation::Send { lane: (scope, to, tag), nth } => {
                let waits = match &end.begun.part {
                    Part::Send(Mode::Standard, _) => {
                        !self.options.assume_buffering && me.released == Released::Nothing
                    }
                    Part::Send(Mode::Synchronous, _) => true,
                    _ => false,
                };
                if !waits {
                    return None;
                }
                let there = self.index(to)?;
                let other = &self.ranks[there];
                let Some(scope) = other.by_identity.get(&self.identity(at, scope)?) else {
                    return Some(there);
                };
                let lane = (*scope, me.rank, tag);
                let counts = other.process.tracker.counts();
                let of = |lanes: &HashMap<_, u64>| lanes.get(&lane).copied().unwrap_or(0);
                let fits = |receive: &Receive| {
                    receive.scope == *scope
                        && receive.source.is_none_or(|source| source == me.rank)
                        && receive.tag.is_none_or(|wanted| wanted == tag)
                };
                let open =
                    other.process.wildcards.iter().filter(|(_, receive)| fits(receive)).count();
                (of(&counts.named) + of(&counts.matched) + (open as u64) < nth).then_some(there)
            }
            Operation::Receive(receive) => {
                let (scope, from, tag) = end.lane?;
                let there = self.index(from)?;
                let other = &self.ranks[there];
                let Some(scope_there) = other.by_identity.get(&self.identity(at, scope)?) else {
                    return Some(there);
                };
                let sent = other.process.tracker.counts().sent.get(&(*scope_there, me.rank, tag));
                let matched = me.process.tracker.counts().matched.get(&(scope, from, tag));
                // A named receive also follows those with wildcards that have taken messages of its lane.
                let taken = receive.nth + matched.copied().unwrap_or(0);
                (sent.copied().unwrap_or(0) < taken).then_some(there)
            }
            Operation::Collective { scope, nth, .. } => {
                if me.released >= Released::Collectives {
                    return None;
                }
                let (identity, scope) = me.scopes.get(scope)?;
                let has_come = |rank: &i32| {
                    let Some(there) = self.index(*rank) else { return true };
                    let other = &self.ranks[there];
                    let entered =
                        other.by_identity.get(identity).and_then(|scope| other.entered.get(*scope));
                    entered.is_some_and(|entered| *entered >= nth)
                };
                scope.members.iter().find(|rank| !has_come(rank)).and_then(|rank| self.index(*rank))
            }
        }
    }

    /// A process passes a call.
    fn pass(&mut self, at: usize, turn: Turn) {
        let me = self.ranks[at].rank;
        for end in &turn.ends {
            match end.begun.op.what {
                Operation::Send { .. } => {}
                Operation::Receive(_) => {
                    let step = self.ranks[at].clock.tick(at);
                    match self.messages.complete(me, end.begun.op.id, step) {
                        Some(clock) => self.ranks[at].clock.join(&clock),
                        // What this process knows now is not known.
                        None => self.is_doubtful = true,
                    }
                }
                Operation::Collective { scope, nth, .. } => {
                    let Some(scope) = self.ranks[at].scopes.get(scope) else { continue };
                    let (key, members) = ((scope.0, nth), scope.1.members.len());
                    self.leave(at, key, members, &end.begun);
                }
            }
        }
    }

    fn leave(&mut self, at: usize, key: (u64, u64), members: usize, begun: &Begun) {
        let Some(gathering) = self.gatherings.get_mut(&key) else { return };
        let Part::Collective(entry) = &begun.part else { return };
        let learns_all = match entry.function.op() {
            semantics::Op::Collective(kind) => match (kind.pattern(), kind.root()) {
                (Pattern::OneToAll, _) | (_, Some(Root::Source)) => false,
                (Pattern::AllToOne, _) => entry.is_root != Some(false),
                _ => true,
            },
            semantics::Op::Free(semantics::Object::Comm) => false,
            _ => true,
        };
        let is_from_root = matches!(
            entry.function.op(),
            semantics::Op::Collective(
                Collective::Bcast | Collective::Scatter | Collective::Scatterv
            )
        );
        let learned = match (learns_all, is_from_root) {
            (true, _) => gathering.all.clone(),
            (false, true) => gathering.root.clone().or(gathering.all.clone()),
            (false, false) => None,
        };
        if let Some(clock) = learned {
            self.ranks[at].clock.join(&clock);
        }
        gathering.left += 1;
        if gathering.left >= members {
            self.gatherings.remove(&key);
        }
    }

    /// No process can go on: reports why, and lets some pass.
    fn release(&mut self, blocked: &[usize], findings: &mut Findings) {
        let sites =
            |at: &usize| self.ranks[*at].turn.as_ref().and_then(|turn| turn.place.site.clone());
        let mut key: Vec<Option<Arc<str>>> = blocked.iter().map(sites).collect();
        key.sort();
        key.dedup();
        let is_new = self.reported.insert(key);
        let waits_in_send = |at: &usize| {
            let rank = &self.ranks[*at];
            let unmet = |end: &End| {
                matches!(end.begun.part, Part::Send(Mode::Standard, _))
                    && self.unmet(*at, end).is_some()
            };
            rank.turn.as_ref().is_some_and(|turn| turn.ends.iter().any(unmet))
        };
        let waits_in_collective = |at: &usize| {
            let rank = &self.ranks[*at];
            let unmet = |end: &End| {
                matches!(end.begun.part, Part::Collective(_)) && self.unmet(*at, end).is_some()
            };
            rank.turn.as_ref().is_some_and(|turn| turn.ends.iter().any(unmet))
        };
        let sending: Vec<usize> = blocked.iter().copied().filter(waits_in_send).collect();
        let gathering: Vec<usize> = blocked.iter().copied().filter(waits_in_collective).collect();
        let (level, which) = match (sending.is_empty(), gathering.is_empty()) {
            (false, _) => (Released::Sends, sending),
            (true, false) => (Released::Collectives, gathering),
            (true, true) => (Released::All, blocked.to_vec()),
        };
        if is_new && level != Released::All && !self.is_doubtful && !findings.is_fatal() {
            let waiting = self.waiting();
            let graph = stuck::graph(self.states(), &waiting);
            let returned =
                |rank: &i32| waiting.get(rank).is_some_and(|waiting| waiting.has_returned);
            let diverged = findings.has(Class::CollectiveOrder) || findings.has(Class::RmaEpoch);
            if graph.stuck.iter().any(returned) && !(diverged && level == Released::Collectives) {
                stuck::report(&graph, &waiting, false, findings);
            }
        }
        if level == Released::All {
            self.is_doubtful = true;
        }
        for at in which {
            let released = &mut self.ranks[at].released;
            *released = (*released).max(level);
        }
    }

    /// What each process waits for now.
    fn waiting(&self) -> BTreeMap<i32, Waiting> {
        let mut all = BTreeMap::new();
        for (at, rank) in self.ranks.iter().enumerate() {
            if let Some(turn) = &rank.turn {
                if turn.may_differ {
                    continue;
                }
                let need = |end: &End| {
                    self.unmet(at, end)?;
                    let what = match end.begun.op.what {
                        Operation::Collective { scope, nth, .. } => {
                            Operation::Collective { scope, nth, root: None }
                        }
                        what => what,
                    };
                    Some((Need::Operation(what), end.begun.place.clone()))
                };
                let needs = turn.ends.iter().filter_map(need).collect();
                let (place, until) = (turn.place.clone(), Until::All);
                all.insert(rank.rank, Waiting { place, has_returned: true, needs, until });
            } else if let Some(turn) = &rank.open
                && let Some(open) = &turn.open
            {
                let (place, needs, until) = (turn.place.clone(), open.needs.clone(), open.until);
                all.insert(rank.rank, Waiting { place, has_returned: false, needs, until });
            }
        }
        all
    }

    /// What each process has done, for the wait-for graph.
    fn states(&self) -> Vec<RankWaitState> {
        let state = |rank: &Rank<'_>| {
            let counts = rank.process.tracker.counts().clone();
            let scopes = rank.scopes.iter().zip(&rank.entered);
            RankWaitState {
                life: match rank.is_over && rank.process.is_finalized {
                    true => Life::Finished,
                    // A process that was killed might have gone on.
                    false => Life::Here,
                },
                scopes: scopes.map(|((_, scope), entered)| (scope.clone(), *entered)).collect(),
                sent: counts.sent,
                named: counts.named,
                matched: counts.matched,
                open: rank.process.wildcards.iter().map(|(_, receive)| *receive).collect(),
                ..RankWaitState::new(rank.rank)
            }
        };
        self.ranks.iter().map(state).collect()
    }

    /// All processes have ended, or are in calls that never returned.
    fn finish(&mut self, findings: &mut Findings) {
        if findings.is_fatal() || self.ranks.iter().any(|rank| rank.process.has_errors) {
            return;
        }
        let waiting = self.waiting();
        if !waiting.is_empty() {
            let graph = stuck::graph(self.states(), &waiting);
            if !graph.stuck.is_empty() {
                stuck::report(&graph, &waiting, true, findings);
            }
        }
        if self.is_doubtful {
            return;
        }
        let has_ended =
            |rank: i32| self.index(rank).is_some_and(|at| self.ranks[at].process.is_finalized);
        self.messages.finish(has_ended, findings);
        if self.has_clocks {
            let mut inboxes: Vec<_> = self.messages.received.iter().collect();
            inboxes.sort_by_key(|(inbox, _)| **inbox);
            for (inbox, received) in inboxes {
                if self.messages.is_settled(*inbox) {
                    races(received, findings);
                }
            }
        }
        self.ends(findings);
    }

    /// Processes that ended without `MPI_Finalize`, though others did call it.
    fn ends(&self, findings: &mut Findings) {
        let some_finalized = self.ranks.iter().any(|rank| rank.process.is_finalized);
        let none_in_a_call = self.ranks.iter().all(|rank| rank.open.is_none());
        for rank in &self.ranks {
            let left = matches!(rank.ended, Ended::Unfinalized) && !rank.process.is_finalized;
            if left && some_finalized && none_in_a_call && !rank.scopes.is_empty() {
                let place = Place {
                    rank: rank.rank,
                    thread: 0,
                    number: 0,
                    function: "MPI_Init".into(),
                    site: None,
                };
                let message = "A rank ends without MPI_Finalize, which other ranks call.";
                findings.add(Class::MissingFinalize, message, vec![place]);
            }
        }
    }
}
