//! The wait-for graph of all ranks: which ranks are stuck, and why.
//!
//! A rank can continue if it waits for no other, or if the ranks that it waits for can continue: all of
//! them, or one of them for `MPI_Waitany` and `MPI_ANY_SOURCE`. All other ranks are stuck: in a cycle,
//! waiting for a rank that has ended, or waiting for a stuck rank.

mod near_miss;

pub use near_miss::{Mismatch, NearMiss, Odd};

use super::{
    Kind, Lane, Lanes, Life, Need, Operation, RankWaitState, Receive, Scope, SendingCall, Until,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// An edge of the wait-for graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The rank that waits.
    pub from: i32,
    /// Its thread.
    pub thread: u32,
    /// The ranks that it waits for.
    pub to: Vec<i32>,
    /// Whether it waits for all of them or any.
    pub until: Until,
    /// The call in words: `MPI_Recv, source=1, tag=0`.
    pub words: String,
    /// Whether it is a collective.
    pub is_collective: bool,
}

/// A step of a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The rank; it waits for that of the next step.
    pub rank: i32,
    /// The call.
    pub words: String,
}

/// A rank waits for one that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitsOnEnded {
    /// The rank that waits.
    pub rank: i32,
    /// The call.
    pub words: String,
    /// The rank that has ended.
    pub gone: i32,
    /// How it ended; `None` if the trace does not have that rank.
    pub life: Option<Life>,
}

/// A collective that not all members have called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incomplete {
    /// The ranks in it, by call: different calls are an error of the program.
    pub inside: BTreeMap<String, Vec<i32>>,
    /// Members that have not called it.
    pub missing: Vec<i32>,
}

/// What follows from the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Which rank waits for which.
    pub edges: Vec<Edge>,
    /// Cycles, no two with a rank in common. Of each set of ranks that wait for each other: the shortest cycle of its
    /// first rank, and those of the other ranks with a message in them.
    pub cycles: Vec<Vec<Step>>,
    /// Ranks that wait for one that has ended.
    pub waits_on_ended: Vec<WaitsOnEnded>,
    /// Collectives that not all members have called, or where members have called different functions.
    pub incomplete: Vec<Incomplete>,
    /// Messages that stuck ranks would receive if one thing were different.
    pub near_misses: Vec<NearMiss>,
    /// Ranks that cannot continue.
    pub stuck: Vec<i32>,
}

/// A need that is not met.
struct Demand {
    thread: u32,
    to: Vec<i32>,
    until: Until,
    words: String,
    is_collective: bool,
}

/// A call with needs that are not met.
struct Blocked {
    demands: Vec<Demand>,
    until: Until,
}

/// Builds the wait-for graph of these ranks and finds which are stuck.
pub fn findings(wait_states: &[RankWaitState]) -> Findings {
    let world = World::of(wait_states);
    let mut blocked: BTreeMap<i32, Vec<Blocked>> = BTreeMap::new();
    for wait_state in wait_states.iter().filter(|s| s.life == Life::Here) {
        let calls = wait_state.waits.iter().filter_map(|wait| {
            let demand = |(need, words): &(Need, String)| {
                let (to, until) = world.demand(wait_state, need, words)?;
                let is_collective = matches!(need, Need::Operation(Operation::Collective { .. }));
                let (thread, words) = (wait.thread, words.clone());
                Some(Demand { thread, to, until, words, is_collective })
            };
            let demands: Vec<Demand> = wait.needs.iter().filter_map(demand).collect();
            let is_met = match wait.until {
                Until::All => demands.is_empty(),
                Until::Any => demands.len() < wait.needs.len() || demands.is_empty(),
            };
            (!is_met).then_some(Blocked { demands, until: wait.until })
        });
        let calls: Vec<Blocked> = calls.collect();
        // A thread whose needs are met may do what other threads of its process wait for.
        if !calls.is_empty() && calls.len() == wait_state.waits.len() {
            blocked.insert(wait_state.rank, calls);
        }
    }
    let stuck = stuck(wait_states, &blocked);
    let edges = edges(&blocked);
    let waits_on_ended = waits_on_ended(wait_states, &edges, &stuck);
    Findings {
        cycles: cycles(&edges, &stuck),
        incomplete: world.incomplete(),
        near_misses: world.near_misses(&stuck),
        waits_on_ended,
        stuck: stuck.into_iter().collect(),
        edges,
    }
}

