//! Runs the processes of a trace against each other.
//!
//! Each process goes from call to call. A call that returned in the recorded run is passed once what it waits for has
//! happened: the receive of a message that it sends is posted, the message of a receive was sent, all members are in the
//! collective. That is stricter than MPI, which may buffer. Where no process can go on, the program relied on buffering:
//! that is reported once for each set of call sites, and the sends that wait are taken as buffered.

mod ends;
mod gathering;
mod iterations;
mod needs;

use self::gathering::Gathering;
use crate::clock::Clock;
use crate::finding::Findings;
use crate::messages::{Lane, Messages, Sent};
use crate::process::Process;
use crate::repeat::{self, Repetition};
use crate::rma::Windows;
use crate::turn::{Part, Turn, Unordered};
use refrain_analysis::matching::{Operation, Scope};
use refrain_bytes::table::Map;
use refrain_reader::{Ended, Item, TraceError};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// How to check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Assume that MPI buffers standard sends: programs may rely on it.
    pub assume_buffering: bool,
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
    by_identity: Map<u64, usize>,
    entered: Vec<u64>,
    clock: Clock,
    calls: u64,
}

/// What a process waits for: a rank, or the last member of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Rank(usize),
    Collective((u64, u64)),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Released {
    Nothing,
    Sends,
    Collectives,
    All,
}

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
    /// Collectives that not all members have left, by scope and number.
    gatherings: Map<(u64, u64), Gathering>,
    /// Processes that wait no longer: the last member has come to their collective.
    woken: Vec<usize>,
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
            gatherings: Map::default(),
            woken: Vec::new(),
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
            by_identity: Map::default(),
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
                queue.extend(self.woken.drain(..));
                match self.missing(at) {
                    Some(On::Rank(rank)) => {
                        if let Some(waiters) = waiters.get_mut(rank)
                            && !waiters.contains(&at)
                        {
                            waiters.push(at);
                        }
                    }
                    Some(On::Collective(key)) => self.wait_in(at, key),
                    None => {}
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
}
