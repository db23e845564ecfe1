//! Ranks that cannot go on, and why.

use crate::finding::{Class, Findings, Place};
use refrain_analysis::matching::{Need, Operation, Receive, Until};
use refrain_analysis::waits::graph::{Findings as Graph, Mismatch, findings};
use refrain_analysis::waits::{Life, RankWaitState, Wait};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a rank waits for, with the calls that began it.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The call that the rank is in.
    pub place: Arc<Place>,
    /// Whether that call returned in the recorded run.
    pub has_returned: bool,
    /// What it needs, with the call that began each operation.
    pub needs: Vec<(Need, Arc<Place>)>,
    /// How many needs must be met.
    pub until: Until,
}

/// The call in words: the wait-for graph compares functions by them.
fn words(waiting: &Waiting, need: &Need, begun: &Place) -> String {
    let call = match waiting.place.function == begun.function {
        true => begun.function.to_string(),
        false => format!("{}: {}", waiting.place.function, begun.function),
    };
    match need {
        Need::Operation(Operation::Send { lane: (_, to, tag), .. }) => {
            format!("{call}, to rank {to}, tag {tag}")
        }
        Need::Operation(Operation::Receive(Receive { source, tag, .. })) => {
            let source = source.map_or("any rank".to_owned(), |source| format!("rank {source}"));
            let tag = tag.map_or("any tag".to_owned(), |tag| format!("tag {tag}"));
            format!("{call}, from {source}, {tag}")
        }
        _ => call,
    }
}

/// The wait-for graph of ranks that have done something and wait.
pub fn graph(mut states: Vec<RankWaitState>, waiting: &BTreeMap<i32, Waiting>) -> Graph {
    for state in &mut states {
        let Some(of) = waiting.get(&state.rank) else { continue };
        let needs = of.needs.iter().map(|(need, begun)| (*need, words(of, need, begun)));
        let (function, until) = (of.place.function.to_string(), of.until);
        state.waits.push(Wait { thread: 0, function, needs: needs.collect(), until });
        state.life = Life::Here;
    }
    findings(&states)
}

/// The stuck ranks in the order in which they wait for each other, as far as they form a cycle; else all.
fn ring(graph: &Graph) -> Vec<i32> {
    match graph.cycles.first() {
        Some(cycle) => cycle.iter().map(|step| step.rank).collect(),
        None => graph.stuck.clone(),
    }
}

/// The calls of ranks: where each waits, and where what it waits for began.
fn places(ranks: &[i32], waiting: &BTreeMap<i32, Waiting>) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for of in ranks.iter().filter_map(|rank| waiting.get(rank)) {
        let begun = of.needs.iter().map(|(_, begun)| begun);
        for place in begun.chain([&of.place]).take(4) {
            if !places.contains(place) {
                places.push((**place).clone());
            }
        }
        if places.len() >= 8 {
            break;
        }
    }
    places
}

/// Reports ranks that are stuck.
pub fn report(
    graph: &Graph,
    waiting: &BTreeMap<i32, Waiting>,
    is_actual: bool,
    findings: &mut Findings,
) {
    let ranks = ring(graph);
    let mut steps: Vec<String> = Vec::new();
    for rank in ranks.iter().take(4) {
        let of_rank = |edge: &&refrain_analysis::waits::graph::Edge| edge.from == *rank;
        if let Some(edge) = graph.edges.iter().find(of_rank) {
            let to: Vec<String> =
                edge.to.iter().take(3).map(|rank| format!("rank {rank}")).collect();
            let more = if edge.to.len() > 3 { " and others" } else { "" };
            steps.push(format!("rank {rank} waits for {}{more} ({})", to.join(", "), edge.words));
        }
    }
    let more = match ranks.len().checked_sub(4) {
        Some(n) if n > 0 => format!("; and {n} more ranks"),
        _ => String::new(),
    };
    let steps = steps.join("; ");
    let gone = graph.waits_on_ended.first();
    let gone =
        gone.map_or(String::new(), |on| format!(" Rank {} has ended without that call.", on.gone));
    let (class, message) = match is_actual {
        true => (Class::Deadlock, format!("The program hangs: {steps}{more}.{gone}")),
        false => (
            Class::PotentialDeadlock,
            format!(
                "The program works only because MPI buffers messages, or returns early from a collective. Without \
                 that, {steps}{more}.{gone}"
            ),
        ),
    };
    findings.add(class, message, places(&ranks, waiting));
    if is_actual {
        near_misses(graph, waiting, findings);
    }
    communicators(graph, waiting, findings);
}

/// Messages that a stuck rank would receive if one thing were different.
fn near_misses(graph: &Graph, waiting: &BTreeMap<i32, Waiting>, findings: &mut Findings) {
    for miss in graph.near_misses.iter().filter(|miss| miss.is_awaited) {
        let places = places(&[miss.receiver, miss.sender], waiting);
        if places.is_empty() {
            continue;
        }
        let (from, to) = (miss.sender, miss.receiver);
        match &miss.mismatch {
            Mismatch::Tag { wanted } => {
                let message = format!(
                    "Rank {to} waits for a message with tag {wanted} from rank {from}, which sends one with tag {}.",
                    miss.tag
                );
                findings.add(Class::TagMismatch, message, places);
            }
            Mismatch::Communicator { .. } => {
                let message = format!(
                    "Rank {to} waits for a message from rank {from}, which sends it on another communicator."
                );
                findings.add(Class::CommunicatorMismatch, message, places);
            }
            Mismatch::Source { .. } => {}
        }
    }
}

/// Stuck ranks that are in the same collective on different communicators.
fn communicators(graph: &Graph, waiting: &BTreeMap<i32, Waiting>, findings: &mut Findings) {
    let mut inside: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for rank in &graph.stuck {
        let Some(of) = waiting.get(rank) else { continue };
        for (need, begun) in &of.needs {
            if let Need::Operation(Operation::Collective { .. }) = need {
                inside.entry(begun.function).or_default().push(*rank);
            }
        }
    }
    for (function, ranks) in inside {
        // Ranks that wait for each other in one function must be in different instances of it.
        let waits = |rank: &i32| {
            graph.edges.iter().any(|edge| {
                edge.from == *rank
                    && edge.is_collective
                    && edge.to.iter().any(|to| ranks.contains(to))
            })
        };
        let ranks_waiting: Vec<i32> = ranks.iter().copied().filter(|rank| waits(rank)).collect();
        if ranks_waiting.len() >= 2 {
            let message = format!(
                "Ranks wait for each other in {function}: they call it on different communicators, or not equally often."
            );
            findings.add(Class::CommunicatorMismatch, message, places(&ranks_waiting, waiting));
        }
    }
}