/// The wait states of all ranks, indexed.
struct World<'a> {
    by_rank: HashMap<i32, &'a RankWaitState>,
    /// For each scope, by rank, its index on that rank.
    scopes: HashMap<&'a Scope, HashMap<i32, usize>>,
    /// By scope and number of the collective: the ranks that are in it, with their functions.
    gathered: HashMap<(&'a Scope, u64), BTreeMap<i32, &'a str>>,
}

impl<'a> World<'a> {
    fn of(wait_states: &'a [RankWaitState]) -> World<'a> {
        let mut world =
            World { by_rank: HashMap::new(), scopes: HashMap::new(), gathered: HashMap::new() };
        for wait_state in wait_states {
            world.by_rank.insert(wait_state.rank, wait_state);
            for (number, (scope, _)) in wait_state.scopes.iter().enumerate() {
                world.scopes.entry(scope).or_default().insert(wait_state.rank, number);
            }
            for (need, words) in wait_state.waits.iter().flat_map(|wait| &wait.needs) {
                if let Need::Operation(Operation::Collective { scope, nth, .. }) = need
                    && let Some((scope, _)) = wait_state.scopes.get(*scope)
                {
                    let ranks = world.gathered.entry((scope, *nth)).or_default();
                    ranks.insert(wait_state.rank, function_of(words));
                }
            }
        }
        world
    }

    /// Ranks that have called another function for the same collective.
    fn in_another(&self, of: &RankWaitState, scope: usize, nth: u64, words: &str) -> Vec<i32> {
        let Some((scope, _)) = of.scopes.get(scope) else { return Vec::new() };
        // MPI_Init and MPI_Init_thread are equivalent.
        if scope.kind == Kind::Runtime {
            return Vec::new();
        }
        let gathered = self.gathered.get(&(scope, nth)).into_iter().flatten();
        let expected = function_of(words);
        gathered.filter(|(_, function)| **function != expected).map(|(rank, _)| *rank).collect()
    }

    /// The wait state of another rank, and the index there of one of this rank's scopes.
    fn there(
        &self,
        of: &RankWaitState,
        scope: usize,
        other: i32,
    ) -> Option<(&'a RankWaitState, usize)> {
        let wait_state = self.by_rank.get(&other)?;
        let number = self.scopes.get(&of.scopes.get(scope)?.0)?.get(&other)?;
        Some((wait_state, *number))
    }

    /// The ranks that a need waits for; `None` if it is met.
    fn demand(&self, of: &RankWaitState, need: &Need, words: &str) -> Option<(Vec<i32>, Until)> {
        match need {
            Need::Operation(Operation::Send { lane, nth }) => {
                (!self.is_received(of, *lane, *nth)).then(|| (vec![lane.1], Until::All))
            }
            Need::Operation(Operation::Receive(receive)) => self.senders(of, receive),
            Need::Operation(Operation::Collective { scope, nth, root }) => {
                let missing = match root {
                    Some(root) => vec![*root],
                    None => of.scopes.get(*scope)?.0.members.to_vec(),
                };
                let mut missing = self.missing(of, *scope, *nth, missing);
                let mut elsewhere = self.in_another(of, *scope, *nth, words);
                elsewhere.retain(|rank| root.is_none_or(|root| root == *rank));
                missing.extend(elsewhere);
                missing.sort_unstable();
                (!missing.is_empty()).then_some((missing, Until::All))
            }
            Need::Rank(rank) => (*rank != of.rank).then(|| (vec![*rank], Until::All)),
            Need::AnyMember(scope) => Some((others(of, *scope), Until::Any)),
        }
    }

    /// Members that have not begun the `nth` collective.
    fn missing(&self, of: &RankWaitState, scope: usize, nth: u64, members: Vec<i32>) -> Vec<i32> {
        let has_come = |rank: &i32| {
            let there = self.there(of, scope, *rank);
            let begun = there.and_then(|(wait_state, number)| wait_state.scopes.get(number));
            begun.is_some_and(|(_, begun)| *begun >= nth)
        };
        members.into_iter().filter(|rank| *rank >= 0 && !has_come(rank)).collect()
    }

    fn is_received(&self, of: &RankWaitState, (scope, to, tag): Lane, nth: u64) -> bool {
        let Some((receiver, there)) = self.there(of, scope, to) else { return false };
        let lane = (there, of.rank, tag);
        let fits = |r: &&Receive| {
            r.scope == there
                && r.source.is_none_or(|source| source == of.rank)
                && r.tag.is_none_or(|t| t == tag)
        };
        let open = receiver.open.iter().filter(fits).count() as u64;
        count(&receiver.named, lane) + count(&receiver.matched, lane) + open >= nth
    }

    /// The ranks whose message a receive waits for; `None` if a message was sent.
    fn senders(&self, of: &RankWaitState, receive: &Receive) -> Option<(Vec<i32>, Until)> {
        let Receive { scope, source, tag, nth } = *receive;
        if let (Some(source), Some(tag)) = (source, tag) {
            let taken = nth + count(&of.matched, (scope, source, tag));
            let sent = self.there(of, scope, source);
            let sent = sent.map_or(0, |(sender, there)| count(&sender.sent, (there, of.rank, tag)));
            return (sent < taken).then(|| (vec![source], Until::All));
        }
        let candidates = match source {
            Some(source) => vec![source],
            None => others(of, scope),
        };
        let has_sent = |rank: &i32| {
            let Some((sender, there)) = self.there(of, scope, *rank) else { return false };
            sender.sent.iter().any(|(&(number, to, t), &sent)| {
                let fits = number == there && to == of.rank && tag.is_none_or(|tag| tag == t);
                let lane = (scope, *rank, t);
                fits && sent > count(&of.named, lane) + count(&of.matched, lane)
            })
        };
        // A rank may send to itself.
        let served = candidates.iter().chain([&of.rank]).any(has_sent);
        (!served).then_some((candidates, Until::Any))
    }

    /// Collectives that some members are in and others have not called.
    fn incomplete(&self) -> Vec<Incomplete> {
        let mut inside: BTreeMap<(&Scope, u64), BTreeMap<String, Vec<i32>>> = BTreeMap::new();
        let mut wait_states: Vec<_> = self.by_rank.values().collect();
        wait_states.sort_by_key(|s| s.rank);
        for wait_state in wait_states.iter().filter(|s| s.life != Life::Finished) {
            for (need, words) in wait_state.waits.iter().flat_map(|wait| &wait.needs) {
                if let Need::Operation(Operation::Collective { scope, nth, .. }) = need {
                    let Some((scope, _)) = wait_state.scopes.get(*scope) else { continue };
                    let ranks = inside.entry((scope, *nth)).or_default();
                    ranks.entry(words.clone()).or_default().push(wait_state.rank);
                }
            }
        }
        let mut all = Vec::new();
        for ((scope, nth), inside) in inside {
            let first = inside.values().flatten().next();
            let Some(of) = first.and_then(|rank| self.by_rank.get(rank)) else { continue };
            let number = self.scopes.get(scope).and_then(|s| s.get(&of.rank));
            let members = scope.members.to_vec();
            let missing = number.map_or(Vec::new(), |n| self.missing(of, *n, nth, members));
            let functions: BTreeSet<&str> = inside.keys().map(|words| function_of(words)).collect();
            // MPI_Init and MPI_Init_thread are equivalent.
            let differ = functions.len() > 1 && scope.kind != Kind::Runtime;
            if !missing.is_empty() || differ {
                all.push(Incomplete { inside, missing });
            }
        }
        all
    }
}

/// The function in words such as `MPI_Wait: MPI_Ibarrier, comm=comm1`, without the suffix `_c`.
fn function_of(words: &str) -> &str {
    let call = words.split(',').next().unwrap_or(words);
    let call = call.rsplit(": ").next().unwrap_or(call);
    call.strip_suffix("_c").unwrap_or(call)
}

fn count(lanes: &Lanes, lane: Lane) -> u64 {
    lanes.get(&lane).copied().unwrap_or(0)
}

/// All members of a scope except the rank itself.
fn others(of: &RankWaitState, scope: usize) -> Vec<i32> {
    let members = of.scopes.get(scope).map(|(scope, _)| &scope.members[..]).unwrap_or_default();
    members.iter().copied().filter(|rank| *rank >= 0 && *rank != of.rank).collect()
}

/// The ranks that cannot continue. Ranks that the trace does not have are assumed to be able to.
fn stuck(wait_states: &[RankWaitState], blocked: &BTreeMap<i32, Vec<Blocked>>) -> BTreeSet<i32> {
    let mut stuck: BTreeSet<i32> = blocked.keys().copied().collect();
    let ended = wait_states.iter().filter(|s| s.life != Life::Here);
    let ended: BTreeSet<i32> = ended.map(|s| s.rank).collect();
    loop {
        let can_act = |rank: &i32| !stuck.contains(rank) && !ended.contains(rank);
        let comes = |demand: &Demand| match demand.until {
            Until::All => demand.to.iter().all(can_act),
            Until::Any => demand.to.iter().any(can_act),
        };
        let goes_on = |call: &Blocked| match call.until {
            Until::All => call.demands.iter().all(comes),
            Until::Any => call.demands.iter().any(comes),
        };
        let freed: Vec<i32> = stuck
            .iter()
            .filter(|rank| blocked.get(rank).is_some_and(|calls| calls.iter().any(goes_on)))
            .copied()
            .collect();
        if freed.is_empty() {
            return stuck;
        }
        freed.iter().for_each(|rank| {
            stuck.remove(rank);
        });
    }
}

fn edges(blocked: &BTreeMap<i32, Vec<Blocked>>) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (from, calls) in blocked {
        for call in calls {
            for demand in &call.demands {
                edges.push(Edge {
                    from: *from,
                    thread: demand.thread,
                    to: demand.to.clone(),
                    until: if call.until == Until::Any { Until::Any } else { demand.until },
                    words: demand.words.clone(),
                    is_collective: demand.is_collective,
                });
            }
        }
    }
    edges
}

fn waits_on_ended(
    wait_states: &[RankWaitState],
    edges: &[Edge],
    stuck: &BTreeSet<i32>,
) -> Vec<WaitsOnEnded> {
    let lives: HashMap<i32, Life> = wait_states.iter().map(|s| (s.rank, s.life)).collect();
    let mut all: Vec<WaitsOnEnded> = Vec::new();
    for edge in edges {
        for gone in &edge.to {
            let life = lives.get(gone).copied();
            let is_gone = match life {
                Some(Life::Here) => false,
                Some(_) => stuck.contains(&edge.from),
                None => edge.until == Until::All,
            };
            let new =
                WaitsOnEnded { rank: edge.from, words: edge.words.clone(), gone: *gone, life };
            if is_gone && !all.contains(&new) {
                all.push(new);
            }
        }
    }
    all
}

/// For each rank those that it waits for, with the call in which it does.
type Waiting<'a> = BTreeMap<i32, BTreeMap<i32, &'a Edge>>;

/// Cycles without a common rank; see [`Findings::cycles`].
fn cycles(edges: &[Edge], stuck: &BTreeSet<i32>) -> Vec<Vec<Step>> {
    let mut next = Waiting::new();
    for edge in edges.iter().filter(|edge| stuck.contains(&edge.from)) {
        for to in edge.to.iter().filter(|to| stuck.contains(to)) {
            next.entry(edge.from).or_default().entry(*to).or_insert(edge);
        }
    }
    remove_loose(&mut next);
    let (mut cycles, mut done) = (Vec::new(), BTreeSet::new());
    let starts: Vec<i32> = next.keys().copied().collect();
    for start in starts.iter().filter(|start| next.contains_key(start)) {
        if done.contains(start) {
            continue;
        }
        let Some(path) = shortest_cycle(&next, *start) else { continue };
        done.extend(connected(&next, *start));
        cycles.push(steps(&next, &path));
    }
    // What ranks of these sets wait for apart from the cycles found. Ranks that only wait in collectives for each
    // other say nothing new.
    for step in cycles.iter().flatten() {
        next.remove(&step.rank);
    }
    remove_loose(&mut next);
    for start in starts {
        let of_messages = |edge: &&Edge| !edge.is_collective;
        if !next.get(&start).is_some_and(|to| to.values().any(of_messages)) {
            continue;
        }
        let Some(path) = shortest_cycle(&next, start) else { continue };
        cycles.push(steps(&next, &path));
        path.iter().for_each(|rank| drop(next.remove(rank)));
        remove_loose(&mut next);
    }
    cycles
}

/// Removes ranks in no cycle: a rank that waits only for ranks outside of cycles is not in a cycle.
fn remove_loose(next: &mut Waiting<'_>) {
    loop {
        let loose: Vec<i32> = next
            .iter()
            .filter(|(_, to)| !to.keys().any(|to| next.contains_key(to)))
            .map(|(from, _)| *from)
            .collect();
        if loose.is_empty() {
            return;
        }
        loose.iter().for_each(|rank| drop(next.remove(rank)));
    }
}

/// The steps of a cycle, from its lowest rank on.
fn steps(next: &Waiting<'_>, path: &[i32]) -> Vec<Step> {
    let mut path = path.to_vec();
    let lowest = (0..path.len()).min_by_key(|at| path[*at]).unwrap_or(0);
    path.rotate_left(lowest);
    let step = |(i, rank): (usize, &i32)| {
        let to = path[(i + 1) % path.len()];
        let edge = next.get(rank).and_then(|all| all.get(&to));
        Step { rank: *rank, words: edge.map(|edge| edge.words.clone()).unwrap_or_default() }
    };
    path.iter().enumerate().map(step).collect()
}

/// The ranks of the shortest cycle through a rank.
fn shortest_cycle(next: &Waiting<'_>, start: i32) -> Option<Vec<i32>> {
    let mut before = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(rank) = queue.pop_front() {
        for to in next.get(&rank).into_iter().flat_map(BTreeMap::keys) {
            if *to == start {
                let mut path = vec![rank];
                while let Some(last) = path.last()
                    && *last != start
                    && let Some(previous) = before.get(last)
                {
                    path.push(*previous);
                }
                path.reverse();
                return Some(path);
            }
            if !before.contains_key(to) {
                before.insert(*to, rank);
                queue.push_back(*to);
            }
        }
    }
    None
}

/// The strongly connected component of a rank: ranks that it waits for and that wait for it, directly or indirectly.
fn connected(next: &Waiting<'_>, start: i32) -> BTreeSet<i32> {
    let mut back: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    let mut forward: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (from, all) in next {
        for to in all.keys() {
            back.entry(*to).or_default().push(*from);
            forward.entry(*from).or_default().push(*to);
        }
    }
    let reach = |way: &BTreeMap<i32, Vec<i32>>| {
        let (mut seen, mut queue) = (BTreeSet::from([start]), vec![start]);
        while let Some(rank) = queue.pop() {
            for to in way.get(&rank).into_iter().flatten() {
                if seen.insert(*to) {
                    queue.push(*to);
                }
            }
        }
        seen
    };
    reach(&forward).intersection(&reach(&back)).copied().collect()
}

#[cfg(test)]
mod tests;
